//! Reads JSON bodies and collects every problem, not only the first.

use std::fmt::Display;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::json;
use crate::access::{Action, ActionSet};
use crate::error::{Error, ProblemCode};
use crate::limits::Limits;
use crate::service::Problems;

/// The JSON object of a request, read field by field.
pub(super) struct Body {
    fields: Map<String, Value>,
    known: Vec<&'static str>,
    problems: Problems,
}

impl Body {
    /// Parses a body that has to be a JSON object.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |message: String| Error::invalid("body", ProblemCode::InvalidType, message);
        if bytes.is_empty() {
            return Err(Error::invalid(
                "body",
                ProblemCode::Required,
                "must be a JSON object, but is empty",
            ));
        }
        let (value, repeated) = json::parse(bytes).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            wrong(format!(
                "must be a JSON object, but has a syntax error at {place}"
            ))
        })?;
        let Value::Object(fields) = value else {
            let found = name_of_type(&value);
            return Err(wrong(format!("must be a JSON object, not {found}")));
        };
        let mut problems = Problems::default();
        for path in repeated {
            problems.push(path, ProblemCode::Duplicate, "must not be repeated");
        }
        Ok(Self {
            fields,
            known: Vec::new(),
            problems,
        })
    }

    /// Parses a body that has to be a JSON object; an empty body is an object without fields.
    pub(super) fn parse_optional(bytes: &[u8]) -> Result<Self, Error> {
        Self::parse(if bytes.is_empty() { b"{}" } else { bytes })
    }

    /// Reads a field with `read`; `None` if it is absent or invalid.
    fn field<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&Value) -> Result<T, Wrong>,
    ) -> Option<T> {
        self.known.push(name);
        match read(self.fields.get(name)?) {
            Ok(value) => Some(value),
            Err(wrong) => {
                self.problems.push(name, wrong.code, wrong.message);
                None
            }
        }
    }

    /// Adds a problem if a field is absent.
    pub(super) fn require(&mut self, name: &'static str) {
        if !self.fields.contains_key(name) {
            self.problems
                .push(name, ProblemCode::Required, "is required");
        }
    }

    /// Adds a problem with this message if all of these fields are absent.
    pub(super) fn require_any(&mut self, names: &[&str], message: &str) {
        if !names.iter().any(|name| self.fields.contains_key(*name)) {
            self.problems.push("body", ProblemCode::Required, message);
        }
    }

    /// Returns the problems found so far, to add those of further checks.
    pub(super) fn problems(&mut self) -> &mut Problems {
        &mut self.problems
    }

    /// Reads a string.
    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        self.field(name, |value| text(value).map(str::to_owned))
    }

    /// Reads a name or title, which is required.
    pub(super) fn name(&mut self, name: &'static str, limits: &Limits) -> Option<String> {
        self.require(name);
        let text = self.text(name)?;
        self.problems.name(name, &text, limits);
        Some(text)
    }

    /// Reads a slug or handle, which is required.
    pub(super) fn slug(&mut self, name: &'static str) -> Option<String> {
        self.require(name);
        let text = self.text(name)?;
        self.problems.slug(name, &text);
        Some(text)
    }

    /// Reads a description.
    pub(super) fn description(&mut self, name: &'static str) -> Option<String> {
        let text = self.text(name)?;
        self.problems.description(name, &text);
        Some(text)
    }

    /// Reads a list of strings.
    pub(super) fn texts(&mut self, name: &'static str) -> Option<Vec<String>> {
        self.list(name, "a list of strings", |value| {
            text(value).map(str::to_owned)
        })
    }

    /// Reads a list of strings and parses each of them.
    pub(super) fn parsed_list<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
    ) -> Option<Vec<T>> {
        self.list(name, "a list of strings", parse)
    }

    /// Reads a whole number that is not negative.
    pub(super) fn number(&mut self, name: &'static str) -> Option<u64> {
        self.field(name, |value| {
            value
                .as_u64()
                .or_else(|| whole(value.as_f64()?))
                .ok_or_else(|| Wrong::type_of(value, "a whole number"))
        })
    }

    /// Reads a boolean.
    pub(super) fn boolean(&mut self, name: &'static str) -> Option<bool> {
        self.field(name, |value| {
            value
                .as_bool()
                .ok_or_else(|| Wrong::type_of(value, "true or false"))
        })
    }

    /// Reads a string and parses it. The error of the type becomes the message.
    pub(super) fn parsed<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Option<T> {
        self.field(name, parse)
    }

    /// Reads a UUID.
    pub(super) fn id<T: FromStr>(&mut self, name: &'static str) -> Option<T> {
        self.field(name, id)
    }

    /// Reads a list of UUIDs. Each invalid item is a problem of its own.
    pub(super) fn ids<T: FromStr>(&mut self, name: &'static str) -> Option<Vec<T>> {
        self.list(name, "a list of UUIDs", id)
    }

    fn list<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        read: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Option<Vec<T>> {
        self.known.push(name);
        let value = self.fields.get(name)?;
        let Some(items) = value.as_array() else {
            let wrong = Wrong::type_of(value, expected);
            self.problems.push(name, wrong.code, wrong.message);
            return None;
        };
        let mut read_items = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            if self.problems.is_full() {
                return None;
            }
            match read(item) {
                Ok(item) => read_items.push(item),
                Err(wrong) => {
                    self.problems
                        .push(format!("{name}[{index}]"), wrong.code, wrong.message);
                }
            }
        }
        (read_items.len() == items.len()).then_some(read_items)
    }

    /// Reads a list of action names.
    pub(super) fn actions(&mut self, name: &'static str) -> Option<ActionSet> {
        let actions = self.list(name, "a list of action names", parse::<Action>)?;
        Some(actions.into_iter().collect())
    }

    /// Reads a list of objects. Their problems are reported under their paths.
    pub(super) fn objects<T>(
        &mut self,
        name: &'static str,
        items_max: usize,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.known.push(name);
        let value = self.fields.get(name)?;
        let Some(items) = value.as_array() else {
            let wrong = Wrong::type_of(value, "a list of objects");
            self.problems.push(name, wrong.code, wrong.message);
            return None;
        };
        if items.len() > items_max {
            self.problems.count(name, items.len(), items_max);
            return None;
        }
        let mut read_items = Vec::new();
        for (index, item) in items.iter().enumerate() {
            if self.problems.is_full() {
                return None;
            }
            let place = format!("{name}[{index}]");
            let Value::Object(fields) = item else {
                let wrong = Wrong::type_of(item, "an object");
                self.problems.push(place, wrong.code, wrong.message);
                continue;
            };
            let mut inner = Self {
                fields: fields.clone(),
                known: Vec::new(),
                problems: Problems::default(),
            };
            read_items.extend(read(&mut inner));
            inner.note_unknown();
            self.problems.extend_under(&place, inner.problems);
        }
        (read_items.len() == items.len()).then_some(read_items)
    }

    /// Reads an object. Its problems are reported under its name.
    pub(super) fn object<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        self.known.push(name);
        let value = self.fields.get(name)?;
        let Value::Object(fields) = value else {
            let wrong = Wrong::type_of(value, "an object");
            self.problems.push(name, wrong.code, wrong.message);
            return None;
        };
        let mut inner = Self {
            fields: fields.clone(),
            known: Vec::new(),
            problems: Problems::default(),
        };
        let read = read(&mut inner);
        inner.note_unknown();
        self.problems.extend_under(name, inner.problems);
        Some(read)
    }

    /// Completes the body: returns `value` if there were no problems.
    pub(super) fn finish<T>(mut self, value: Option<T>) -> Result<T, Error> {
        self.note_unknown();
        self.problems.into_result()?;
        value.ok_or_else(|| Error::internal("a body without problems has no value"))
    }

    fn note_unknown(&mut self) {
        let expected = self.known.join(", ");
        for name in self
            .fields
            .keys()
            .filter(|name| !self.known.contains(&name.as_str()))
        {
            if self.problems.is_full() {
                return;
            }
            self.problems.push(
                name,
                ProblemCode::UnknownField,
                format!("is unknown; known fields: {expected}"),
            );
        }
    }
}

