//! `[rate_limit]`: rate limiting per principal.

use std::time::Duration;

use super::A_DAY;
use crate::config::kind::{Count, Time, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};

const WINDOW: &str = "rate_limit.window";

pub(super) static SECTION: Section = Section {
    name: "rate_limit",
    about: "Rate limit of each member, or of each address if unauthenticated, per server process",
    settings: &[
        Setting::new(
            "rate_limit.requests",
            &Count {
                at: field!(rate_limit.requests),
                unit: "requests",
                min: 0,
                max: 1_000_000,
            },
            "The quota, which may be spent in one burst; excess requests are rejected with 429; 0 \
             for no limit",
        ),
        Setting::new(
            WINDOW,
            &Time {
                at: field!(rate_limit.window),
                min: Duration::from_secs(1),
                max: A_DAY,
            },
            "Time in which an empty quota refills evenly, in whole seconds",
        ),
    ],
    check,
    inspect: nothing,
};

fn check(config: &Config, check: &mut Check<'_>) {
    if config.rate_limit.window.subsec_nanos() > 0 {
        check.reject(WINDOW, &[], "must be in whole seconds");
    }
}
