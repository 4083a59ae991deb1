//! The console at `/`.

use http::Method;
use knowledge_server::net::NetConfig;

use crate::support::{Answer, Call, InProcess};

async fn get(server: &InProcess, path: &str) -> Answer {
    Call::new(Method::GET, path).send_to(&server.base_url).await
}

#[tokio::test]
async fn console_and_its_files_require_no_credential() {
    let server = InProcess::behind(NetConfig::default()).await;
    let page = get(&server, "/").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    let policy = page.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self';"),
        "{policy}"
    );
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");

    let text = String::from_utf8(page.body.to_vec()).expect("UTF-8");
    let files: Vec<_> = text
        .split('"')
        .filter(|value| value.starts_with("console/"))
        .collect();
    assert!(files.len() >= 3, "{text}");
    for file in files {
        let answer = get(&server, &format!("/{file}")).await;
        assert_eq!(answer.status, 200, "{file}");
        assert!(!answer.body.is_empty(), "{file}");
    }
}

#[tokio::test]
async fn console_file_is_sent_again_only_if_it_changed() {
    let server = InProcess::behind(NetConfig::default()).await;
    let first = get(&server, "/console/main.js").await;
    assert_eq!(
        first.header("content-type"),
        "text/javascript; charset=utf-8"
    );
    let second = Call::new(Method::GET, "/console/main.js")
        .header("if-none-match", first.header("etag"))
        .send_to(&server.base_url)
        .await;
    assert_eq!(second.status, 304);
    assert!(second.body.is_empty());
}

#[tokio::test]
async fn only_files_of_the_page_are_served() {
    let server = InProcess::behind(NetConfig::default()).await;
    for path in [
        "/console/",
        "/console/index.html",
        "/index.html",
        "/console/context.d.ts",
        "/console/../console/main.js",
        "/console/%6dain.js",
        "/console/screens",
        "/console/../package.json",
    ] {
        assert_eq!(get(&server, path).await.status, 404, "{path}");
    }
    let posted = Call::new(Method::POST, "/").send_to(&server.base_url).await;
    assert_eq!(posted.status, 405);
    assert_eq!(posted.header("allow"), "GET, HEAD");
}
