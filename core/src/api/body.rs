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
    use crate::access::{Action, ActionSet};
    use crate::limits::Limits;
    use crate::model::{
        BulkUpdate, MemoryChange, NewCustomRole, ReviewStatus, RoleActions, WebhookUpdate,
    };

    fn read_default<T: Request>(body: &str) -> Result<T, Vec<String>> {
        let checks = Checks {
            limits: &Limits::default(),
            addresses: None,
        };
        read(body.as_bytes(), &checks).map_err(|error| match error {
            Error::InvalidRequest { fields } => fields.iter().map(ToString::to_string).collect(),
            other => panic!("{other}"),
        })
    }

    #[test]
    fn unknown_field_is_reported_with_the_known_ones() {
        let read = read_default::<WebhookUpdate>(r#"{"n": 60}"#);
        assert_eq!(
            read.unwrap_err(),
            ["n is unknown; known fields: event_type, url, is_active"]
        );
    }

    #[test]
    fn missing_attributes_of_a_bulk_update_are_reported_with_other_problems() {
        let read = |fields: &str| read_default::<BulkUpdate>(&format!("{{{fields}}}"));
        let ids = r#""memoryIds": ["01890a5d-ac96-774b-bcce-b302099a8057"]"#;
        let valid = read(&format!(r#"{ids}, "reviewStatus": "approved""#)).unwrap();
        let approved = MemoryChange::builder().review_status(ReviewStatus::Approved);
        assert_eq!(valid.change, approved.build());
        let found = read(r#""memoryIds": 1"#).unwrap_err();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("memoryIds "), "{found:?}");
        assert!(
            found[1].starts_with("body must set at least one of "),
            "{found:?}"
        );
        let found = read(&format!(r#"{ids}, "reviewStatus": "good""#)).unwrap_err();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("reviewStatus "), "{found:?}");
    }

    #[test]
    fn omitted_list_of_a_new_role_is_empty() {
        let role = |actions: &str| {
            let role = r#""name": "Writer", "slug": "writer", "base_role": "viewer""#;
            read_default::<NewCustomRole>(&format!("{{{role}{actions}}}")).unwrap()
        };
        let (allow, deny) = (ActionSet::of(&[Action::ChatWrite]), ActionSet::EMPTY);
        let one = role(r#", "actions": {"allow": ["chat:write"]}"#);
        assert_eq!(one.actions, RoleActions { allow, deny });
        assert_eq!(role("").actions, RoleActions::default());
    }
}
