//! Expectations of entries, by key family.
//!
//! The declaration of a family says what its value is, which fields repeat parts of the key, which
//! entries exist with it and what counts it. The rest is checked by a function of one of the
//! modules here: it counts what is counted, and returns further expectations.

mod deliveries;
mod memories;
mod operations;
mod parts;
mod readers;
mod tenants;
mod workspaces;

use self::parts::Parts;
use self::readers::READERS;
use super::difference::DifferenceCode;
use super::expectation::ExpectationFrom;
use super::problem::{Expectations, Problem};
use super::verifier::Verifier;
use crate::keys;
use crate::store::KeyEntry;

impl Verifier {
    /// Counts an entry and returns its expectations.
    pub(super) fn read(&mut self, entry: &KeyEntry) -> Vec<ExpectationFrom> {
        self.verification.entries += 1;
        let expected_from = |expectation| ExpectationFrom {
            by: entry.key.clone(),
            expectation,
        };
        if self.is_of_former_org(&entry.key) {
            return Vec::new();
        }
        match expectations_of(self, entry) {
            Ok(mut expectations) => {
                expectations.retain(|expectation| !self.is_removed(expectation));
                expectations.into_iter().map(expected_from).collect()
            }
            Err(Problem {
                code,
                expected,
                found,
            }) => {
                self.differ(code, &entry.key, None, expected, found);
                Vec::new()
            }
        }
    }
}

/// Returns the expectations of an entry, and counts it in the verifier.
fn expectations_of(verifier: &mut Verifier, entry: &KeyEntry) -> Expectations {
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
    read(verifier, entry, Parts::new(parts))
}
