//! The storage trait and what stands on it.
//!
//! A backend implements [`Store`]: three methods over ordered byte keys. Everything else is in core:
//! typed reads and optimistic transactions ([`StoreExt`], [`Transaction`]), the key layout ([`keys`]) and the
//! conformance suite (`conformance`, with the feature `testing`) that a new backend has to pass.

mod commit;
mod error;
mod ext;
mod key;
pub mod keys;
mod memory;
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
pub use self::ext::{StoreExt, Versioned};
pub(crate) use self::ext::{decode, decode_value};
pub use self::key::{InvalidKey, KEY_BYTES_MAX, Key, KeyRange};
pub use self::memory::MemoryStore;
pub use self::transact::{RETRIES_MAX, transact};
pub use self::transaction::{Decided, Transaction, TransactionError};

/// `Send` on every target that has threads; nothing on wasm32, where JavaScript objects cannot leave their thread.
#[cfg(not(target_arch = "wasm32"))]
pub trait MaybeSend: Send {}
#[cfg(not(target_arch = "wasm32"))]
impl<T: Send + ?Sized> MaybeSend for T {}
/// `Send` on every target that has threads; nothing on wasm32, where JavaScript objects cannot leave their thread.
#[cfg(target_arch = "wasm32")]
pub trait MaybeSend {}
#[cfg(target_arch = "wasm32")]
impl<T: ?Sized> MaybeSend for T {}

/// `Send + Sync` on every target that has threads; nothing on wasm32.
#[cfg(not(target_arch = "wasm32"))]
pub trait MaybeSendSync: Send + Sync {}
#[cfg(not(target_arch = "wasm32"))]
impl<T: Send + Sync + ?Sized> MaybeSendSync for T {}
/// `Send + Sync` on every target that has threads; nothing on wasm32.
#[cfg(target_arch = "wasm32")]
pub trait MaybeSendSync {}
#[cfg(target_arch = "wasm32")]
impl<T: ?Sized> MaybeSendSync for T {}

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

/// An entry found by [`Store::scan`], with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// Where the entry stands.
    pub key: Key,
    /// What stands there.
    pub entry: Entry,
}

/// The order in which [`Store::scan`] walks a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the first key to the last, by byte order.
    Forward,
    /// From the last key to the first.
    Reverse,
}

/// An ordered, versioned, transactional byte store: all that a backend has to be.
///
/// # What a backend promises
/// - **Order.** Keys are ordered byte by byte.
/// - **Atomicity.** The mutations of a commit become visible together or not at all, to `get` and `scan` alike.
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
    /// Reads `keys` at one point in time: the result has one place per key, in the order asked for, `None` where
    /// nothing stands. A key may be asked for more than once.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] where the store cannot answer, [`StoreErrorKind::Corrupt`] where what it
    /// finds is not what it wrote.
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, StoreError>;

    /// Reads the first `limit` entries of `range` in the given direction, at one point in time. Fewer than `limit`
    /// come back only where the range holds no more. Two calls are two points in time.
    ///
    /// # Errors
    /// As [`Store::get`].
    async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, StoreError>;

    /// Applies all mutations of `commit` if every check holds, and none otherwise. Returns once the change is
    /// durable. A failed check is an outcome, not an error.
    ///
    /// # Errors
    /// Every error but [`StoreErrorKind::Unknown`] says that nothing was applied. `Unknown` says that the answer
    /// was lost: the commit may be applied, now or a little later, as a whole. It is never blindly repeated but
    /// resolved by reading.
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError>;
}
