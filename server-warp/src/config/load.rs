//! Merging of the sources: each value with its origin, and all problems.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use super::file;
use super::kind::Raw;
use super::problem::{Check, Origin, Problem, Problems};
use super::rules::{DATA_DIR, STORE};
use super::setting::{Section, Setting, VARIABLE_PREFIX};
use super::suggest::{self, did_you_mean};
use super::table::{SECTIONS, settings};
use super::{CONFIG_VARIABLE, Config};

/// Sources of a configuration.
///
/// `Debug` shows no values, which may contain the password of a database.
#[derive(Clone, Default)]
pub struct Sources {
    /// Configuration file, if any.
    pub file: Option<PathBuf>,
    /// Environment; variables that are not settings are ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// Command-line flags: names without the dashes, and values.
    pub flags: Vec<(&'static str, OsString)>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags: Vec<_> = self.flags.iter().map(|(name, _)| name).collect();
        f.debug_struct("Sources")
            .field("file", &self.file)
            .field("flags", &flags)
            .finish_non_exhaustive()
    }
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
        self.read().finish()
    }

    /// Reads all sources and checks the files that the configuration names, without effect.
    ///
    /// # Errors
    /// All problems in any source and file.
    pub fn check(&self) -> Result<(), Problems> {
        let mut loading = self.read();
        loading.inspect();
        loading.finish().map(drop)
    }

    fn read(&self) -> Loading {
        let mut loading = Loading {
            config: Config::default(),
            origins: BTreeMap::new(),
            problems: Vec::new(),
            invalid: BTreeSet::new(),
            is_partial: false,
        };
        if let Some(path) = &self.file {
            loading.file(path);
        }
        loading.environment(&self.environment);
        for (name, value) in &self.flags {
            loading.flag(name, value);
        }
        loading.apply_store_precedence();
        loading.check();
        loading
    }
}

/// Configuration that is being loaded.
struct Loading {
    config: Config,
    origins: BTreeMap<&'static str, Origin>,
    problems: Vec<Problem>,
    /// Paths of the settings with an invalid value, which have another one here.
    invalid: BTreeSet<&'static str>,
    /// True if the file could not be read, so that its values are missing here.
    is_partial: bool,
}

impl Loading {
    fn file(&mut self, path: &Path) {
        let read = std::fs::read_to_string(path);
        let text = match read {
            Ok(text) => text,
            Err(error) => {
                self.is_partial = true;
                let place = path.display().to_string();
                return self.report(place, format!("cannot be read: {error}"));
            }
        };
        let position = |offset| file::position(path, &text, offset);
        let is_toml = file::read(&text, |offset, found| match found {
            Ok((setting, raw)) => self.set(setting, &raw, Origin::File(position(offset))),
            Err(message) => self.report(position(offset).to_string(), message),
        });
        self.is_partial = !is_toml;
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
        let kind = &setting.kind;
        if (kind.set)(&mut self.config, raw) {
            self.origins.insert(setting.path, origin);
            return;
        }
        let mut message = format!("{} must be {}{}", setting.path, kind.expects, kind.notation);
        if kind.may_be_shown {
            message.push_str(&format!(", not {raw}"));
        }
        self.invalid.insert(setting.path);
        self.report(origin.to_string(), message);
    }

    /// A data directory overrides the store of a source with lower precedence.
    fn apply_store_precedence(&mut self) {
        let rank = |path: &str| self.origins.get(path).map_or(0, Origin::rank);
        if rank(DATA_DIR) > rank(STORE) {
            self.config.store = None;
        }
    }

    fn report(&mut self, place: String, message: String) {
        self.problems.push(Problem { place, message });
    }

    /// Applies the rules between settings.
    fn check(&mut self) {
        self.each_section(|section, config, check| {
            section.check.iter().for_each(|rule| rule(config, check));
        });
    }

    /// Checks the files.
    fn inspect(&mut self) {
        self.each_section(|section, config, check| {
            for setting in &section.settings {
                if let Some(reason) = (setting.kind.inspect)(config) {
                    check.reject(setting.path, &[], &reason);
                }
            }
            section.inspect.iter().for_each(|rule| rule(config, check));
        });
    }

    /// Calls `each` with every section, to reject valid values only.
    fn each_section(&mut self, each: fn(&Section, &Config, &mut Check<'_>)) {
        if self.is_partial {
            return;
        }
        let mut check = Check {
            origins: &self.origins,
            invalid: &self.invalid,
            problems: &mut self.problems,
        };
        for section in SECTIONS.iter() {
            each(section, &self.config, &mut check);
        }
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
