//! `[limits]`: limits of the service.

use super::{COUNT_MAX, HELD_BYTES_MAX, RETENTION_MAX, SIZE_MAX};
use crate::config::kind::{Bytes, Count, Time, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config, format_time};

/// Defines the section from the limits that core declares.
macro_rules! define_section {
    ($(
        $(#[doc = $about:literal])+
        $name:ident: $type:ty = $default:expr, $unit:tt, $of:literal
        $(,
            $(#[doc = $more:literal])*
            field $field:ident $property:tt in $range:expr $(, setting $setting:literal)?
        )?;
    )+) => {
        pub(super) static SECTION: Section = Section {
            name: "limits",
            about: "Limits of the service",
            settings: &[$($($(
                Setting::new(
                    concat!("limits.", stringify!($field)),
                    const { &kind!($unit, field!(limits.$field), $range) },
                    $setting,
                ),
            )?)?)+],
            check,
            inspect: nothing,
        };
    };
}

/// Returns the kind of a setting with these supported values, as far as the server supports them.
macro_rules! kind {
    (bytes, $at:expr, $range:expr) => {
        Bytes {
            at: $at,
            min: *($range).start(),
            max: lesser(*($range).end(), HELD_BYTES_MAX),
        }
    };
    ("bytes", $at:expr, $range:expr) => {
        Bytes {
            at: $at,
            min: *($range).start(),
            max: lesser(*($range).end(), SIZE_MAX),
        }
    };
    (time, $at:expr, $range:expr) => {
        Time {
            at: $at,
            min: *($range).start(),
            max: RETENTION_MAX,
        }
    };
    (characters, $at:expr, $range:expr) => {
        kind!("characters", $at, $range)
    };
    ($unit:literal, $at:expr, $range:expr) => {
        Count {
            at: $at,
            unit: $unit,
            min: *($range).start(),
            max: lesser(*($range).end(), COUNT_MAX),
        }
    };
}

const fn lesser(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}

knowledge_core::limits!(define_section);

fn check(config: &Config, check: &mut Check<'_>) {
    let limits = &config.limits;
    if limits.audit_retention < limits.idempotency_retention {
        let least = format_time(limits.idempotency_retention);
        check.reject(
            "limits.audit_retention",
            &["limits.idempotency_retention"],
            &format!("must be at least limits.idempotency_retention, {least}"),
        );
    } else if let Err(invalid) = limits.validate() {
        // Unreachable as long as the ranges above are those of core.
        check.reject("limits", &[], &invalid.to_string());
    }
}
