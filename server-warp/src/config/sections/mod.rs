//! All sections, in the order in which they are shown.

mod admin;
mod compression;
mod cors;
mod limits;
mod log;
mod maintenance;
mod metrics;
mod rate_limit;
mod server;
pub(super) mod storage;
mod telemetry;
mod tls;
mod webhooks;

use std::time::Duration;

use super::setting::Section;

/// All sections, in the order in which they are shown.
pub(crate) static SECTIONS: &[&Section] = &[
    &server::SECTION,
    &tls::SECTION,
    &cors::SECTION,
    &compression::SECTION,
    &rate_limit::SECTION,
    &storage::SECTION,
    &admin::SECTION,
    &limits::SECTION,
    &webhooks::SECTION,
    &log::SECTION,
    &maintenance::SECTION,
    &metrics::SECTION,
    &telemetry::SECTION,
];

/// The most of anything that is counted: 31 bits, what the kernel takes as a backlog and a semaphore counts everywhere.
const COUNT_MAX: u64 = 2_147_483_647;

/// The most of anything that is held in memory at once: 1 GiB.
const HELD_BYTES_MAX: u64 = 1 << 30;

/// The largest size that has a meaning: 1 TiB.
const SIZE_MAX: u64 = 1 << 40;

/// The shortest time that can be told.
const TIME_MIN: Duration = Duration::from_millis(1);

/// The longest that anything is kept: ten years.
const RETENTION_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);
