//! Restores a dump into an empty store.
//!
//! The store's `meta` record is written last. During the restore, a placeholder takes its place:
//! its schema is unknown to every program, so that none opens the store, and it records the
//! progress and the policy. Each batch of entries is committed together with the progress. It is
//! replaced only once the store was read back and has what was to be restored.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::credentials::{CredentialPolicy, RevokedCredentials};
use super::decoder::{Decoder, DumpError, Line};
use super::export::Export;
use super::line::{Tally, write_entry, write_record};
use super::{Header, Summary};
use crate::format::{SCHEMA, UNFINISHED_SCHEMA};
use crate::keys;
use crate::store::{
    Commit, CommitBuilder, CommitOutcome, Direction, Key, KeyRange, Store, StoreError,
    StoreErrorKind, StoreExt, Version,
};

/// Maximum number of entries in one commit.
const BATCH_ENTRIES_MAX: usize = 2_000;
/// Size, in bytes, from which a batch is written.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Reason for which a dump cannot be restored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The dump is truncated or altered.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store contains data other than an interrupted restore.
    #[error("the store is not empty; restore into a new one")]
    NotEmpty,
    /// The store contains an interrupted restore that this one cannot resume.
    ///
    /// It was of another dump, or of one whose checksum was not known.
    #[error(
        "the store contains an interrupted restore that only the same dump file can resume; \
         restore into a new one"
    )]
    OtherDump,
    /// The store contains an interrupted restore with the other policy.
    #[error(
        "the store contains an interrupted restore that {} credentials; resume it likewise, or \
         restore into a new store", begun.verb()
    )]
    OtherPolicy {
        /// Policy of the interrupted restore.
        begun: CredentialPolicy,
    },
    /// The dump was written by a later version.
    #[error(
        "the dump has schema {found}, but this program supports schemas up to {SCHEMA}; use a \
         later version"
    )]
    LaterSchema {
        /// Schema of the dump.
        found: u32,
    },
    /// The dump was written by a version before the first release.
    #[error(
        "the dump has schema {found}, but this program supports schemas from {SCHEMA} on; use the \
         version that wrote it"
    )]
    EarlierSchema {
        /// Schema of the dump.
        found: u32,
    },
    /// Another process writes to the store.
    #[error("another process writes to the store during the restore")]
    Interfered,
    /// The restored store differs from the dump. It stays marked as unfinished.
    #[error(
        "the copy differs from its source: its checksum is {written} instead of {read}; no server \
         opens it"
    )]
    Differs {
        /// Checksum of what was to be restored.
        read: String,
        /// Checksum of the store.
        written: String,
    },
}

/// Placeholder for `meta` during a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Restoring {
    schema: u32,
    sealing_key: Option<String>,
    /// Checksum of the dump, if known. Without it, an interrupted restore cannot be resumed.
    dump: Option<String>,
    /// Number of entries of the dump that were processed.
    entries: u64,
    credentials: CredentialPolicy,
}

/// Result of a complete restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// Summary of the dump that was read.
    pub dump: Summary,
    /// Summary that a dump of the restored store has.
    pub store: Summary,
    /// Credentials that were revoked; all zero with [`CredentialPolicy::Keep`].
    pub revoked: RevokedCredentials,
}

