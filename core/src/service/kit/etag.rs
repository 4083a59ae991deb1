//! Entity tags and conditional changes.

use serde::Serialize;

use crate::digest::etag;
use crate::error::Error;
use crate::service::kit::idempotency::fingerprint;

/// A value with the entity tag of its version (RFC 9110, 8.8.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithEtag<T> {
    /// The value.
    pub value: T,
    /// Entity tag, including quotes and `W/`.
    pub etag: String,
}

impl<T: Serialize> WithEtag<T> {
    /// Adds a strong entity tag, which is derived from the whole value.
    pub(crate) fn strong(value: T) -> Self {
        Self {
            etag: etag(fingerprint(&value)),
            value,
        }
    }
}

/// A condition of a change: the version that the caller knows (RFC 9110, 13.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// `*`: any version.
    Any,
    /// One of these entity tags, including quotes.
    Tags(Vec<String>),
}

impl IfMatch {
    /// Checks that the current version of a resource meets the condition.
    ///
    /// # Errors
    /// [`Error::PreconditionFailed`] if it does not.
    pub(crate) fn require<T: Serialize>(condition: Option<&Self>, found: &T) -> Result<(), Error> {
        match condition {
            Some(Self::Tags(tags)) if !tags.contains(&etag(fingerprint(found))) => {
                Err(Error::PreconditionFailed)
            }
            _ => Ok(()),
        }
    }
}
