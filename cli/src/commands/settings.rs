//! The flags that set settings, generated from the registry of settings.

use std::ffi::OsString;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use knowledge_server::config::{self, CONFIG_VARIABLE, Config, Loaded, Problems, Setting, Sources};

use super::args::quiet_log;
use super::describe;
use super::failure::Failure;

/// Identifier and flag of the configuration file.
const CONFIG: &str = "config";

/// Path of the setting with the store's address.
const STORE: &str = "storage.store";
/// Description of the store for commands that open an existing one.
const STORE_ABOUT: &str = "The store: sled:DIR, fjall:DIR or postgres://USER@HOST/DATABASE; if \
                           unset, the store in --data-dir";

/// Selection of the settings that are flags of a command.
pub(super) trait Scope {
    /// Sections of these settings; `None` for all, which only a server has.
    const SECTIONS: Option<&'static [&'static str]>;

    fn has(setting: &Setting) -> bool {
        Self::SECTIONS.is_none_or(|sections| sections.contains(&setting.section()))
    }

    /// Returns the help of a setting's flag. Only a server can create a store in memory.
    fn help(setting: &Setting) -> String {
        if Self::SECTIONS.is_some() && setting.path == STORE {
            describe::help_with(setting, STORE_ABOUT)
        } else {
            describe::help_of(setting)
        }
    }
}

/// Declares scopes, each with its sections.
macro_rules! scopes {
    ($($(#[doc = $doc:literal])+ $name:ident: $sections:expr;)+) => {$(
        $(#[doc = $doc])+
        pub(super) struct $name;

        impl Scope for $name {
            const SECTIONS: Option<&'static [&'static str]> = $sections;
        }
    )+};
}

scopes! {
    /// All settings.
    ServerScope: None;
    /// Settings that locate the data.
    DataScope: Some(&["storage"]);
    /// Settings that locate the data, and the admin socket of its server.
    AdminScope: Some(&["storage", "admin"]);
    /// No settings: only the file and the environment apply.
    FileScope: Some(&[]);
}

/// The given flags and configuration file.
pub(super) struct SettingArgs<S> {
    file: Option<PathBuf>,
    flags: Vec<(&'static str, OsString)>,
    scope: PhantomData<S>,
}

/// Configuration file of a command whose stores have flags of their own.
pub(super) type FileArgs = SettingArgs<FileScope>;

/// Settings of a server.
pub(super) type ServerArgs = SettingArgs<ServerScope>;

/// Location of the data, for a command that opens it.
pub(super) type DataArgs = SettingArgs<DataScope>;

/// Location of the data, for a command that uses the admin socket if a server holds the data.
pub(super) type AdminArgs = SettingArgs<AdminScope>;

impl<S> SettingArgs<S> {
    /// Loads the configuration from the flags, the environment and the file.
    pub(super) fn load(self) -> Result<Loaded, Failure> {
        Ok(self.sources().load()?)
    }

    /// Sets up the log of a short-lived command, and loads its configuration.
    pub(super) fn configure(self) -> Result<Config, Failure> {
        quiet_log()?;
        Ok(self.load()?.config)
    }

    /// Returns the sources of the configuration, which can be read repeatedly.
    pub(super) fn sources(self) -> Sources {
        Sources::of_process(self.file, self.flags)
    }

    /// Returns the configuration file, if one is given.
    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Replaces the file, if one is given.
    pub(super) fn with_file(self, file: Option<PathBuf>) -> Self {
        Self {
            file: file.or(self.file),
            ..self
        }
    }
}

/// Shows the names of the flags only: the URL of a database may contain a password.
impl<S> fmt::Debug for SettingArgs<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.flags.iter().map(|(name, _)| name).collect();
        f.debug_struct("SettingArgs")
            .field("file", &self.file)
            .field("flags", &names)
            .finish()
    }
}

/// Returns the settings that have a flag in this scope.
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
                "Configuration file; defaults to the one named by {CONFIG_VARIABLE}, if set"
            ));
        let flags = with_flags::<S>().map(|(setting, flag)| {
            Arg::new(flag)
                .long(flag)
                .value_name(setting.placeholder())
                .value_parser(value_parser!(OsString))
                .help(S::help(setting))
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
            "the settings of a command cannot be updated",
        ))
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::usage(problems.to_string())
    }
}
