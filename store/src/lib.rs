//! The storage trait and what stands on it.
//!
//! A backend implements [`Store`]: two methods over ordered byte keys. Everything else is in core:
//! typed reads and optimistic transactions ([`StoreExt`], [`Transaction`]), the key layout ([`keys`]) and the
//! conformance suite (`conformance`, with the feature `testing`) that a new backend has to pass.

mod commit;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod env;
mod error;
mod ext;
#[cfg(feature = "conformance")]
pub mod faults;
mod key;
mod memory;
mod read;
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
pub use self::ext::{StoreExt, Versioned, decode, decode_value};
pub use self::key::{InvalidKey, KEY_BYTES_MAX, Key, KeyRange};
pub use self::memory::MemoryStore;
pub use self::read::{Direction, Found, Read};
pub use self::target::{MaybeSend, MaybeSendSync};
pub use self::time::{InvalidTimestamp, Timestamp};
pub use self::transact::{RETRIES_MAX, transact};
pub use self::transaction::{Decided, Transaction, TransactionError};

/// The version of one entry: changed by every put, delete and add of its key, and never used twice for a key,
/// also not after a delete or over a reopen.
///
/// A backend usually numbers its commits and gives every entry the number of the commit that wrote it. Core
/// compares versions for equality alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(NonZeroU64);

impl Version {
    /// The first version that a new store gives out.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// A version from its number; `None` for zero, which no entry ever has.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number of this version.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The version after this one.
    ///
    /// # Panics
    /// After 2^64 - 1 versions.
    #[must_use]
    pub fn next(self) -> Self {
        Self(
            self.0
                .checked_add(1)
                .expect("a store commits less than 2^64 times"),
        )
    }
}

/// What stands under a key: its value and the version that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The bytes as they were put; for a counter its decimal digits, see [`Mutation::Add`].
    pub value: Bytes,
    /// Changes with every write of the key.
    pub version: Version,
}

/// An entry found in a range, with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// The key of the entry.
    pub key: Key,
    /// The entry itself.
    pub entry: Entry,
}

/// An ordered, versioned, transactional byte store: the whole interface of a backend.
///
/// # Promises of a backend
/// - **Order.** Keys are ordered byte by byte.
/// - **One moment.** All reads of one [`Store::read`] see the store at one point in time, keys and ranges alike.
/// - **Atomicity.** The mutations of a commit become visible together or not at all.
/// - **Durability.** When `commit` returns [`CommitOutcome::Committed`], the change survives a crash of the process
///   and a loss of power; before that no reader sees it.
/// - **Versions.** See [`Version`].
/// - **Fail stop.** After a write or a sync has failed, the store refuses every call with
///   [`StoreErrorKind::Unavailable`] until it is opened again.
/// - **Limits.** Whatever [`Key`] and [`Commit`] can hold is accepted; both are checked where they are built, so a
///   backend meets nothing larger.
///
/// There are no range checks. A decision over a range (a limit, "has no holders") checks a guard key that every
/// insert into that range and every removal from it changes.
///
/// The conformance suite (feature `testing`) tries to break each promise; a backend is done when it passes.
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
pub trait Store: MaybeSendSync + 'static {
    /// Answers all of `reads` as of one point in time: one [`Found`] per [`Read`], of the same variant and in the same
    /// order. Two calls are two points in time. Any mixture is allowed, none at all too.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if the store cannot answer, [`StoreErrorKind::Corrupt`] if stored data is
    /// damaged.
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError>;

    /// Applies all mutations of `commit` if every check holds, and none otherwise. Returns once the change is
    /// durable. A failed check is an outcome, not an error.
    ///
    /// # Errors
    /// Every error but [`StoreErrorKind::Unknown`] says that nothing was applied. `Unknown` says that the answer
    /// was lost: the commit may be applied, now or a little later, as a whole. It is never blindly repeated but
    /// resolved by reading.
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError>;
}
