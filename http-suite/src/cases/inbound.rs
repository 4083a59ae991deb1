//! `POST /v1/workspaces/{id}/inbound-webhooks`

use serde_json::{Value, json};

use crate::support::{Show, assert_rejections, create_inbound_webhook, error, own_org};

suite![
    inbound_webhook_is_created,
    inbound_webhooks_per_workspace_are_limited,
    inbound_webhook_rejects_invalid_request,
    inbound_webhook_name_is_counted_in_characters,
    inbound_webhook_rejects_unauthenticated_caller,
    inbound_webhook_requires_permission,
    inbound_webhook_requires_known_workspace,
];

fn body() -> Value {
    json!({ "name": "Tickets" })
}

async fn inbound_webhook_is_created() {
    let org = own_org();
    let admin = &org.members.admin;
    let answer = create_inbound_webhook(&admin.token, org.main.id, &body()).await;
    insta::assert_snapshot!(answer.show(), @r#"
    201 Created
    cache-control: no-store
    content-length: 613
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "id": "<uuid 2>", "org_id": "<uuid 3>", "workspace_id": "<uuid 4>", "name": "Tickets",
      "url": "/v1/inbound/<uuid 3>/<uuid 2>", "source_id": "<uuid 2>", "acts_as": "<uuid 5>",
      "signing_secret": "<secret>", "created_by": "<uuid 5>", "created_at": "<time>",
      "updated_at": "<time>", "state": "active", "ended_reason": null, "ended_at": null
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
        .await
        .json();
    for field in ["id", "url", "signing_secret"] {
        assert_ne!(again[field], created[field], "{field}");
    }
}

async fn inbound_webhooks_per_workspace_are_limited() {
    let org = own_org();
    let send = || create_inbound_webhook(&org.members.admin.token, org.side.id, &body());
    for _ in 0..50 {
        assert_eq!(send().await.status, 201);
    }
    insta::assert_snapshot!(error(&send().await), @"400 invalid_request in headers: the workspace already has 50 inbound webhooks, the maximum");
}

async fn inbound_webhook_rejects_invalid_request() {
    assert_rejections! { r#"
        admin POST /v1/workspaces/<main>/inbound-webhooks {}
          400 invalid_request in headers: name is required
        admin POST /v1/workspaces/<main>/inbound-webhooks {"name": ""}
        admin POST /v1/workspaces/<main>/inbound-webhooks {"name": "<129 x>"}
          400 invalid_request in headers: name must have 1 to 128 characters, not only white space, and no control characters
        admin POST /v1/workspaces/<main>/inbound-webhooks {"name": null}
          400 invalid_request in headers: name must be a string, not null
        admin POST /v1/workspaces/<main>/inbound-webhooks {"name": {"en": "Tickets"}}
          400 invalid_request in headers: name must be a string, not an object
    "# }
}

async fn inbound_webhook_name_is_counted_in_characters() {
    let org = own_org();
    for name in [
        "n".repeat(128),
        "ä".repeat(128),
        " \u{1f4da} \"quoted\" \\ ".to_owned(),
    ] {
        let body = json!({ "name": name });
        let call = create_inbound_webhook(&org.members.admin.token, org.main.id, &body);
        assert_eq!(call.await.json()["name"], json!(name));
    }
}

async fn inbound_webhook_rejects_unauthenticated_caller() {
    assert_rejections! { r#"
        nobody POST /v1/workspaces/<main>/inbound-webhooks {"name": "Tickets"}
          401 unauthenticated in headers: an access token is required; send Authorization: Bearer wkt_... [www-authenticate: Bearer realm="knowledge"]
    "# }
}

async fn inbound_webhook_requires_permission() {
    assert_rejections! { r#"
        member POST /v1/workspaces/<main>/inbound-webhooks {"name": "Tickets"}
          403 forbidden in headers: missing permission inbound_webhook:manage
    "# }
}

async fn inbound_webhook_requires_known_workspace() {
    assert_rejections! { r#"
        admin POST /v1/workspaces/<max>/inbound-webhooks {"name": "Tickets"}
        admin POST /v1/workspaces/handbook/inbound-webhooks {"name": "Tickets"}
        admin POST /v1/workspaces/0/inbound-webhooks {"name": "Tickets"}
        admin POST /v1/workspaces/<nil>/inbound-webhooks {"name": "Tickets"}
          404 not_found in headers: there is no such workspace
    "# }
}
