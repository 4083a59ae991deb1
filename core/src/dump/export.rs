//! Writes a dump of a store.

use std::sync::Arc;

use serde::Deserialize;

use super::decoder::Decoder;
use super::line::{Tally, write_entry, write_record};
use super::{Header, Summary};
use crate::format::UNFINISHED_SCHEMA;
use crate::keys;
use crate::store::{Direction, KeyRange, Store, StoreError, StoreErrorKind, StoreExt};

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
        })
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
            let begin = lines.len();
            write_entry(lines, found.key.as_bytes(), &found.entry.value);
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
    /// Part of the store's `meta` record that the header contains.
    #[derive(Deserialize)]
    struct Meta {
        schema: u32,
        sealing_key: Option<String>,
    }

    let meta = match store.get_as::<Meta>(&keys::meta()).await {
        Ok(meta) => meta,
        // An unreadable record is dumped unchanged: a dump must not depend on the contents of the
        // store.
        Err(error) if error.kind() == StoreErrorKind::Corrupt => None,
        Err(error) => return Err(error.into()),
    };
    match meta.map(|meta| meta.value) {
        Some(meta) if meta.schema == UNFINISHED_SCHEMA => Err(ExportError::Unfinished),
        Some(meta) => Ok(Header::new(Some(meta.schema), meta.sealing_key)),
        None => Ok(Header::new(None, None)),
    }
}