/// Converts a number written with a zero fraction: JSON does not distinguish `60` from `60.0`.
fn whole(number: f64) -> Option<u64> {
    /// Maximum up to which every whole number has an exact `f64`.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number);
    is_whole.then_some(number as u64)
}

/// Problem with one value.
struct Wrong {
    code: ProblemCode,
    message: String,
}

impl Wrong {
    fn type_of(value: &Value, expected: &str) -> Self {
        let message = format!("must be {expected}, not {}", name_of_type(value));
        Self {
            code: ProblemCode::InvalidType,
            message,
        }
    }

    fn value(message: impl Display) -> Self {
        Self {
            code: ProblemCode::InvalidValue,
            message: message.to_string(),
        }
    }
}

fn text(value: &Value) -> Result<&str, Wrong> {
    value
        .as_str()
        .ok_or_else(|| Wrong::type_of(value, "a string"))
}

fn parse<T: FromStr<Err: Display>>(value: &Value) -> Result<T, Wrong> {
    text(value)?.parse().map_err(Wrong::value)
}

fn id<T: FromStr>(value: &Value) -> Result<T, Wrong> {
    text(value)?
        .parse()
        .map_err(|_| Wrong::value("must be a UUID"))
}

fn name_of_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_accepts_whole_numbers_in_any_notation() {
        let number = |json: &str| {
            let mut body = Body::parse(json.as_bytes()).unwrap();
            let number = body.number("n");
            body.finish(number).ok()
        };
        for (json, expected) in [
            (r#"{"n": 60}"#, Some(60)),
            (r#"{"n": 60.0}"#, Some(60)),
            (r#"{"n": 6e1}"#, Some(60)),
            (r#"{"n": 18446744073709551615}"#, Some(u64::MAX)),
            (r#"{"n": 60.5}"#, None),
            (r#"{"n": -1}"#, None),
            (r#"{"n": 1e300}"#, None),
            (r#"{"n": "60"}"#, None),
        ] {
            assert_eq!(number(json), expected, "{json}");
        }
    }
}
