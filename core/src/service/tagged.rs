//! Things with their versions, and changes that are conditional on one.

use serde::Serialize;

use super::idempotency::fingerprint;
use crate::digest::etag;
use crate::error::Error;

/// Something with the version it was read at or written with, as its entity tag (RFC 9110, 8.8.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged<T> {
    /// The thing.
    pub value: T,
    /// Its entity tag, quotes and `W/` included.
    pub etag: String,
}

impl<T: Serialize> Tagged<T> {
    /// With a strong entity tag: it follows from everything that is shown.
    pub(crate) fn strong(value: T) -> Self {
        Self {
            etag: etag(fingerprint(&value)),
            value,
        }
    }
}

/// What a change is conditional on: the entity tag of the version that its caller knows (RFC 9110, 13.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// `*`: any version.
    Any,
    /// One of these entity tags, quotes included.
    Tags(Vec<String>),
}

impl IfMatch {
    /// Refuses a change of something that is at another version than its caller knows.
    ///
    /// # Errors
    /// [`Error::PreconditionFailed`].
    pub(super) fn require<T: Serialize>(condition: Option<&Self>, found: &T) -> Result<(), Error> {
        match condition {
            Some(Self::Tags(tags)) if !tags.contains(&etag(fingerprint(found))) => {
                Err(Error::PreconditionFailed)
            }
            _ => Ok(()),
        }
    }
}
