//! The parts of the command line that several commands share.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use crate::data::{DATA_DIR_DEFAULT, DataConfig};
use crate::logging::{LOG_LEVEL_DEFAULT, LogConfig, LogFormat};

/// Where the data is.
#[derive(Debug, clap::Args)]
pub(super) struct DataArgs {
    /// The directory of the store. One process at a time has it
    #[arg(long, value_name = "DIR", default_value = DATA_DIR_DEFAULT)]
    data_dir: PathBuf,

    /// The key that seals stored secrets: a file with 32 bytes as base64 or hexadecimal digits, readable by its owner
    /// alone. Without it the key is DIR.key, beside the directory, and made with the store
    #[arg(long, value_name = "FILE")]
    sealing_key_file: Option<PathBuf>,
}

impl DataArgs {
    pub(super) fn config(self) -> DataConfig {
        DataConfig {
            directory: self.data_dir,
            sealing_key_file: self.sealing_key_file,
        }
    }
}

/// What is logged.
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// What to log: error, warn, info, debug, trace or off, also by target such as
    /// `info,knowledge_server::access=warn`
    #[arg(long, value_name = "LEVEL", default_value = LOG_LEVEL_DEFAULT)]
    log_level: String,

    /// How log lines look
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormatArg::Auto)]
    log_format: LogFormatArg,
}

impl LogArgs {
    pub(super) fn config(self) -> LogConfig {
        LogConfig {
            level: self.log_level,
            format: self.log_format.into(),
        }
    }
}

/// [`LogFormat`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LogFormatArg {
    /// text on a terminal, json elsewhere
    Auto,
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

impl From<LogFormatArg> for LogFormat {
    fn from(format: LogFormatArg) -> Self {
        match format {
            LogFormatArg::Auto => Self::Auto,
            LogFormatArg::Text => Self::Text,
            LogFormatArg::Json => Self::Json,
        }
    }
}

/// What a result looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// A duration as people write it: `30s`, `12h`, `30d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}, for example 30s, 12h or 30d"))
}
