//! Where the log lines go and how they look: to standard error, as text for people and as JSON for machines.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;
use std::panic::PanicHookInfo;

use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

/// What is logged when nothing else is said.
pub const LOG_LEVEL_DEFAULT: &str = "info";

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// [`Text`](Self::Text) where standard error is a terminal, else [`Json`](Self::Json).
    #[default]
    Auto,
    /// One line for people, coloured on a terminal.
    Text,
    /// One JSON object a line, the fields beside `timestamp`, `level`, `target` and `message`.
    Json,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A level (`error`, `warn`, `info`, `debug`, `trace`, `off`), or directives by target such as
    /// `info,knowledge_server::access=warn`.
    pub level: String,
    /// How lines look.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            level: LOG_LEVEL_DEFAULT.to_owned(),
            format: LogFormat::Auto,
        }
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The level is neither a level nor a list of directives.
    #[error("not a log level: {level:?}: {reason}")]
    Level {
        /// What was given.
        level: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The process logs elsewhere already.
    #[error("logging is set up already")]
    AlreadySetUp,
}

/// Tells whether the level can be read.
///
/// # Errors
/// [`LogError::Level`].
pub fn check(config: &LogConfig) -> Result<(), LogError> {
    filter(config).map(drop)
}

fn filter(config: &LogConfig) -> Result<EnvFilter, LogError> {
    EnvFilter::try_new(&config.level).map_err(|error| LogError::Level {
        level: config.level.clone(),
        reason: error.to_string(),
    })
}

/// Changes what is logged while the process runs.
pub struct LogControl(Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>);

impl std::fmt::Debug for LogControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogControl").finish_non_exhaustive()
    }
}

impl LogControl {
    /// Logs what the level of this configuration says from here on; how lines look stays as it is.
    ///
    /// # Errors
    /// [`LogError::Level`]: the level cannot be read. What was in force stays so.
    pub fn set_level(&self, config: &LogConfig) -> Result<(), LogError> {
        (self.0)(filter(config)?).map_err(|error| LogError::Level {
            level: config.level.clone(),
            reason: error.to_string(),
        })
    }
}

/// Sends the log of this process to standard error, panics included.
///
/// # Errors
/// - [`LogError::Level`]: the level of the configuration cannot be read.
/// - [`LogError::AlreadySetUp`]: called twice, or after another library has taken the log.
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
        .with_ansi(terminal);
    let (set_up, control) = if json {
        let lines = lines
            .json()
            .flatten_event(true)
            // The one span that there is, that of the request: a list of it would say it twice.
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
            print_panic(panic); // A log that is switched off does not hide why the process dies.
        }
    }));
    Ok(control)
}

/// One line like every other, where the standard library would write several of its own.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string);
    let message = panic.payload_as_str().unwrap_or("not a text");
    // Captured only where RUST_BACKTRACE asks for it.
    let backtrace = Backtrace::capture();
    let backtrace =
        (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(location, backtrace, panic = message, "panicked");
}
