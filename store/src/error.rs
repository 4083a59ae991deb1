//! Errors of a store.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Kind of a store error, as far as callers must distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store cannot work now: closed after a failure, overloaded or unreachable. Nothing was
    /// applied.
    Unavailable,
    /// No space is left. Nothing was applied.
    Full,
    /// Stored data is damaged or not in a known format. Nothing was applied.
    Corrupt,
    /// The commit cannot be applied: it adds to a value that is not a counter, or beyond 64 bits.
    /// Nothing was applied.
    Invalid,
    /// The outcome of a commit is indeterminate: it may have been applied, as a whole.
    Unknown,
}

/// Error of a [`Store`](super::Store).
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Creates an error of this kind, with a message for operators.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Adds the error of the engine as the source.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns true if it is certain that nothing was applied.
    #[must_use]
    pub fn is_not_applied(&self) -> bool {
        self.kind != StoreErrorKind::Unknown
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_ref()
            .map(|source| &**source as &(dyn Error + 'static))
    }
}
