//! `POST /v1/workspaces/{id}/webhooks`

use serde_json::{Value, json};

use crate::support::{
    Show, assert_rejections, create_webhook, error, own_org, quiet_org, subscribe,
};

suite![
    webhook_is_created,
    webhook_accepts_every_event_type,
    webhooks_per_workspace_are_limited,
    webhook_rejects_invalid_request,
    webhook_to_non_public_address_is_rejected,
    webhook_rejects_unauthenticated_caller,
    webhook_requires_permission,
    webhook_requires_known_workspace,
];

const URL: &str = "https://example.com/hook";

fn body() -> Value {
    json!({ "event_type": "chunk.created", "url": URL })
}

async fn webhook_is_created() {
    let org = own_org();
    let answer = create_webhook(&org.members.admin.token, org.main.id, &body()).await;
    insta::assert_snapshot!(answer.show(), @r#"
    201 Created
    cache-control: no-store
    content-length: 530
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "id": "<uuid 2>", "org_id": "<uuid 3>", "workspace_id": "<uuid 4>",
      "event_type": "chunk.created", "url": "https://example.com/hook", "is_active": true,
      "disabled_reason": null, "is_confirmed": false, "signing_secret": "<secret>",
      "created_by": "<uuid 5>", "created_at": "<time>", "updated_at": "<time>",
      "state": "unconfirmed", "ended_reason": null, "ended_at": null
    }
    "#);
    let created = answer.json();
    let expected = [
        ("org_id", json!(org.id)),
        ("workspace_id", json!(org.main.id)),
        ("created_by", json!(org.members.admin.id)),
    ];
    for (field, value) in expected {
        assert_eq!(created[field], value, "{field}");
    }
    let again = create_webhook(&org.members.admin.token, org.main.id, &body())
        .await
        .json();
    for field in ["id", "signing_secret"] {
        assert_ne!(again[field], created[field], "{field}");
    }
}

async fn webhook_accepts_every_event_type() {
    let org = own_org();
    let event_types = [
        "chunk.created",
        "chunk.deleted",
        "memory.updated",
        "citation.changed",
        "ingest.completed",
        "ingest.failed",
        "connector.status_changed",
        "webhook.ping",
    ];
    for event_type in event_types {
        let body = json!({ "event_type": event_type, "url": URL });
        let answer = create_webhook(&org.members.owner.token, org.side.id, &body).await;
        assert_eq!(answer.status, 201, "{event_type}");
        assert_eq!(answer.json()["event_type"], event_type);
    }
}

async fn webhooks_per_workspace_are_limited() {
    let org = own_org();
    for _ in 0..50 {
        let answer = create_webhook(&org.members.admin.token, org.side.id, &body()).await;
        assert_eq!(answer.status, 201);
    }
    let answer = create_webhook(&org.members.admin.token, org.side.id, &body()).await;
    insta::assert_snapshot!(error(&answer), @"400 invalid_request in headers: the workspace already has 50 webhooks, the maximum");
    let elsewhere = create_webhook(&org.members.admin.token, org.main.id, &body()).await;
    assert_eq!(elsewhere.status, 201);
}

