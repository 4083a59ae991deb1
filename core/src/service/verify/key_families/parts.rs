//! Parts of keys, and the values of entries.

use std::fmt::Display;

use serde::de::DeserializeOwned;

use crate::keys::Part;
use crate::service::verify::difference::DifferenceCode;
use crate::service::verify::problem::Problem;
use crate::store::{KeyEntry, decode_value};

/// Parts of a key after the name of its family.
pub(super) struct Parts<'k>(std::vec::IntoIter<&'k str>);

impl<'k> Parts<'k> {
    /// Returns the parts of a key without the name of its family.
    pub(super) fn new(parts: Vec<&'k str>) -> Self {
        Self(parts.into_iter())
    }

    /// Parses the next part.
    pub(super) fn next<T: Part<'k>>(&mut self) -> Result<T, Problem> {
        let part = self.0.next().unwrap_or_default();
        let found = || Problem::unreadable(format!("{part:?} instead of {}", T::EXPECTED));
        T::parse(part).ok_or_else(found)
    }
}

/// Checks that a field of the value repeats the part of the key.
pub(super) fn agree<T: PartialEq + Display>(part: &T, field: &T) -> Result<(), Problem> {
    if part == field {
        return Ok(());
    }
    let expected = format!("{part}, as in the key");
    let code = DifferenceCode::Mismatch;
    Err(Problem::new(code, expected, field.to_string()))
}

/// Reads the value of an entry.
pub(super) fn value<T: DeserializeOwned>(entry: &KeyEntry) -> Result<T, Problem> {
    decode_value(entry).map_err(|error| Problem::unreadable(error.to_string()))
}