/// Restores a dump from its lines, in order, each with its line feed.
pub struct Restore {
    store: Arc<dyn Store>,
    decoder: Decoder,
    /// Summary of the dump, if it was read before.
    expected: Option<Summary>,
    policy: CredentialPolicy,
    revoked: RevokedCredentials,
    /// Lines that a dump of the restored store has.
    restored: Tally,
    /// Number of entries that an interrupted restore has processed.
    resumed_at: u64,
    /// Version of the placeholder in `meta`, once it exists.
    claim: Option<Version>,
    /// Final value of `meta`.
    meta: Option<Bytes>,
    batch: Vec<(Key, Bytes)>,
    batch_bytes: usize,
    /// The store as it is read back.
    written: Option<Export>,
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
    /// Checks that the store is empty or contains an interrupted restore of the same dump.
    ///
    /// `expected` is the summary of the dump from an earlier read. Without it, an interrupted
    /// restore cannot be resumed.
    ///
    /// # Errors
    /// [`RestoreError::NotEmpty`], [`RestoreError::OtherDump`], [`RestoreError::OtherPolicy`],
    /// [`RestoreError::Store`].
    pub async fn begin(
        store: Arc<dyn Store>,
        expected: Option<Summary>,
        policy: CredentialPolicy,
    ) -> Result<Self, RestoreError> {
        let first = store.scan(&KeyRange::all(), 1, Direction::Forward).await?;
        let mut restore = Self {
            store,
            decoder: Decoder::new(),
            expected,
            policy,
            revoked: RevokedCredentials::default(),
            restored: Tally::default(),
            resumed_at: 0,
            claim: None,
            meta: None,
            batch: Vec::new(),
            batch_bytes: 0,
            written: None,
        };
        if first.is_empty() {
            return Ok(restore);
        }
        let found = restore.store.get_as::<Restoring>(&keys::meta()).await;
        let found = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Err(RestoreError::NotEmpty),
            Err(error) if error.kind() == StoreErrorKind::Corrupt => {
                return Err(RestoreError::NotEmpty);
            }
            Err(error) => return Err(error.into()),
        };
        let expected = restore.expected.as_ref().map(|summary| &summary.sha256);
        if found.value.schema != UNFINISHED_SCHEMA {
            return Err(RestoreError::NotEmpty);
        }
        if expected.is_none() || found.value.dump.as_ref() != expected {
            return Err(RestoreError::OtherDump);
        }
        if found.value.credentials != policy {
            let begun = found.value.credentials;
            return Err(RestoreError::OtherPolicy { begun });
        }
        restore.resumed_at = found.value.entries;
        restore.claim = Some(found.version);
        Ok(restore)
    }

    /// Returns the number of entries of the dump that an interrupted restore had processed.
    #[must_use]
    pub fn resumed_at(&self) -> u64 {
        self.resumed_at
    }

    /// Returns the number of entries of the dump read.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.decoder.entries()
    }

    /// Returns the first line of the dump, once it has been read.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        self.decoder.header()
    }

    /// Restores the next line, which must include its line feed.
    ///
    /// # Errors
    /// [`RestoreError`] for the first problem found. The store stays marked as unfinished, so that no
    /// service opens it.
    pub async fn take(&mut self, line: &[u8]) -> Result<(), RestoreError> {
        match self.decoder.read(line)? {
            Line::Header(header) => {
                match header.schema {
                    Some(found) if found > SCHEMA => {
                        return Err(RestoreError::LaterSchema { found });
                    }
                    Some(found) if found < SCHEMA => {
                        return Err(RestoreError::EarlierSchema { found });
                    }
                    _ => {}
                }
                let mut written = Vec::new();
                write_record(
                    &mut written,
                    &Header::new(header.schema, header.sealing_key),
                );
                self.restored.line(&written);
                if self.claim.is_none() {
                    self.write(Vec::new(), 0).await?;
                }
            }
            Line::Entry(key, value) => {
                let Some(value) = self.apply_policy(&key, value, line) else {
                    return Ok(());
                };
                if key == keys::meta() {
                    self.meta = Some(value);
                    return Ok(());
                }
                if self.decoder.entries() <= self.resumed_at {
                    return Ok(());
                }
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

    /// Writes what is left, and then compares the next part of the store with the dump. Returns
    /// `false` once everything was compared.
    ///
    /// [`Restore::finish`] compares what is left. A caller that shows the progress calls this.
    ///
    /// # Errors
    /// [`RestoreError::Dump`] if the last line has not been read; [`RestoreError::Differs`];
    /// [`RestoreError::Store`], [`RestoreError::Interfered`]. The store stays marked as unfinished.
    pub async fn compare(&mut self) -> Result<bool, RestoreError> {
        let mut written = match self.written.take() {
            Some(written) => written,
            None => {
                self.decoder.finish()?;
                let batch = std::mem::take(&mut self.batch);
                self.write(batch, self.decoder.entries()).await?;
                Export::of_restored(Arc::clone(&self.store), self.meta.clone())
            }
        };
        let has_more = written.read(&mut Vec::new()).await?;
        let (read, found) = (self.restored.summary(), written.summary());
        self.written = Some(written);
        if has_more || read == found {
            Ok(has_more)
        } else {
            let (read, written) = (read.sha256, found.sha256);
            Err(RestoreError::Differs { read, written })
        }
    }

    /// Returns the number of entries compared.
    #[must_use]
    pub fn compared(&self) -> u64 {
        self.written.as_ref().map_or(0, Export::entries)
    }

    /// Completes the restore, after the whole store was compared; the store can then be opened.
    ///
    /// # Errors
    /// Those of [`Restore::compare`].
    pub async fn finish(mut self) -> Result<RestoreReport, RestoreError> {
        while self.compare().await? {}
        let commit = match self.meta.take() {
            Some(meta) => Commit::builder().put(keys::meta(), meta),
            None => Commit::builder().delete(keys::meta()),
        };
        self.commit(commit).await?;
        Ok(RestoreReport {
            dump: self.decoder.finish()?,
            store: self.restored.summary(),
            revoked: self.revoked,
        })
    }

    /// Returns the value to restore for an entry, if any, and adds its line to those of the store.
    fn apply_policy(&mut self, key: &Key, value: Bytes, line: &[u8]) -> Option<Bytes> {
        let restored = match self.policy {
            CredentialPolicy::Keep => value.clone(),
            CredentialPolicy::Revoke => self.revoked.revoke(key, value.clone())?,
        };
        if restored == value {
            self.restored.entry(key.clone(), line);
        } else {
            let mut written = Vec::new();
            write_entry(&mut written, key.as_bytes(), &restored);
            self.restored.entry(key.clone(), &written);
        }
        Some(restored)
    }

    /// Commits a batch and records that the first `entries` of the dump are processed.
    async fn write(&mut self, batch: Vec<(Key, Bytes)>, entries: u64) -> Result<(), RestoreError> {
        let restoring = Restoring {
            schema: UNFINISHED_SCHEMA,
            sealing_key: self.header().and_then(|header| header.sealing_key.clone()),
            dump: self.expected.as_ref().map(|seen| seen.sha256.clone()),
            entries,
            credentials: self.policy,
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
