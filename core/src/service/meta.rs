//! The record about the store as a whole: who can serve it.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::format::{SCHEMA, UNFINISHED_SCHEMA};
use crate::keys;
use crate::service::OpenError;
use crate::store::{Entry, Store, StoreExt, Transaction, read_json};

/// The field of [`Meta`] that every schema has.
#[derive(Deserialize)]
pub(super) struct Schema {
    pub(super) schema: u32,
}

/// The only record about the store as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) schema: u32,
    /// Fingerprint of the sealing key, or those of two keys, see [`rekey`](super::rekey).
    pub(super) sealing_key: String,
}

/// Reads `meta`, unless a program of another schema or an unfinished restore wrote it.
pub(super) async fn known_meta(transaction: &mut Transaction) -> Result<Option<Meta>, OpenError> {
    // Only the number at first: the other fields of another schema are unknown.
    let schema = transaction.get::<Schema>(&keys::meta()).await?;
    match schema {
        Some(Schema { schema }) if schema == UNFINISHED_SCHEMA => Err(OpenError::Unfinished),
        Some(Schema { schema: found }) if found > SCHEMA => Err(OpenError::LaterSchema { found }),
        Some(Schema { schema: found }) if found < SCHEMA => Err(OpenError::EarlierSchema { found }),
        _ => Ok(transaction.get(&keys::meta()).await?),
    }
}

impl Meta {
    /// Checks that the store still has this record, which another process may have replaced.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub(super) async fn require_unchanged(&self, store: &dyn Store) -> Result<(), Error> {
        self.require_same(store.get(&[keys::meta()]).await?.pop().flatten())
    }

    /// Checks that this record is the one found in the store.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub(super) fn require_same(&self, found: Option<Entry>) -> Result<(), Error> {
        let Some(found) = found else {
            return Err(Error::unavailable("the store has been emptied"));
        };
        // The other fields of another schema are unknown.
        let schema = read_json::<Schema>(&found.value).map(|found| found.schema);
        if !schema.is_ok_and(|schema| schema == SCHEMA) {
            return Err(Error::unavailable("the store has another schema by now"));
        }
        match read_json::<Self>(&found.value) {
            Ok(found) if found == *self => Ok(()),
            _ => Err(Error::unavailable(
                "the store has another sealing key by now",
            )),
        }
    }
}
