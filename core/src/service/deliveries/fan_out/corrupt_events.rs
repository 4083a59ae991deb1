//! Corrupt outbox entries that were already logged, so that each is logged once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::store::Key;

/// Maximum number of remembered entries. Verification reports all of them.
const REMEMBERED_MAX: usize = 1_000;

/// Keys of the outbox that this process has found to be corrupt.
#[derive(Debug, Default)]
pub(in crate::service) struct CorruptEvents(Mutex<BTreeSet<Key>>);

impl CorruptEvents {
    /// Returns true if the key has to be logged as corrupt, which is only the first time.
    pub(super) fn is_new(&self, key: &Key) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            return false;
        }
        let is_new = known.insert(key.clone());
        if is_new && known.len() == REMEMBERED_MAX {
            tracing::error!(
                "{REMEMBERED_MAX} corrupt events in the outbox; further ones are not logged"
            );
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrupt_event_is_new_once_and_remembered_up_to_a_limit() {
        let corrupt = CorruptEvents::default();
        let key = |number: usize| Key::new(format!("outbox/{number}")).unwrap();
        for number in 0..REMEMBERED_MAX {
            assert!(corrupt.is_new(&key(number)));
            assert!(!corrupt.is_new(&key(number)));
        }
        assert!(!corrupt.is_new(&key(REMEMBERED_MAX)));
        assert_eq!(corrupt.0.lock().unwrap().len(), REMEMBERED_MAX);
    }
}
