//! `[rate_limit]`: how many requests one principal may make.

use std::time::Duration;

use super::A_DAY;
use crate::config::kind::{Count, Time, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};

const WINDOW: &str = "rate_limit.window";

pub(super) static SECTION: Section = Section {
    name: "rate_limit",
    about: "How many requests one member may make of this process, with all its credentials together; who is not \
            recognised is counted by address",
    settings: &[
        Setting::new(
            "rate_limit.requests",
            &Count {
                at: field!(rate_limit.requests),
                unit: "requests",
                min: 0,
                max: 1_000_000,
            },
            "The quota, which may be spent at once; what goes beyond is answered 429. 0 for no limit",
        ),
        Setting::new(
            WINDOW,
            &Time {
                at: field!(rate_limit.window),
                min: Duration::from_secs(1),
                max: A_DAY,
            },
            "Time in which a quota that is used up becomes full again, evenly, in whole seconds",
        ),
    ],
    check,
    inspect: nothing,
};

fn check(config: &Config, check: &mut Check<'_>) {
    if config.rate_limit.window.subsec_nanos() > 0 {
        check.refuse(WINDOW, &[], "must be in whole seconds");
    }
}
