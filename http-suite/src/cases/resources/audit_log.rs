//! `/v1/audit-log`

use serde_json::{Value, json};

use crate::support::{Answer, Show, assert_rejections, bulk, get, own_org, patch, post, quiet_org};

suite![
    audit_log_shows_actor_and_change,
    audit_log_filters_and_paginates,
    audit_log_rejects_invalid_requests,
];

async fn list(token: &str, query: &str) -> Answer {
    get(format!("/v1/audit-log{query}")).bearer(token).await
}

async fn audit_log_shows_actor_and_change() {
    let org = own_org();
    let (auditor, member) = (&org.members.admin.token, &org.members.member);
    let memory = org.main.memories.internal[0];
    let relabel = json!({ "memoryIds": [memory], "sensitivityLabel": "confidential" });
    let item = bulk(&member.token, &relabel).await.json()["results"][0].clone();
    let lower = json!({ "memoryIds": [memory], "sensitivityLabel": "public" });
    let refused = bulk(&member.token, &lower).await.json()["results"][0].clone();
    assert_eq!((&item["ok"], &refused["ok"]), (&json!(true), &json!(false)));

    let of_member = format!("?actor_id={}", member.id);
    let listed = list(auditor, &of_member).await;
    insta::assert_snapshot!(listed.brief(), @r#"
    200 OK

    {
      "data": [
        {
          "id": "<uuid 1>", "operation_id": "<uuid 2>", "at": "<time>", "actor_id": "<uuid 3>",
          "credential_id": "<uuid 4>", "via_id": null, "inbound_webhook_id": null,
          "client_address": "127.0.0.1", "request_id": "<uuid 5>", "action": "memory.bulk_update",
          "resource": {"kind": "memory", "id": "<uuid 6>"}, "outcome": "forbidden",
          "reason": "missing permission memory:declassify", "own": false,
          "before": {
            "audience": "workspace:handbook", "review": "pending", "sensitivity": "confidential",
            "source_id": "<uuid 7>", "workspace_id": "<uuid 8>"
          },
          "after": null
        },
        {
          "id": "<uuid 9>", "operation_id": "<uuid 10>", "at": "<time>", "actor_id": "<uuid 3>",
          "credential_id": "<uuid 4>", "via_id": null, "inbound_webhook_id": null,
          "client_address": "127.0.0.1", "request_id": "<uuid 11>", "action": "memory.bulk_update",
          "resource": {"kind": "memory", "id": "<uuid 6>"}, "outcome": "ok", "reason": null,
          "own": false,
          "before": {
            "audience": "workspace:handbook", "review": "pending", "sensitivity": "internal",
            "source_id": "<uuid 7>", "workspace_id": "<uuid 8>"
          },
          "after": {
            "audience": "workspace:handbook", "review": "pending", "sensitivity": "confidential",
            "source_id": "<uuid 7>", "workspace_id": "<uuid 8>"
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

async fn audit_log_filters_and_paginates() {
    let org = own_org();
    let token = &org.members.owner.token;
    let title = json!({ "title": "Renamed" });
    let memory = format!("/v1/memories/{}", org.main.memories.internal[0]);
    assert_eq!(patch(memory).bearer(token).json(&title).await.status, 200);
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
        assert_eq!(refused.json(&source).await.status, 403);
    }
    let refused = all("&outcome=forbidden").await;
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0]["action"], "source.create");
    assert_eq!(refused[0]["actor_id"], json!(org.members.viewer.id));
    assert_eq!(refused[0]["reason"], "missing permission connector:manage");
}

async fn audit_log_rejects_invalid_requests() {
    assert_rejections! { r#"
        owner GET /v1/audit-log?action=memory.eat&resource_id=x&since=yesterday&cursor=x
          invalid_value: action must be one of memory.ingest, memory.create, memory.update, memory.delete, memory.bulk_update, memory.read, source.create, role.create, role.update, role.delete, role.assign, citation_subscription.create, citation_subscription.delete, citation_subscription.rotate_secret, citation_subscription.disable, citation_subscription.enable, citation_subscription.ping, citation_subscription.redeliver, webhook.create, webhook.update, webhook.delete, webhook.rotate_secret, webhook.disable, webhook.enable, webhook.ping, webhook.redeliver, inbound_webhook.create, inbound_webhook.update, inbound_webhook.delete, inbound_webhook.rotate_secret, connector.create, connector.pause, connector.update, connector.delete, mcp_key.create, mcp_key.rotate, mcp_key.revoke, chat.create, chat.delete, retention.update, retention.erase, recall.create, recall.update, recall.delete, erasure.create, organization.create, workspace.create, workspace.update, workspace.delete, member.create, member.update, member.remove, credential.create, credential.revoke
          invalid_value: resource_id must be a UUID of 36 characters, for example <uuid 1>
          invalid_value: since must be an RFC 3339 timestamp, for example <time>
          invalid_value: cursor must be an unmodified next_cursor of this list
        owner GET /v1/audit-log?resource_id=<nil>
          required: resource_kind is required with resource_id
        member GET /v1/audit-log
          403 forbidden: missing permission audit:read {"permission":"audit:read"}
        side_only GET /v1/audit-log
          403 forbidden: outside the scope of this credential {"permission":null}
        owner GET /v1/audit-log/<nil>
          404 not_found: there is no such audit entry {"kind":"audit_entry"}
    "# }
    let org = quiet_org();
    let owner = &org.members.owner.token;
    let other_list = format!("/v1/workspaces/{}/memories?limit=1", org.main.id);
    let cursor = get(other_list).bearer(owner).await.json()["next_cursor"].clone();
    let with_it = format!("?cursor={}", cursor.as_str().unwrap());
    assert_eq!(list(owner, &with_it).await.status, 400);
}
