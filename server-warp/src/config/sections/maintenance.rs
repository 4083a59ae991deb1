//! `[maintenance]`: the work in the background.

use std::time::Duration;

use super::A_DAY;
use crate::config::kind::{Time, field};
use crate::config::setting::{Section, Setting, nothing};

pub(super) static SECTION: Section = Section {
    name: "maintenance",
    about: "The work in the background: what expired is swept, what time alone changes is announced",
    settings: &[Setting::new(
        "maintenance.interval",
        &Time {
            at: field!(maintenance_interval),
            min: Duration::from_secs(1),
            max: A_DAY,
        },
        "Time between two looks for what is due",
    )],
    check: nothing,
    inspect: nothing,
};
