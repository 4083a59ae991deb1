//! The records and the wire types.

mod time;

pub use self::time::{InvalidTimestamp, Timestamp};
