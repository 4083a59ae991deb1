//! Teams and roles that the groups of a person at the provider grant.

use std::fmt;
use std::str::FromStr;

use icu_normalizer::ComposingNormalizerBorrowed;
use knowledge_core::access::BuiltInRole;
use knowledge_core::model::is_label_name;

/// A team or a role that the members of a group get: `engineering = team:platform`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupGrant {
    /// Group, as the provider names it, in Unicode's normalization form C.
    pub group: String,
    /// Team or role that its members get.
    pub grant: Grant,
}

/// A team or a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Team, by its name.
    Team(String),
    /// Role in the organisation, or in the workspace with this slug.
    Role(GrantedRole, Option<String>),
}

/// A role that a group can grant: any but the owner's, which is assigned by hand only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantedRole {
    /// Built-in role.
    BuiltIn(BuiltInRole),
    /// Custom role, by its slug.
    Custom(String),
}

/// Error of a text that is not a grant or a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a group and what it grants, such as engineering = team:platform")]
pub struct InvalidGrant;

impl FromStr for GroupGrant {
    type Err = InvalidGrant;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A grant has no equals sign, but the name of a group may have some.
        let (group, grant) = text.rsplit_once('=').ok_or(InvalidGrant)?;
        let (group, grant) = (group.trim(), grant.trim().parse()?);
        if group.is_empty() {
            Err(InvalidGrant)
        } else {
            Ok(Self {
                group: normalized(group),
                grant,
            })
        }
    }
}

/// Returns the name of a group in one spelling (normalization form C of Unicode, UAX #15): providers
/// and editors differ in how they write `é`.
pub(super) fn normalized(group: &str) -> String {
    const NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();
    NFC.normalize(group).into_owned()
}

impl FromStr for Grant {
    type Err = InvalidGrant;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, name) = text.split_once(':').ok_or(InvalidGrant)?;
        match (kind, name.split_once('@')) {
            ("team", None) => Ok(Self::Team(slug(name)?)),
            ("role", None) => Ok(Self::Role(name.parse()?, None)),
            ("role", Some((role, workspace))) => {
                Ok(Self::Role(role.parse()?, Some(slug(workspace)?)))
            }
            _ => Err(InvalidGrant),
        }
    }
}

impl FromStr for GrantedRole {
    type Err = InvalidGrant;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(BuiltInRole::Owner) => Err(InvalidGrant),
            Ok(role) => Ok(Self::BuiltIn(role)),
            Err(_) => slug(text).map(Self::Custom),
        }
    }
}

fn slug(text: &str) -> Result<String, InvalidGrant> {
    is_label_name(text)
        .then(|| text.to_owned())
        .ok_or(InvalidGrant)
}

impl fmt::Display for GroupGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = ", self.group)?;
        match &self.grant {
            Grant::Team(team) => write!(f, "team:{team}"),
            Grant::Role(role, None) => write!(f, "role:{role}"),
            Grant::Role(role, Some(workspace)) => write!(f, "role:{role}@{workspace}"),
        }
    }
}

impl fmt::Display for GrantedRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(role) => role.fmt(f),
            Self::Custom(slug) => f.write_str(slug),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grant_is_written_as_it_was_read() {
        for text in [
            "engineering = team:platform",
            "Domain Users = role:member",
            "cn=admins,ou=groups = role:admin@handbook",
            "/auditors = role:auditor",
        ] {
            assert_eq!(text.parse::<GroupGrant>().unwrap().to_string(), text);
        }
        let spaced = " a=team:b ".parse::<GroupGrant>().unwrap();
        assert_eq!(spaced.to_string(), "a = team:b");
    }

    #[test]
    fn group_grants_no_ownership_and_nothing_unknown() {
        for text in [
            "",
            "engineering",
            "= team:a",
            "a = ",
            "a = platform",
            "a = team:",
            "a = team:Platform",
            "a = team:x@handbook",
            "a = role:owner",
            "a = role:owner@handbook",
            "a = role:admin@",
            "a = role:admin@b@c",
            "a = workspace:handbook",
        ] {
            assert_eq!(text.parse::<GroupGrant>(), Err(InvalidGrant), "{text}");
        }
    }
}
