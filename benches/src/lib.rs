//! Fixtures of the benchmarks: stored records of a typical size, and tenants with many memories.
//!
//! `cargo bench -p knowledge-benches` measures; `cargo test -p knowledge-benches --benches` runs
//! every benchmark once as a test.

mod handbook;
mod records;
mod redb;
mod template;
mod tenant;

pub use self::handbook::{CONTENT_BYTES, add_handbook};
pub use self::records::{Record, Records};
pub use self::redb::{Redb, RedbOptions, RedbStore, RedbView};
pub use self::template::Template;
pub use self::tenant::Tenant;
