//! `[maintenance]`: the work in the background.

use std::time::Duration;

use super::super::kind::{Time, field};
use super::super::setting::{Section, Setting};
use super::A_DAY;

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
    check: super::super::setting::nothing,
    inspect: super::super::setting::nothing,
};
