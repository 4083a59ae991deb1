//! Paginated lists.
//!
//! A cursor names the last item of its page, or the last record that the page examined. Pages
//! therefore neither repeat nor skip records that exist throughout, even if others are added or
//! deleted between them.
//!
//! A page and its cursor depend only on the records that exist for the caller. Hidden ones take no
//! place on a page and are not counted; no cursor names one, and none shows that only hidden ones
//! follow.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::env::Env;
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, PAGE_RECORDS_MAX, PAGE_SEARCH_TIME_MAX};
use crate::model::Timestamp;
use crate::request::Problems;
use crate::service::operation::idempotency::fingerprint;
use crate::store::{Direction, Key, KeyEntry, KeyRange, RangeRead, Transaction, decode_value};

/// Length of the list's fingerprint in a cursor, in bytes.
const LIST_BYTES: usize = 8;
/// Maximum number of records that a page reads at once.
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
    /// Key that the next page follows, without the prefix that all keys of the list share.
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
#[doc = include_str!("example.txt")]
/// use knowledge_core::model::MemoryFilter;
/// use knowledge_core::service::PageRequest;
///
/// let (mut found, filter) = (Vec::new(), MemoryFilter::default());
/// let mut request = PageRequest::builder().limit(1).build();
/// loop {
///     let page = service.memories().list(&owner, workspace, &filter, &request).await?;
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
    /// A page has fewer than requested only at the end of the list, or if the filter excludes so
    /// many records that the page ends before it is full. It is empty only at the end of the list,
    /// or if it found no item for 15 s.
    pub data: Vec<T>,
    /// Cursor of the next page; `null` at the end of the list.
    pub next_cursor: Option<Cursor>,
}

/// A record of a list, for a caller and a filter.
#[derive(Debug)]
pub(crate) enum PageRecord<T> {
    /// Record that does not exist for the caller.
    Hidden,
    /// Record that exists for the caller, but does not match the filter.
    Excluded,
    /// Item of the list.
    Shown(T),
}

impl<T> PageRecord<T> {
    /// Returns the item, or a hidden record for `None`.
    pub(crate) fn visible(item: Option<T>) -> Self {
        item.map_or(Self::Hidden, Self::Shown)
    }

    /// Returns the item, or an excluded record if the filter does not match.
    pub(crate) fn matching(item: T, matches: bool) -> Self {
        if matches {
            Self::Shown(item)
        } else {
            Self::Excluded
        }
    }

    /// Converts the item.
    pub(crate) fn map<U>(self, convert: impl FnOnce(T) -> U) -> PageRecord<U> {
        match self {
            Self::Hidden => PageRecord::Hidden,
            Self::Excluded => PageRecord::Excluded,
            Self::Shown(item) => PageRecord::Shown(convert(item)),
        }
    }
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
        Ok(self.following(&last))
    }

    fn following(&self, last: &Key) -> KeyRange {
        match self.direction {
            Direction::Forward => self.range.after(last),
            Direction::Reverse => self.range.before(last),
        }
    }

    /// Returns the first read of a page, to be prefetched; `None` if the request is invalid.
    ///
    /// It is for one record more than the page has items, to find out if another item follows.
    pub(crate) fn first_read(&self, request: &PageRequest) -> Option<RangeRead> {
        let limit = request.items_max().ok()? + 1;
        Some(RangeRead {
            range: self.rest(request.cursor.as_ref()).ok()?,
            limit,
            direction: self.direction,
        })
    }

    /// Returns the identifiers of the first records of a page, if they were prefetched.
    pub(crate) fn first_ids(&self, request: &PageRequest, transaction: &Transaction) -> Vec<Uuid> {
        let Some(read) = self.first_read(request) else {
            return Vec::new();
        };
        let found = transaction
            .prefetched()
            .scan(&read)
            .unwrap_or_default()
            .iter();
        found
            .filter_map(|found| keys::last_id(&found.key))
            .collect()
    }

    pub(crate) fn cursor(&self, last: &Key) -> Result<Cursor, Error> {
        let last = last.as_bytes().strip_prefix(self.range.start.as_bytes());
        let last = last.ok_or_else(|| Error::internal("a key is outside its list"))?;
        Ok(Cursor {
            list: self.list,
            last: last.to_vec(),
        })
    }

    /// Returns a page of the list. `show` decides about a record.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid limit or a cursor of another list; those of the
    /// store and of `show`.
    pub(crate) async fn page<V: DeserializeOwned, T>(
        &self,
        transaction: &mut Transaction,
        request: &PageRequest,
        mut show: impl FnMut(&Key, V) -> Result<PageRecord<T>, Error>,
    ) -> Result<Page<T>, Error> {
        let mut scan = PageScan::begin(self, request)?;
        let mut data = Vec::new();
        while let Some(found) = scan.next(transaction).await? {
            let records = found.iter();
            let records = records.map(|found| show(&found.key, decode_value(found)?));
            scan.add(&mut data, &found, records)?;
        }
        Ok(scan.end(data))
    }

    /// Returns a page of the list. `show` decides about many records at once, in their order.
    ///
    /// It may exclude many: the page has a limited time to find an item.
    // The records are passed by value. If futures borrowed from their arguments, the compiler could
    // not prove through the layers above that they are `Send`.
    pub(crate) async fn page_of<T, F>(
        &self,
        transaction: &mut Transaction,
        request: &PageRequest,
        env: &Env,
        mut show: impl FnMut(Arc<[KeyEntry]>) -> F,
    ) -> Result<Page<T>, Error>
    where
        F: Future<Output = Result<Vec<PageRecord<T>>, Error>>,
    {
        let mut scan = PageScan::begin(self, request)?.searching(env);
        let mut data = Vec::new();
        while let Some(found) = scan.next(transaction).await? {
            let records = show(Arc::clone(&found)).await?;
            scan.add(&mut data, &found, records.into_iter().map(Ok))?;
        }
        Ok(scan.end(data))
    }
}

