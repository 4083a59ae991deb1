//! Reading a dump into an empty store.
//!
//! The store's first record, `meta`, comes last. While the restore is under way another one stands in its place: of a
//! schema that no program knows, so that none opens the store, and with what is needed to go on. Each batch of entries and
//! the note of how far they go are one commit.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::decoder::{Decoder, DumpError, Line};
use super::{Header, Summary};
use crate::service::SCHEMA;
use crate::keys;
use crate::store::{Commit, CommitBuilder, CommitOutcome, Direction, Key, KeyRange, Store, StoreError, StoreExt, Version};

/// The schema of a store that is not whole yet.
pub(crate) const UNFINISHED_SCHEMA: u32 = u32::MAX;
/// How many entries one commit brings.
const BATCH_ENTRIES_MAX: usize = 2_000;
/// A batch takes no further entry once it has this many bytes.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why a dump is not restored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The dump is not whole, or was altered.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is something in the store that is not from a restore which was interrupted.
    #[error("the store is not empty: restore into a new one")]
    NotEmpty,
    /// The restore of another dump was interrupted in this store, or of one that nothing was known of.
    #[error(
        "another restore into this store was interrupted, and only the same dump from a file can go on: restore into a new one"
    )]
    OtherDump,
    /// The dump is of a later program.
    #[error(
        "the dump has schema {found}, this program knows up to {SCHEMA}: use a later version of it"
    )]
    LaterSchema {
        /// The schema of the dump.
        found: u32,
    },
    /// Someone else writes into the store.
    #[error("someone else writes into the store that is restored")]
    Interfered,
}

/// What stands in `meta` while a store is not whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Restoring {
    schema: u32,
    sealing_key: Option<String>,
    /// The checksum of the dump, where it is known; without it the restore cannot go on after an interruption.
    dump: Option<String>,
    /// How many entries of the dump are in the store.
    entries: u64,
}

/// Writes a dump into an empty store: give it the lines in their order, each with its line feed.
pub struct Restore {
    store: Arc<dyn Store>,
    decoder: Decoder,
    /// What the dump comes to, where it was read before.
    expected: Option<Summary>,
    /// How many entries an interrupted restore has brought already.
    resumed_at: u64,
    /// The version of the record that stands in `meta`, once there is one.
    claim: Option<Version>,
    /// What will stand in `meta`.
    meta: Option<Bytes>,
    batch: Vec<(Key, Bytes)>,
    batch_bytes: usize,
}

impl std::fmt::Debug for Restore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Restore")
            .field("entries", &self.decoder.entries())
            .field("resumed_at", &self.resumed_at)
            .finish_non_exhaustive()
    }
}

impl Restore {
    /// Looks at the store, which has to be empty or what an interrupted restore of the same dump left. `expected` is what
    /// the dump comes to, from reading it once before: without it, an interrupted restore cannot go on.
    ///
    /// # Errors
    /// [`RestoreError::NotEmpty`], [`RestoreError::OtherDump`], [`RestoreError::Store`].
    pub async fn begin(
        store: Arc<dyn Store>,
        expected: Option<Summary>,
    ) -> Result<Self, RestoreError> {
        let first = store.scan(&KeyRange::all(), 1, Direction::Forward).await?;
        let mut restore = Self {
            store,
            decoder: Decoder::new(),
            expected,
            resumed_at: 0,
            claim: None,
            meta: None,
            batch: Vec::new(),
            batch_bytes: 0,
        };
        if first.is_empty() {
            return Ok(restore);
        }
        let found = restore.store.get_as::<Restoring>(&keys::meta()).await;
        let Some(found) = found.ok().flatten() else {
            return Err(RestoreError::NotEmpty);
        };
        let expected = restore.expected.as_ref().map(|summary| &summary.sha256);
        if found.value.schema != UNFINISHED_SCHEMA {
            return Err(RestoreError::NotEmpty);
        }
        if expected.is_none() || found.value.dump.as_ref() != expected {
            return Err(RestoreError::OtherDump);
        }
        restore.resumed_at = found.value.entries;
        restore.claim = Some(found.version);
        Ok(restore)
    }

    /// How many entries the store had already from a restore that was interrupted.
    #[must_use]
    pub fn resumed_at(&self) -> u64 {
        self.resumed_at
    }

    /// How many entries of the dump were read.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.decoder.entries()
    }

    /// The first line of the dump, once it was read.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        self.decoder.header()
    }

    /// Takes the next line, which has to have its line feed.
    ///
    /// # Errors
    /// [`RestoreError`], one by one. The store stays unfinished, so that no service opens it.
    pub async fn take(&mut self, line: &[u8]) -> Result<(), RestoreError> {
        match self.decoder.read(line)? {
            Line::Header(header) => {
                if let Some(found) = header.schema.filter(|schema| *schema > SCHEMA) {
                    return Err(RestoreError::LaterSchema { found });
                }
                if self.claim.is_none() {
                    self.write(Vec::new(), 0).await?;
                }
            }
            Line::Entry(key, value) if key == keys::meta() => self.meta = Some(value),
            Line::Entry(..) if self.decoder.entries() <= self.resumed_at => {}
            Line::Entry(key, value) => {
                self.batch_bytes += key.as_bytes().len() + value.len();
                self.batch.push((key, value));
                if self.batch.len() == BATCH_ENTRIES_MAX || self.batch_bytes >= BATCH_BYTES_MAX {
                    let batch = std::mem::take(&mut self.batch);
                    self.batch_bytes = 0;
                    self.write(batch, self.decoder.entries()).await?;
                }
            }
            Line::Summary(summary) => {
                if self.expected.as_ref().is_some_and(|seen| *seen != summary) {
                    return Err(RestoreError::OtherDump);
                }
            }
        }
        Ok(())
    }

    /// Ends the restore: from here on the store is whole.
    ///
    /// # Errors
    /// [`RestoreError::Dump`] where the last line was not taken yet; [`RestoreError::Store`],
    /// [`RestoreError::Interfered`].
    pub async fn finish(mut self) -> Result<Summary, RestoreError> {
        let summary = self.decoder.finish()?;
        let mut commit = puts(std::mem::take(&mut self.batch));
        commit = match self.meta.take() {
            Some(meta) => commit.put(keys::meta(), meta),
            None => commit.delete(keys::meta()),
        };
        self.commit(commit).await?;
        Ok(summary)
    }

    /// Writes some entries, and that the store has the first `entries` of the dump.
    async fn write(&mut self, batch: Vec<(Key, Bytes)>, entries: u64) -> Result<(), RestoreError> {
        let restoring = Restoring {
            schema: UNFINISHED_SCHEMA,
            sealing_key: self.header().and_then(|header| header.sealing_key.clone()),
            dump: self.expected.as_ref().map(|seen| seen.sha256.clone()),
            entries,
        };
        let restoring = serde_json::to_vec(&restoring).expect("numbers and texts serialise");
        self.commit(puts(batch).put(keys::meta(), restoring)).await
    }

    async fn commit(&mut self, commit: CommitBuilder) -> Result<(), RestoreError> {
        let commit = commit.check(keys::meta(), self.claim).build();
        let commit = commit.expect("a batch is within the limits of a commit");
        match self.store.commit(commit).await? {
            CommitOutcome::Committed(version) => {
                self.claim = Some(version);
                Ok(())
            }
            CommitOutcome::Conflict => Err(RestoreError::Interfered),
        }
    }
}

fn puts(batch: Vec<(Key, Bytes)>) -> CommitBuilder {
    let entries = batch.into_iter();
    entries.fold(Commit::builder(), |commit, (key, value)| {
        commit.put(key, value)
    })
}
