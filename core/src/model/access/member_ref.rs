//! References to members.

use std::fmt;
use std::str::FromStr;

use crate::model::{MemberId, is_label_name};

/// A reference to a member of the caller's organisation: its identifier, or its handle in the form
/// of an audience label.
///
/// ```
/// # use knowledge_core::access::MemberRef;
/// let maya: MemberRef = "user:maya".parse()?;
/// assert_eq!(maya, MemberRef::Handle("maya".to_owned()));
/// assert_eq!(maya.to_string(), "user:maya");
/// # Ok::<(), knowledge_core::access::InvalidMemberRef>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberRef {
    /// The member with this identifier.
    Id(MemberId),
    /// The member with this handle.
    Handle(String),
}

/// Error of a text that is no reference to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be user:<handle> or the UUID of a member")]
pub struct InvalidMemberRef;

impl fmt::Display for MemberRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Handle(handle) => write!(f, "user:{handle}"),
        }
    }
}

impl FromStr for MemberRef {
    type Err = InvalidMemberRef;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("user:") {
            Some(handle) if is_label_name(handle) => Ok(Self::Handle(handle.to_owned())),
            Some(_) => Err(InvalidMemberRef),
            None => text.parse().map(Self::Id).map_err(|_| InvalidMemberRef),
        }
    }
}

impl From<MemberId> for MemberRef {
    fn from(id: MemberId) -> Self {
        Self::Id(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_ref_round_trips_as_text() {
        let id = MemberId(uuid::Uuid::from_u128(7));
        for member in [MemberRef::Id(id), MemberRef::Handle("maya".to_owned())] {
            assert_eq!(member.to_string().parse(), Ok(member));
        }
    }

    #[test]
    fn member_ref_parser_rejects_other_text() {
        for text in ["", "maya", "user:", "user:Maya", "team:a", "user:a b", "7"] {
            assert_eq!(text.parse::<MemberRef>(), Err(InvalidMemberRef), "{text}");
        }
    }
}
