//! Maxima of settings, and the section `[limits]`: the limits of the service that core declares as
//! settings.

use std::time::Duration;

use super::kind::{bytes, count, field, time};
use super::setting::Setting;

/// Maximum of every count: 31 bits, as for the kernel's backlog and semaphores on every platform.
pub(super) const COUNT_MAX: u64 = 2_147_483_647;
/// Maximum size of what is held in memory: 1 GiB.
pub(super) const HELD_BYTES_MAX: u64 = 1 << 30;
/// Maximum of every size: 1 TiB.
pub(super) const SIZE_MAX: u64 = 1 << 40;
/// Maximum of every retention: ten years.
pub(super) const RETENTION_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Defines the settings from the limits that core declares.
macro_rules! define_section {
    ($(
        $(#[doc = $about:literal])+
        $name:ident: $type:ty = $default:expr, $unit:tt, $of:literal
        $(,
            $(#[doc = $more:literal])*
            field $field:ident $property:tt in $range:expr $(, setting $setting:literal)?
        )?;
    )+) => {
        /// Returns the settings of the section.
        pub(super) fn limits() -> Vec<Setting> {
            vec![$($($(
                Setting {
                    path: concat!("limits.", stringify!($field)),
                    kind: kind!($unit, field!(limits.$field), $range),
                    about: $setting,
                    flag: None,
                },
            )?)?)+]
        }
    };
}

/// Returns the kind of a setting with these supported values, as far as the server supports them.
macro_rules! kind {
    (bytes, $at:expr, $range:expr) => {
        bytes($at, *$range.start()..=HELD_BYTES_MAX.min(*$range.end()))
    };
    (stored_bytes, $at:expr, $range:expr) => {
        bytes($at, *$range.start()..=SIZE_MAX.min(*$range.end()))
    };
    (time, $at:expr, $range:expr) => {
        time($at, *$range.start()..=RETENTION_MAX.min(*$range.end()))
    };
    (characters, $at:expr, $range:expr) => {
        kind!("characters", $at, $range)
    };
    ($counted:literal, $at:expr, $range:expr) => {
        count(
            $at,
            *$range.start()..=COUNT_MAX.min(*$range.end()),
            $counted,
        )
    };
}

knowledge_core::limits!(define_section);
