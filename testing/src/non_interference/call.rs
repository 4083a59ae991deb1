//! One call of the principal.

use std::fmt;

use bytes::Bytes;
use http::{HeaderValue, Request};
use serde_json::Value;

use knowledge_core::access::Secret;
use knowledge_core::api::{Authentication, Operation};

/// Call of the principal.
pub(super) struct Call {
    pub(super) operation: Operation,
    pub(super) path: String,
    /// Query with its question mark; empty if there is none.
    pub(super) query: String,
    /// Collection of what it creates.
    pub(super) collection: String,
    /// Idempotency key.
    pub(super) key: String,
    /// Entity tag to send.
    pub(super) tag: Option<String>,
    /// Body; null if there is none.
    pub(super) body: Value,
}

impl Call {
    /// Creates a call with a body, without a query and an entity tag.
    pub(super) fn new(operation: Operation, path: String, key: String, body: Value) -> Self {
        let collection = path.rsplit('/').next().unwrap_or_default().to_owned();
        Self {
            operation,
            path,
            query: String::new(),
            collection,
            key,
            tag: None,
            body,
        }
    }

    /// Returns the request with a token, or with a session if the operation takes one.
    pub(super) fn request(&self, token: &Secret, session: &Secret) -> Request<Bytes> {
        let spec = self.operation.spec();
        let body = match &self.body {
            Value::Null => Bytes::new(),
            body => Bytes::from(body.to_string()),
        };
        let mut headers = vec![("idempotency-key", self.key.clone())];
        if !body.is_empty() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        match spec.authentication {
            Authentication::Session => {
                let session = session.expose();
                headers.push(("cookie", format!("service_session={session}")));
                headers.push(("sec-fetch-site", "none".to_owned()));
            }
            _ => headers.push(("authorization", format!("Bearer {}", token.expose()))),
        }
        if let Some(tag) = &self.tag {
            let is_read = spec.method == http::Method::GET;
            let name = ["if-match", "if-none-match"][usize::from(is_read)];
            headers.push((name, tag.clone()));
        }
        let mut request = Request::new(body);
        *request.method_mut() = spec.method.clone();
        let uri = format!("{}{}", self.path, self.query);
        *request.uri_mut() = uri.parse().expect("a path");
        for (name, value) in headers {
            let value = HeaderValue::try_from(value).expect("a header");
            request.headers_mut().insert(name, value);
        }
        request
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = &self.operation.spec().method;
        write!(f, "{method} {}{} {}", self.path, self.query, self.body)
    }
}
