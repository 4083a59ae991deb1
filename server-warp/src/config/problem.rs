//! Origins of values and problems with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// No source sets the value.
    Default,
    /// The configuration file.
    File(Position),
    /// An environment variable.
    Variable(String),
    /// A command-line flag, without its dashes.
    Flag(&'static str),
}

impl Origin {
    /// Returns the precedence: a source with a higher rank overrides those below.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File(_) => 1,
            Self::Variable(_) => 2,
            Self::Flag(_) => 3,
        }
    }
}

/// Position in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Path of the file as given.
    pub path: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, column } = self;
        write!(f, "{}:{line}:{column}", path.display())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(position) => position.fmt(f),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// Problem in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Problem {
    /// Location: `knowledge.toml:12:1`, the name of a variable, or a flag.
    pub place: String,
    /// Description of the error and of a valid value.
    pub message: String,
}

/// All problems in the configuration, at least one. Displayed with one line for each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the configuration cannot be used:\n{}", self.lines())]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    fn lines(&self) -> String {
        let lines: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        lines.join("\n")
    }
}

/// Collector of a section's problems.
pub(crate) struct Check<'l> {
    pub(super) origins: &'l BTreeMap<&'static str, Origin>,
    pub(super) invalid: &'l BTreeSet<&'static str>,
    pub(super) problems: &'l mut Vec<Problem>,
}

impl Check<'_> {
    /// True if both settings come from sources of the same kind: file, variables, or flags.
    pub(crate) fn has_one_source(&self, one: &str, other: &str) -> bool {
        match (self.origins.get(one), self.origins.get(other)) {
            (Some(one), Some(other)) => one.rank() == other.rank(),
            _ => false,
        }
    }

    /// Rejects the value of a setting, possibly in view of others: `must be at least …`. The
    /// problem is located at the first of these settings that is not a default.
    pub(crate) fn reject(&mut self, path: &str, others: &[&str], requirement: &str) {
        let mut paths = std::iter::once(&path).chain(others);
        // An invalid value is reported itself; the rule would apply to another one.
        if paths.clone().any(|path| self.invalid.contains(path)) {
            return;
        }
        let origin = paths.find_map(|path| self.origins.get::<str>(path));
        self.problems.push(Problem {
            place: origin.unwrap_or(&Origin::Default).to_string(),
            message: format!("{path} {requirement}"),
        });
    }
}
