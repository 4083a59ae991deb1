//! `[log]`: what is logged, and how.

use crate::config::kind::{Text, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};
use crate::logging;

pub(super) static SECTION: Section = Section {
    name: "log",
    about: "What is logged, and how",
    settings: &[
        Setting::new(
            "log.level",
            &Text(field!(log.level)),
            "What to log: error, warn, info, debug, trace or off, also by target such as \
             `info,knowledge_server::access=warn`",
        )
        .flag("log-level"),
        Setting::new(
            "log.format",
            &Text(field!(log.format)),
            "How log lines look: auto (text on a terminal, json elsewhere), text, or json (one object a line)",
        )
        .flag("log-format"),
    ],
    check,
    inspect: nothing,
};

fn check(config: &Config, check: &mut Check<'_>) {
    if let Err(error) = logging::check(&config.log) {
        check.refuse("log.level", &[], &format!("is {error}"));
    }
}
