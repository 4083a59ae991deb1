//! Calls of operations over HTTP, as the table of operations declares them.

use std::fmt;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderName, HeaderValue, Method, Request};
use serde::Serialize;
use serde_json::Value;

use knowledge_core::access::Secret;
use knowledge_core::api::front_end::SESSION_COOKIE;
use knowledge_core::api::{Authentication, Operation};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(crate) const ACT_FOR: HeaderName = HeaderName::from_static("knowledge-act-for");

/// Call of an operation.
#[derive(Clone, Debug)]
pub(crate) struct ApiCall {
    pub(crate) operation: Operation,
    /// Path, at first with its parameters in braces.
    pub(crate) path: String,
    /// Query with its question mark; empty if there is none.
    pub(crate) query: String,
    pub(crate) headers: Vec<(HeaderName, String)>,
    /// Body; empty if there is none.
    pub(crate) body: Bytes,
    pub(crate) credential: Option<Secret>,
}

impl ApiCall {
    /// Creates a call without parameters.
    pub(crate) fn new(operation: Operation) -> Self {
        Self {
            operation,
            path: operation.spec().path.to_owned(),
            query: String::new(),
            headers: Vec::new(),
            body: Bytes::new(),
            credential: None,
        }
    }

    /// Sets the next parameter of the path.
    ///
    /// # Panics
    /// If the path has no further parameter.
    pub(crate) fn add_parameter(&mut self, value: &impl fmt::Display) {
        let (before, rest) = self.path.split_once('{').expect("a parameter of the path");
        let (_, after) = rest.split_once('}').expect("a template of a path");
        self.path = format!("{before}{value}{after}");
    }

    /// Adds a parameter of the query, which needs no escapes.
    pub(crate) fn add_query(&mut self, name: &str, value: &impl fmt::Display) {
        let begin = if self.query.is_empty() { '?' } else { '&' };
        self.query.push_str(&format!("{begin}{name}={value}"));
    }

    /// Adds the fields of a filter to the query, except those that are null.
    pub(crate) fn add_filter(&mut self, filter: &impl Serialize) {
        let fields = serde_json::to_value(filter).expect("a filter is valid JSON");
        for (name, value) in fields.as_object().into_iter().flatten() {
            if let Some(value) = value.as_str() {
                self.add_query(name, &value);
            }
        }
    }

    pub(crate) fn add_header(&mut self, name: HeaderName, value: impl Into<String>) {
        self.headers.push((name, value.into()));
    }

    /// Returns the maximum number of items of a page, if the query has one.
    pub(crate) fn limit(&self) -> Option<usize> {
        let mut parameters = self.query.split(['?', '&']);
        parameters.find_map(|parameter| parameter.strip_prefix("limit=")?.parse().ok())
    }

    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    /// Adds an entity tag, as a condition of a change or the version that the caller has.
    pub(crate) fn add_tag(&mut self, tag: String) {
        let is_read = self.operation.spec().method == Method::GET;
        self.add_header(if is_read { IF_NONE_MATCH } else { IF_MATCH }, tag);
    }

    pub(crate) fn set_body(&mut self, body: &impl Serialize) {
        let body = serde_json::to_vec(body).expect("a body is valid JSON");
        self.body = body.into();
    }

    /// Returns the body as JSON; null if there is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the request, with the credential where the operation reads it.
    ///
    /// # Panics
    /// If a part of the call is not valid in a request.
    pub(crate) fn request(&self) -> Request<Bytes> {
        let spec = self.operation.spec();
        let mut request = Request::new(self.body.clone());
        *request.method_mut() = spec.method.clone();
        let uri = format!("{}{}", self.path, self.query);
        *request.uri_mut() = uri.parse().expect("a path");
        let mut add = |name: &HeaderName, value: &str| {
            let value = HeaderValue::try_from(value).expect("a header");
            request.headers_mut().insert(name, value);
        };
        for (name, value) in &self.headers {
            add(name, value);
        }
        if !self.body.is_empty() {
            add(&CONTENT_TYPE, "application/json");
        }
        match (&self.credential, spec.authentication) {
            (Some(secret), Authentication::Session) => {
                add(&COOKIE, &format!("{SESSION_COOKIE}={}", secret.expose()));
            }
            (Some(secret), _) => add(&AUTHORIZATION, &format!("Bearer {}", secret.expose())),
            (None, _) => {}
        }
        request
    }
}

impl fmt::Display for ApiCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, body) = (&self.operation.spec().method, self.json());
        write!(f, "{method} {}{} {body}", self.path, self.query)
    }
}