async fn webhook_rejects_invalid_request() {
    assert_rejections! { r#"
        admin POST /v1/workspaces/<main>/webhooks {}
          400 invalid_request in headers: event_type is required; url is required
        admin POST /v1/workspaces/<main>/webhooks {"event_type": "chunk.moved", "url": "/hook"}
          400 invalid_request in headers: event_type must be one of chunk.created, chunk.deleted, memory.updated, citation.changed, ingest.completed, ingest.failed, connector.status_changed, webhook.ping; url must be an absolute URL that begins with https://, for example https://example.com/hooks
        admin POST /v1/workspaces/<main>/webhooks {"event_type": "chunk.created", "url": "http://example.com"}
          400 invalid_request in headers: url must begin with https:// (the operator can allow http)
        admin POST /v1/workspaces/<main>/webhooks {"event_type": ["chunk.created"], "url": null}
          400 invalid_request in headers: event_type must be a string, not a list; url must be a string, not null
        admin POST /v1/workspaces/<main>/webhooks {"event_type": "chunk.created", "url": "https://example.com/hook", "secret": "mine"}
          400 invalid_request in headers: a field of the body is unknown; known fields: event_type, url
    "# }
}

/// Deliveries to such an address are impossible, in whatever notation it is written.
async fn webhook_to_non_public_address_is_rejected() {
    let org = quiet_org();
    let address = "must not name a non-public address (the operator can allow it): ";
    for (host, what) in [
        ("127.0.0.1", "loopback (RFC 1122)"),
        ("2130706433", "loopback (RFC 1122)"),
        ("0177.0.0.1", "loopback (RFC 1122)"),
        ("0x7f.1", "loopback (RFC 1122)"),
        ("１２７.０.０.１", "loopback (RFC 1122)"),
        ("169.254.169.254", "link-local (RFC 3927)"),
        ("[::1]", "loopback (RFC 4291)"),
        ("[::ffff:127.0.0.1]", "loopback (RFC 1122)"),
        ("[::ffff:a9fe:a9fe]", "link-local (RFC 3927)"),
        ("[64:ff9b::10.0.0.1]", "private (RFC 1918)"),
        ("[fe80::1]", "link-local (RFC 4291)"),
    ] {
        let url = format!("https://{host}:8443/hook");
        let body = json!({ "event_type": "chunk.created", "url": url });
        let answer = create_webhook(&org.members.admin.token, org.main.id, &body).await;
        assert_eq!(answer.status, 400, "{host}");
        let message = answer.header("error-message");
        assert_eq!(message, format!("url {address}{what}"), "{host}");
        let body = json!({ "recall_id": org.recall, "webhook_url": url });
        let answer = subscribe(&org.members.member.token, &body).await;
        assert_eq!(answer.status, 400, "{host}");
        let message = answer.header("error-message");
        assert_eq!(message, format!("webhook_url {address}{what}"), "{host}");
    }
    let body = json!({ "event_type": "chunk.created", "url": "https://api.localhost./hook" });
    let answer = create_webhook(&org.members.admin.token, org.main.id, &body).await;
    insta::assert_snapshot!(error(&answer), @"400 invalid_request in headers: url must not name localhost (the operator can allow loopback addresses)");
}

async fn webhook_rejects_unauthenticated_caller() {
    assert_rejections! { r#"
        nobody POST /v1/workspaces/<main>/webhooks {"event_type": "chunk.created", "url": "https://example.com/hook"}
          401 unauthenticated in headers: an access token is required; send Authorization: Bearer wkt_... [www-authenticate: Bearer realm="knowledge"]
    "# }
}

async fn webhook_requires_permission() {
    assert_rejections! { r#"
        member POST /v1/workspaces/<main>/webhooks {"event_type": "chunk.created", "url": "https://example.com/hook"}
        viewer POST /v1/workspaces/<main>/webhooks {"event_type": "chunk.created", "url": "https://example.com/hook"}
          403 forbidden in headers: missing permission webhook:manage
    "# }
}

async fn webhook_requires_known_workspace() {
    assert_rejections! { r#"
        admin POST /v1/workspaces/<max>/webhooks {"event_type": "chunk.created", "url": "https://example.com/hook"}
        admin POST /v1/workspaces/handbook/webhooks {"event_type": "chunk.created", "url": "https://example.com/hook"}
        admin POST /v1/workspaces/0/webhooks {"event_type": "chunk.created", "url": "https://example.com/hook"}
        admin POST /v1/workspaces/<nil>/webhooks {"event_type": "chunk.created", "url": "https://example.com/hook"}
          404 not_found in headers: there is no such workspace
    "# }
}
