//! Entity tags and conditional changes.

use serde::Serialize;

use crate::digest::etag;
use crate::error::Error;
use crate::service::operation::idempotency::fingerprint;

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
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// use knowledge_core::Error;
/// use knowledge_core::model::MemoryUpdate;
/// use knowledge_core::service::IfMatch;
///
/// // Two editors read the same version of a memory; the second one must not overwrite the first.
/// let read = service.memories().get(&owner, memories[0]).await?;
/// let if_match = IfMatch::Tags(vec![read.etag]);
/// let first = MemoryUpdate::builder().title("Restart").build();
/// service.memories().update(&owner, memories[0], &first, Some(&if_match)).await?;
/// let second = MemoryUpdate::builder().title("Recovery").build();
/// let rejected = service.memories().update(&owner, memories[0], &second, Some(&if_match)).await;
/// assert!(matches!(rejected, Err(Error::PreconditionFailed)));
/// # Ok(())
/// # }
/// ```
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
