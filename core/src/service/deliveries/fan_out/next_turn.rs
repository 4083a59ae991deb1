//! Position of the fair queue between two calls.

use std::sync::{Mutex, PoisonError};

use crate::store::Key;

/// Key of the marks at which the next turn of this process begins; unknown until its first.
#[derive(Debug, Default)]
pub(in crate::service) struct NextTurn(Mutex<Option<Key>>);

impl NextTurn {
    pub(super) fn get(&self) -> Option<Key> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set(&self, start: Key) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
    }
}
