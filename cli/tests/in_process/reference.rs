//! `/openapi.json` and `/docs`, the server's description of its interface.

use http::Method;
use knowledge_core::api::{OPERATIONS, openapi};
use knowledge_core::limits::Limits;
use knowledge_server::net::NetConfig;

use crate::support::{Answer, Call, InProcess};

async fn get(server: &InProcess, path: &str) -> Answer {
    Call::new(Method::GET, path).send_to(&server.base_url).await
}

async fn server() -> InProcess {
    InProcess::behind(NetConfig::default()).await
}

#[tokio::test]
async fn openapi_document_requires_no_credential() {
    let server = server().await;
    let answer = get(&server, "/openapi.json").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "public, no-cache");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.json(), openapi::document(&Limits::default()));
}

#[tokio::test]
async fn reference_page_describes_every_operation() {
    let server = server().await;
    let answer = get(&server, "/docs").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    let page = String::from_utf8(answer.body.to_vec()).expect("UTF-8");
    for spec in OPERATIONS {
        let anchor = format!("<article class=operation id=\"{}\">", spec.operation.id());
        assert!(page.contains(&anchor), "{}", spec.operation.id());
    }
    for target in page.split("href=\"#").skip(1) {
        let target = target.split('"').next().expect("a text");
        let anchors = [format!("id=\"{target}\""), format!("id={target}>")];
        assert!(
            anchors.iter().any(|anchor| page.contains(anchor)),
            "{target}"
        );
    }
}

#[tokio::test]
async fn reference_page_is_self_contained() {
    let server = server().await;
    let answer = get(&server, "/docs").await;
    let policy = answer.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    let page = String::from_utf8(answer.body.to_vec()).expect("UTF-8");
    for loading in [
        "<script", "<link", "<img", "<iframe", "src=", "@import", "url(", "style=",
    ] {
        assert!(!page.contains(loading), "{loading}");
    }
    assert!(!page.contains("href=\"http"), "it leads to another address");
}

/// A screen is 360 px wide, which is 22.5 rem.
#[tokio::test]
async fn reference_tables_stack_on_narrow_screens() {
    let server = server().await;
    let answer = get(&server, "/docs").await;
    let page = String::from_utf8(answer.body.to_vec()).expect("UTF-8");
    let narrow = page.split("@media (max-width: ").skip(1).find_map(|rules| {
        let (width, rules) = rules.split_once("rem) {\n")?;
        let width: f64 = width.parse().ok()?;
        let (rules, _) = rules.split_once("\n}\n")?;
        let rule = "table, tbody, tr, th, td { display: block; }";
        (width >= 22.5 && rules.contains(rule)).then_some(rules)
    });
    assert!(
        narrow
            .expect("a rule")
            .contains("overflow-wrap: anywhere; white-space: normal;")
    );
}

#[tokio::test]
async fn reference_is_revalidated_by_etag() {
    let server = server().await;
    for path in ["/openapi.json", "/docs"] {
        let first = get(&server, path).await;
        let tag = first.header("etag");
        for known in [
            tag.to_owned(),
            format!("W/{tag}"),
            format!("\"other\", {tag}"),
            "*".to_owned(),
        ] {
            let call = Call::new(Method::GET, path).header("if-none-match", &known);
            let answer = call.send_to(&server.base_url).await;
            assert_eq!(answer.status, 304, "{path} {known}");
            assert_eq!(answer.header("etag"), tag);
            assert!(answer.body.is_empty());
        }
        let call = Call::new(Method::GET, path).header("if-none-match", "\"other\"");
        assert_eq!(call.send_to(&server.base_url).await.body, first.body);
    }
}

#[tokio::test]
async fn reference_is_read_only() {
    let server = server().await;
    for path in ["/openapi.json", "/docs"] {
        let length = get(&server, path).await.body.len();
        let head = Call::new(Method::HEAD, path)
            .send_to(&server.base_url)
            .await;
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
        assert_eq!(head.header("content-length"), length.to_string());
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let answer = Call::new(method, path).send_to(&server.base_url).await;
            assert_eq!(
                (answer.status.as_u16(), answer.header("allow")),
                (405, "GET, HEAD")
            );
        }
    }
}
