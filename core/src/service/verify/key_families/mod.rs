//! Expectations of entries, by key family.
//!
//! The declaration of a family says what its value is, which fields repeat parts of the key, which
//! entries exist with it and what counts it. The rest is checked by a function of one of the
//! modules here: it counts what is counted, and returns further expectations.

mod deliveries;
mod memories;
mod operations;
mod readers;
mod tenants;
mod workspaces;

use std::fmt::Display;

use serde::de::DeserializeOwned;
use uuid::Uuid;

pub(super) use self::operations::AuditPosition;
use self::readers::READERS;
use super::expectation::Expectation;
use super::{DifferenceCode, Verifier};
use crate::keys::{self, Part};
use crate::model::{MemberId, OrgId};
use crate::service::secrets::sealing::SealedRecord;
use crate::store::{KeyEntry, decode_value};

/// A problem of an entry by itself.
pub(super) struct Problem {
    pub(super) code: DifferenceCode,
    pub(super) expected: String,
    pub(super) found: String,
}

impl Problem {
    fn new(code: DifferenceCode, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            code,
            expected: expected.into(),
            found: found.into(),
        }
    }

    fn unreadable(found: impl Into<String>) -> Self {
        let expected = "an entry that this program writes";
        Self::new(DifferenceCode::Unreadable, expected, found)
    }
}

type Expectations = Result<Vec<Expectation>, Problem>;
type ReadFamily = fn(&mut Verifier, &KeyEntry, Parts<'_>) -> Expectations;

/// Returns the expectations of an entry, and counts it in the verifier.
pub(super) fn expectations_of(verifier: &mut Verifier, entry: &KeyEntry) -> Expectations {
    let text = std::str::from_utf8(entry.key.as_bytes());
    let text = text.map_err(|_| Problem::unreadable("a key that is not UTF-8"))?;
    let (name, parts) = match text.split_once('/') {
        Some((name, parts)) => (name, parts.split('/').collect()),
        None => (text, Vec::new()),
    };
    let mut families = keys::FAMILIES.iter().zip(READERS);
    let Some((family, read)) = families.find(|(family, _)| family.name == name) else {
        let expected = "a key family that this program knows";
        let code = DifferenceCode::UnknownFamily;
        return Err(Problem::new(code, expected, format!("{name:?}")));
    };
    if parts.len() != family.parts.len() {
        let (found, expected) = (1 + parts.len(), 1 + family.parts.len());
        let found = format!("a key of {found} parts instead of {expected}");
        return Err(Problem::unreadable(found));
    }
    read(verifier, entry, Parts(parts.into_iter()))
}

/// Parts of a key after the name of its family.
struct Parts<'k>(std::vec::IntoIter<&'k str>);

impl<'k> Parts<'k> {
    /// Parses the next part.
    fn next<T: Part<'k>>(&mut self) -> Result<T, Problem> {
        let part = self.0.next().unwrap_or_default();
        let found = || Problem::unreadable(format!("{part:?} instead of {}", T::EXPECTED));
        T::parse(part).ok_or_else(found)
    }
}

/// Checks that a field of the value repeats the part of the key.
fn agree<T: PartialEq + Display>(part: &T, field: &T) -> Result<(), Problem> {
    if part == field {
        return Ok(());
    }
    let expected = format!("{part}, as in the key");
    let code = DifferenceCode::Mismatch;
    Err(Problem::new(code, expected, field.to_string()))
}

fn value<T: DeserializeOwned>(entry: &KeyEntry) -> Result<T, Problem> {
    decode_value(entry).map_err(|error| Problem::unreadable(error.to_string()))
}

/// Expects a member or a former one.
///
/// The audit log keeps referring to a removed member, and other records do until they are purged.
fn present_or_former(org: OrgId, member: MemberId) -> Expectation {
    Expectation::EitherExists(keys::member(org, member), keys::former_member(org, member))
}

impl Verifier {
    /// Opens the secrets of a record for its owner, if there are sealing keys.
    ///
    /// The secret before the last rotation is included, because it still signs for a while.
    fn open<T>(&mut self, stored: &SealedRecord<T>, owner: Uuid) -> Result<(), Problem> {
        let Some(opened) = &mut self.found.secrets else {
            return Ok(());
        };
        for secret in stored.secrets() {
            if !self
                .sealers
                .iter()
                .any(|sealer| sealer.open(secret, owner).is_ok())
            {
                let (code, expected) = (
                    DifferenceCode::Sealed,
                    "a secret that the sealing key opens",
                );
                return Err(Problem::new(
                    code,
                    expected,
                    "a secret that it does not open",
                ));
            }
            *opened += 1;
        }
        Ok(())
    }
}
