//! The flags that set settings, from their registry, and the file that has the others.

use std::ffi::OsString;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::failure::Failure;
use crate::config::{self, CONFIG_VARIABLE, Loaded, Problems, Setting, Sources};

/// The identifier, and the flag, of the configuration file.
const CONFIG: &str = "config";

/// Which settings have their flags on a command.
pub(super) trait Scope {
    fn has(setting: &Setting) -> bool;
}

/// All that there are.
pub(super) struct OfServer;

impl Scope for OfServer {
    fn has(_: &Setting) -> bool {
        true
    }
}

/// Those that say where the data is.
pub(super) struct OfData;

impl Scope for OfData {
    fn has(setting: &Setting) -> bool {
        setting.section() == "storage"
    }
}

/// Those that say where the data is, and how a server that has it is reached.
pub(super) struct OfAdmin;

impl Scope for OfAdmin {
    fn has(setting: &Setting) -> bool {
        OfData::has(setting) || setting.section() == "admin"
    }
}

/// None: the file and the environment alone.
pub(super) struct OfFile;

impl Scope for OfFile {
    fn has(_: &Setting) -> bool {
        false
    }
}

/// The flags that were given, and the file that was named.
pub(super) struct SettingArgs<S> {
    file: Option<PathBuf>,
    flags: Vec<(&'static str, OsString)>,
    scope: PhantomData<S>,
}

/// The configuration file of a command that names its stores itself.
pub(super) type FileArgs = SettingArgs<OfFile>;

/// What a server is told.
pub(super) type ServerArgs = SettingArgs<OfServer>;

/// Where the data is, for a command that opens it.
pub(super) type DataArgs = SettingArgs<OfData>;

/// Where the data is, for a command that a server does the work of where one has the data.
pub(super) type AdminArgs = SettingArgs<OfAdmin>;

impl<S> SettingArgs<S> {
    /// The configuration of these flags, the environment and the file.
    pub(super) fn load(self) -> Result<Loaded, Failure> {
        Ok(self.sources().load()?)
    }

    /// What the configuration is made of, to read it more than once.
    pub(super) fn sources(self) -> Sources {
        Sources::of_process(self.file, self.flags)
    }

    /// The same, with this file instead.
    pub(super) fn with_file(self, file: Option<PathBuf>) -> Self {
        Self {
            file: file.or(self.file),
            ..self
        }
    }
}

impl<S> fmt::Debug for SettingArgs<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettingArgs")
            .field("file", &self.file)
            .field("flags", &self.flags)
            .finish()
    }
}

/// The settings that have a flag on a command of this scope.
fn with_flags<S: Scope>() -> impl Iterator<Item = (&'static Setting, &'static str)> {
    config::settings()
        .filter(|setting| S::has(setting))
        .filter_map(|setting| Some((setting, setting.flag?)))
}

impl<S: Scope> Args for SettingArgs<S> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help(format!(
                "The configuration file; without it the one that {CONFIG_VARIABLE} names, if any"
            ));
        let flags = with_flags::<S>().map(|(setting, flag)| {
            Arg::new(flag)
                .long(flag)
                .value_name(setting.kind.placeholder())
                .value_parser(value_parser!(OsString))
                .help(config::help_of(setting))
        });
        command.arg(file).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Scope> FromArgMatches for SettingArgs<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |(_, flag)| Some((flag, matches.get_one::<OsString>(flag)?.clone()));
        Ok(Self {
            file: matches.get_one::<PathBuf>(CONFIG).cloned(),
            flags: with_flags::<S>().filter_map(given).collect(),
            scope: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Err(clap::Error::raw(
            ErrorKind::ArgumentConflict,
            "the settings of a command are read once",
        ))
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::usage(problems.to_string())
    }
}
