//! The console: a page at `/` and its files below `/console/`, embedded in the binary by the feature
//! `console`.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY};
use http::{HeaderValue, Request, Response, StatusCode};
use knowledge_core::api::MatchedRoute;

use crate::reference;
use crate::resource::Resource;

/// Path of the page.
pub const PAGE_PATH: &str = "/";
/// Page among the files.
const PAGE: &str = "index.html";
/// Beginning of the paths of all other files.
const FILES_PATH: &str = "/console/";
/// Beginning of the path of a sign-in link whose `#` a program on its way has encoded.
const ENCODED_LINK: &str = "/%23/login/";
/// Label of these paths in metrics and spans.
const FILES_ROUTE: &str = "/console/{file}";

/// Everything comes from the server itself, and there is neither an inline script nor an inline
/// style. Only `lit-html` may turn text into elements (Trusted Types).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types lit-html";

/// Names of the files, with their media types and contents, sorted by name.
#[cfg(feature = "console")]
const FILES: &[(&str, &str, &str)] = &include!(concat!(env!("OUT_DIR"), "/console.rs"));
#[cfg(not(feature = "console"))]
const FILES: &[(&str, &str, &str)] = &[];

/// The files of the console; none in a binary without it.
#[derive(Clone, Debug)]
pub struct Console {
    /// Sorted by name.
    files: Vec<(&'static str, Resource)>,
}

impl Console {
    /// Reads the files in the binary.
    #[must_use]
    pub fn new() -> Self {
        let resource =
            |&(name, content_type, text): &(&'static str, &'static str, &'static str)| {
                let route = match name {
                    PAGE => PAGE_PATH,
                    _ => FILES_ROUTE,
                };
                let resource = Resource::new(route, content_type, text).with_policy(POLICY);
                (name, resource)
            };
        Self {
            files: FILES.iter().map(resource).collect(),
        }
    }

    /// Responds to a request for the page or one of its files; `None` for any other path. Without a
    /// page, its path leads to the reference.
    #[must_use]
    pub fn respond(&self, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        if self.files.is_empty() && request.uri().path() == PAGE_PATH {
            return Some(to_reference());
        }
        if let Some(link) = request.uri().path().strip_prefix(ENCODED_LINK) {
            return to_link(link);
        }
        let name = match request.uri().path() {
            PAGE_PATH => PAGE,
            path => path.strip_prefix(FILES_PATH).filter(|name| *name != PAGE)?,
        };
        let index = self.files.binary_search_by_key(&name, |(name, _)| name);
        Some(self.files[index.ok()?].1.respond(request))
    }
}

fn to_reference() -> Response<Bytes> {
    to(HeaderValue::from_static(reference::PAGE_PATH))
}

/// Leads a sign-in link that has lost its `#` to the page, relative to a path that a proxy may have.
fn to_link(link: &str) -> Option<Response<Bytes>> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_link = !link.is_empty() && link.bytes().all(is_plain);
    let target = HeaderValue::try_from(format!("../../#/login/{link}"));
    let mut response = to(target.ok().filter(|_| is_link)?);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Some(response)
}

fn to(target: HeaderValue) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    response.headers_mut().insert(LOCATION, target);
    response.extensions_mut().insert(MatchedRoute(PAGE_PATH));
    response
}

impl Default for Console {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_with_an_encoded_hash_leads_to_the_page() {
        let console = Console::new();
        let get = |path: &str| {
            let request = Request::get(path).body(Bytes::new());
            console.respond(&request.expect("a valid request"))
        };
        let response = get("/%23/login/wkl_a-b_c").expect("a response");
        assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT);
        assert_eq!(response.headers()[LOCATION], "../../#/login/wkl_a-b_c");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        for path in [
            "/%23/login/",
            "/%23/login/a/b",
            "/%23/login/a%0d",
            "/%23/members",
        ] {
            assert!(get(path).is_none(), "{path}");
        }
    }

    #[test]
    fn page_that_is_left_out_leads_to_the_reference() {
        let console = Console { files: Vec::new() };
        let get = |path: &str| {
            let request = Request::get(path).body(Bytes::new());
            console.respond(&request.expect("a valid request"))
        };
        let response = get("/").expect("a response");
        assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT);
        assert_eq!(response.headers()[LOCATION], "/docs");
        assert!(get("/console/main.js").is_none());
    }
}
