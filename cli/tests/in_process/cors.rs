//! The CORS protocol, as pages of other origins meet it.

use std::time::Duration;

use http::{Method, StatusCode};
use knowledge_core::api::OPERATIONS;
use knowledge_server::net::{AllowedOrigin, CorsConfig, NetConfig};
use serde_json::json;

use crate::support::{Answer, Call, InProcess, Operation, dashboard, list_roles, update_role};

/// The page's origin, on another site than the server.
const APP: &str = "https://app.example.com";
const OTHER: &str = "https://other.example.com";

fn these(origins: &[&str]) -> Vec<AllowedOrigin> {
    let origins = origins.iter().map(ToString::to_string);
    origins.map(AllowedOrigin::Origin).collect()
}

async fn server(cors: CorsConfig) -> InProcess {
    InProcess::behind(NetConfig {
        cors,
        body_bytes_max: 64 * 1_024,
        ..NetConfig::default()
    })
    .await
}

/// Returns a call as a browser makes it for a page of this origin.
fn from_page(call: Call, origin: &str) -> Call {
    call.header("origin", origin).site("cross-site")
}

fn preflight(path: &str, origin: &str, method: &str) -> Call {
    from_page(Call::new(Method::OPTIONS, path), origin)
        .header("access-control-request-method", method)
        .header(
            "access-control-request-headers",
            "authorization,idempotency-key",
        )
}

/// Returns the names in a list header, in lower case.
fn list(answer: &Answer, name: &str) -> Vec<String> {
    let names = answer.header(name).split(',');
    names.map(|name| name.trim().to_ascii_lowercase()).collect()
}

/// Panics if a page of the origin could not read the response, or a cache could give it to another.
fn assert_readable(answer: &Answer, origin: &str) {
    assert_eq!(answer.header("access-control-allow-origin"), origin);
    assert!(
        list(answer, "vary").contains(&"origin".to_owned()),
        "{answer:?}"
    );
    let exposed = list(answer, "access-control-expose-headers");
    for name in [
        "etag",
        "request-id",
        "error-code",
        "error-message",
        "idempotent-replayed",
        "retry-after",
        "ratelimit",
        "ratelimit-policy",
        "www-authenticate",
    ] {
        assert!(exposed.contains(&name.to_owned()), "{name}: {exposed:?}");
    }
}

