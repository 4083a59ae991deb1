#![doc = include_str!("../README.md")]
// On docs.rs, each item names the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod commit;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod env;
mod error;
mod ext;
#[cfg(feature = "conformance")]
pub mod faults;
mod key;
mod marks;
mod memory;
mod read;
mod read_set;
mod records;
#[cfg(feature = "system")]
mod system;
mod target;
mod time;
mod transact;
mod transaction;

use std::num::NonZeroU64;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use self::commit::{
    COMMIT_BYTES_MAX, COMMIT_MUTATIONS_MAX, Check, Commit, CommitBuilder, CommitOutcome,
    InvalidCommit, Mutation, VALUE_BYTES_MAX,
};
pub use self::error::{StoreError, StoreErrorKind};
pub use self::ext::{StoreExt, Versioned, decode, decode_alike, decode_value};
pub use self::key::{InvalidKey, KEY_BYTES_MAX, Key, KeyRange};
pub use self::marks::{Mark, Marks};
pub use self::memory::MemoryStore;
pub use self::read::{Direction, Found, Read};
pub use self::read_set::RangeRead;
pub use self::records::read_json;
pub use self::target::{BoxFuture, MaybeSend, MaybeSendSync};
pub use self::time::{InvalidTimestamp, Timestamp};
pub use self::transact::{RETRIES_MAX, transact};
pub use self::transaction::{
    FromEntry, Prefetched, Prepared, Transaction, TransactionError, Unchecked, encode,
};

/// Version of an entry; every put, delete and add of its key changes it.
///
/// A version is never reused for a key, neither after a delete nor after a reopen.
///
/// A backend usually numbers its commits and gives every entry the number of the commit that wrote
/// it. Callers compare versions for equality only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(NonZeroU64);

impl Version {
    /// First version that a new store assigns.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Creates a version from its number; `None` for zero, which no entry has.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Returns the number of this version.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the version after this one.
    ///
    /// # Panics
    /// If the version is 2^64 - 1.
    #[must_use]
    pub fn next(self) -> Self {
        Self(
            self.0
                .checked_add(1)
                .expect("a store commits less than 2^64 times"),
        )
    }
}

/// Value stored under a key, with the version that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Bytes as they were put; for a counter its decimal digits, see [`Mutation::Add`].
    pub value: Bytes,
    /// Version, which every write of the key changes.
    pub version: Version,
}

/// Entry found in a range, with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// Key of the entry.
    pub key: Key,
    /// Value and version.
    pub entry: Entry,
}

/// Ordered, versioned, transactional byte store: the whole interface of a backend.
///
/// # Promises of a backend
/// - **Order.** Keys are ordered byte by byte.
/// - **Consistent reads.** All reads of one [`Store::read`], keys and ranges alike, see the store at
///   a single point in time.
/// - **Atomicity.** The mutations of a commit become visible together or not at all.
/// - **Durability.** When `commit` returns [`CommitOutcome::Committed`], the change survives a crash
///   of the process and a loss of power; no reader sees it earlier.
/// - **Versions.** See [`Version`].
/// - **Fail-stop.** A store that writes to its own files rejects every call as
///   [`StoreErrorKind::Unavailable`] after a failed write or sync, until it is reopened. A client of
///   a database server leaves this to the server: it connects again after a lost connection, and
///   until then rejects every call in the same way.
/// - **Limits.** Everything that [`Key`] and [`Commit`] can hold is accepted. Both check their limits
///   when they are built, so that a backend never receives anything larger.
///
/// There are no range checks. A decision over a range, such as a limit or uniqueness, checks a
/// guard key that every insertion into that range and every removal from it changes.
///
/// The conformance suite (feature `conformance`) tries to break each promise; a backend is complete
/// when it passes.
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
pub trait Store: MaybeSendSync + 'static {
    /// Performs all of `reads` at one point in time.
    ///
    /// Returns one [`Found`] per [`Read`], of the same variant and in the same order. Two calls are
    /// two points in time. Any mixture is allowed, including none at all.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if the store cannot read, [`StoreErrorKind::Corrupt`] if stored
    /// data is damaged.
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError>;

    /// Applies all mutations of `commit` if every check holds, and none otherwise.
    ///
    /// Returns once the change is durable. A failed check is an outcome, not an error.
    ///
    /// # Errors
    /// Every error except [`StoreErrorKind::Unknown`] guarantees that nothing was applied.
    /// `Unknown` means that the outcome is indeterminate: the commit may be applied, now or a
    /// little later, as a whole. The caller never repeats it blindly, but reads to find out.
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError>;

    /// Returns the mark of an area: of all keys with the same [`Key::area`]. It costs less than a
    /// read.
    ///
    /// If two calls return the same mark, nothing in the area changed between them: a read of its
    /// keys or of ranges within it that began after the first call still tells what is stored.
    /// A commit that changes an area gives it another mark before it returns.
    ///
    /// `None` promises nothing: the area is changing, the store is closed, or it keeps no marks.
    /// Only a backend that is the only writer of its data can keep them, with [`Marks`]. A store
    /// that wraps another one passes its marks on: without them, the service keeps no results.
    fn mark(&self, area: &[u8]) -> Option<Mark> {
        let _ = area;
        None
    }
}
