//! Paginated lists.
//!
//! A cursor names the last key that a page scanned. Pages therefore neither repeat nor skip records
//! that exist throughout, even if others are added or deleted between them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, PAGE_RECORDS_MAX};
use crate::request::Problems;
use crate::service::kit::idempotency::fingerprint;
use crate::store::{Direction, Key, KeyEntry, KeyRange, RangeRead, Transaction, decode_value};

/// Length of the list's fingerprint in a cursor, in bytes.
const LIST_BYTES: usize = 8;
/// Maximum number of records of a filtered list that are read at once.
const BATCH_MAX: usize = 500;
/// Maximum length of a cursor before it is encoded as text, in bytes.
const CURSOR_BYTES_MAX: usize = 256;

/// A position in a list, at which the next page begins.
///
/// It is opaque, and only valid for the list that returned it, with the same filters.
#[derive(Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Fingerprint of the list, so that other lists reject the cursor.
    list: [u8; LIST_BYTES],
    /// Last key that was scanned, without the prefix that all keys of the list share.
    last: Vec<u8>,
}

#[cfg(feature = "openapi")]
crate::schema::inline_schema! { Cursor: schemars::json_schema!({
    "type": "string",
    "pattern": "^[A-Za-z0-9_-]+$",
}) }

/// An invalid cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an unmodified next_cursor of this list")]
pub struct InvalidCursor;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [self.list.as_slice(), &self.last].concat();
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidCursor)?;
        match bytes.split_first_chunk() {
            Some((list, last)) if !last.is_empty() && bytes.len() <= CURSOR_BYTES_MAX => Ok(Self {
                list: *list,
                last: last.to_vec(),
            }),
            _ => Err(InvalidCursor),
        }
    }
}

/// A request for a page of a list.
///
/// # Examples
///
/// ```
#[doc = include_str!("../example.txt")]
/// use knowledge_core::model::MemoryFilter;
/// use knowledge_core::service::PageRequest;
///
/// let (mut found, filter) = (Vec::new(), MemoryFilter::default());
/// let mut request = PageRequest::builder().limit(1).build();
/// loop {
///     let page = service.list_memories(&owner, workspace, &filter, &request).await?;
///     found.extend(page.data);
///     request.cursor = page.next_cursor;
///     if request.cursor.is_none() {
///         break;
///     }
/// }
/// assert_eq!(found.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, bon::Builder)]
#[builder(on(String, into))]
#[non_exhaustive]
pub struct PageRequest {
    /// Maximum number of items: 1 to [`PAGE_ITEMS_MAX`], by default [`PAGE_ITEMS_DEFAULT`].
    pub limit: Option<usize>,
    /// `next_cursor` of the previous page; without it the first page.
    pub cursor: Option<Cursor>,
}

impl PageRequest {
    /// Reports the problems of the request.
    pub(crate) fn check(&self, problems: &mut Problems) {
        if self
            .limit
            .is_some_and(|limit| !(1..=PAGE_ITEMS_MAX).contains(&limit))
        {
            let message = format!("must be a number from 1 to {PAGE_ITEMS_MAX}");
            problems.push("limit", ProblemCode::InvalidValue, message);
        }
    }

    pub(crate) fn items_max(&self) -> Result<usize, Error> {
        let mut problems = Problems::default();
        self.check(&mut problems);
        problems.into_result()?;
        Ok(self.limit.unwrap_or(PAGE_ITEMS_DEFAULT))
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "openapi", schemars(rename = "{T}Page"))]
pub struct Page<T> {
    /// Items of the page.
    ///
    /// A page of a filtered list may have fewer items than requested, or none, without being the
    /// last.
    pub data: Vec<T>,
    /// Cursor of the next page; `null` at the end of the list.
    pub next_cursor: Option<Cursor>,
}

/// A list: its keys in order, and a fingerprint that distinguishes it from other lists.
pub(crate) struct Listing {
    range: KeyRange,
    direction: Direction,
    list: [u8; LIST_BYTES],
}

impl Listing {
    /// Creates the list of this name over a range of keys with a common prefix.
    ///
    /// `filter` is the criterion by which its items are chosen: a cursor is only valid with the
    /// same one.
    pub(crate) fn new<F: Serialize>(
        name: &str,
        filter: &F,
        range: KeyRange,
        direction: Direction,
    ) -> Self {
        let mut list = [0; LIST_BYTES];
        let digest = fingerprint(&(name, range.start.as_bytes(), filter));
        list.copy_from_slice(&digest.as_bytes()[..LIST_BYTES]);
        Self {
            range,
            direction,
            list,
        }
    }

    /// Returns the keys that follow the cursor.
    pub(crate) fn rest(&self, cursor: Option<&Cursor>) -> Result<KeyRange, Error> {
        let Some(cursor) = cursor else {
            return Ok(self.range.clone());
        };
        let wrong = || {
            Error::invalid(
                "cursor",
                ProblemCode::InvalidValue,
                InvalidCursor.to_string(),
            )
        };
        if cursor.list != self.list {
            return Err(wrong());
        }
        let last = [self.range.start.as_bytes(), &cursor.last].concat();
        let last = Key::new(last).map_err(|_| wrong())?;
        Ok(match self.direction {
            Direction::Forward => self.range.after(&last),
            Direction::Reverse => self.range.before(&last),
        })
    }

