//! `/v1/workspaces/{id}/webhooks` and `/v1/workspaces/{id}/inbound-webhooks`, except for creation.

use serde_json::{Value, json};

use crate::support::{
    Show, create_inbound_webhook, create_webhook, delete, get, own_org, patch, post, quiet_org,
};

/// Returns a created record as later responses show it.
fn without_secret(mut made: Value) -> Value {
    assert!(made["signing_secret"].is_string());
    made["signing_secret"] = Value::Null;
    made
}

#[tokio::test]
async fn outbound_webhook_is_listed_updated_and_deleted() {
    let org = own_org();
    let token = &org.members.admin.token;
    let new = json!({ "event_type": "chunk.created", "url": "https://example.com/hook" });
    let made = create_webhook(token, org.main.id, &new).send().await.json();
    let webhooks = format!("/v1/workspaces/{}/webhooks", org.main.id);
    let webhook = format!("{webhooks}/{}", made["id"].as_str().unwrap());
    let read = get(&webhook).bearer(token).send().await;
    insta::assert_snapshot!(read.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 424
    content-type: application/json
    date: <date>
    etag: "<etag 1>"
    request-id: <uuid 1>

    {
      "id": "<uuid 2>",
      "org_id": "<uuid 3>",
      "workspace_id": "<uuid 4>",
      "event_type": "chunk.created",
      "url": "https://example.com/hook",
      "is_active": true,
      "disabled_reason": null,
      "is_confirmed": false,
      "signing_secret": null,
      "created_by": "<uuid 5>",
      "created_at": "<time>",
      "updated_at": "<time>"
    }
    "#);
    assert_eq!(read.json(), without_secret(made.clone()));
    let listed = get(&webhooks).bearer(token).send().await;
    assert_eq!(listed.status, 200);
    assert!(
        listed.json()["data"]
            .as_array()
            .unwrap()
            .contains(&read.json())
    );

    let change = json!({ "url": "https://example.org/", "is_active": false });
    let bound = patch(&webhook)
        .header("if-match", read.header("etag"))
        .json(&change)
        .bearer(token);
    let changed = bound.clone().send().await;
    assert_eq!(changed.status, 200);
    assert_eq!(changed.json()["is_active"], false);
    assert_eq!(bound.send().await.status, 412);
    let again = get(&webhook).bearer(token).send().await;
    assert_eq!(
        (again.json(), again.header("etag")),
        (changed.json(), changed.header("etag"))
    );

    let rotated = post(format!("{webhook}/rotate-secret"))
        .bearer(token)
        .send()
        .await;
    insta::assert_snapshot!(rotated.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 127
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "signing_secret": "<secret>",
      "previous_secret_expires_at": "<time>"
    }
    "#);
    assert_ne!(rotated.json()["signing_secret"], made["signing_secret"]);
    assert_eq!(delete(&webhook).bearer(token).send().await.status, 204);
    let gone = delete(&webhook).bearer(token).send().await;
    insta::assert_snapshot!(gone.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 87
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such webhook",
      "details": {
        "kind": "webhook"
      }
    }
    "#);
}

#[tokio::test]
async fn inbound_webhook_is_listed_updated_and_deleted() {
    let org = own_org();
    let token = &org.members.admin.token;
    let made = create_inbound_webhook(token, org.main.id, &json!({ "name": "Tickets" }));
    let made = made.send().await.json();
    let webhooks = format!("/v1/workspaces/{}/inbound-webhooks", org.main.id);
    let webhook = format!("{webhooks}/{}", made["id"].as_str().unwrap());
    let read = get(&webhook).bearer(token).send().await;
    insta::assert_snapshot!(read.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 512
    content-type: application/json
    date: <date>
    etag: "<etag 1>"
    request-id: <uuid 1>

    {
      "id": "<uuid 2>",
      "org_id": "<uuid 3>",
      "workspace_id": "<uuid 4>",
      "name": "Tickets",
      "url": "/v1/inbound/<uuid 3>/<uuid 2>",
      "source_id": "<uuid 2>",
      "acts_as": "<uuid 5>",
      "signing_secret": null,
      "created_by": "<uuid 5>",
      "created_at": "<time>",
      "updated_at": "<time>"
    }
    "#);
    assert_eq!(read.json(), without_secret(made.clone()));
    let listed = get(&webhooks).bearer(token).send().await.json();
    assert!(listed["data"].as_array().unwrap().contains(&read.json()));

    let bound = patch(&webhook)
        .header("if-match", read.header("etag"))
        .json(&json!({ "name": "Requests" }))
        .bearer(token);
    let changed = bound.clone().send().await;
    assert_eq!(
        (changed.status.as_u16(), &changed.json()["name"]),
        (200, &json!("Requests"))
    );
    assert_eq!(bound.send().await.status, 412);
    let rotated = post(format!("{webhook}/rotate-secret"))
        .bearer(token)
        .send()
        .await;
    assert_eq!(rotated.status, 200);
    assert_ne!(rotated.json()["signing_secret"], made["signing_secret"]);
    assert_eq!(delete(&webhook).bearer(token).send().await.status, 204);
    assert_eq!(get(&webhook).bearer(token).send().await.status, 404);
}

#[tokio::test]
async fn webhook_errors_are_documented() {
    let org = quiet_org();
    let path = format!("/v1/workspaces/{}", org.main.id);
    let member = &org.members.member.token;
    for (list, action) in [
        ("webhooks", "webhook:manage"),
        ("inbound-webhooks", "inbound_webhook:manage"),
    ] {
        let refused = get(format!("{path}/{list}")).bearer(member).send().await;
        assert_eq!(refused.status, 403);
        let message = format!("missing permission {action}");
        assert_eq!(refused.json()["message"], message);
    }
    let owner = &org.members.owner.token;
    let wrong = json!({ "url": "http://example.com/", "event_type": "chunk.eaten", "is_active": 1, "secret": "x" });
    let refused = patch(format!("{path}/webhooks/{}", org.id))
        .bearer(owner)
        .json(&wrong)
        .send()
        .await;
    insta::assert_snapshot!(refused.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 773
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: event_type must be one of chunk.created, chunk.deleted, memory.updated, citation.changed, ingest.completed, ingest.failed, connector.status_changed, webhook.ping (and 3 more)",
      "details": {
        "fields": [
          {
            "path": "event_type",
            "code": "invalid_value",
            "message": "must be one of chunk.created, chunk.deleted, memory.updated, citation.changed, ingest.completed, ingest.failed, connector.status_changed, webhook.ping"
          },
          {
            "path": "url",
            "code": "invalid_value",
            "message": "must begin with https:// (the operator can allow http)"
          },
          {
            "path": "is_active",
            "code": "invalid_type",
            "message": "must be true or false, not a number"
          },
          {
            "path": "secret",
            "code": "unknown_field",
            "message": "is unknown; known fields: event_type, url, is_active"
          }
        ]
      }
    }
    "#);
    let wrong = json!({ "name": "" });
    let refused = patch(format!("{path}/inbound-webhooks/{}", org.id))
        .bearer(owner)
        .json(&wrong)
        .send()
        .await;
    assert_eq!(refused.status, 400);
}
