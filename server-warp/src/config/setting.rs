//! Settings and sections of settings.

use super::Config;
use super::kind::{Kind, Value};
use super::problem::Check;

/// Function that rejects values of a section.
pub(super) type Rule = fn(&Config, &mut Check<'_>);

/// Named group of settings: a table of the file.
pub struct Section {
    /// Name in the file and in the variables.
    pub name: &'static str,
    /// Description in one sentence without a full stop.
    pub about: &'static str,
    /// Settings in display order.
    pub settings: Vec<Setting>,
    /// Reject invalid combinations. Each value by itself is valid.
    pub(super) check: &'static [Rule],
    /// Reject files that a start could not use, in addition to [`Kind::inspect`]. They leave the
    /// files unchanged.
    pub(super) inspect: &'static [Rule],
}

/// Setting of an operator.
pub struct Setting {
    /// Path of section and name: `server.listen`.
    pub path: &'static str,
    /// Kind of its values, with the field that stores them.
    pub(crate) kind: Kind,
    /// Description in one sentence without a full stop.
    pub about: &'static str,
    /// Flag, without its dashes.
    pub flag: Option<&'static str>,
}

impl Setting {
    /// Returns the name of its section: `server`.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.path.split_once('.').map_or("", |(section, _)| section)
    }

    /// Returns its name within the section: `listen`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.path
            .split_once('.')
            .map_or(self.path, |(_, name)| name)
    }

    /// Returns a placeholder for its value on the command line: `ADDR`.
    #[must_use]
    pub fn placeholder(&self) -> &'static str {
        self.kind.placeholder
    }

    /// Returns the accepted values in words: `a number of connections from 1 to 10`.
    #[must_use]
    pub fn expects(&self) -> &str {
        &self.kind.expects
    }

    /// Returns the unit of its values, if they have one.
    #[must_use]
    pub fn unit(&self) -> Option<&'static str> {
        self.kind.unit
    }

    /// Returns its value in a configuration.
    #[must_use]
    pub fn value(&self, config: &Config) -> Value {
        (self.kind.value)(config)
    }

    /// Returns the environment variable: `KNOWLEDGE_SERVER__LISTEN`.
    #[must_use]
    pub fn variable(&self) -> String {
        let path = self.path.replacen('.', "__", 1).to_ascii_uppercase();
        format!("{VARIABLE_PREFIX}{path}")
    }
}

/// Prefix of the environment variables of all settings.
pub(super) const VARIABLE_PREFIX: &str = "KNOWLEDGE_";
