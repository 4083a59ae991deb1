//! Parts of the command line shared by several commands.

use std::time::Duration;

use clap::ValueEnum;

use crate::logging::LogFormat;

/// [`LogFormat`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LogFormatArg {
    /// text on a terminal, json otherwise
    Auto,
    /// Human-readable lines
    Text,
    /// One JSON object per line
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

/// Format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// Human-readable text
    Text,
    /// JSON
    Json,
}

/// Parses a duration such as `30s`, `12h` or `30d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}, for example 30s, 12h or 30d"))
}