    /// Returns the first read of a page, to be made ahead; `None` if the request is invalid.
    pub(crate) fn first_read(&self, request: &PageRequest) -> Option<RangeRead> {
        let limit = request.items_max().ok()? + 1;
        Some(RangeRead {
            range: self.rest(request.cursor.as_ref()).ok()?,
            limit,
            direction: self.direction,
        })
    }

    /// Returns the identifiers of the first records of a page, if they were read ahead.
    pub(crate) fn first_ids(&self, request: &PageRequest, transaction: &Transaction) -> Vec<Uuid> {
        let Some(read) = self.first_read(request) else {
            return Vec::new();
        };
        // The last record only shows that others follow.
        let found = transaction.peek_range(&read).unwrap_or_default().iter();
        let ids = found.take(read.limit - 1);
        ids.filter_map(|found| keys::last_id(&found.key)).collect()
    }

    pub(crate) fn cursor(&self, last: &Key) -> Result<Cursor, Error> {
        let last = last.as_bytes().strip_prefix(self.range.start.as_bytes());
        let last = last.ok_or_else(|| Error::internal("a key is outside its list"))?;
        Ok(Cursor {
            list: self.list,
            last: last.to_vec(),
        })
    }

    /// Returns a page of the list. `show` converts a record into its item, or `None` to omit it.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid limit or a cursor of another list; those of the
    /// store and of `show`.
    pub(crate) async fn page<V: DeserializeOwned, T>(
        &self,
        transaction: &mut Transaction,
        request: &PageRequest,
        mut show: impl FnMut(&Key, V) -> Result<Option<T>, Error>,
    ) -> Result<Page<T>, Error> {
        let mut scan = PageScan::begin(self, request)?;
        let mut data = Vec::new();
        while let Some(found) = scan.next(transaction).await? {
            for found in found.iter() {
                data.extend(show(&found.key, decode_value(found)?)?);
                if scan.is_full(&found.key, data.len())? {
                    break;
                }
            }
        }
        Ok(scan.end(data))
    }

    /// Returns a page of the list. `show` converts many records at once.
    ///
    /// It returns one place for each record: its item, or `None` to omit it.
    // The records are passed by value. If futures borrowed from their arguments, the compiler could
    // not prove through the layers above that they are `Send`.
    pub(crate) async fn page_of<T, F>(
        &self,
        transaction: &mut Transaction,
        request: &PageRequest,
        mut show: impl FnMut(Arc<[KeyEntry]>) -> F,
    ) -> Result<Page<T>, Error>
    where
        F: Future<Output = Result<Vec<Option<T>>, Error>>,
    {
        let mut scan = PageScan::begin(self, request)?;
        let mut data = Vec::new();
        while let Some(found) = scan.next(transaction).await? {
            let shown = show(Arc::clone(&found)).await?;
            for (found, item) in found.iter().zip(shown) {
                data.extend(item);
                if scan.is_full(&found.key, data.len())? {
                    break;
                }
            }
        }
        Ok(scan.end(data))
    }
}

/// The scan of one page through the records of its list.
///
/// It does not depend on the type of the items, so that it is compiled once.
pub(crate) struct PageScan<'l> {
    listing: &'l Listing,
    items_max: usize,
    /// Range of the records that have not been scanned; `None` once the page is complete.
    rest: Option<KeyRange>,
    /// Number of records to scan next.
    batch: usize,
    looked_at: usize,
    /// Last scanned key, if no record follows it.
    last: Option<Key>,
    next_cursor: Option<Cursor>,
}

impl<'l> PageScan<'l> {
    pub(crate) fn begin(listing: &'l Listing, request: &PageRequest) -> Result<Self, Error> {
        let items_max = request.items_max()?;
        Ok(Self {
            listing,
            items_max,
            rest: Some(listing.rest(request.cursor.as_ref())?),
            batch: items_max,
            looked_at: 0,
            last: None,
            next_cursor: None,
        })
    }

    /// Returns the next records; `None` at the end of the page.
    pub(crate) async fn next(
        &mut self,
        transaction: &mut Transaction,
    ) -> Result<Option<Arc<[KeyEntry]>>, Error> {
        let Some(rest) = self.rest.take() else {
            return Ok(None);
        };
        // One record more than is scanned shows if others follow.
        let limit = self.batch + 1;
        let read = RangeRead {
            range: rest,
            limit,
            direction: self.listing.direction,
        };
        let mut found = transaction.scan(&read).await?;
        let has_more = found.len() == limit;
        found.truncate(self.batch);
        self.looked_at += found.len();
        self.batch = (self.batch * 2).min(BATCH_MAX);
        self.last = None;
        self.next_cursor = None;
        match found.last() {
            Some(last) if has_more => {
                let cursor = self.listing.cursor(&last.key)?;
                if self.looked_at < PAGE_RECORDS_MAX {
                    self.rest = Some(self.listing.rest(Some(&cursor))?);
                }
                self.next_cursor = Some(cursor);
            }
            last => self.last = last.map(|last| last.key.clone()),
        }
        Ok(Some(found.into()))
    }

    /// Ends the page at `key` and returns true, if it has enough items.
    pub(crate) fn is_full(&mut self, key: &Key, items: usize) -> Result<bool, Error> {
        if items < self.items_max || self.last.as_ref() == Some(key) {
            return Ok(false);
        }
        self.rest = None;
        self.next_cursor = Some(self.listing.cursor(key)?);
        Ok(true)
    }

    pub(crate) fn end<T>(self, data: Vec<T>) -> Page<T> {
        Page {
            data,
            next_cursor: self.next_cursor,
        }
    }
}
