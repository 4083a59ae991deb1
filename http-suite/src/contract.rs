//! The check of each response against the OpenAPI document.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use flate2::read::GzDecoder;
use http::{HeaderValue, Method, StatusCode};
use jsonschema::Validator;
use knowledge_core::api::openapi;
use knowledge_core::limits::Limits;
use regex::Regex;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::answer::Answer;

/// Headers of HTTP itself and of intermediaries, which no operation describes.
const PLAIN_HEADERS: &[&str] = &[
    "access-control-allow-credentials",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "allow",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "transfer-encoding",
    "vary",
];

/// Headers that every response has, with a value that follows from the rest of the response.
pub(crate) const INVARIANT_HEADERS: &[&str] = &[
    "cache-control",
    "content-length",
    "content-type",
    "date",
    "request-id",
];

/// Caching rule of every response that the caller may not store.
const NO_STORE: &str = "no-store";

/// Date as HTTP writes it (RFC 9110, 5.6.7).
static DATE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("^[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT$")
        .expect("a regular expression")
});

/// Panics if the document does not describe a response.
pub(crate) fn check(method: &Method, path: &str, answer: &Answer) {
    if let Err(problem) = CONTRACT.check(method, path, answer) {
        panic!(
            "{method} {path} is answered in a way that the document does not describe: \
             {problem}\n{answer:?}"
        );
    }
}

static CONTRACT: LazyLock<Contract> =
    LazyLock::new(|| Contract::new(openapi::document(&Limits::default())));

/// The rules for responses.
pub struct Contract {
    document: Value,
    /// Compiled validators, by the text of their schemas.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Contract {
    /// Creates the rules that an OpenAPI document describes.
    pub fn new(mut document: Value) -> Self {
        // The document lets responses grow, but here a field without a description is a gap.
        close(&mut document["components"]["schemas"]);
        Self {
            document,
            validators: Mutex::default(),
        }
    }

    /// Checks a response to a request.
    ///
    /// # Errors
    /// The problem, if the document does not describe the response.
    pub fn check(&self, method: &Method, path: &str, answer: &Answer) -> Result<(), String> {
        let path = path.split('?').next().unwrap_or_default();
        // A preflight request is the browser's, and not an operation.
        if !path.starts_with("/v1/") || method == Method::OPTIONS {
            return Ok(());
        }
        let is_head = method == Method::HEAD;
        let name = if is_head {
            "get".to_owned()
        } else {
            method.as_str().to_ascii_lowercase()
        };
        let Some(operations) = self.operations_at(path) else {
            refused(answer, &[StatusCode::NOT_FOUND])?;
            return check_invariants(answer, is_head, NO_STORE);
        };
        let Some(operation) = operations.get(&name) else {
            refused(answer, &[StatusCode::METHOD_NOT_ALLOWED])?;
            return check_invariants(answer, is_head, NO_STORE);
        };
        let response = &operation["responses"][answer.status.as_str()];
        if response.is_null() {
            return Err(format!("{} is not among its statuses", answer.status));
        }
        let response = self.resolve(response);
        self.check_headers(&response["headers"], answer)?;
        if !is_head {
            self.check_body(&response["content"], answer)?;
        }
        let is_error = answer.status.is_client_error() || answer.status.is_server_error();
        let is_revalidated = !is_error && !operation["responses"]["304"].is_null();
        let caching = if is_revalidated {
            "private, no-cache"
        } else {
            NO_STORE
        };
        check_invariants(answer, is_head, caching)
    }

    /// Returns the operations of a path, preferring the template with fewer parameters.
    fn operations_at(&self, path: &str) -> Option<&Map<String, Value>> {
        let paths = self.document["paths"].as_object()?;
        let fitting = paths.iter().filter(|(template, _)| fits(template, path));
        let (_, operations) = fitting.min_by_key(|(template, _)| template.matches('{').count())?;
        operations.as_object()
    }

    fn resolve<'v>(&'v self, value: &'v Value) -> &'v Value {
        let target = value["$ref"]
            .as_str()
            .and_then(|target| target.strip_prefix('#'));
        target.map_or(value, |pointer| {
            self.document.pointer(pointer).expect("a component")
        })
    }

    fn check_headers(&self, described: &Value, answer: &Answer) -> Result<(), String> {
        let described = described.as_object().cloned().unwrap_or_default();
        for (name, header) in &described {
            let header = self.resolve(header);
            match answer.headers.get(name) {
                None if header["required"] == true => return Err(format!("{name} is missing")),
                None => {}
                Some(value) => {
                    let schema = &header["schema"];
                    let problems = self.problems(schema, &header_value(schema, value));
                    if !problems.is_empty() {
                        return Err(format!("{name}: {value:?}: {problems}"));
                    }
                }
            }
        }
        let is_described = |name: &str| {
            PLAIN_HEADERS.contains(&name)
                || described
                    .keys()
                    .any(|other| other.eq_ignore_ascii_case(name))
        };
        match answer
            .headers
            .keys()
            .find(|name| !is_described(name.as_str()))
        {
            Some(name) => Err(format!("{name} is not among its headers")),
            None => Ok(()),
        }
    }

