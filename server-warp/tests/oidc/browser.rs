//! The part of a browser: it keeps cookies and follows no redirect by itself.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use url::Url;

use crate::world::{PUBLIC_URL, World};
use knowledge_http_suite::client::{Answer, Call};

/// Path that ends a sign-in.
pub(crate) const CALLBACK: &str = "/auth/oidc/callback";

/// A browser of one person.
#[derive(Clone, Default)]
pub(crate) struct Browser {
    /// Values and paths of cookies, by origin and name.
    cookies: BTreeMap<(String, String), (String, String)>,
    /// Base URL of the server that the public URL leads to.
    server: String,
}

impl Browser {
    pub(crate) fn new(world: &World) -> Self {
        Self {
            cookies: BTreeMap::new(),
            server: world.base_url.clone(),
        }
    }

    /// Sends further requests for the public URL to this server.
    pub(crate) fn reach(&mut self, world: &World) {
        self.server.clone_from(&world.base_url);
    }

    /// Returns the value of a cookie of the server.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        let key = (PUBLIC_URL.to_owned(), name.to_owned());
        self.cookies.get(&key).map(|(value, _)| value.as_str())
    }

    /// Replaces the value of a cookie of the server, or removes it.
    pub(crate) fn set_cookie(&mut self, name: &str, value: Option<&str>) {
        let key = (PUBLIC_URL.to_owned(), name.to_owned());
        let (_, path) = self.cookies.remove(&key).expect("the cookie");
        if let Some(value) = value {
            self.cookies.insert(key, (value.to_owned(), path));
        }
    }

    /// Sends a request, and keeps the cookies of the response.
    pub(crate) async fn send(&mut self, method: Method, url: &str) -> Answer {
        let url = Url::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        let origin = url.origin().ascii_serialization();
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let mut call = Call::new(method, path).site("same-origin");
        let cookies = self.cookies.iter();
        let sent = cookies.filter(|((of, _), (_, below))| {
            *of == origin && url.path().starts_with(below.as_str())
        });
        let sent: Vec<_> = sent
            .map(|((_, name), (value, _))| format!("{name}={value}"))
            .collect();
        if !sent.is_empty() {
            call = call.header("cookie", sent.join("; "));
        }
        let at = if origin == PUBLIC_URL {
            &self.server
        } else {
            &origin
        };
        let answer = call.send_to(at).await;
        for line in answer.headers.get_all("set-cookie") {
            self.keep(&origin, url.path(), line.to_str().expect("visible ASCII"));
        }
        answer
    }

    pub(crate) async fn get(&mut self, url: &str) -> Answer {
        self.send(Method::GET, url).await
    }

    fn keep(&mut self, origin: &str, path: &str, line: &str) {
        let mut parts = line.split(';').map(str::trim);
        let (name, value) = parts
            .next()
            .and_then(|pair| pair.split_once('='))
            .expect("a pair");
        let attributes: BTreeMap<String, String> = parts
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let key = (origin.to_owned(), name.to_owned());
        let is_past = attributes
            .get("expires")
            .is_some_and(|date| date.contains(" 1970 "));
        if is_past || attributes.get("max-age").is_some_and(|age| age == "0") {
            self.cookies.remove(&key);
            return;
        }
        let below = attributes.get("path").map_or(path, String::as_str);
        self.cookies
            .insert(key, (value.to_owned(), below.to_owned()));
    }

    /// Begins a sign-in and returns the URL of the provider.
    pub(crate) async fn begin(&mut self, return_to: &str) -> Url {
        let mut start = Url::parse(&format!("{PUBLIC_URL}/auth/oidc/start")).expect("a URL");
        if !return_to.is_empty() {
            start.query_pairs_mut().append_pair("return_to", return_to);
        }
        let answer = self.get(start.as_str()).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{answer:?}");
        Url::parse(answer.header("location")).expect("a URL")
    }

    /// Signs in at the provider with this query, such as `account=grace`, and returns the URL of
    /// the callback.
    pub(crate) async fn visit(&mut self, authorization: &Url, query: &str) -> Url {
        let mut next = authorization.clone();
        for _ in 0..10 {
            let answer = self.get(next.as_str()).await;
            assert!(answer.status.is_redirection(), "{next}: {answer:?}");
            next = next.join(answer.header("location")).expect("a URL");
            if next.as_str().starts_with(PUBLIC_URL) {
                return next;
            }
            if next.path().starts_with("/interaction/") {
                next.set_query(Some(query));
            }
        }
        panic!("the provider never ends: {next}");
    }

    /// Signs in as this person and returns the response to the callback.
    pub(crate) async fn sign_in(&mut self, account: &str) -> Answer {
        let authorization = self.begin("").await;
        let query = format!("account={account}");
        let callback = self.visit(&authorization, &query).await;
        self.get(callback.as_str()).await
    }

    /// Asks the server who is signed in.
    pub(crate) async fn session(&mut self) -> Answer {
        self.get(&format!("{PUBLIC_URL}/auth/session")).await
    }
}

/// Replaces a parameter of a URL.
pub(crate) fn with(url: &Url, name: &str, value: &str) -> Url {
    let mut changed = url.clone();
    let pairs = url.query_pairs();
    let pairs: Vec<_> = pairs.filter(|(found, _)| found != name).collect();
    changed
        .query_pairs_mut()
        .clear()
        .extend_pairs(pairs)
        .append_pair(name, value);
    changed
}

/// Returns a parameter of a URL.
pub(crate) fn parameter(url: &Url, name: &str) -> String {
    let mut pairs = url.query_pairs();
    let found = pairs.find(|(found, _)| found == name);
    found
        .unwrap_or_else(|| panic!("{url} has no {name}"))
        .1
        .into_owned()
}

/// Panics unless the response is a page about a failure that sets no session.
pub(crate) fn assert_refused(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
    let policy = answer.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    for line in answer.headers.get_all("set-cookie") {
        let line = line.to_str().expect("visible ASCII");
        assert!(line.starts_with("service_sign_in=; "), "{line}");
    }
}
