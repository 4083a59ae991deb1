//! The server's own reference: the OpenAPI document and an HTML page generated from it.
//!
//! Both are generated at startup and are public. The page is self-contained: no scripts, fonts or
//! images from elsewhere, which its `Content-Security-Policy` also enforces.

mod html;
mod operation;
mod page;
mod types;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use knowledge_core::api::{MatchedRoute, openapi};
use knowledge_core::limits::Limits;
use sha2::{Digest, Sha256};

/// Path of the OpenAPI document.
pub const DOCUMENT_PATH: &str = "/openapi.json";
/// Path of the page.
pub const PAGE_PATH: &str = "/docs";

/// The document and the page of a server.
#[derive(Clone, Debug)]
pub struct Reference {
    document: Resource,
    page: Resource,
}

impl Reference {
    /// Generates the reference of a server with these limits.
    ///
    /// # Panics
    /// Never: the document serialises, and the headers are visible ASCII.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        let document = openapi::document(limits);
        let json = serde_json::to_vec(&document).expect("a JSON value serialises");
        let page = page::page(&document);
        let style = STANDARD.encode(Sha256::digest(page::STYLE));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Self {
            document: Resource::new(DOCUMENT_PATH, "application/json", json),
            page: Resource {
                policy: Some(HeaderValue::try_from(policy).expect("visible ASCII")),
                ..Resource::new(PAGE_PATH, "text/html; charset=utf-8", page.into_bytes())
            },
        }
    }

    /// Responds to a request for one of the two; `None` for any other path.
    #[must_use]
    pub fn respond(&self, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        let resource = [&self.document, &self.page]
            .into_iter()
            .find(|resource| resource.path == request.uri().path())?;
        let mut response = resource.respond(request.method(), request.headers());
        response
            .extensions_mut()
            .insert(MatchedRoute(resource.path));
        Some(response)
    }
}

/// A response that is constant while the server runs.
#[derive(Clone, Debug)]
struct Resource {
    path: &'static str,
    content_type: &'static str,
    body: Bytes,
    etag: HeaderValue,
    policy: Option<HeaderValue>,
}

impl Resource {
    fn new(path: &'static str, content_type: &'static str, body: Vec<u8>) -> Self {
        let digest = Sha256::digest(&body);
        let digits: String = digest[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            path,
            content_type,
            body: body.into(),
            etag: HeaderValue::try_from(format!("\"{digits}\"")).expect("visible ASCII"),
            policy: None,
        }
    }

    fn respond(&self, method: &Method, headers: &HeaderMap) -> Response<Bytes> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allow = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allow);
            return response;
        }
        let is_unmodified = self.is_unmodified(headers);
        // hyper omits the body of a response to HEAD and keeps its length.
        let mut response = Response::new(match is_unmodified {
            true => Bytes::new(),
            false => self.body.clone(),
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
