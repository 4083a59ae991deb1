//! Facts about the resource that an operation creates.

use uuid::Uuid;

use crate::store::Key;

/// Facts about what an operation creates, for the record of its idempotency key.
#[derive(Default)]
pub(super) struct Created {
    pub(super) id: Option<Uuid>,
    /// JSON that a replay needs besides what is stored.
    pub(super) replay_data: Option<String>,
    /// Key of the record, once it is known that there is none.
    pub(super) record_key: Option<Key>,
}
