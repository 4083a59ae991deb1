//! Partitions: organisations over several stores, each a whole one.
//!
//! A partition has a service of its own, with everything that a service stores. An organisation is
//! in one partition; nothing spans two. The partition [`HOME`] is the home of every organisation
//! that was never moved, and has the [`Directory`] of those that were. Slugs are unique over all
//! partitions, because every organisation is created at home, which keeps the slug.
//!
//! A `Relocation` (feature `transfer`) moves an organisation while it is served. In the last step the writes of that
//! organisation are held: a [`HoldingStore`] rejects its commits as unavailable. A host therefore
//! opens every service of a store with partitions over a `HoldingStore`, and records the name of each
//! store as a partition ([`identity`]).

mod directory;
mod holding;
pub mod identity;
mod records;
#[cfg(feature = "transfer")]
mod relocation;

pub use self::directory::{Directory, DirectoryError};
pub use self::holding::{HoldingStore, moving};
pub(crate) use self::records::Hold;
pub use self::records::{MoveState, Placement};
#[cfg(feature = "transfer")]
pub use self::relocation::{Copied, MoveError, MoveOutcome, MoveStep, Relocation, Stores};

/// Name of the partition with the directory.
pub const HOME: &str = "home";
