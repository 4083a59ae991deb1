//! Bodies of requests as JSON objects.

use serde_json::{Map, Value};

use super::json;
use crate::error::{Error, ProblemCode};
use crate::request::{self, Checks, Problems, Request, name_of_type};

/// Reads the body of a request.
///
/// An empty body is an object without fields, unless the request has a required field.
///
/// # Errors
/// [`Error::InvalidRequest`] for a body that is not a JSON object or has problems.
pub(super) fn read<T: Request>(bytes: &[u8], checks: &Checks<'_>) -> Result<T, Error> {
    let bytes = if bytes.is_empty() && !T::IS_REQUIRED {
        b"{}"
    } else {
        bytes
    };
    let (object, repeated) = parse(bytes)?;
    request::read(&object, repeated, Some(checks))
}

/// Parses a JSON object, with the problems of repeated names.
fn parse(bytes: &[u8]) -> Result<(Map<String, Value>, Problems), Error> {
    let wrong = |message: String| Error::invalid("body", ProblemCode::InvalidType, message);
    if bytes.is_empty() {
        let message = "must be a JSON object, but is empty";
        return Err(Error::invalid("body", ProblemCode::Required, message));
    }
    let (value, repeated) = json::parse(bytes).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        wrong(format!(
            "must be a JSON object, but has a syntax error at {place}"
        ))
    })?;
    let Value::Object(object) = value else {
        let found = name_of_type(&value);
        return Err(wrong(format!("must be a JSON object, not {found}")));
    };
    let mut problems = Problems::default();
    for path in repeated {
        problems.push(path, ProblemCode::Duplicate, "must not be repeated");
    }
    Ok((object, problems))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::model::WebhookUpdate;

    fn problem(body: &[u8]) -> String {
        let checks = Checks {
            limits: &Limits::default(),
            addresses: None,
        };
        match read::<WebhookUpdate>(body, &checks) {
            Err(Error::InvalidRequest { fields }) => fields[0].to_string(),
            _ => panic!("the body is valid"),
        }
    }

    #[test]
    fn unknown_field_is_reported_with_the_known_ones() {
        let body = br#"{"n": 60}"#;
        assert_eq!(
            problem(body),
            "n is unknown; known fields: event_type, url, is_active"
        );
    }
}
