//! All sections in display order.

mod admin;
mod audit;
mod compression;
mod cors;
mod limits;
mod log;
mod maintenance;
mod metrics;
#[cfg(feature = "oidc")]
mod oidc;
#[cfg(feature = "postgres")]
mod postgres;
mod proxy;
mod rate_limit;
mod server;
mod sign_in;
pub(super) mod storage;
mod telemetry;
mod tls;
mod webhooks;

use std::time::Duration;

use super::setting::{Section, Setting};

/// All sections in display order.
pub(crate) static SECTIONS: &[&Section] = &[
    &server::SECTION,
    &tls::SECTION,
    &proxy::SECTION,
    &cors::SECTION,
    &compression::SECTION,
    &rate_limit::SECTION,
    &sign_in::SECTION,
    #[cfg(feature = "oidc")]
    &oidc::SECTION,
    &storage::SECTION,
    #[cfg(feature = "postgres")]
    &postgres::SECTION,
    &admin::SECTION,
    &limits::SECTION,
    &audit::SECTION,
    &webhooks::SECTION,
    &log::SECTION,
    &maintenance::SECTION,
    &metrics::SECTION,
    &telemetry::SECTION,
];

/// Returns all settings in display order.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| section.settings)
}

/// Maximum of every count: 31 bits, as for the kernel's backlog and semaphores on every platform.
const COUNT_MAX: u64 = 2_147_483_647;

/// Maximum size of what is held in memory: 1 GiB.
const HELD_BYTES_MAX: u64 = 1 << 30;

/// Maximum of every size: 1 TiB.
const SIZE_MAX: u64 = 1 << 40;

/// Minimum of every non-zero time.
const TIME_MIN: Duration = Duration::from_millis(1);

/// Maximum of every retention: ten years.
const RETENTION_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);