fn assert_unreadable(answer: &Answer) {
    assert!(
        !answer.headers.contains_key("access-control-allow-origin"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn preflight_lists_allowed_methods_and_headers() {
    let cors = CorsConfig {
        max_age: Duration::from_secs(600),
        ..CorsConfig::new(these(&[OTHER, APP]))
    };
    let server = server(cors).await;
    let answer = preflight("/v1/memories/bulk", APP, "PATCH")
        .send_to(&server.base_url)
        .await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    assert!(answer.body.is_empty());
    assert_eq!(answer.header("access-control-allow-origin"), APP);
    assert_eq!(answer.header("access-control-max-age"), "600");
    assert!(list(&answer, "vary").contains(&"origin".to_owned()));
    assert!(!answer.header("request-id").is_empty());
    assert!(
        !answer
            .headers
            .contains_key("access-control-allow-credentials")
    );
    let methods = list(&answer, "access-control-allow-methods");
    for operation in OPERATIONS {
        let method = operation.method.as_str().to_ascii_lowercase();
        assert!(methods.contains(&method), "{method}: {methods:?}");
    }
    let headers = list(&answer, "access-control-allow-headers");
    for name in [
        "authorization",
        "content-type",
        "idempotency-key",
        "if-match",
        "if-none-match",
        "knowledge-act-for",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
    ] {
        assert!(headers.contains(&name.to_owned()), "{name}: {headers:?}");
    }
}

#[tokio::test]
async fn other_origins_get_no_cors_headers() {
    let server = server(CorsConfig::new(these(&[APP]))).await;
    for origin in [
        OTHER,
        "null",
        "https://app.example.com.evil.example",
        "http://app.example.com",
    ] {
        let answer = preflight("/v1/memories/bulk", origin, "PATCH")
            .send_to(&server.base_url)
            .await;
        assert_unreadable(&answer);
    }
    let org = server.org();
    let call = dashboard(&org.members.viewer.token, org.main.id);
    let answer = from_page(call.clone(), OTHER)
        .send_to(&server.base_url)
        .await;
    assert_unreadable(&answer);
    assert_eq!(list(&answer, "vary"), ["origin"]);
    // A request without an origin is served, and a cache must not give its response to a page.
    let answer = call.send_to(&server.base_url).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_unreadable(&answer);
    assert_eq!(list(&answer, "vary"), ["origin"]);
}

#[tokio::test]
async fn responses_and_errors_are_readable_by_pages() {
    let server = server(CorsConfig::new(these(&[APP]))).await;
    for operation in Operation::all(server.org()) {
        let refused = from_page(operation.anonymous(), APP)
            .send_to(&server.base_url)
            .await;
        assert_eq!(
            refused.status,
            StatusCode::UNAUTHORIZED,
            "{}",
            operation.name
        );
        assert_readable(&refused, APP);
        if !operation.takes_session {
            let answer = from_page(operation.call, APP)
                .send_to(&server.base_url)
                .await;
            assert!(answer.status.is_success(), "{answer:?}");
            assert_readable(&answer, APP);
        }
    }
    let unknown = from_page(Call::new(Method::GET, "/nowhere"), APP)
        .send_to(&server.base_url)
        .await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert_readable(&unknown, APP);
    let long = Call::new(Method::PATCH, "/v1/memories/bulk").body(vec![b' '; 65 * 1_024]);
    let refused = from_page(long, APP).send_to(&server.base_url).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_readable(&refused, APP);
}

#[tokio::test]
async fn cors_may_allow_any_origin() {
    let server = server(CorsConfig::new([AllowedOrigin::Any])).await;
    let org = server.org();
    let answer = preflight("/v1/memories/bulk", OTHER, "PATCH")
        .send_to(&server.base_url)
        .await;
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    assert!(
        !answer
            .headers
            .contains_key("access-control-allow-credentials")
    );
    let call = dashboard(&org.members.viewer.token, org.main.id);
    let answer = from_page(call, OTHER).send_to(&server.base_url).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("access-control-allow-origin"), "*");
}

#[tokio::test]
async fn sessions_require_named_origins_with_credentials() {
    let rename = json!({ "name": "Renamed" });
    for credentials in [false, true] {
        let server = server(CorsConfig {
            credentials,
            ..CorsConfig::new(these(&[APP]))
        })
        .await;
        let org = server.org();
        let session = &org.members.owner.session;
        let write = update_role(session, &org.slug, org.roles.guest, &rename);
        let answer = from_page(write.clone(), OTHER)
            .send_to(&server.base_url)
            .await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert_unreadable(&answer);

        let answer = from_page(write, APP).send_to(&server.base_url).await;
        assert_readable(&answer, APP);
        let allowed = answer.headers.get("access-control-allow-credentials");
        if credentials {
            assert_eq!(answer.status, StatusCode::OK);
            assert_eq!(answer.json()["data"]["name"], "Renamed");
            assert_eq!(allowed.expect("allowed"), "true");
        } else {
            assert_eq!(answer.status, StatusCode::FORBIDDEN);
            assert_eq!(allowed, None);
        }
        let preflight = preflight("/v1/orgs/acme/custom-roles", APP, "PATCH")
            .send_to(&server.base_url)
            .await;
        let allowed = preflight.headers.get("access-control-allow-credentials");
        assert_eq!(allowed.is_some(), credentials, "{preflight:?}");
        let read = from_page(list_roles(session, &org.slug), APP);
        let answer = read.send_to(&server.base_url).await;
        assert_eq!(answer.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn options_without_preflight_headers_is_not_a_preflight() {
    let server = server(CorsConfig::new(these(&[APP]))).await;
    let answer = from_page(Call::new(Method::OPTIONS, "/v1/memories/bulk"), APP)
        .send_to(&server.base_url)
        .await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(answer.header("allow"), "PATCH");
    assert_readable(&answer, APP);
}

#[tokio::test]
async fn cors_is_off_without_origins() {
    let server = InProcess::behind(NetConfig::default()).await;
    let org = server.org();
    let answer = preflight("/v1/memories/bulk", APP, "PATCH")
        .send_to(&server.base_url)
        .await;
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_unreadable(&answer);
    let call = dashboard(&org.members.viewer.token, org.main.id);
    let answer = from_page(call, APP).send_to(&server.base_url).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_unreadable(&answer);
    assert!(!answer.headers.contains_key("vary"));
}
