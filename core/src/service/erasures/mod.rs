//! Erasures: of named memories, of everything from a source, of everything of a member.
//!
//! The commit of the request erases named memories at once, with the recalls that cite nothing
//! else. Everything else is removed in steps, each of which is a commit: the first ones before the
//! response, the others by maintenance. The receipt says when nothing is left.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod expired;
pub(crate) mod read;
pub(crate) mod removal;
pub(crate) mod steps;
pub(crate) mod work;

pub(crate) use self::create::ERASURE_OPERATION;
pub use self::create::ErasureResult;
pub(crate) use self::work::StoredErasure;
