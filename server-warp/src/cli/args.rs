//! The parts of the command line that several commands share.

use std::time::Duration;

use clap::ValueEnum;

use crate::logging::LogFormat;

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
