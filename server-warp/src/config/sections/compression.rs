//! `[compression]`: compression of responses.

use super::HELD_BYTES_MAX;
use crate::config::kind::{Bytes, Switch, field};
use crate::config::setting::{Section, Setting, nothing};

pub(super) static SECTION: Section = Section {
    name: "compression",
    about: "Compression of responses with gzip; responses with a new secret are never compressed",
    settings: &[
        Setting::new(
            "compression.enabled",
            &Switch(field!(compression.enabled)),
            "Compress responses; the largest take some 0.6 ms of CPU time",
        ),
        Setting::new(
            "compression.bytes_min",
            &Bytes {
                at: field!(compression.bytes_min),
                min: 1,
                max: HELD_BYTES_MAX,
            },
            "The shortest body that is compressed",
        ),
    ],
    check: nothing,
    inspect: nothing,
};
