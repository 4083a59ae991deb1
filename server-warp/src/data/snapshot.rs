//! Snapshot of a store that offers none: all of it, read at one point in time.

use knowledge_core::store::StoreError;
#[cfg(feature = "postgres")]
pub(super) use reading::read;

/// Maximum size of a database that a command reads into memory, in bytes.
pub(crate) const SNAPSHOT_BYTES_MAX: usize = 1 << 30;

/// Reason for a missing snapshot.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store is too large to be read at once.
    #[error(
        "the database is too large for a consistent copy in memory (at most {} MiB); use pg_dump",
        bytes_max >> 20
    )]
    TooLarge {
        /// Maximum size of all keys and values, in bytes.
        bytes_max: usize,
    },
}

#[cfg(feature = "postgres")]
mod reading {
    use std::sync::Arc;

    use knowledge_core::store::{
        COMMIT_BYTES_MAX, COMMIT_MUTATIONS_MAX, Commit, Direction, KeyEntry, KeyRange, MemoryStore,
        Store, StoreError, StoreErrorKind, StoreExt,
    };

    use super::SnapshotError;

    /// Number of entries per read while the size is determined.
    const PAGE_ENTRIES: usize = 1_024;
    /// Number of entries that may be added between the two passes.
    const GROWTH_MAX: usize = 10_000;

    /// Reads all entries at one point in time into memory, if they take at most `bytes_max`.
    ///
    /// They are read twice: in pages for their size, then with a single read, which is one point in
    /// time.
    pub(in crate::data) async fn read(
        store: &dyn Store,
        bytes_max: usize,
    ) -> Result<Arc<dyn Store>, SnapshotError> {
        let limit = count(store, bytes_max).await? + GROWTH_MAX;
        let all = KeyRange::all();
        let found = store.scan(&all, limit, Direction::Forward).await?;
        if found.len() == limit || bytes(&found) > bytes_max {
            return Err(SnapshotError::TooLarge { bytes_max });
        }
        let copy = MemoryStore::new();
        let (mut batch, mut batch_bytes) = (Vec::new(), 0);
        for entry in found {
            let size = bytes(std::slice::from_ref(&entry));
            if batch.len() == COMMIT_MUTATIONS_MAX || batch_bytes + size > COMMIT_BYTES_MAX {
                write(&copy, std::mem::take(&mut batch)).await?;
                batch_bytes = 0;
            }
            batch_bytes += size;
            batch.push(entry);
        }
        write(&copy, batch).await?;
        Ok(Arc::new(copy))
    }

    async fn count(store: &dyn Store, bytes_max: usize) -> Result<usize, SnapshotError> {
        let (mut rest, mut entries, mut total) = (KeyRange::all(), 0, 0);
        loop {
            let page = store.scan(&rest, PAGE_ENTRIES, Direction::Forward).await?;
            entries += page.len();
            total += bytes(&page);
            if total > bytes_max {
                return Err(SnapshotError::TooLarge { bytes_max });
            }
            match page.last() {
                Some(last) if page.len() == PAGE_ENTRIES => rest = rest.after(&last.key),
                _ => return Ok(entries),
            }
        }
    }

    fn bytes(entries: &[KeyEntry]) -> usize {
        let sizes = entries
            .iter()
            .map(|found| found.key.as_bytes().len() + found.entry.value.len());
        sizes.sum()
    }

    async fn write(copy: &MemoryStore, entries: Vec<KeyEntry>) -> Result<(), StoreError> {
        let mut commit = Commit::builder();
        for found in entries {
            commit = commit.put(found.key, found.entry.value);
        }
        let commit = commit.build().map_err(|error| {
            StoreError::new(
                StoreErrorKind::Corrupt,
                format!("an entry is invalid: {error}"),
            )
        })?;
        copy.commit(commit).await?;
        Ok(())
    }

    #[cfg(test)]
    mod tests {
        use knowledge_core::store::Key;

        use super::*;

        async fn filled(entries: usize) -> MemoryStore {
            let store = MemoryStore::new();
            for number in 0..entries {
                let key = Key::new(format!("key/{number:05}")).unwrap();
                let commit = Commit::builder()
                    .put(key, vec![b'x'; 1_000])
                    .build()
                    .unwrap();
                store.commit(commit).await.unwrap();
            }
            store
        }

        #[tokio::test]
        async fn snapshot_has_every_entry_and_does_not_change() {
            let store = filled(3_000).await;
            let snapshot = read(&store, 4 << 20).await.unwrap();
            let before = store.scan_all(&KeyRange::all()).await.unwrap();
            let key = before[7].key.clone();
            let commit = Commit::builder().delete(key).build().unwrap();
            store.commit(commit).await.unwrap();
            let found = snapshot.scan_all(&KeyRange::all()).await.unwrap();
            let contents = |entries: Vec<KeyEntry>| {
                let entries = entries.into_iter();
                let contents = entries.map(|found| (found.key, found.entry.value));
                contents.collect::<Vec<_>>()
            };
            assert_eq!(contents(found), contents(before));
        }

        #[tokio::test]
        async fn snapshot_of_large_store_is_rejected() {
            let store = filled(2_000).await;
            let rejected = read(&store, 1 << 20).await.err().unwrap();
            assert_eq!(
                rejected.to_string(),
                "the database is too large for a consistent copy in memory (at most 1 MiB); use pg_dump"
            );
        }
    }
}
