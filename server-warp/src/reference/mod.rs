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
use http::{Request, Response};
use knowledge_core::api::openapi;
use knowledge_core::limits::Limits;
use sha2::{Digest, Sha256};

use crate::resource::Resource;

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
    /// Generates the reference of a server with these limits, and with this public URL if it has one,
    /// whose path the document names.
    ///
    /// # Panics
    /// Never: the document serialises.
    #[must_use]
    pub fn new(limits: &Limits, public_url: Option<&str>) -> Self {
        let mut document = openapi::document(limits);
        let url = public_url.and_then(|url| url::Url::parse(url).ok());
        if let Some(path) = url.map(|url| url.path().trim_end_matches('/').to_owned())
            && !path.is_empty()
        {
            document["servers"] = serde_json::json!([{ "url": path }]);
        }
        let json = serde_json::to_vec(&document).expect("a JSON value serialises");
        let page = page::page(&document);
        let style = STANDARD.encode(Sha256::digest(page::STYLE));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        );
        Self {
            document: Resource::new(DOCUMENT_PATH, "application/json", json),
            page: Resource::new(PAGE_PATH, "text/html; charset=utf-8", page.into_bytes())
                .with_policy(&policy),
        }
    }

    /// Responds to a request for one of the two; `None` for any other path.
    #[must_use]
    pub fn respond(&self, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        let resource = [&self.document, &self.page]
            .into_iter()
            .find(|resource| resource.route() == request.uri().path())?;
        Some(resource.respond(request))
    }
}
