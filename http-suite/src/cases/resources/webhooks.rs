//! `/v1/workspaces/{id}/webhooks` and `/v1/workspaces/{id}/inbound-webhooks`, except for creation.

use serde_json::{Value, json};

use crate::support::{
    Show, assert_rejections, create_inbound_webhook, create_webhook, delete, error, get, own_org,
    patch, post,
};

suite![
    outbound_webhook_is_listed_updated_and_deleted,
    inbound_webhook_is_listed_updated_and_deleted,
    webhook_errors_are_documented,
];

/// Returns a created record as later responses show it.
fn without_secret(mut made: Value) -> Value {
    assert!(made["signing_secret"].is_string());
    made["signing_secret"] = Value::Null;
    made
}

/// Returns a record without its confirmation, which the response to a creation does not have.
fn without_confirmation(mut shown: Value) -> Value {
    let fields = shown.as_object_mut().unwrap();
    fields.remove("confirmation").expect("a confirmation");
    shown
}

async fn outbound_webhook_is_listed_updated_and_deleted() {
    let org = own_org();
    let token = &org.members.admin.token;
    let new = json!({ "event_type": "chunk.created", "url": "https://example.com/hook" });
    let made = create_webhook(token, org.main.id, &new).await.json();
    let webhooks = format!("/v1/workspaces/{}/webhooks", org.main.id);
    let webhook = format!("{webhooks}/{}", made["id"].as_str().unwrap());
    let read = get(&webhook).bearer(token).await;
    insta::assert_snapshot!(read.brief(), @r#"
    200 OK
    etag: "<etag 1>"

    {
      "id": "<uuid 1>", "org_id": "<uuid 2>", "workspace_id": "<uuid 3>",
      "event_type": "chunk.created", "url": "https://example.com/hook", "is_active": true,
      "disabled_reason": null, "is_confirmed": false, "confirmation": "<pending>",
      "signing_secret": null, "created_by": "<uuid 4>", "created_at": "<time>",
      "updated_at": "<time>", "state": "unconfirmed", "ended_reason": null, "ended_at": null
    }
    "#);
    assert_eq!(made.get("confirmation"), None);
    assert_eq!(
        without_confirmation(read.json()),
        without_secret(made.clone())
    );
    let listed = get(&webhooks).bearer(token).await;
    assert_eq!(listed.status, 200);
    let listed = listed.json();
    let mut listed = listed["data"].as_array().unwrap().iter();
    let same = listed.find(|listed| listed["id"] == made["id"]).unwrap();
    assert_eq!(same["confirmation"]["state"], "pending");
    assert_eq!(
        without_confirmation(same.clone()),
        without_secret(made.clone())
    );

    let change = json!({ "url": "https://example.org/", "is_active": false });
    let bound = patch(&webhook)
        .header("if-match", read.header("etag"))
        .json(&change)
        .bearer(token);
    let changed = bound.clone().await;
    assert_eq!(changed.status, 200);
    assert_eq!(changed.json()["is_active"], false);
    assert_eq!(bound.await.status, 412);
    let again = get(&webhook).bearer(token).await;
    assert_eq!(
        (again.json(), again.header("etag")),
        (changed.json(), changed.header("etag"))
    );

    let rotated = post(format!("{webhook}/rotate-secret")).bearer(token).await;
    insta::assert_snapshot!(rotated.brief(), @r#"
    200 OK

    {"signing_secret": "<secret>", "previous_secret_expires_at": "<time>"}
    "#);
    assert_ne!(rotated.json()["signing_secret"], made["signing_secret"]);
    assert_eq!(delete(&webhook).bearer(token).await.status, 204);
    let gone = delete(&webhook).bearer(token).await;
    insta::assert_snapshot!(error(&gone), @r#"404 not_found: there is no such webhook {"kind":"webhook"}"#);
}

async fn inbound_webhook_is_listed_updated_and_deleted() {
    let org = own_org();
    let token = &org.members.admin.token;
    let made = create_inbound_webhook(token, org.main.id, &json!({ "name": "Tickets" }));
    let made = made.await.json();
    let webhooks = format!("/v1/workspaces/{}/inbound-webhooks", org.main.id);
    let webhook = format!("{webhooks}/{}", made["id"].as_str().unwrap());
    let read = get(&webhook).bearer(token).await;
    insta::assert_snapshot!(read.brief(), @r#"
    200 OK
    etag: "<etag 1>"

    {
      "id": "<uuid 1>", "org_id": "<uuid 2>", "workspace_id": "<uuid 3>", "name": "Tickets",
      "url": "/v1/inbound/<uuid 2>/<uuid 1>", "source_id": "<uuid 1>", "acts_as": "<uuid 4>",
      "signing_secret": null, "created_by": "<uuid 4>", "created_at": "<time>",
      "updated_at": "<time>", "state": "active", "ended_reason": null, "ended_at": null
    }
    "#);
    assert_eq!(read.json(), without_secret(made.clone()));
    let listed = get(&webhooks).bearer(token).await.json();
    assert!(listed["data"].as_array().unwrap().contains(&read.json()));

    let bound = patch(&webhook)
        .header("if-match", read.header("etag"))
        .json(&json!({ "name": "Requests" }))
        .bearer(token);
    let changed = bound.clone().await;
    changed.assert_field(200, "name", "Requests");
    assert_eq!(bound.await.status, 412);
    let rotated = post(format!("{webhook}/rotate-secret")).bearer(token).await;
    assert_eq!(rotated.status, 200);
    assert_ne!(rotated.json()["signing_secret"], made["signing_secret"]);
    assert_eq!(delete(&webhook).bearer(token).await.status, 204);
    assert_eq!(get(&webhook).bearer(token).await.status, 404);
}

async fn webhook_errors_are_documented() {
    assert_rejections! { r#"
        member GET /v1/workspaces/<main>/webhooks
          403 forbidden: missing permission webhook:manage {"permission":"webhook:manage"}
        member GET /v1/workspaces/<main>/inbound-webhooks
          403 forbidden: missing permission inbound_webhook:manage {"permission":"inbound_webhook:manage"}
        owner PATCH /v1/workspaces/<main>/webhooks/<org> {"url": "http://example.com/", "event_type": "chunk.eaten", "is_active": 1, "secret": "x"}
          invalid_value: event_type must be one of chunk.created, chunk.deleted, memory.updated, citation.changed, ingest.completed, ingest.failed, connector.status_changed, webhook.ping
          invalid_value: url must begin with https:// (the operator can allow http)
          invalid_type: is_active must be true or false, not a number
          unknown_field: secret is unknown; known fields: event_type, url, is_active
        owner PATCH /v1/workspaces/<main>/inbound-webhooks/<org> {"name": ""}
          too_small: name must have 1 to 128 characters, not only white space, and no control characters
    "# }
}
