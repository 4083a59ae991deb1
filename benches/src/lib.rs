//! What the benchmarks measure with: stored records of a typical size, and the choice among them.
//!
//! `cargo bench -p knowledge-benches` measures; `cargo test -p knowledge-benches --benches` runs every benchmark once,
//! for its assertions.

mod records;
mod tenant;

pub use self::records::{Record, Records};
pub use self::tenant::Tenant;
