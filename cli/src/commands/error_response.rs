//! Error responses of the API, worded for the user of the flags.

use bytes::Bytes;
use http::Response;
use knowledge_core::EntityKind;
use serde::Deserialize;

use super::failure::Failure;

/// Error response, as in its body.
#[derive(Debug, Deserialize)]
pub(super) struct ErrorResponse {
    #[serde(rename = "error")]
    pub(super) code: String,
    pub(super) message: String,
    #[serde(default)]
    details: Details,
}

#[derive(Debug, Default, Deserialize)]
struct Details {
    #[serde(default)]
    fields: Vec<Problem>,
    /// Kind of the missing resource. It is a text, because a later server may know more kinds.
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Problem {
    path: String,
    code: String,
    message: String,
}

impl ErrorResponse {
    /// Parses the body of a response.
    pub(super) fn read(response: &Response<Bytes>) -> Self {
        serde_json::from_slice(response.body()).unwrap_or_else(|_| Self {
            code: "internal".to_owned(),
            message: format!(
                "the response has status {} and no error message",
                response.status()
            ),
            details: Details::default(),
        })
    }

    /// Returns true if the request named a resource of this kind that does not exist.
    pub(super) fn misses(&self, kind: EntityKind) -> bool {
        let kind = kind.as_str();
        let is_it = |path: &str| path.split(['[', '.']).any(|part| part.starts_with(kind));
        let mut missing = self.details.fields.iter();
        missing.any(|problem| problem.code == "not_found" && is_it(&problem.path))
            || self.details.kind.as_deref() == Some(kind)
    }

    /// Converts the error, with flags in place of the request's fields.
    pub(super) fn into_failure(self, flags: &[(&str, &str)]) -> Failure {
        self.into_failure_with(flags, &[])
    }

    /// Converts the error like [`into_failure`](Self::into_failure), and appends hints.
    pub(super) fn into_failure_with(self, flags: &[(&str, &str)], hints: &[String]) -> Failure {
        let mut parts: Vec<String> = if self.details.fields.is_empty() {
            vec![self.message]
        } else {
            let problems = self.details.fields.iter();
            problems
                .map(|problem| match problem.code.as_str() {
                    // The message names the exhausted limit, which is not the field.
                    "limit_reached" => problem.message.clone(),
                    _ => format!("{} {}", flag_of(&problem.path, flags), problem.message),
                })
                .collect()
        };
        parts.extend_from_slice(hints);
        Failure::new(parts.join("; "))
    }
}

/// Returns the flag of a field: the one with the longest matching path.
fn flag_of<'p>(path: &'p str, flags: &[(&str, &'p str)]) -> &'p str {
    let is_under = |field: &str| {
        path.strip_prefix(field)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
    };
    let found = flags.iter().filter(|(field, _)| is_under(field));
    found
        .max_by_key(|(field, _)| field.len())
        .map_or(path, |(_, flag)| flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_response(body: &'static str) -> ErrorResponse {
        ErrorResponse::read(&Response::new(Bytes::from_static(body.as_bytes())))
    }

    #[test]
    fn error_fields_are_named_by_their_flags() {
        let body = r#"{"error": "invalid_request", "message": "the request is not valid",
            "details": {"fields": [
            {"path": "owner.handle", "code": "invalid_value", "message": "must be a name"},
            {"path": "teams[3]", "code": "invalid_value", "message": "must be one too"},
            {"path": "other", "code": "required", "message": "is required"}]}}"#;
        let flags = [
            ("owner", "--owner-is-there"),
            ("owner.handle", "--owner"),
            ("teams", "--team"),
        ];
        let hint = ["known are: a, b".to_owned()];
        assert_eq!(
            error_response(body)
                .into_failure_with(&flags, &hint)
                .to_string(),
            "--owner must be a name; --team must be one too; other is required; known are: a, b"
        );
    }

    #[test]
    fn error_identifies_missing_resource() {
        let path = error_response(
            r#"{"error": "not_found", "message": "gone", "details": {"kind": "member"}}"#,
        );
        assert!(path.misses(EntityKind::Member) && !path.misses(EntityKind::Workspace));
        let role = error_response(
            r#"{"error": "not_found", "message": "there is no such role in the workspace",
            "details": {"kind": "workspace_role"}}"#,
        );
        assert!(role.misses(EntityKind::WorkspaceRole) && !role.misses(EntityKind::Workspace));
        let later = error_response(
            r#"{"error": "not_found", "message": "", "details": {"kind": "of a later server"}}"#,
        );
        assert_eq!(later.code, "not_found");
        let field = error_response(
            r#"{"error": "invalid_request", "message": "", "details": {"fields": [
            {"path": "narrowing.workspaces[0]", "code": "not_found", "message": ""}]}}"#,
        );
        assert!(field.misses(EntityKind::Workspace) && !field.misses(EntityKind::Member));
        let unreadable = error_response("<html>");
        assert_eq!(unreadable.code, "internal");
    }
}
