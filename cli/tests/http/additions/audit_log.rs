//! `/v1/audit-log`

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, Show, bulk, get, own_org, patch, post, quiet_org};

async fn list(token: &str, query: &str) -> Answer {
    get(format!("/v1/audit-log{query}"))
        .bearer(token)
        .send()
        .await
}

#[tokio::test]
async fn audit_log_shows_actor_and_change() {
    let org = own_org();
    let (auditor, member) = (&org.members.admin.token, &org.members.member);
    let memory = org.main.memories.internal[0];
    let relabel = json!({ "memoryIds": [memory], "sensitivityLabel": "confidential" });
    let item = bulk(&member.token, &relabel).send().await.json()["results"][0].clone();
    let lower = json!({ "memoryIds": [memory], "sensitivityLabel": "public" });
    let refused = bulk(&member.token, &lower).send().await.json()["results"][0].clone();
    assert_eq!((&item["ok"], &refused["ok"]), (&json!(true), &json!(false)));

    let of_member = format!("?actor_id={}", member.id);
    let listed = list(auditor, &of_member).await;
    insta::assert_snapshot!(listed.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 1618
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "data": [
        {
          "id": "<uuid 2>",
          "operation_id": "<uuid 3>",
          "at": "<time>",
          "actor_id": "<uuid 4>",
          "credential_id": "<uuid 5>",
          "inbound_webhook_id": null,
          "client_address": "127.0.0.1",
          "request_id": "<uuid 6>",
          "action": "memory.bulk_update",
          "resource": {
            "kind": "memory",
            "id": "<uuid 7>"
          },
          "outcome": "forbidden",
          "reason": "missing permission memory:declassify",
          "before": {
            "audience": "workspace:handbook",
            "review": "pending",
            "sensitivity": "confidential",
            "source_id": "<uuid 8>",
            "workspace_id": "<uuid 9>"
          },
          "after": null
        },
        {
          "id": "<uuid 10>",
          "operation_id": "<uuid 11>",
          "at": "<time>",
          "actor_id": "<uuid 4>",
          "credential_id": "<uuid 5>",
          "inbound_webhook_id": null,
          "client_address": "127.0.0.1",
          "request_id": "<uuid 12>",
          "action": "memory.bulk_update",
          "resource": {
            "kind": "memory",
            "id": "<uuid 7>"
          },
          "outcome": "ok",
          "reason": null,
          "before": {
            "audience": "workspace:handbook",
            "review": "pending",
            "sensitivity": "internal",
            "source_id": "<uuid 8>",
            "workspace_id": "<uuid 9>"
          },
          "after": {
            "audience": "workspace:handbook",
            "review": "pending",
            "sensitivity": "confidential",
            "source_id": "<uuid 8>",
            "workspace_id": "<uuid 9>"
          }
        }
      ],
      "next_cursor": null
    }
    "#);
    let data = listed.json()["data"].clone();
    assert_eq!(data[0]["id"], refused["auditLogId"]);
    assert_eq!(data[1]["id"], item["auditLogId"]);
    for entry in data.as_array().unwrap() {
        let path = format!("/{}", entry["id"].as_str().unwrap());
        let read = list(auditor, &path).await;
        assert_eq!((read.status.as_u16(), &read.json()), (200, entry));
    }
    let resource = format!("?resource_kind=memory&resource_id={memory}&limit=2");
    assert_eq!(list(auditor, &resource).await.json()["data"], data);
}

#[tokio::test]
async fn audit_log_filters_and_paginates() {
    let org = own_org();
    let token = &org.members.owner.token;
    let title = json!({ "title": "Renamed" });
    let memory = format!("/v1/memories/{}", org.main.memories.internal[0]);
    assert_eq!(
        patch(memory).bearer(token).json(&title).send().await.status,
        200
    );
    let all = async |filter: &str| {
        let (mut found, mut cursor) = (Vec::<Value>::new(), String::new());
        loop {
            let page = list(token, &format!("?limit=60{filter}{cursor}")).await;
            assert_eq!(page.status, 200, "{page:?}");
            let page = page.json();
            found.extend(page["data"].as_array().unwrap().clone());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return found,
            }
        }
    };
    let everything = all("").await;
    let ids: Vec<_> = everything
        .iter()
        .map(|entry| entry["id"].to_string())
        .collect();
    assert!(ids.is_sorted_by(|a, b| a > b), "the newest first");
    assert_eq!(everything[0]["action"], "memory.update");
    let at = everything[0]["at"].as_str().unwrap();
    assert_eq!(all(&format!("&since={at}")).await[..], everything[..1]);
    assert_eq!(all(&format!("&until={at}")).await, everything[1..]);
    let ingested = all("&action=memory.ingest&resource_kind=memory").await;
    assert_eq!(ingested.len(), 120);

    let source = json!({ "name": "Wiki", "kind": "wiki" });
    for _ in 0..3 {
        let refused = post("/v1/sources").bearer(&org.members.viewer.token);
        assert_eq!(refused.json(&source).send().await.status, 403);
    }
    let refused = all("&outcome=forbidden").await;
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0]["action"], "source.create");
    assert_eq!(refused[0]["actor_id"], json!(org.members.viewer.id));
    assert_eq!(refused[0]["reason"], "missing permission connector:manage");
}

