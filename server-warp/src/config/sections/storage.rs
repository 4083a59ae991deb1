//! `[storage]`: where the data is, and how it is kept.

use std::time::Duration;

use super::{A_DAY, SIZE_MAX};
use crate::config::kind::{Bytes, Switch, Text, Time, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};
use crate::sealing;

pub(super) static SECTION: Section = Section {
    name: "storage",
    about: "Where the data is, and how it is kept",
    settings: &[
        Setting::new(
            "storage.data_dir",
            &Text(field!(data.directory)),
            "The directory of the store; one process at a time has it",
        )
        .flag("data-dir"),
        Setting::new(
            "storage.sealing_key_file",
            &Text(field!(data.sealing_key_file)),
            "The key that seals stored secrets: a file with 32 bytes as base64 or hexadecimal digits, readable by its \
             owner alone; without it the key is DIR.key, beside the directory, and made with the store",
        )
        .flag("sealing-key-file"),
        Setting::new(
            "storage.cache_bytes",
            &Bytes {
                at: field!(data.cache_bytes),
                min: 1 << 20,
                max: SIZE_MAX,
            },
            "The page cache; the process needs about twice as much memory",
        ),
        Setting::new(
            "storage.free_bytes_min",
            &Bytes {
                at: field!(data.free_bytes_min),
                min: 0,
                max: SIZE_MAX,
            },
            "What stays free of the file system: with less, changes are answered 503 and reads go on; below 32 MiB a \
             full disk may damage the store",
        ),
        Setting::new(
            "storage.write_timeout",
            &Time {
                at: field!(data.write_timeout),
                min: Duration::from_secs(1),
                max: A_DAY,
            },
            "Time for one group of commits to reach the disk; then the store is closed until the next start",
        ),
        Setting::new(
            "storage.mode",
            &Text(field!(data.mode)),
            "What the engine favours: high_throughput, or low_space for a smaller file at the cost of more writing",
        ),
        Setting::new(
            "storage.verify_entries",
            &Switch(field!(data.verifies_entries)),
            "Whether a start reads every entry once and compares them with the ledger of the store; without it a \
             large store starts sooner, and damage is found when it is read, or never",
        ),
    ],
    check: nothing,
    inspect,
};

fn inspect(config: &Config, check: &mut Check<'_>) {
    if let Some(path) = &config.data.sealing_key_file
        && let Err(error) = sealing::read(path)
    {
        check.refuse(
            "storage.sealing_key_file",
            &[],
            &format!("cannot be used: {error}"),
        );
    }
    let directory = &config.data.directory;
    if directory.exists() && !directory.is_dir() {
        let reason = format!("must be a directory: {} is none", directory.display());
        check.refuse("storage.data_dir", &[], &reason);
    }
}
