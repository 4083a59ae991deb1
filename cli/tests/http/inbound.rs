//! `POST /v1/workspaces/{id}/inbound-webhooks`

use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Call, Show, create_inbound_webhook, own_org, quiet_org};

fn body() -> Value {
    json!({ "name": "Tickets" })
}

#[tokio::test]
async fn inbound_webhook_is_created() {
    let org = own_org();
    let admin = &org.members.admin;
    let answer = create_inbound_webhook(&admin.token, org.main.id, &body())
        .send()
        .await;
    insta::assert_snapshot!(answer.show(), @r#"
    201 Created
    cache-control: no-store
    content-length: 560
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "id": "<uuid 2>",
      "org_id": "<uuid 3>",
      "workspace_id": "<uuid 4>",
      "name": "Tickets",
      "url": "/v1/inbound/<uuid 3>/<uuid 2>",
      "source_id": "<uuid 2>",
      "acts_as": "<uuid 5>",
      "signing_secret": "<secret>",
      "created_by": "<uuid 5>",
      "created_at": "<time>",
      "updated_at": "<time>"
    }
    "#);
    let created = answer.json();
    let expected = [
        ("org_id", json!(org.id)),
        ("workspace_id", json!(org.main.id)),
        ("created_by", json!(admin.id)),
    ];
    for (field, value) in expected {
        assert_eq!(created[field], value, "{field}");
    }
    let url = created["url"].as_str().expect("a URL");
    assert!(
        url.contains(created["id"].as_str().expect("an id")),
        "{url}"
    );
    let again = create_inbound_webhook(&admin.token, org.main.id, &body())
        .send()
        .await
        .json();
    for field in ["id", "url", "signing_secret"] {
        assert_ne!(again[field], created[field], "{field}");
    }
}

#[tokio::test]
async fn inbound_webhooks_per_workspace_are_limited() {
    let org = own_org();
    let send = || create_inbound_webhook(&org.members.admin.token, org.side.id, &body()).send();
    for _ in 0..50 {
        assert_eq!(send().await.status, 201);
    }
    insta::assert_snapshot!(send().await.show(), @"
    400 Bad Request
    cache-control: no-store
    content-length: 0
    date: <date>
    error-code: invalid_request
    error-message: the workspace already has 50 inbound webhooks, the maximum
    request-id: <uuid 1>
    ");
}

#[tokio::test]
async fn inbound_webhook_rejects_invalid_request() {
    let org = quiet_org();
    let send = async |body: Value| {
        create_inbound_webhook(&org.members.admin.token, org.main.id, &body)
            .send()
            .await
    };
    insta::assert_snapshot!(send(json!({})).await.show(), @"
    400 Bad Request
    cache-control: no-store
    content-length: 0
    date: <date>
    error-code: invalid_request
    error-message: name is required
    request-id: <uuid 1>
    ");
    let message = async |name: Value| {
        let answer = send(json!({ "name": name })).await;
        assert_eq!(
            (answer.status.as_u16(), answer.body.len()),
            (400, 0),
            "{answer:?}"
        );
        answer.header("error-message").to_owned()
    };
    insta::assert_snapshot!(message(json!("")).await, @"name must have 1 to 128 characters, not only white space, and no control characters");
    insta::assert_snapshot!(message(json!("n".repeat(129))).await, @"name must have 1 to 128 characters, not only white space, and no control characters");
    insta::assert_snapshot!(message(json!(null)).await, @"name must be a string, not null");
    insta::assert_snapshot!(message(json!({ "en": "Tickets" })).await, @"name must be a string, not an object");
}

#[tokio::test]
async fn inbound_webhook_name_is_counted_in_characters() {
    let org = own_org();
    for name in [
        "n".repeat(128),
        "ä".repeat(128),
        " \u{1f4da} \"quoted\" \\ ".to_owned(),
    ] {
        let body = json!({ "name": name });
        let call = create_inbound_webhook(&org.members.admin.token, org.main.id, &body);
        assert_eq!(call.send().await.json()["name"], json!(name));
    }
}

#[tokio::test]
async fn inbound_webhook_rejects_unauthenticated_caller() {
    let org = quiet_org();
    let call = create_inbound_webhook("", org.main.id, &body()).without("authorization");
    insta::assert_snapshot!(call.send().await.show(), @r#"
    401 Unauthorized
    cache-control: no-store
    content-length: 0
    date: <date>
    error-code: unauthenticated
    error-message: an access token is required; send Authorization: Bearer wkt_...
    request-id: <uuid 1>
    www-authenticate: Bearer realm="knowledge"
    "#);
}

#[tokio::test]
async fn inbound_webhook_requires_permission() {
    let org = quiet_org();
    let call = create_inbound_webhook(&org.members.member.token, org.main.id, &body());
    insta::assert_snapshot!(call.send().await.show(), @"
    403 Forbidden
    cache-control: no-store
    content-length: 0
    date: <date>
    error-code: forbidden
    error-message: missing permission inbound_webhook:manage
    request-id: <uuid 1>
    ");
}

#[tokio::test]
async fn inbound_webhook_requires_known_workspace() {
    let org = quiet_org();
    let send = async |id: &str| {
        Call::new(
            Method::POST,
            format!("/v1/workspaces/{id}/inbound-webhooks"),
        )
        .bearer(&org.members.admin.token)
        .json(&body())
        .send()
        .await
    };
    let unknown = send(&Uuid::max().to_string()).await;
    insta::assert_snapshot!(unknown.show(), @"
    404 Not Found
    cache-control: no-store
    content-length: 0
    date: <date>
    error-code: not_found
    error-message: there is no such workspace
    request-id: <uuid 1>
    ");
    for malformed in ["handbook", "0", &Uuid::nil().to_string()] {
        assert_eq!(send(malformed).await.show(), unknown.show(), "{malformed}");
    }
}
