//! Writes a dump of a store.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;

use super::decoder::Decoder;
use super::line::{Tally, write_entry, write_record};
use super::{Header, Summary};
use crate::format::UNFINISHED_SCHEMA;
use crate::keys;
use crate::store::{Direction, KeyRange, Store, StoreError, StoreExt, read_json};

/// Number of entries per read.
const PAGE_ENTRIES: usize = 512;

/// Reason for which a store cannot be dumped.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store contains an interrupted restore.
    #[error("the store contains an unfinished restore; complete it first")]
    Unfinished,
}

/// Writes a whole store as the lines of a dump.
///
/// The store is read in pages, each at its own point in time. For a consistent dump, nothing may
/// write meanwhile, or the store must be a snapshot.
pub struct Export {
    store: Arc<dyn Store>,
    header: Option<Header>,
    /// Range still to be read; `None` after the last line.
    rest: Option<KeyRange>,
    tally: Tally,
    meta: MetaValue,
}

/// Value of the store's `meta` record in a dump.
enum MetaValue {
    /// The stored one.
    Stored,
    /// This one, or none, in place of the placeholder of a restore.
    Restored(Option<Bytes>),
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export")
            .field("rest", &self.rest)
            .field("entries", &self.tally.entries)
            .finish_non_exhaustive()
    }
}

impl Export {
    /// Starts before the first line.
    ///
    /// # Errors
    /// [`ExportError`], one by one.
    pub async fn begin(store: Arc<dyn Store>) -> Result<Self, ExportError> {
        let header = header(&*store).await?;
        Ok(Self {
            store,
            header: Some(header),
            rest: Some(KeyRange::all()),
            tally: Tally::default(),
            meta: MetaValue::Stored,
        })
    }

    /// Starts before the first line of a restored store, whose placeholder is to become this value.
    pub(super) fn of_restored(store: Arc<dyn Store>, meta: Option<Bytes>) -> Self {
        Self {
            store,
            header: Some(header_of(meta.as_ref())),
            rest: Some(KeyRange::all()),
            tally: Tally::default(),
            meta: MetaValue::Restored(meta),
        }
    }

    /// Resumes an interrupted dump after the lines that `read` has decoded.
    ///
    /// Returns `None` if that dump is complete, or is not of this store in its present state; it
    /// then has to start again. Only the header and the last entry are compared: the caller has to
    /// know that nothing else has changed.
    ///
    /// # Errors
    /// [`ExportError`], one by one.
    pub async fn resume(store: Arc<dyn Store>, read: Decoder) -> Result<Option<Self>, ExportError> {
        if read.header() != Some(&header(&*store).await?) {
            return Ok(None);
        }
        let (last_key, last_value) = (read.last_key().cloned(), read.last_value().cloned());
        let found = match &last_key {
            Some(last) => store.get(std::slice::from_ref(last)).await?.pop().flatten(),
            None => None,
        };
        if found.map(|entry| entry.value) != last_value {
            return Ok(None);
        }
        let Some(tally) = read.into_tally() else {
            return Ok(None);
        };
        let rest = match &tally.last_key {
            Some(last) => KeyRange::all().after(last),
            None => KeyRange::all(),
        };
        Ok(Some(Self {
            store,
            header: None,
            rest: Some(rest),
            tally,
            meta: MetaValue::Stored,
        }))
    }

    /// Appends the next lines to `lines`; returns `false` once the last one is written.
    ///
    /// # Errors
    /// Those of the store; `lines` is then unchanged, and the call can be repeated.
    pub async fn read(&mut self, lines: &mut Vec<u8>) -> Result<bool, StoreError> {
        if let Some(header) = self.header.take() {
            let begin = lines.len();
            write_record(lines, &header);
            self.tally.line(&lines[begin..]);
            return Ok(true);
        }
        let Some(rest) = &self.rest else {
            return Ok(false);
        };
        let page = self
            .store
            .scan(rest, PAGE_ENTRIES, Direction::Forward)
            .await?;
        self.rest = match page.last() {
            Some(last) if page.len() == PAGE_ENTRIES => Some(rest.after(&last.key)),
            _ => None,
        };
        for found in page {
            let value = match &self.meta {
                MetaValue::Restored(meta) if found.key == keys::meta() => meta.as_ref(),
                _ => Some(&found.entry.value),
            };
            let Some(value) = value else {
                continue;
            };
            let begin = lines.len();
            write_entry(lines, found.key.as_bytes(), value);
            self.tally.entry(found.key, &lines[begin..]);
        }
        if self.rest.is_none() {
            write_record(lines, &self.summary());
        }
        Ok(self.rest.is_some())
    }

    /// Returns the number of entries written.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.tally.entries
    }

    /// Returns the summary of the lines written so far; after the last line, that of the dump.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.tally.summary()
    }
}

async fn header(store: &dyn Store) -> Result<Header, ExportError> {
    let found = store.get(&[keys::meta()]).await?.pop().flatten();
    let header = header_of(found.as_ref().map(|entry| &entry.value));
    if header.schema == Some(UNFINISHED_SCHEMA) {
        Err(ExportError::Unfinished)
    } else {
        Ok(header)
    }
}

/// Returns the header of a dump of a store with this `meta` record.
fn header_of(meta: Option<&Bytes>) -> Header {
    /// Part of the record that the header contains.
    #[derive(Deserialize)]
    struct Meta {
        schema: u32,
        sealing_key: Option<String>,
    }

    // An unreadable record is dumped unchanged: a dump must not depend on what the store contains.
    match meta.and_then(|meta| read_json::<Meta>(meta).ok()) {
        Some(meta) => Header::new(Some(meta.schema), meta.sealing_key),
        None => Header::new(None, None),
    }
}
