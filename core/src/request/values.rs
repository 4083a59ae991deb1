//! Values in JSON.

use std::fmt::Display;
use std::str::FromStr;

use serde_json::Value;

use crate::error::ProblemCode;

/// Problem with one value.
pub(crate) struct Wrong {
    pub(crate) code: ProblemCode,
    pub(crate) message: String,
}

impl Wrong {
    pub(crate) fn type_of(value: &Value, expected: &str) -> Self {
        let message = format!("must be {expected}, not {}", name_of_type(value));
        Self {
            code: ProblemCode::InvalidType,
            message,
        }
    }

    pub(crate) fn value(message: impl Display) -> Self {
        Self {
            code: ProblemCode::InvalidValue,
            message: message.to_string(),
        }
    }
}

pub(crate) fn text(value: &Value) -> Result<&str, Wrong> {
    value
        .as_str()
        .ok_or_else(|| Wrong::type_of(value, "a string"))
}

pub(crate) fn parse<T: FromStr<Err: Display>>(value: &Value) -> Result<T, Wrong> {
    text(value)?.parse().map_err(Wrong::value)
}

pub(crate) fn id<T: FromStr>(value: &Value) -> Result<T, Wrong> {
    text(value)?
        .parse()
        .map_err(|_| Wrong::value("must be a UUID"))
}

pub(crate) fn boolean(value: &Value) -> Result<bool, Wrong> {
    value
        .as_bool()
        .ok_or_else(|| Wrong::type_of(value, "true or false"))
}

/// Reads a whole number that is not negative.
pub(crate) fn number(value: &Value) -> Result<u64, Wrong> {
    value
        .as_u64()
        .or_else(|| whole(value.as_f64()?))
        .ok_or_else(|| match value {
            Value::Number(_) => Wrong {
                code: ProblemCode::InvalidType,
                message: "must be a whole number that is not negative".to_owned(),
            },
            _ => Wrong::type_of(value, "a whole number"),
        })
}

/// Converts a number written with a zero fraction: JSON does not distinguish `60` from `60.0`.
fn whole(number: f64) -> Option<u64> {
    /// Maximum up to which every whole number has an exact `f64`.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number);
    is_whole.then_some(number as u64)
}

/// Returns the name of a value's type, for messages.
pub(crate) fn name_of_type(value: &Value) -> &'static str {
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
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_read_in_any_notation() {
        for (json, expected) in [
            (json!(60), Some(60)),
            (json!(60.0), Some(60)),
            (json!(6e1), Some(60)),
            (json!(u64::MAX), Some(u64::MAX)),
            (json!(60.5), None),
            (json!(-1), None),
            (json!(1e300), None),
            (json!("60"), None),
        ] {
            assert_eq!(number(&json).ok(), expected, "{json}");
        }
        let message = |json: Value| number(&json).err().map(|wrong| wrong.message);
        let negative = message(json!(-1)).unwrap();
        assert_eq!(negative, "must be a whole number that is not negative");
        let text = message(json!("60")).unwrap();
        assert_eq!(text, "must be a whole number, not a string");
    }
}
