//! Quotas of organisations, as callers meet them.

use http::{Method, StatusCode};
use serde_json::json;

use crate::support::{Answer, Call, InProcess};

fn assert_exceeded(answer: &Answer, limit: &str, maximum: u64) {
    let body = answer.json();
    assert_eq!(body["error"], "quota_exceeded", "{answer:?}");
    assert_eq!(
        body["details"],
        json!({ "limit": limit, "maximum": maximum })
    );
}

#[tokio::test]
async fn quota_error_names_its_limit() {
    let server = InProcess::limited(|options| {
        options.limits.chats_per_org_max = 0;
        options.limits.endpoints_per_org_max = 0;
    })
    .await;
    let org = server.org();
    let token = &org.members.owner.token;
    let create = |what: &str, body| {
        let path = format!("/v1/workspaces/{}/{what}", org.main.id);
        let call = Call::new(Method::POST, path).bearer(token).json(&body);
        async { call.send_to(&server.base_url).await }
    };
    let refused = create("chats", json!({ "title": "One" })).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert_exceeded(&refused, "chats", 0);

    // Where error responses have no body, the headers say the same.
    let webhook = json!({ "event_type": "chunk.created", "url": "https://example.com/hook" });
    let refused = create("webhooks", webhook).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(refused.body.is_empty());
    assert_eq!(refused.header("error-code"), "quota_exceeded");
    let message = refused.header("error-message");
    assert!(message.contains("at most 0 endpoints"), "{message}");
}

#[tokio::test]
async fn exhausted_audit_quota_says_when_to_retry() {
    let server = InProcess::limited(|options| options.limits.audit_bytes_per_day_max = 1).await;
    let org = server.org();
    let token = &org.members.owner.token;
    let path = format!("/v1/workspaces/{}/chats", org.main.id);
    let create = Call::new(Method::POST, path).bearer(token);
    let create = create.json(&json!({ "title": "One" }));
    let refused = create.send_to(&server.base_url).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_exceeded(&refused, "audit_bytes_per_day", 1);
    let wait: u64 = refused.header("retry-after").parse().expect("seconds");
    assert!((1..=86_401).contains(&wait), "{wait}");

    let memory = format!("/v1/memories/{}", org.main.memories.internal[0]);
    for (method, expected) in [
        (Method::GET, StatusCode::OK),
        (Method::DELETE, StatusCode::NO_CONTENT),
        (Method::GET, StatusCode::NOT_FOUND),
    ] {
        let call = Call::new(method, memory.clone()).bearer(token);
        assert_eq!(call.send_to(&server.base_url).await.status, expected);
    }
}
