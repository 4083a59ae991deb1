//! Parts of keys.

use std::fmt::{Display, Write};

use uuid::Uuid;

use crate::access::{RoleRef, SecretHash};
use crate::digest::{hex, sha256};
use crate::model::names::Identifier;
use crate::model::{ActivityKind, Quota, ReviewStatus, Timestamp, WorkspaceId};

/// Part of a `holder` key for the whole organisation. It sorts before every identifier.
const WHOLE_ORG: &str = "-";

/// Numbers of hexadecimal digits.
const UUID_DIGITS: usize = 32;
const TIME_DIGITS: usize = 16;
const SHA256_DIGITS: usize = 64;

/// Part of a key. It has one spelling: an entry under another would never be found.
pub trait Part<'k>: Sized {
    /// Expected text, for the report of another one.
    const EXPECTED: &'static str;

    /// Appends the part to the text of a key.
    fn write(&self, key: &mut String);

    /// Parses the part of a key.
    fn parse(part: &'k str) -> Option<Self>;

    /// Returns an example: one that depends on the position of the part, or the other variant.
    #[cfg(test)]
    fn sample(position: u128, is_other: bool) -> Self;
}

fn append(key: &mut String, part: impl Display) {
    write!(key, "{part}").expect("writing to a String never fails");
}

fn is_hexadecimal(part: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    part.bytes().all(is_digit)
}

impl Part<'_> for Uuid {
    const EXPECTED: &'static str = "an identifier";

    fn write(&self, key: &mut String) {
        key.push_str(self.simple().encode_lower(&mut Uuid::encode_buffer()));
    }

    fn parse(part: &str) -> Option<Self> {
        (part.len() == UUID_DIGITS && is_hexadecimal(part)).then_some(())?;
        part.parse().ok()
    }

    #[cfg(test)]
    fn sample(position: u128, _: bool) -> Self {
        Self::from_u128(position)
    }
}

impl<T: Identifier> Part<'_> for T {
    const EXPECTED: &'static str = Uuid::EXPECTED;

    fn write(&self, key: &mut String) {
        self.uuid().write(key);
    }

    fn parse(part: &str) -> Option<Self> {
        Uuid::parse(part).map(Self::from)
    }

    #[cfg(test)]
    fn sample(position: u128, is_other: bool) -> Self {
        Uuid::sample(position, is_other).into()
    }
}

/// The workspace, or `-` for the whole organisation.
impl Part<'_> for Option<WorkspaceId> {
    const EXPECTED: &'static str = "a workspace or -";

    fn write(&self, key: &mut String) {
        match self {
            Some(workspace) => workspace.write(key),
            None => key.push_str(WHOLE_ORG),
        }
    }

    fn parse(part: &str) -> Option<Self> {
        match part {
            WHOLE_ORG => Some(None),
            workspace => WorkspaceId::parse(workspace).map(Some),
        }
    }

    #[cfg(test)]
    fn sample(position: u128, is_other: bool) -> Self {
        (!is_other).then(|| WorkspaceId::sample(position, is_other))
    }
}

impl Part<'_> for RoleRef {
    const EXPECTED: &'static str = "a role";

    fn write(&self, key: &mut String) {
        match self {
            Self::BuiltIn(role) => key.push_str(role.as_str()),
            Self::Custom(role) => role.write(key),
        }
    }

    fn parse(part: &str) -> Option<Self> {
        let custom = || Part::parse(part).map(Self::Custom);
        part.parse().map(Self::BuiltIn).ok().or_else(custom)
    }

    #[cfg(test)]
    fn sample(position: u128, is_other: bool) -> Self {
        if is_other {
            Self::BuiltIn(crate::access::BuiltInRole::Owner)
        } else {
            Self::Custom(Part::sample(position, is_other))
        }
    }
}

impl Part<'_> for Quota {
    const EXPECTED: &'static str = "a quota";

    fn write(&self, key: &mut String) {
        key.push_str(self.as_str());
    }

    fn parse(part: &str) -> Option<Self> {
        part.parse().ok()
    }

    #[cfg(test)]
    fn sample(_: u128, is_other: bool) -> Self {
        if is_other {
            Self::ChatMessages
        } else {
            Self::Memories
        }
    }
}

impl Part<'_> for ReviewStatus {
    const EXPECTED: &'static str = "a review status";

    fn write(&self, key: &mut String) {
        key.push_str(self.as_str());
    }

    fn parse(part: &str) -> Option<Self> {
        part.parse().ok()
    }

    #[cfg(test)]
    fn sample(_: u128, _: bool) -> Self {
        Self::Pending
    }
}

impl Part<'_> for ActivityKind {
    const EXPECTED: &'static str = "a kind of activity";

    fn write(&self, key: &mut String) {
        key.push_str(self.as_str());
    }

    fn parse(part: &str) -> Option<Self> {
        part.parse().ok()
    }

    #[cfg(test)]
    fn sample(_: u128, is_other: bool) -> Self {
        if is_other { Self::Deleted } else { Self::Added }
    }
}

/// Milliseconds since the Unix epoch. No time in a key is earlier.
impl Part<'_> for Timestamp {
    const EXPECTED: &'static str = "a time";

    fn write(&self, key: &mut String) {
        append(key, format_args!("{:016x}", self.as_millis().max(0)));
    }

    fn parse(part: &str) -> Option<Self> {
        (part.len() == TIME_DIGITS && is_hexadecimal(part)).then_some(())?;
        let millis = i64::from_str_radix(part, 16).ok()?;
        let time = Self::from_millis(millis);
        (time.as_millis() == millis).then_some(time)
    }

    #[cfg(test)]
    fn sample(_: u128, _: bool) -> Self {
        Self::from_millis(1_700_000_000_000)
    }
}

/// A text without the separator, such as a slug.
impl<'k> Part<'k> for &'k str {
    const EXPECTED: &'static str = "a text";

    fn write(&self, key: &mut String) {
        key.push_str(self);
    }

    fn parse(part: &'k str) -> Option<Self> {
        Some(part)
    }

    #[cfg(test)]
    fn sample(_: u128, _: bool) -> Self {
        "text"
    }
}

impl Part<'_> for SecretHash {
    const EXPECTED: &'static str = "a SHA-256";

    fn write(&self, key: &mut String) {
        key.push_str(&hex(self.0));
    }

    fn parse(part: &str) -> Option<Self> {
        part.parse().ok()
    }

    #[cfg(test)]
    fn sample(_: u128, _: bool) -> Self {
        Self([7; 32])
    }
}

/// SHA-256 of a text of any length, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sha256(pub String);

impl Sha256 {
    /// Returns the SHA-256 of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(sha256(text))
    }
}

impl Part<'_> for Sha256 {
    const EXPECTED: &'static str = SecretHash::EXPECTED;

    fn write(&self, key: &mut String) {
        key.push_str(&self.0);
    }

    fn parse(part: &str) -> Option<Self> {
        (part.len() == SHA256_DIGITS && is_hexadecimal(part)).then(|| Self(part.to_owned()))
    }

    #[cfg(test)]
    fn sample(_: u128, _: bool) -> Self {
        Self::of("text")
    }
}
