//! Erasures: of named memories, of everything from a source, of everything of a member.
//!
//! The commit of the request writes the scope to the record of the organisation, which every
//! operation reads and checks. While it is stored, nothing of it exists for anybody, and nothing can
//! be added to it. Named memories are removed by that commit, everything else in steps, each of
//! which is a commit: the first ones before the response, the others by maintenance. The last one
//! removes the scope, and the receipt says that nothing is left.
//!
//! Of each source key a keyed hash is left (`erased_keys`), so that an ingest does not bring back
//! what was erased. `preview` counts what an erasure would remove.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod erased_keys;
pub(crate) mod preview;
pub(crate) mod read;
pub(crate) mod removal;
pub(crate) mod steps;
pub(crate) mod work;

pub(crate) use self::create::ERASURE_OPERATION;
pub use self::create::ErasureResult;
pub(crate) use self::work::StoredErasure;
