//! Logging to standard error, as text for people or as JSON for machines.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;
use std::panic::PanicHookInfo;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

use crate::partial_debug::partial_debug;

knowledge_core::plain_string_enum! {
    /// Format of log lines.
    #[derive(Default)]
    LogFormat {
        /// [`Text`](Self::Text) if standard error is a terminal, otherwise [`Json`](Self::Json).
        #[default]
        Auto = "auto",
        /// One line for people, coloured on a terminal.
        Text = "text",
        /// JSON object per line, with the fields beside `timestamp`, `level`, `target` and
        /// `message`.
        Json = "json",
    }
}

/// Configuration of logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Level or directives by target.
    ///
    /// Levels are `error`, `warn`, `info`, `debug`, `trace` and `off`; directives look like
    /// `info,knowledge_server::access=warn`.
    pub level: String,
    /// Format of log lines.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LogFormat::Auto,
        }
    }
}

/// Error of setting up logging.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The level is neither a level nor a list of directives.
    #[error("invalid log level {level:?}: {reason}")]
    Level {
        /// The invalid level.
        level: String,
        /// The reason.
        reason: String,
    },
    /// The process already has a logger.
    #[error("logging is already set up")]
    AlreadySetUp,
}

/// Checks that the level is valid.
///
/// # Errors
/// [`LogError::Level`].
pub fn check(config: &LogConfig) -> Result<(), LogError> {
    filter(config).map(drop)
}

fn filter(config: &LogConfig) -> Result<EnvFilter, LogError> {
    let invalid = |reason: String| LogError::Level {
        level: config.level.clone(),
        reason,
    };
    // The filter takes a word that is no level for a target, of which it enables everything.
    if let Some(word) = config.level.split(',').map(str::trim).find(|word| {
        !word.contains(['=', '[', ']', '{', '}']) && word.parse::<LevelFilter>().is_err()
    }) {
        return Err(invalid(format!(
            "{word:?} is not a level; levels are error, warn, info, debug, trace and off"
        )));
    }
    EnvFilter::try_new(&config.level).map_err(|error| invalid(error.to_string()))
}

/// Handle that changes the log level while the process runs.
pub struct LogControl(Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>);

partial_debug!(LogControl);

impl LogControl {
    /// Applies the level of this configuration; the format is unchanged.
    ///
    /// # Errors
    /// [`LogError::Level`]: the level is invalid. The previous one stays in effect.
    pub fn set_level(&self, config: &LogConfig) -> Result<(), LogError> {
        (self.0)(filter(config)?).map_err(|error| LogError::Level {
            level: config.level.clone(),
            reason: error.to_string(),
        })
    }
}

/// Sends the log of this process to standard error, including panics.
///
/// # Errors
/// - [`LogError::Level`]: the configured level is invalid.
/// - [`LogError::AlreadySetUp`]: called twice, or another library has set up a logger.
pub fn init(config: &LogConfig) -> Result<LogControl, LogError> {
    let filter = filter(config)?;
    let terminal = std::io::stderr().is_terminal();
    let json = match config.format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A line that cannot be written is lost. By default the reason would be printed to standard
        // error too, which panics if nobody reads it.
        .log_internal_errors(false)
        .with_ansi(terminal);
    let (set_up, control) = if json {
        let lines = lines
            .json()
            .flatten_event(true)
            // The only span is that of the request; a list would repeat it.
            .with_span_list(false)
            .with_filter_reloading();
        let handle = lines.reload_handle();
        let control = LogControl(Box::new(move |filter| handle.reload(filter)));
        (lines.finish().try_init(), control)
    } else {
        let lines = lines.with_filter_reloading();
        let handle = lines.reload_handle();
        let control = LogControl(Box::new(move |filter| handle.reload(filter)));
        (lines.finish().try_init(), control)
    };
    set_up.map_err(|_| LogError::AlreadySetUp)?;
    let print_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if tracing::enabled!(tracing::Level::ERROR) {
            log_panic(panic);
        } else {
            print_panic(panic); // A disabled log must not hide the cause of a crash.
        }
    }));
    Ok(control)
}

/// Logs a panic as one line instead of the standard library's several.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string);
    let message = panic.payload_as_str().unwrap_or("no message");
    // Captured only if `RUST_BACKTRACE` enables it.
    let backtrace = Backtrace::capture();
    let backtrace =
        (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(location, backtrace, panic = message, "panicked");
}
