//! `[storage]`: where the data is, and how it is kept.

use std::time::Duration;

use super::{A_DAY, SIZE_MAX};
use crate::config::kind::{Bytes, Switch, Text, Time, field};
use crate::config::setting::{Section, Setting};
use crate::config::{Check, Config};
use crate::sealing;

/// The path of the setting that names the store.
pub(in crate::config) const STORE: &str = "storage.store";
/// The path of the setting that names its directory alone.
pub(in crate::config) const DATA_DIR: &str = "storage.data_dir";

pub(super) static SECTION: Section = Section {
    name: "storage",
    about: "Where the data is, and how it is kept",
    settings: &[
        Setting::new(
            STORE,
            &Text(field!(data.store)),
            "The store: sled:DIR or fjall:DIR, in a directory of its own, or memory:, which goes with the process; \
             without it, the store in storage.data_dir",
        )
        .flag("store"),
        Setting::new(
            DATA_DIR,
            &Text(field!(data.directory)),
            "The directory of the store, of whichever engine is there; a new one is sled's; one process at a time has it",
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
            "The engine's cache; with sled the process needs about twice as much memory",
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
            "The balance of sled: high_throughput, or low_space for a smaller file at the cost of more writing",
        ),
        Setting::new(
            "storage.verify_entries",
            &Switch(field!(data.verifies_entries)),
            "If a store that was not closed cleanly is checked entry by entry, in the background, while it is served; \
             without it damage is found when it is read, or by `knowledge verify`",
        ),
    ],
    check,
    inspect,
};

fn check(config: &Config, check: &mut Check<'_>) {
    if config.data.store.is_some() && check.has_one_source(STORE, DATA_DIR) {
        let reason = "names one store and storage.store another: give one of them";
        check.refuse(DATA_DIR, &[STORE], reason);
    }
}

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
    let Some(directory) = config.data.directory() else {
        return;
    };
    if directory.exists() && !directory.is_dir() {
        let reason = format!("must be a directory: {} is none", directory.display());
        check.refuse(DATA_DIR, &[], &reason);
    }
}
