//! Retention of what a workspace keeps, and whether searches register recalls there.
//!
//! Chats that have expired count as absent from that moment on. Maintenance erases them, led by one
//! scheduled task per workspace, which is due no later than the first chat expires: the index of
//! the chats by their newest message then begins with those to erase.
//!
//! Memories expire by their sensitivity, which their labels have, and by the time of their last
//! change, which their content has. Recalls expire by their age, unless they have a subscription. A
//! daily sweep of the workspace deletes those that have expired; until then they remain. Recalls
//! expire in every workspace, so that the registration of the first one plans the sweep.

mod expired;
mod new_retention;
mod operations;
mod provisioning;
mod retention_state;
mod stored_retention;

pub use self::new_retention::{MemoryDays, NewRetention, Retention};
pub(crate) use self::retention_state::{RetentionState, RetentionSweep};
pub(crate) use self::stored_retention::StoredRetention;
