//! `[log]`: logging.

use crate::config::kind::{Text, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};
use crate::logging::{self, LogError};

pub(super) static SECTION: Section = Section {
    name: "log",
    about: "Logging",
    settings: &[
        Setting::new(
            "log.level",
            &Text(field!(log.level)),
            "The log level: error, warn, info, debug, trace or off, also by target such as \
             `info,knowledge_server::access=warn`",
        )
        .flag("log-level"),
        Setting::new(
            "log.format",
            &Text(field!(log.format)),
            "The format of log lines: auto (text on a terminal, otherwise json), text, or json \
             (one object per line)",
        )
        .flag("log-format"),
    ],
    check,
    inspect: nothing,
};

fn check(config: &Config, check: &mut Check<'_>) {
    if let Err(LogError::Level { level, reason }) = logging::check(&config.log) {
        let requirement =
            format!("must be a level or directives by target, not {level:?}: {reason}");
        check.reject("log.level", &[], &requirement);
    }
}
