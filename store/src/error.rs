//! What a store answers when it cannot do what was asked.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// What the caller has to know about a failure of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store cannot work now: closed after a failure, overloaded, not reachable. Nothing was applied.
    Unavailable,
    /// There is no room left. Nothing was applied.
    Full,
    /// What is stored is not what this program wrote. Nothing was applied.
    Corrupt,
    /// The commit cannot be applied as it stands: an `add` to a value that is no counter, or past its 64 bits.
    /// Nothing was applied.
    Invalid,
    /// The answer to a commit was lost: it may have been applied, as a whole.
    Unknown,
}

/// A failure of a [`Store`](super::Store).
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// A failure of this kind, with a message for operators.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// The same with the engine's own error as its source.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// What the caller has to know.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether it is certain that nothing was applied.
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