/// The time that a page has to find its first item.
///
/// A clock that jumps makes it longer or shorter. Where the page ends does not change what the list
/// returns.
#[derive(Clone, Copy)]
pub(crate) struct SearchTime<'e> {
    env: &'e Env,
    until: Timestamp,
}

impl<'e> SearchTime<'e> {
    /// Begins the search.
    pub(crate) fn begin(env: &'e Env) -> Self {
        Self {
            env,
            until: env.now().plus(PAGE_SEARCH_TIME_MAX),
        }
    }

    /// Returns true once the time is used up.
    pub(crate) fn is_over(self) -> bool {
        self.env.now() >= self.until
    }
}

/// The scan of one page through the records of its list.
///
/// Its decisions do not depend on the type of the items, so that they are compiled once.
pub(crate) struct PageScan<'l> {
    listing: &'l Listing,
    items_max: usize,
    /// Range of the records that have not been read; `None` at the end of the list or the page.
    rest: Option<KeyRange>,
    /// Number of records to read next.
    batch: usize,
    /// Number of records examined that exist for the caller.
    examined: usize,
    /// Time to find an item, if a filter may exclude many records.
    search: Option<SearchTime<'l>>,
    /// True once this time is used up.
    is_late: bool,
    /// Number of items.
    items: usize,
    /// Last item of a full page; before, the last record examined that exists for the caller.
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
            batch: items_max + 1,
            examined: 0,
            search: None,
            is_late: false,
            items: 0,
            last: None,
            next_cursor: None,
        })
    }

    /// Limits the time to find an item, for a list with a filter.
    pub(crate) fn searching(mut self, env: &'l Env) -> Self {
        self.search = Some(SearchTime::begin(env));
        self
    }

    /// Returns the next records; `None` at the end of the page.
    pub(crate) async fn next(
        &mut self,
        transaction: &mut Transaction,
    ) -> Result<Option<Arc<[KeyEntry]>>, Error> {
        let Some(range) = self.rest.take() else {
            return Ok(None);
        };
        let read = RangeRead {
            range,
            limit: self.batch,
            direction: self.listing.direction,
        };
        let found = transaction.scan(&read).await?;
        if self.examined >= PAGE_RECORDS_MAX {
            self.is_late = self.search.is_some_and(SearchTime::is_over);
        }
        let last = found.last().filter(|_| found.len() == self.batch);
        self.rest = last.map(|last| self.listing.following(&last.key));
        self.batch = (self.batch * 2).min(BATCH_MAX);
        Ok(Some(found.into()))
    }

    /// Adds the items of the records that were read to the page, until it ends.
    pub(crate) fn add<T>(
        &mut self,
        data: &mut Vec<T>,
        found: &[KeyEntry],
        records: impl IntoIterator<Item = Result<PageRecord<T>, Error>>,
    ) -> Result<(), Error> {
        for (found, record) in found.iter().zip(records) {
            let item = match record? {
                PageRecord::Hidden => continue,
                PageRecord::Excluded => None,
                PageRecord::Shown(item) => Some(item),
            };
            if !self.examine(&found.key, item.is_some())? {
                break;
            }
            data.extend(item);
        }
        Ok(())
    }

    /// Counts a record that exists for the caller. Returns false if the page ends before it.
    fn examine(&mut self, key: &Key, is_item: bool) -> Result<bool, Error> {
        let is_full = self.items == self.items_max;
        let is_long = self.examined >= PAGE_RECORDS_MAX && (self.items > 0 || self.is_late);
        if is_full && is_item || is_long {
            let last = self.last.as_ref();
            self.next_cursor = last.map(|last| self.listing.cursor(last)).transpose()?;
            self.rest = None;
            return Ok(false);
        }
        self.examined += 1;
        self.items += usize::from(is_item);
        if !is_full {
            self.last = Some(key.clone());
        }
        Ok(true)
    }

    pub(crate) fn end<T>(self, data: Vec<T>) -> Page<T> {
        Page {
            data,
            next_cursor: self.next_cursor,
        }
    }
}

#[cfg(test)]
mod tests;
