//! Lists, page by page.
//!
//! A cursor names the last key that a page looked at, so that pages neither repeat nor skip what is there all along,
//! however much comes and goes between them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};

use super::idempotency::fingerprint;
use super::validate::Problems;
use crate::error::{Error, ProblemCode};
use crate::limits::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, PAGE_RECORDS_MAX};
use crate::store::{Direction, Key, KeyEntry, KeyRange, Store, StoreExt, decode_value};

/// How much of the fingerprint of its list a cursor carries, in bytes.
const LIST_BYTES: usize = 8;
/// How many records of a filtered list are read at once, at most.
const BATCH_MAX: usize = 500;
/// The longest cursor, in bytes before it is written as text.
const CURSOR_BYTES_MAX: usize = 256;

/// Where the next page of a list begins. Opaque: it is for the list that gave it, with the same filters.
#[derive(Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Tells the list, so that another one does not take the cursor.
    list: [u8; LIST_BYTES],
    /// The last key that was looked at, without the beginning that all keys of the list share.
    last: Vec<u8>,
}

/// A text that is not a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a next_cursor of this list, as it was given")]
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

/// Which page of a list is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// How many items it may have: 1 to [`PAGE_ITEMS_MAX`]; without it [`PAGE_ITEMS_DEFAULT`].
    pub limit: Option<usize>,
    /// The `next_cursor` of the page before; without it the first page.
    pub cursor: Option<Cursor>,
}

impl PageRequest {
    /// Notes what is wrong with it.
    pub(crate) fn check(&self, problems: &mut Problems) {
        if self
            .limit
            .is_some_and(|limit| !(1..=PAGE_ITEMS_MAX).contains(&limit))
        {
            let message = format!("must be a number from 1 to {PAGE_ITEMS_MAX}");
            problems.push("limit", ProblemCode::InvalidValue, message);
        }
    }

    pub(super) fn items_max(&self) -> Result<usize, Error> {
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
    /// The items. A filtered list may have fewer than asked for, also none, and go on all the same.
    pub data: Vec<T>,
    /// Where the next page begins; `null` at the end of the list.
    pub next_cursor: Option<Cursor>,
}

/// A list: its keys in their order, and what tells it from other lists.
pub(super) struct Listing {
    range: KeyRange,
    direction: Direction,
    list: [u8; LIST_BYTES],
}

impl Listing {
    /// The list of this name over the keys of a range that begin alike. `filter` is what its items were chosen by:
    /// a cursor counts for the same filter alone.
    pub(super) fn new<F: Serialize>(
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

    /// The keys from the cursor of the request on.
    pub(super) fn rest(&self, cursor: Option<&Cursor>) -> Result<KeyRange, Error> {
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

    pub(super) fn cursor(&self, last: &Key) -> Result<Cursor, Error> {
        let last = last.as_bytes().strip_prefix(self.range.start.as_bytes());
        let last = last.ok_or_else(|| Error::internal("a key outside of its list"))?;
        Ok(Cursor {
            list: self.list,
            last: last.to_vec(),
        })
    }

    /// A page of everything that stands in the range, each made of its record by `show`; `None` leaves it out.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong limit or a cursor of another list; those of the store and of `show`.
    pub(super) async fn page<V: DeserializeOwned, T>(
        &self,
        store: &Arc<dyn Store>,
        request: &PageRequest,
        mut show: impl FnMut(&Key, V) -> Result<Option<T>, Error>,
    ) -> Result<Page<T>, Error> {
        let mut walk = Walk::begin(self, store, request)?;
        let mut data = Vec::new();
        while let Some(found) = walk.next().await? {
            for found in found.iter() {
                data.extend(show(&found.key, decode_value(found)?)?);
                if walk.is_full(&found.key, data.len())? {
                    break;
                }
            }
        }
        Ok(walk.end(data))
    }

    /// The same, where `show` makes many items at once: it returns one place for each record that it is given.
    // The records are handed over rather than lent: futures that borrow from their arguments cannot be seen to be
    // `Send` through the layers above.
    pub(super) async fn page_of<T, F>(
        &self,
        store: &Arc<dyn Store>,
        request: &PageRequest,
        mut show: impl FnMut(Arc<[KeyEntry]>) -> F,
    ) -> Result<Page<T>, Error>
    where
        F: Future<Output = Result<Vec<Option<T>>, Error>>,
    {
        let mut walk = Walk::begin(self, store, request)?;
        let mut data = Vec::new();
        while let Some(found) = walk.next().await? {
            let shown = show(Arc::clone(&found)).await?;
            for (found, item) in found.iter().zip(shown) {
                data.extend(item);
                if walk.is_full(&found.key, data.len())? {
                    break;
                }
            }
        }
        Ok(walk.end(data))
    }
}

/// The way of one page through the records of its list: all of it that does not depend on what the items are, so that
/// it is compiled once.
struct Walk<'l> {
    listing: &'l Listing,
    store: &'l Arc<dyn Store>,
    items_max: usize,
    /// Where the records stand that were not looked at; `None` once the page is made.
    rest: Option<KeyRange>,
    /// How many records are looked at next.
    batch: usize,
    looked_at: usize,
    /// The last key of all, where nothing follows those that were looked at.
    last: Option<Key>,
    next_cursor: Option<Cursor>,
}

impl<'l> Walk<'l> {
    fn begin(
        listing: &'l Listing,
        store: &'l Arc<dyn Store>,
        request: &PageRequest,
    ) -> Result<Self, Error> {
        let items_max = request.items_max()?;
        Ok(Self {
            listing,
            store,
            items_max,
            rest: Some(listing.rest(request.cursor.as_ref())?),
            batch: items_max,
            looked_at: 0,
            last: None,
            next_cursor: None,
        })
    }

    /// The next records; `None` where the page ends.
    async fn next(&mut self) -> Result<Option<Arc<[KeyEntry]>>, Error> {
        let Some(rest) = self.rest.take() else {
            return Ok(None);
        };
        // One more than is looked at tells whether anything follows.
        let limit = self.batch + 1;
        let mut found = self
            .store
            .scan(&rest, limit, self.listing.direction)
            .await?;
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

    /// Whether the page ends with the record under this key, now that it has so many items.
    fn is_full(&mut self, key: &Key, items: usize) -> Result<bool, Error> {
        if items < self.items_max || self.last.as_ref() == Some(key) {
            return Ok(false);
        }
        self.rest = None;
        self.next_cursor = Some(self.listing.cursor(key)?);
        Ok(true)
    }

    fn end<T>(self, data: Vec<T>) -> Page<T> {
        Page {
            data,
            next_cursor: self.next_cursor,
        }
    }
}