#[tokio::test]
async fn audit_log_rejects_invalid_requests() {
    let org = quiet_org();
    let owner = &org.members.owner.token;
    let wrong = "?action=memory.eat&resource_id=x&since=yesterday&cursor=x";
    insta::assert_snapshot!(list(owner, wrong).await.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 2519
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: action must be one of memory.ingest, memory.create, memory.update, memory.delete, memory.bulk_update, memory.read, source.create, role.create, role.update, role.delete, role.assign, citation_subscription.create, citation_subscription.delete, citation_subscription.rotate_secret, citation_subscription.disable, citation_subscription.enable, citation_subscription.ping, citation_subscription.redeliver, webhook.create, webhook.update, webhook.delete, webhook.rotate_secret, webhook.disable, webhook.enable, webhook.ping, webhook.redeliver, inbound_webhook.create, inbound_webhook.update, inbound_webhook.delete, inbound_webhook.rotate_secret, connector.create, connector.pause, connector.update, connector.delete, mcp_key.create, mcp_key.rotate, mcp_key.revoke, chat.create, chat.delete, retention.update, retention.erase, recall.create, recall.delete, erasure.create, organization.create, workspace.create, workspace.delete, member.create, member.update, member.remove, credential.create, credential.revoke (and 3 more)",
      "details": {
        "fields": [
          {
            "path": "action",
            "code": "invalid_value",
            "message": "must be one of memory.ingest, memory.create, memory.update, memory.delete, memory.bulk_update, memory.read, source.create, role.create, role.update, role.delete, role.assign, citation_subscription.create, citation_subscription.delete, citation_subscription.rotate_secret, citation_subscription.disable, citation_subscription.enable, citation_subscription.ping, citation_subscription.redeliver, webhook.create, webhook.update, webhook.delete, webhook.rotate_secret, webhook.disable, webhook.enable, webhook.ping, webhook.redeliver, inbound_webhook.create, inbound_webhook.update, inbound_webhook.delete, inbound_webhook.rotate_secret, connector.create, connector.pause, connector.update, connector.delete, mcp_key.create, mcp_key.rotate, mcp_key.revoke, chat.create, chat.delete, retention.update, retention.erase, recall.create, recall.delete, erasure.create, organization.create, workspace.create, workspace.delete, member.create, member.update, member.remove, credential.create, credential.revoke"
          },
          {
            "path": "resource_id",
            "code": "invalid_value",
            "message": "must be a UUID of 36 characters, for example <uuid 2>"
          },
          {
            "path": "since",
            "code": "invalid_value",
            "message": "must be an RFC 3339 timestamp, for example <time>"
          },
          {
            "path": "cursor",
            "code": "invalid_value",
            "message": "must be an unmodified next_cursor of this list"
          }
        ]
      }
    }
    "#);
    let alone = format!("?resource_id={}", Uuid::nil());
    insta::assert_snapshot!(list(owner, &alone).await.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 215
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: resource_kind is required with resource_id",
      "details": {
        "fields": [
          {
            "path": "resource_kind",
            "code": "required",
            "message": "is required with resource_id"
          }
        ]
      }
    }
    "#);
    insta::assert_snapshot!(list(&org.members.member.token, "").await.show(), @r#"
    403 Forbidden
    cache-control: no-store
    content-length: 76
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "forbidden",
      "message": "missing permission audit:read",
      "details": {}
    }
    "#);
    insta::assert_snapshot!(list(&org.tokens.side_only, "").await.show(), @r#"
    403 Forbidden
    cache-control: no-store
    content-length: 83
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "forbidden",
      "message": "outside the scope of this credential",
      "details": {}
    }
    "#);
    let unknown = format!("/{}", Uuid::nil());
    insta::assert_snapshot!(list(owner, &unknown).await.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 95
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such audit entry",
      "details": {
        "kind": "audit_entry"
      }
    }
    "#);
    let other_list = format!("/v1/workspaces/{}/memories?limit=1", org.main.id);
    let cursor = get(other_list).bearer(owner).send().await.json()["next_cursor"].clone();
    let with_it = format!("?cursor={}", cursor.as_str().unwrap());
    assert_eq!(list(owner, &with_it).await.status, 400);
}
