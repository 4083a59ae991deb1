//! Merging of the sources: each value with its origin, and all problems.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use super::file;
use super::kind::Raw;
use super::sections::storage::{DATA_DIR, STORE};
use super::setting::{Setting, VARIABLE_PREFIX};
use super::suggest::{self, did_you_mean};
use super::{CONFIG_VARIABLE, Config, SECTIONS};

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
    fn rank(&self) -> u8 {
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
#[error("the configuration cannot be used:\n{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

/// Sources of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Configuration file, if any.
    pub file: Option<PathBuf>,
    /// Environment; variables that are not settings are ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// Command-line flags: names without the dashes, and values.
    pub flags: Vec<(&'static str, OsString)>,
}

/// Valid configuration with the origins of its values.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    origins: BTreeMap<&'static str, Origin>,
}

impl Loaded {
    /// Returns the origin of a setting's value by its path: `server.listen`.
    #[must_use]
    pub fn origin(&self, path: &str) -> &Origin {
        self.origins.get(path).unwrap_or(&Origin::Default)
    }

    /// Checks the files that the configuration names, without effect.
    ///
    /// # Errors
    /// All problems.
    pub fn inspect(&self) -> Result<(), Problems> {
        let mut loading = Loading {
            config: self.config.clone(),
            origins: self.origins.clone(),
            problems: Vec::new(),
        };
        for section in SECTIONS {
            loading.rules(section.inspect);
        }
        loading.finish().map(drop)
    }
}

impl Sources {
    /// Uses the environment of this process, these flags, and `file` or the variable's file.
    #[must_use]
    pub fn of_process(file: Option<PathBuf>, flags: Vec<(&'static str, OsString)>) -> Self {
        let named = || std::env::var_os(CONFIG_VARIABLE).filter(|path| !path.is_empty());
        Self {
            file: file.or_else(|| named().map(PathBuf::from)),
            environment: std::env::vars_os().collect(),
            flags,
        }
    }

    /// Reads all sources.
    ///
    /// # Errors
    /// All problems in any source, including those of overridden values.
    pub fn load(&self) -> Result<Loaded, Problems> {
        let mut loading = Loading {
            config: Config::default(),
            origins: BTreeMap::new(),
            problems: Vec::new(),
        };
        if let Some(path) = &self.file {
            loading.file(path);
        }
        loading.environment(&self.environment);
        for (name, value) in &self.flags {
            loading.flag(name, value);
        }
        loading.apply_store_precedence();
        // Rules between settings apply only to valid values.
        if loading.problems.is_empty() {
            for section in SECTIONS {
                loading.rules(section.check);
            }
        }
        loading.finish()
    }
}

/// Configuration that is being loaded.
struct Loading {
    config: Config,
    origins: BTreeMap<&'static str, Origin>,
    problems: Vec<Problem>,
}

impl Loading {
    fn file(&mut self, path: &Path) {
        let read = std::fs::read_to_string(path);
        let text = match read {
            Ok(text) => text,
            Err(error) => {
                let place = path.display().to_string();
                return self.report(place, format!("cannot be read: {error}"));
            }
        };
        let position = |offset| file::position(path, &text, offset);
        file::read(&text, |offset, found| match found {
            Ok((setting, raw)) => self.set(setting, &raw, Origin::File(position(offset))),
            Err(message) => self.report(position(offset).to_string(), message),
        });
    }

    fn environment(&mut self, variables: &[(OsString, OsString)]) {
        let mut variables: Vec<_> = variables
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?, value)))
            .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
            .collect();
        variables.sort_unstable();
        for (name, value) in variables {
            match find_variable(name) {
                Variable::Setting(setting) => {
                    let origin = Origin::Variable(name.to_owned());
                    self.set(setting, &Raw::Word(value), origin);
                }
                Variable::Unknown(message) => self.report(name.to_owned(), message),
                Variable::Foreign => {}
            }
        }
    }

    fn flag(&mut self, name: &'static str, value: &OsStr) {
        match settings().find(|setting| setting.flag == Some(name)) {
            Some(setting) => self.set(setting, &Raw::Word(value), Origin::Flag(name)),
            None => self.report(format!("--{name}"), "unknown flag".to_owned()),
        }
    }

    fn set(&mut self, setting: &'static Setting, raw: &Raw<'_>, origin: Origin) {
        match setting.kind.set(&mut self.config, raw) {
            Ok(()) => drop(self.origins.insert(setting.path, origin)),
            Err(_) => {
                let (expected, notation) = (setting.kind.expects(), setting.kind.notation());
                let mut message = format!("{} must be {expected}{notation}", setting.path);
                if setting.kind.may_be_shown() {
                    message.push_str(&format!(", not {raw}"));
                }
                self.report(origin.to_string(), message);
            }
        }
    }

    /// A data directory overrides the store of a source with lower precedence.
    fn apply_store_precedence(&mut self) {
        let rank = |path: &str| self.origins.get(path).map_or(0, Origin::rank);
        if rank(DATA_DIR) > rank(STORE) {
            self.config.data.store = None;
        }
    }

    fn report(&mut self, place: String, message: String) {
        self.problems.push(Problem { place, message });
    }

    fn rules(&mut self, rules: fn(&Config, &mut Check<'_>)) {
        let mut check = Check {
            origins: &self.origins,
            problems: &mut self.problems,
        };
        rules(&self.config, &mut check);
    }

    fn finish(self) -> Result<Loaded, Problems> {
        if !self.problems.is_empty() {
            return Err(Problems(self.problems));
        }
        Ok(Loaded {
            config: self.config,
            origins: self.origins,
        })
    }
}

/// Collector of a section's problems.
pub(crate) struct Check<'l> {
    origins: &'l BTreeMap<&'static str, Origin>,
    problems: &'l mut Vec<Problem>,
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
    /// problem is located at the first of them that is not a default.
    pub(crate) fn reject(&mut self, path: &str, others: &[&str], requirement: &str) {
        let paths = std::iter::once(&path).chain(others);
        let origin = paths
            .filter_map(|path| self.origins.get::<str>(path))
            .next();
        self.problems.push(Problem {
            place: origin.unwrap_or(&Origin::Default).to_string(),
            message: format!("{path} {requirement}"),
        });
    }
}

/// Returns all settings in display order.
pub(crate) fn settings() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| section.settings)
}

/// Meaning of an environment variable.
enum Variable {
    Setting(&'static Setting),
    Unknown(String),
    Foreign,
}

fn find_variable(name: &str) -> Variable {
    if let Some(setting) = settings().find(|setting| setting.variable() == name) {
        return Variable::Setting(setting);
    }
    let unknown = |meant: Option<&Setting>| {
        let meant = meant.map(Setting::variable);
        Variable::Unknown(format!("unknown variable{}", did_you_mean(meant)))
    };
    let path = name.strip_prefix(VARIABLE_PREFIX).unwrap_or(name);
    if let Some((section, name)) = path.split_once("__") {
        let lower = str::to_ascii_lowercase;
        let meant = suggest::setting(&lower(section), &lower(name));
        return unknown(settings().find(|setting| Some(setting.path) == meant));
    }
    // Other names are ignored, unless one differs from a setting only by an underscore.
    let misses = |setting: &&Setting| setting.variable().replace("__", "_") == name;
    match settings().find(misses) {
        Some(setting) => unknown(Some(setting)),
        None => Variable::Foreign,
    }
}
