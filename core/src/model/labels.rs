//! Labels that govern access to a memory: sensitivity, audience, review status.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::names::string_enum;

string_enum! {
    /// Sensitivity of a memory, in ascending order.
    #[derive(Default)]
    SensitivityLabel {
        /// Readable for everybody.
        Public = "public",
        /// Readable for everybody in the organisation; the default of new memories.
        #[default]
        Internal = "internal",
        /// Readable with the action `memory:read_confidential`.
        Confidential = "confidential",
        /// Readable with the action `memory:read_restricted`.
        Restricted = "restricted",
    }
}

string_enum! {
    /// Review status of a memory. The review backlog is the number of pending ones.
    ReviewStatus {
        /// Not reviewed yet.
        Pending = "pending",
        /// Accepted.
        Approved = "approved",
        /// Rejected.
        Rejected = "rejected",
    }
}

string_enum! {
    /// Kind of audience that a label names.
    AudienceScope {
        /// The organisation, by its slug.
        Org = "org",
        /// A workspace, by its slug.
        Workspace = "workspace",
        /// A team, by its name.
        Team = "team",
        /// A member, by its handle.
        User = "user",
    }
}

/// Maximum length of the name in an audience label, in characters.
pub const AUDIENCE_NAME_CHARS_MAX: usize = 64;

/// Audience of a memory: `<scope>:<name>`, for example `team:platform`.
///
/// Names belong to one organisation and never match in another. Clones share the name: in a bulk
/// update of 1,000 memories, decoding labels and building the result take a third of the instructions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AudienceLabel {
    scope: AudienceScope,
    name: Arc<str>,
}

/// Error of a text that is not an audience label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be <scope>:<name>, the scope one of org, workspace, team, user, \
     the name 1 to 64 characters of a-z 0-9 - _ ."
)]
pub struct InvalidAudienceLabel;

/// Returns true for a character that no name has: a control character, or one that changes the
/// order of others or breaks the line, with which a name could be shown as another one.
#[must_use]
pub fn is_control_character(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Returns true for a name that shows nothing: it has only white space, and characters that are
/// invisible or blank by themselves (Default_Ignorable_Code_Point of Unicode, and U+2800).
#[must_use]
pub fn is_blank_name(name: &str) -> bool {
    let is_invisible = |char: char| {
        matches!(
            char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        )
    };
    name.chars()
        .all(|char| char.is_whitespace() || is_invisible(char))
}

/// Returns true if `name` is valid in an audience label, and so as a slug, handle or team.
///
/// It has 1 to [`AUDIENCE_NAME_CHARS_MAX`] characters of `a-z 0-9 - _ .`.
#[must_use]
pub fn is_label_name(name: &str) -> bool {
    (1..=AUDIENCE_NAME_CHARS_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'))
}

impl AudienceLabel {
    /// Creates a label from its parts.
    ///
    /// # Errors
    /// [`InvalidAudienceLabel`] if `name` does not satisfy [`is_label_name`].
    pub fn new(scope: AudienceScope, name: &str) -> Result<Self, InvalidAudienceLabel> {
        is_label_name(name)
            .then(|| Self {
                scope,
                name: name.into(),
            })
            .ok_or(InvalidAudienceLabel)
    }

    /// Returns the kind of audience.
    #[must_use]
    pub fn scope(&self) -> AudienceScope {
        self.scope
    }

    /// Returns the name after the colon.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for AudienceLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scope, self.name)
    }
}

impl FromStr for AudienceLabel {
    type Err = InvalidAudienceLabel;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scope, name) = text.split_once(':').ok_or(InvalidAudienceLabel)?;
        Self::new(scope.parse().map_err(|_| InvalidAudienceLabel)?, name)
    }
}

impl Serialize for AudienceLabel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AudienceLabel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensitivity_labels_are_ordered() {
        assert!(SensitivityLabel::ALL.is_sorted());
        assert_eq!(SensitivityLabel::default(), SensitivityLabel::Internal);
    }

    #[test]
    fn audience_label_requires_known_scope_and_plain_name() {
        for good in [
            "org:acme",
            "team:platform-2",
            "user:a.b_c",
            &format!("workspace:{}", "x".repeat(64)),
        ] {
            assert_eq!(good.parse::<AudienceLabel>().unwrap().to_string(), *good);
        }
        let long = format!("org:{}", "x".repeat(65));
        for bad in [
            "", "acme", "org:", ":acme", "group:a", "org:Acme", "org:a b", "org:a:b", "org:ä",
            &long,
        ] {
            assert_eq!(
                bad.parse::<AudienceLabel>(),
                Err(InvalidAudienceLabel),
                "{bad}"
            );
        }
    }
}
