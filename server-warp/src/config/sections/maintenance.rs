//! `[maintenance]`: background work.

use std::time::Duration;

use super::A_DAY;
use crate::config::kind::{Time, field};
use crate::config::setting::{Section, Setting, nothing};

pub(super) static SECTION: Section = Section {
    name: "maintenance",
    about: "Background work: purging expired data, and publishing changes that depend only on time",
    settings: &[Setting::new(
        "maintenance.interval",
        &Time {
            at: field!(maintenance_interval),
            min: Duration::from_secs(1),
            max: A_DAY,
        },
        "Time between two runs",
    )],
    check: nothing,
    inspect: nothing,
};
