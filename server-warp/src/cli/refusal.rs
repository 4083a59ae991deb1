//! What an interface refuses, in words for the person who typed the flags.

use bytes::Bytes;
use http::Response;
use serde::Deserialize;

use super::failure::Failure;

/// A refusal as its body says it.
#[derive(Debug, Deserialize)]
pub(super) struct Refusal {
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
}

#[derive(Debug, Deserialize)]
struct Problem {
    path: String,
    code: String,
    message: String,
}

impl Refusal {
    /// The refusal that an answer is.
    pub(super) fn read(answer: &Response<Bytes>) -> Self {
        serde_json::from_slice(answer.body()).unwrap_or_else(|_| Self {
            code: "internal".to_owned(),
            message: format!("the answer is {} and does not say why", answer.status()),
            details: Details::default(),
        })
    }

    /// Whether something of this kind was named that does not exist.
    pub(super) fn misses(&self, what: &str) -> bool {
        let is_it = |path: &str| path.split(['[', '.']).any(|part| part.starts_with(what));
        let mut missing = self.details.fields.iter();
        missing.any(|problem| problem.code == "not_found" && is_it(&problem.path))
            || (self.code == "not_found" && self.message.ends_with(what))
    }

    /// The refusal where each field of the request is called as the flag that it came from.
    pub(super) fn into_failure(self, flags: &[(&str, &str)]) -> Failure {
        self.into_failure_with(flags, &[])
    }

    /// The same with what else helps.
    pub(super) fn into_failure_with(self, flags: &[(&str, &str)], hints: &[String]) -> Failure {
        let mut parts: Vec<String> = if self.details.fields.is_empty() {
            vec![self.message]
        } else {
            let problems = self.details.fields.iter();
            problems
                .map(|problem| match problem.code.as_str() {
                    // What is full is not the field: the message says what is.
                    "limit_reached" => problem.message.clone(),
                    _ => format!("{} {}", flag_of(&problem.path, flags), problem.message),
                })
                .collect()
        };
        parts.extend_from_slice(hints);
        Failure::new(parts.join("; "))
    }
}

/// The flag that a field came from: the longest one whose field the path begins with.
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

    fn refusal(body: &'static str) -> Refusal {
        Refusal::read(&Response::new(Bytes::from_static(body.as_bytes())))
    }

    #[test]
    fn fields_are_called_as_their_flags() {
        let body = r#"{"error": "invalid_request", "message": "the request is not valid", "details": {"fields": [
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
            refusal(body).into_failure_with(&flags, &hint).to_string(),
            "--owner must be a name; --team must be one too; other is required; known are: a, b"
        );
    }

    #[test]
    fn what_is_missing_is_known() {
        let plain = refusal(r#"{"error": "not_found", "message": "there is no such member"}"#);
        assert!(plain.misses("member") && !plain.misses("workspace"));
        let field = refusal(
            r#"{"error": "invalid_request", "message": "", "details": {"fields": [
            {"path": "narrowing.workspaces[0]", "code": "not_found", "message": ""}]}}"#,
        );
        assert!(field.misses("workspace") && !field.misses("member"));
        let unreadable = refusal("<html>");
        assert_eq!(unreadable.code, "internal");
    }
}
