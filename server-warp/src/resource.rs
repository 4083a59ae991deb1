//! Resources that are constant while the server runs: the reference and the console.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use knowledge_core::api::MatchedRoute;
use sha2::{Digest, Sha256};

/// A resource that is constant while the server runs, with its entity tag.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// Its path, or the pattern of its path, by which metrics and spans name it.
    route: &'static str,
    content_type: &'static str,
    body: Bytes,
    etag: HeaderValue,
    policy: Option<HeaderValue>,
}

impl Resource {
    /// Creates a resource without a content security policy.
    pub(crate) fn new(
        route: &'static str,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        let body = body.into();
        let digest = Sha256::digest(&body);
        let digits: String = digest[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            route,
            content_type,
            body,
            etag: HeaderValue::try_from(format!("\"{digits}\"")).expect("visible ASCII"),
            policy: None,
        }
    }

    /// Sets the content security policy.
    ///
    /// # Panics
    /// If it is not visible ASCII.
    pub(crate) fn with_policy(mut self, policy: &str) -> Self {
        self.policy = Some(HeaderValue::try_from(policy).expect("visible ASCII"));
        self
    }

    pub(crate) fn route(&self) -> &'static str {
        self.route
    }

    /// Responds to a request for this resource.
    pub(crate) fn respond(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let mut response = self.response(request.method(), request.headers());
        response.extensions_mut().insert(MatchedRoute(self.route));
        response
    }

    fn response(&self, method: &Method, headers: &HeaderMap) -> Response<Bytes> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allow = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allow);
            return response;
        }
        let is_unmodified = self.is_unmodified(headers);
        // hyper omits the body of a response to HEAD and keeps its length.
        let mut response = Response::new(if is_unmodified {
            Bytes::new()
        } else {
            self.body.clone()
        });
        let headers = response.headers_mut();
        headers.insert(ETAG, self.etag.clone());
        // Clients revalidate each time, and receive the body only if it has changed.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, no-cache"));
        if is_unmodified {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        if let Some(policy) = &self.policy {
            headers.insert(CONTENT_SECURITY_POLICY, policy.clone());
        }
        response
    }

    /// True if the client has the current version. The comparison is weak, as compression weakens
    /// tags.
    fn is_unmodified(&self, headers: &HeaderMap) -> bool {
        let lines = headers.get_all(IF_NONE_MATCH).into_iter();
        lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(','))
            .map(|tag| tag.trim())
            .any(|tag| tag == "*" || self.etag == tag.strip_prefix("W/").unwrap_or(tag))
    }
}