    fn check_body(&self, content: &Value, answer: &Answer) -> Result<(), String> {
        let Some(schema) = content["application/json"].get("schema") else {
            return if answer.body.is_empty() {
                Ok(())
            } else {
                Err("there should be no body".to_owned())
            };
        };
        if answer
            .headers
            .get("content-type")
            .is_none_or(|value| value != "application/json")
        {
            return Err("the content type is not application/json".to_owned());
        }
        let body = if answer
            .headers
            .get("content-encoding")
            .is_some_and(|value| value == "gzip")
        {
            serde_json::from_reader(GzDecoder::new(answer.body.as_ref()))
        } else {
            serde_json::from_slice(&answer.body)
        };
        let body = body.map_err(|error| error.to_string())?;
        match self.problems(schema, &body) {
            problems if problems.is_empty() => Ok(()),
            problems => Err(problems),
        }
    }

    fn problems(&self, schema: &Value, value: &Value) -> String {
        let validator = self.validator(schema);
        let problems = validator
            .iter_errors(value)
            .map(|error| format!("{}: {error}", error.instance_path()));
        problems.collect::<Vec<_>>().join("; ")
    }

    fn validator(&self, schema: &Value) -> Arc<Validator> {
        let mut validators = self.validators.lock().expect("not poisoned");
        let validator = validators.entry(schema.to_string()).or_insert_with(|| {
            let mut root = schema.clone();
            root["components"] = self.document["components"].clone();
            let options = jsonschema::draft202012::options().should_validate_formats(true);
            Arc::new(options.build(&root).expect("a schema"))
        });
        Arc::clone(validator)
    }
}

/// Checks the [`INVARIANT_HEADERS`]: each occurs once if the response requires it, otherwise never.
fn check_invariants(answer: &Answer, is_head: bool, caching: &str) -> Result<(), String> {
    let values = |name: &str| -> Vec<_> { answer.headers.get_all(name).iter().collect() };
    let once = |name: &str, is_valid: fn(&str) -> bool| match *values(name) {
        [value] if value.to_str().is_ok_and(is_valid) => Ok(()),
        ref values => Err(format!("{name} is {values:?}")),
    };
    once("date", |date| DATE.is_match(date))?;
    once("request-id", |id| Uuid::try_parse(id).is_ok())?;

    let exactly = |name: &str, expected: Option<&str>| match values(name) {
        values if values == Vec::from_iter(expected) => Ok(()),
        values => Err(format!("{name} is {values:?} instead of {expected:?}")),
    };
    let is_not_modified = answer.status == StatusCode::NOT_MODIFIED;
    let has_content = !is_not_modified && answer.status != StatusCode::NO_CONTENT;
    let is_cached = has_content || is_not_modified;
    exactly("cache-control", is_cached.then_some(caching))?;
    // The response to a HEAD has length and type of that to a GET.
    if is_head {
        return Ok(());
    }
    let is_json = !answer.body.is_empty();
    exactly("content-type", is_json.then_some("application/json"))?;
    // The length of a body that is compressed on the way is not known in time.
    if answer.headers.contains_key("content-encoding") {
        return Ok(());
    }
    let length = answer.body.len().to_string();
    exactly("content-length", has_content.then_some(&*length))
}

/// Checks an error before any operation: one of these statuses, or any common one.
fn refused(answer: &Answer, statuses: &[StatusCode]) -> Result<(), String> {
    let always = [400, 413, 429, 500, 503].contains(&answer.status.as_u16());
    if statuses.contains(&answer.status) || always {
        Ok(())
    } else {
        Err(format!(
            "no operation is there, and it is {}",
            answer.status
        ))
    }
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path) = (template.split('/'), path.split('/'));
    template.clone().count() == path.clone().count()
        && template.zip(path).all(|(wanted, found)| {
            wanted == found || (wanted.starts_with('{') && !found.is_empty())
        })
}

/// Returns a header as the type of its schema.
fn header_value(schema: &Value, value: &HeaderValue) -> Value {
    let text = value.to_str().unwrap_or_default();
    match schema["type"].as_str() {
        Some("integer") => text.parse::<i64>().map_or(json!(text), Value::from),
        _ => json!(text),
    }
}

/// Restricts objects to the described fields.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(close);
            if fields.get("type") == Some(&json!("object")) && fields.contains_key("properties") {
                fields.entry("additionalProperties").or_insert(false.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
