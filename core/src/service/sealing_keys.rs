//! Fingerprints of sealing keys.

use crate::keys;
use crate::service::OpenError;
use crate::service::meta::Meta;
use crate::store::{Store, StoreError, StoreExt};

/// Separates the two fingerprints in `meta`.
pub(super) const SEPARATOR: char = '>';

/// Fingerprints of the keys that seal the secrets of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealingKeys {
    /// The key of the store, or the one that is being replaced.
    pub present: String,
    /// The new key of an unfinished replacement.
    pub next: Option<String>,
}

impl SealingKeys {
    /// Returns the keys that `meta` names.
    pub(super) fn parse(stored: &str) -> Self {
        let (present, next) = match stored.split_once(SEPARATOR) {
            Some((present, next)) => (present, Some(next.to_owned())),
            None => (stored, None),
        };
        Self {
            present: present.to_owned(),
            next,
        }
    }

    /// Returns the keys of a store; `None` if no service has opened it yet.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn of(store: &dyn Store) -> Result<Option<Self>, StoreError> {
        let meta = store.get_as::<Meta>(&keys::meta()).await?;
        Ok(meta.map(|meta| Self::parse(&meta.value.sealing_key)))
    }

    /// Returns the error for a store that these keys seal, if it is opened with the key of another
    /// fingerprint.
    pub(super) fn reject(self, given: &str) -> OpenError {
        match self.next {
            Some(new) => OpenError::Rekeying {
                old: self.present,
                new,
            },
            None => OpenError::OtherSealingKey {
                given: given.to_owned(),
                stored: self.present,
            },
        }
    }
}
