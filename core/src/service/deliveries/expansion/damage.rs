//! What was found damaged in the outbox, so that each is told once and not at every look.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::store::Key;

/// How many are remembered. Those beyond are not told one by one: verification names them all.
const REMEMBERED_MAX: usize = 1_000;

/// The keys in the outbox that this process has found damaged.
#[derive(Debug, Default)]
pub(in crate::service) struct Damage(Mutex<BTreeSet<Key>>);

impl Damage {
    /// Whether it is to be told that this key is damaged: the first time that it is found so.
    pub(super) fn is_new(&self, key: &Key) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            return false;
        }
        let is_new = known.insert(key.clone());
        if is_new && known.len() == REMEMBERED_MAX {
            tracing::error!(
                "{REMEMBERED_MAX} events of the outbox are damaged: no more of them are named here"
            );
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_once_and_no_more_are_remembered_than_the_most() {
        let damage = Damage::default();
        let key = |number: usize| Key::new(format!("outbox/{number}")).unwrap();
        for number in 0..REMEMBERED_MAX {
            assert!(damage.is_new(&key(number)));
            assert!(!damage.is_new(&key(number)));
        }
        assert!(!damage.is_new(&key(REMEMBERED_MAX)));
        assert_eq!(damage.0.lock().unwrap().len(), REMEMBERED_MAX);
    }
}
