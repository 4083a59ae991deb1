//! What a setting and a section of settings are.

use super::Config;
use super::kind::Kind;
use super::load::Check;

/// A named group of settings: a table of the file.
pub(crate) struct Section {
    /// Its name in the file and in the variables.
    pub(crate) name: &'static str,
    /// What its settings are about, in a sentence without a full stop.
    pub(crate) about: &'static str,
    /// The settings in the order in which they are shown.
    pub(crate) settings: &'static [Setting],
    /// Refuses what cannot be in force together. Each value is by itself what its kind expects.
    pub(crate) check: fn(&Config, &mut Check<'_>),
    /// Refuses what a start would find on the disk. It reads and changes nothing.
    pub(crate) inspect: fn(&Config, &mut Check<'_>),
}

/// For a section without rules of its own.
pub(super) fn nothing(_: &Config, _: &mut Check<'_>) {}

/// One value that an operator can choose.
pub(crate) struct Setting {
    /// The section and the name: `server.listen`.
    pub(crate) path: &'static str,
    /// What values it takes, and where the value lands.
    pub(crate) kind: &'static dyn Kind,
    /// What it does, in a sentence without a full stop.
    pub(crate) about: &'static str,
    /// The flag, without its dashes.
    pub(crate) flag: Option<&'static str>,
}

impl Setting {
    pub(super) const fn new(
        path: &'static str,
        kind: &'static dyn Kind,
        about: &'static str,
    ) -> Self {
        Self {
            path,
            kind,
            about,
            flag: None,
        }
    }

    /// The same, with a flag on the command line.
    pub(super) const fn flag(self, name: &'static str) -> Self {
        Self {
            flag: Some(name),
            ..self
        }
    }

    pub(crate) fn section(&self) -> &'static str {
        self.path.split_once('.').map_or("", |(section, _)| section)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.path
            .split_once('.')
            .map_or(self.path, |(_, name)| name)
    }

    /// The environment variable: `KNOWLEDGE_SERVER__LISTEN`.
    pub(crate) fn variable(&self) -> String {
        let path = self.path.replacen('.', "__", 1).to_ascii_uppercase();
        format!("{VARIABLE_PREFIX}{path}")
    }
}

/// What the environment variables of all settings begin with.
pub(super) const VARIABLE_PREFIX: &str = "KNOWLEDGE_";
