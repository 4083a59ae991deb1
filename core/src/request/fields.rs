//! JSON objects with declared fields, and rules of their values.
//!
//! Reading collects every problem, not only the first.

use std::marker::PhantomData;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::checks::Checks;
use super::path::Path;
use super::problems::Problems;
use crate::error::ProblemCode;

/// Progress of reading a body.
pub(crate) struct Reading<'c> {
    /// Limits and addresses for the check of values, unless the service checks them afterwards.
    pub(crate) checks: Option<Checks<'c>>,
    /// Problems found so far.
    pub(crate) problems: Problems,
}

/// A JSON object, read field by field.
pub(crate) struct Fields<'f, 'c> {
    object: &'f Map<String, Value>,
    path: &'f Path<'f>,
    known: Vec<&'static str>,
    reading: &'f mut Reading<'c>,
}

impl Fields<'_, '_> {
    /// Reads a field by its rule; `None` if it is absent or invalid.
    pub(crate) fn optional<R: Rule>(&mut self, name: &'static str) -> Option<R::Value> {
        self.known.push(name);
        let path = Path::Field(self.path, name);
        R::read(self.object.get(name)?, &path, self.reading)
    }

    /// Reads a field by its rule, and adds a problem if it is absent.
    pub(crate) fn required<R: Rule>(&mut self, name: &'static str) -> Option<R::Value> {
        if !self.object.contains_key(name) {
            let path = &Path::Field(self.path, name);
            let problems = &mut self.reading.problems;
            problems.push(path, ProblemCode::Required, "is required");
        }
        self.optional::<R>(name)
    }

    /// Runs a check of several fields together.
    ///
    /// A field whose value is invalid is read as absent: no further problem of it is added.
    pub(crate) fn check_together(&mut self, check: impl FnOnce(&Path<'_>, &mut Problems)) {
        if self.reading.checks.is_some() {
            let mut found = Problems::default();
            check(self.path, &mut found);
            self.reading.problems.add_of_other_places(found);
        }
    }

    /// Returns the number of problems found so far.
    pub(crate) fn problems(&self) -> usize {
        self.reading.problems.len()
    }

    fn note_unknown(&mut self) {
        for name in self.object.keys() {
            if self.known.contains(&name.as_str()) || self.reading.problems.is_full() {
                continue;
            }
            let message = match self.known.as_slice() {
                [] => "is unknown; the body must be empty".to_owned(),
                known => format!("is unknown; known fields: {}", known.join(", ")),
            };
            let path = &Path::Field(self.path, name);
            let problems = &mut self.reading.problems;
            problems.push(path, ProblemCode::UnknownField, message);
        }
    }
}

/// A JSON object with declared fields.
pub(crate) trait Request: Sized {
    /// True if a field is required, and so the body.
    const IS_REQUIRED: bool;

    /// Reads the fields and notes their problems; `None` only if there are any.
    fn read(fields: &mut Fields<'_, '_>) -> Option<Self>;

    /// Adds the problems of the values.
    fn check(&self, path: &Path<'_>, checks: &Checks<'_>, problems: &mut Problems);

    /// Writes the fields that are set.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Reads a request from the fields of an object.
pub(crate) fn read_object<T: Request>(
    object: &Map<String, Value>,
    path: &Path<'_>,
    reading: &mut Reading<'_>,
) -> Option<T> {
    let mut fields = Fields {
        object,
        path,
        known: Vec::new(),
        reading,
    };
    let request = T::read(&mut fields);
    fields.note_unknown();
    request
}

/// Rule of a value: how it is read from JSON, checked and written.
pub(crate) trait Rule {
    /// Type of the value.
    type Value;

    /// Description of a list of such values, for messages.
    const LIST: &'static str;

    /// Reads the value and notes its problems, those of a check too if `reading` has one.
    fn read(json: &Value, path: &Path<'_>, reading: &mut Reading<'_>) -> Option<Self::Value>;

    /// Adds the problems of a value.
    fn check(value: &Self::Value, path: &Path<'_>, checks: &Checks<'_>, problems: &mut Problems);

    /// Writes the value.
    fn write<S: Serializer>(value: &Self::Value, serializer: S) -> Result<S::Ok, S::Error>;
}

/// Rule of one field, or of several, of an object.
pub(crate) trait Field {
    /// Type of the field.
    type Value;

    /// True if the field must be present.
    const IS_REQUIRED: bool;

    /// Takes the field from an object and notes its problems; `None` only if there are any.
    fn take(fields: &mut Fields<'_, '_>, name: &'static str) -> Option<Self::Value>;

    /// Adds the problems of the field, of an object at `path`.
    fn check(
        value: &Self::Value,
        name: &'static str,
        path: &Path<'_>,
        checks: &Checks<'_>,
        problems: &mut Problems,
    );

    /// Writes the field, if it is set.
    fn put<M: SerializeMap>(
        value: &Self::Value,
        name: &'static str,
        map: &mut M,
    ) -> Result<(), M::Error>;
}

impl<R: Rule> Field for R {
    type Value = R::Value;

    const IS_REQUIRED: bool = true;

    fn take(fields: &mut Fields<'_, '_>, name: &'static str) -> Option<R::Value> {
        fields.required::<R>(name)
    }

    fn check(
        value: &R::Value,
        name: &'static str,
        path: &Path<'_>,
        checks: &Checks<'_>,
        problems: &mut Problems,
    ) {
        R::check(value, &Path::Field(path, name), checks, problems);
    }

    fn put<M: SerializeMap>(
        value: &R::Value,
        name: &'static str,
        map: &mut M,
    ) -> Result<(), M::Error> {
        map.serialize_entry(name, &Written::<R>(value))
    }
}

/// A value as its rule writes it.
pub(crate) struct Written<'v, R: Rule>(pub(crate) &'v R::Value);

impl<R: Rule> Serialize for Written<'_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        R::write(self.0, serializer)
    }
}

/// An optional field.
impl<R: Rule> Field for Option<R> {
    type Value = Option<R::Value>;

    const IS_REQUIRED: bool = false;

    fn take(fields: &mut Fields<'_, '_>, name: &'static str) -> Option<Self::Value> {
        Some(fields.optional::<R>(name))
    }

    fn check(
        value: &Self::Value,
        name: &'static str,
        path: &Path<'_>,
        checks: &Checks<'_>,
        problems: &mut Problems,
    ) {
        if let Some(value) = value {
            R::check(value, &Path::Field(path, name), checks, problems);
        }
    }

    fn put<M: SerializeMap>(
        value: &Self::Value,
        name: &'static str,
        map: &mut M,
    ) -> Result<(), M::Error> {
        match value {
            Some(value) => <R as Field>::put(value, name, map),
            None => Ok(()),
        }
    }
}

/// The fields of another request, as fields of this one.
pub(crate) struct Flattened<T>(PhantomData<T>);

impl<T: Request> Field for Flattened<T> {
    type Value = T;

    const IS_REQUIRED: bool = T::IS_REQUIRED;

    fn take(fields: &mut Fields<'_, '_>, _name: &'static str) -> Option<T> {
        T::read(fields)
    }

    fn check(
        value: &T,
        _name: &'static str,
        path: &Path<'_>,
        checks: &Checks<'_>,
        problems: &mut Problems,
    ) {
        value.check(path, checks, problems);
    }

    fn put<M: SerializeMap>(value: &T, _name: &'static str, map: &mut M) -> Result<(), M::Error> {
        value.write(map)
    }
}
