//! `[compression]`: which answers are compressed.

use super::HELD_BYTES_MAX;
use crate::config::kind::{Bytes, Switch, field};
use crate::config::setting::{Section, Setting, nothing};

pub(super) static SECTION: Section = Section {
    name: "compression",
    about: "Compression of answers with gzip, for clients that take it; answers that show a new secret never are",
    settings: &[
        Setting::new(
            "compression.enabled",
            &Switch(field!(compression.enabled)),
            "Whether answers are compressed; the largest take some 0.6 ms of a processor for it",
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
