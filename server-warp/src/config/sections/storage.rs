//! `[storage]`: the store and its key.

use std::path::Path;
use std::time::Duration;

#[cfg(unix)]
use rustix::fs::Access;

use super::{A_DAY, SIZE_MAX};
use crate::config::kind::{Bytes, Map, Named, Switch, Text, Time, field};
use crate::config::setting::{Section, Setting};
use crate::config::{Check, Config};
use crate::partitions::PartitionAddress;
use crate::sealing;
use crate::store_address::StoreAddress;

/// Path of the setting with the store's address.
pub(in crate::config) const STORE: &str = "storage.store";
/// Path of the setting with the store's directory only.
pub(in crate::config) const DATA_DIR: &str = "storage.data_dir";

const PARTITIONS: &str = "storage.partitions";
const SEALING_KEY_FILE: &str = "storage.sealing_key_file";

pub(super) static SECTION: Section = Section {
    name: "storage",
    about: "The store and its key",
    settings: &[
        Setting::new(
            STORE,
            &Text(field!(store)),
            "The store: sled:DIR or fjall:DIR, in a directory of its own, \
             postgres://USER@HOST/DATABASE, which several servers may share, or memory:, which is \
             lost when the process ends; if unset, the store in storage.data_dir",
        )
        .flag("store"),
        Setting::new(
            DATA_DIR,
            &Text(field!(data_dir)),
            "The directory of the store, opened with the engine of the existing store; a new store \
             uses sled; only one process at a time can open it",
        )
        .flag("data-dir"),
        Setting::new(
            SEALING_KEY_FILE,
            &Text(field!(data.sealing_key_file)),
            "The file of the key that seals stored secrets: 32 bytes as base64 or hexadecimal \
             digits, readable by its owner only; if unset, DIR.key beside the directory, created \
             with the store; required for postgres:, the same key on every server",
        )
        .flag("sealing-key-file"),
        Setting::new(
            PARTITIONS,
            &Map(field!(data.partitions)),
            "Further stores by name, to which `knowledge org move` moves organisations; the store of \
             storage.store or storage.data_dir is the partition `home`, which records where each \
             organisation is; all partitions have its sealing key",
        ),
        Setting::new(
            "storage.cache_bytes",
            &Bytes {
                at: field!(data.cache_bytes),
                min: 1 << 20,
                max: SIZE_MAX,
            },
            "Caches of the store; with sled the process needs about twice as much memory",
        ),
        Setting::new(
            "storage.free_bytes_min",
            &Bytes {
                at: field!(data.free_bytes_min),
                min: 0,
                max: SIZE_MAX,
            },
            "Minimum free space of the file system: with less, writes are rejected with 503 while \
             reads continue; below 32 MiB a full disk may corrupt the store",
        ),
        Setting::new(
            "storage.write_timeout",
            &Time {
                at: field!(data.write_timeout),
                min: Duration::from_secs(1),
                max: A_DAY,
            },
            "Time for one group of commits to be synced to disk; then the store is closed until \
             the next start",
        ),
        Setting::new(
            "storage.mode",
            &Text(field!(data.mode)),
            "The mode of sled: high_throughput, or low_space for a smaller file at the cost of \
             more writes",
        ),
        Setting::new(
            "storage.verify_entries",
            &Switch(field!(data.verifies_entries)),
            "Verify every entry in the background after an unclean shutdown, while the store is \
             served; otherwise corruption is found on reading or by `knowledge verify`",
        ),
    ],
    check,
    inspect,
};

impl Named for PartitionAddress {
    const EXPECTS: &'static str = "a table of stores by name, such as { eu = \"sled:DIR\" }, or in \
                                   a variable eu=STORE;us=STORE, each name of the characters a-z \
                                   0-9 _ - and not home";

    fn read(name: &str, value: &str) -> Option<Self> {
        Self::parse(name, value)
    }

    fn write(&self) -> (String, String) {
        (self.name.clone(), self.store.to_string())
    }
}

fn check(config: &Config, check: &mut Check<'_>) {
    if config.store.is_some() && check.has_one_source(STORE, DATA_DIR) {
        let reason = "conflicts with storage.store; set only one of them";
        check.reject(DATA_DIR, &[STORE], reason);
    }
    let stores: Vec<_> = config
        .data
        .partitions
        .iter()
        .map(|found| &found.store)
        .collect();
    let data = config.data();
    let place = |store: &StoreAddress| std::path::absolute(store.directory()?).ok();
    let is_same = |one: &StoreAddress, other: &StoreAddress| match (place(one), place(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    };
    let is_used_twice = |(index, store): (usize, &&StoreAddress)| {
        let mut others = stores[..index].iter().copied().chain([&data.store]);
        others.any(|other| is_same(store, other))
    };
    if stores.iter().enumerate().any(is_used_twice) {
        let reason = "must name each store once, and not that of storage.store; dump and verify take \
                      a partition by --partition NAME";
        check.reject(PARTITIONS, &[STORE], reason);
    }
    if stores.contains(&&StoreAddress::Memory) {
        let reason = "must not name memory:, which would lose the organisations moved there";
        check.reject(PARTITIONS, &[STORE], reason);
    }
    #[cfg(feature = "postgres")]
    for partition in &config.data.partitions {
        if let StoreAddress::Postgres(address) = &partition.store
            && let Err(error) = config.data.postgres.options(address)
        {
            let reason = format!("cannot be used: {}: {error}", partition.name);
            check.reject(PARTITIONS, &[], &reason);
        }
    }
    #[cfg(feature = "postgres")]
    if let Some(StoreAddress::Postgres(address)) = &config.store
        && let Err(error) = config.data.postgres.options(address)
    {
        check.reject(STORE, &[], &format!("cannot be used: {error}"));
    }
}

fn inspect(config: &Config, check: &mut Check<'_>) {
    if let Some(path) = &config.data.sealing_key_file
        && let Err(error) = sealing::read(path)
    {
        check.reject(SEALING_KEY_FILE, &[], &format!("cannot be used: {error}"));
    }
    let data = config.data();
    if data.store.is_shared() && data.sealing_key_file.is_none() {
        let reason = "must be set if storage.store is a PostgreSQL database";
        check.reject(SEALING_KEY_FILE, &[STORE], reason);
    }
    let Some(directory) = data.directory() else {
        return;
    };
    if let Some(reason) = obstacle(directory) {
        check.reject(DATA_DIR, &[], &reason);
    }
}

/// Returns the reason why a directory can be neither used nor created, if there is one.
fn obstacle(directory: &Path) -> Option<String> {
    let ancestors = directory.ancestors().map(|path| {
        let is_current = path.as_os_str().is_empty();
        if is_current { Path::new(".") } else { path }
    });
    let mut existing = ancestors.filter(|path| path.symlink_metadata().is_ok());
    let existing = existing.next()?;
    if !existing.is_dir() {
        let reason = format!("must be a directory; {} is not", existing.display());
        return Some(reason);
    }
    #[cfg(unix)]
    if let Err(error) = rustix::fs::access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        return Some(format!("cannot be used: {}: {error}", existing.display()));
    }
    None
}
