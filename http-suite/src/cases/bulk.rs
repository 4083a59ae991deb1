//! `PATCH /v1/memories/bulk`. Invalid bodies and idempotency have modules of their own.

use std::collections::BTreeSet;

use knowledge_core::model::MemoryId;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, Show, assert_rejections, bulk, dashboard, own_org};

suite![
    bulk_update_sets_each_attribute,
    bulk_update_changes_only_named_attributes,
    bulk_update_accepts_each_value_of_a_label,
    bulk_update_to_same_values_succeeds_and_changes_nothing,
    bulk_update_returns_results_in_request_order,
    bulk_update_accepts_a_thousand_memories,
    bulk_update_reports_errors_per_memory,
    bulk_update_requires_declassify_to_lower_sensitivity,
    bulk_update_requires_audience_but_not_right_to_read,
    bulk_update_is_limited_to_workspaces_of_the_token,
    bulk_update_requires_roles_that_relabel_or_review,
    bulk_update_without_any_permission_is_rejected_as_a_whole,
];

/// Returns the items of a result, each with either `memory` or `error`, and its own audit entry.
fn items(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    let items = body["results"].as_array().expect("a list").clone();
    let mut audit_ids = BTreeSet::new();
    for item in &items {
        assert_eq!(item["ok"], item.get("memory").is_some(), "{item}");
        assert_ne!(item["ok"], item.get("error").is_some(), "{item}");
        assert!(audit_ids.insert(item["auditLogId"].as_str().expect("an id").to_owned()));
    }
    let count = |ok: bool| items.iter().filter(|item| item["ok"] == ok).count();
    assert_eq!(
        body["summary"],
        json!({ "requested": items.len(), "succeeded": count(true), "failed": count(false) })
    );
    items
}

/// Returns the outcome of the only memory of a request: `ok`, or code and message of its error.
fn only_outcome(answer: &Answer) -> String {
    match &items(answer)[..] {
        [item] if item["ok"] == true => "ok".to_owned(),
        [item] => {
            let text = |name: &str| item["error"][name].as_str().expect("a text").to_owned();
            format!("{}: {}", text("code"), text("message"))
        }
        items => panic!("not one item: {items:?}"),
    }
}

async fn backlog(token: &str, workspace: knowledge_core::model::WorkspaceId) -> u64 {
    let summary = dashboard(token, workspace).await.json();
    summary["review_backlog_count"].as_u64().expect("a number")
}

async fn bulk_update_sets_each_attribute() {
    let org = own_org();
    let body = json!({
        "memoryIds": org.main.memories.internal[..2],
        "audienceTag": "team:platform",
        "sensitivityLabel": "confidential",
        "sourceId": org.sources[1],
        "reviewStatus": "approved",
    });
    let token = &org.members.member.token;
    let before = backlog(token, org.main.id).await;
    let answer = bulk(token, &body).await;
    insta::assert_snapshot!(answer.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 742
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "operationId": "<uuid 2>", "replayed": false,
      "summary": {"requested": 2, "succeeded": 2, "failed": 0},
      "results": [
        {
          "memoryId": "<uuid 3>", "ok": true,
          "memory": {
            "id": "<uuid 3>", "sourceId": "<uuid 4>", "audienceTag": "team:platform",
            "sensitivityLabel": "confidential"
          },
          "auditLogId": "<uuid 5>"
        },
        {
          "memoryId": "<uuid 6>", "ok": true,
          "memory": {
            "id": "<uuid 6>", "sourceId": "<uuid 4>", "audienceTag": "team:platform",
            "sensitivityLabel": "confidential"
          },
          "auditLogId": "<uuid 7>"
        }
      ],
      "labels_without_members": [], "impact": null
    }
    "#);
    for (item, id) in items(&answer).iter().zip(&org.main.memories.internal) {
        assert_eq!(item["memoryId"], json!(id));
        assert_eq!(item["memory"]["id"], json!(id));
        assert_eq!(item["memory"]["sourceId"], json!(org.sources[1]));
    }
    assert_eq!(backlog(token, org.main.id).await, before - 2);
}

async fn bulk_update_changes_only_named_attributes() {
    let org = own_org();
    let memory = org.main.memories.internal[0];
    let set = async |attribute: &str, value: Value| {
        let body = json!({ "memoryIds": [memory], attribute: value });
        let answer = bulk(&org.members.member.token, &body).await;
        items(&answer)[0]["memory"].clone()
    };
    let mut expected = json!({
        "id": memory,
        "sourceId": org.sources[0],
        "audienceTag": "workspace:handbook",
        "sensitivityLabel": "internal",
    });
    assert_eq!(set("reviewStatus", json!("rejected")).await, expected);
    expected["audienceTag"] = json!("user:member");
    assert_eq!(set("audienceTag", json!("user:member")).await, expected);
    expected["sourceId"] = json!(org.sources[2]);
    assert_eq!(set("sourceId", json!(org.sources[2])).await, expected);
    expected["sensitivityLabel"] = json!("restricted");
    assert_eq!(set("sensitivityLabel", json!("restricted")).await, expected);
}

async fn bulk_update_accepts_each_value_of_a_label() {
    let org = own_org();
    let memory = org.main.memories.internal[0];
    let labels = rows! {
        ("sensitivityLabel", vec!["public", "internal", "confidential", "restricted"]),
        ("reviewStatus", vec!["rejected", "approved", "pending"]),
        ("audienceTag", vec!["org:a", "workspace:b-1", "team:c_2", "user:d.3"]),
    };
    for (label, values) in labels {
        for value in values {
            let body = json!({ "memoryIds": [memory], label: value });
            let answer = bulk(&org.members.admin.token, &body).await;
            assert_eq!(only_outcome(&answer), "ok", "{label} {value}");
        }
    }
}

async fn bulk_update_to_same_values_succeeds_and_changes_nothing() {
    let org = own_org();
    let body = json!({
        "memoryIds": [org.main.memories.internal[0]],
        "sensitivityLabel": "internal",
        "reviewStatus": "pending",
    });
    let token = &org.members.member.token;
    let before = backlog(token, org.main.id).await;
    assert_eq!(only_outcome(&bulk(token, &body).await), "ok");
    assert_eq!(backlog(token, org.main.id).await, before);
}

async fn bulk_update_returns_results_in_request_order() {
    let org = own_org();
    let known = org
        .main
        .memories
        .internal
        .iter()
        .chain(&org.side.memories.internal)
        .copied();
    // Known and unknown memories of two workspaces alternate, the known ones in reverse order.
    let mixed: Vec<MemoryId> = known
        .rev()
        .flat_map(|id| [id, MemoryId(Uuid::from_u128(!id.0.as_u128()))])
        .collect();
    let body = json!({ "memoryIds": mixed, "audienceTag": "team:order" });
    let answer = bulk(&org.members.member.token, &body).await;
    for (index, (item, id)) in items(&answer).iter().zip(&mixed).enumerate() {
        assert_eq!(item["memoryId"], json!(id));
        assert_eq!(item["ok"], index % 2 == 0);
    }
}

async fn bulk_update_accepts_a_thousand_memories() {
    let org = own_org();
    let ids: Vec<_> = (1..=1_000).map(Uuid::from_u128).collect();
    let body = json!({ "memoryIds": ids, "audienceTag": "team:many" });
    let answer = bulk(&org.members.member.token, &body).await;
    let items = items(&answer);
    assert!(
        items
            .iter()
            .zip(&ids)
            .all(|(item, id)| item["memoryId"] == json!(id))
    );
    assert_eq!(items.len(), ids.len());
}

async fn bulk_update_reports_errors_per_memory() {
    let org = own_org();
    // The guest may relabel memories only in the main workspace.
    let ids = [
        org.side.memories.internal[0].0,
        Uuid::max(),
        org.main.memories.internal[0].0,
    ];
    let approve = json!({ "memoryIds": ids, "reviewStatus": "approved" });
    let approved = bulk(&org.members.owner.token, &approve).await;
    assert_eq!(approved.status, 200);
    let body = json!({ "memoryIds": ids, "audienceTag": "team:platform" });
    let answer = bulk(&org.members.guest.token, &body).await;
    insta::assert_snapshot!(answer.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 824
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "operationId": "<uuid 2>", "replayed": false,
      "summary": {"requested": 3, "succeeded": 1, "failed": 2},
      "results": [
        {
          "memoryId": "<uuid 3>", "ok": false, "auditLogId": "<uuid 4>",
          "error": {"code": "forbidden", "message": "missing permission memory:update"}
        },
        {
          "memoryId": "<uuid 5>", "ok": false, "auditLogId": "<uuid 6>",
          "error": {"code": "not_found", "message": "there is no such memory"}
        },
        {
          "memoryId": "<uuid 7>", "ok": true,
          "memory": {
            "id": "<uuid 7>", "sourceId": "<uuid 8>", "audienceTag": "team:platform",
            "sensitivityLabel": "internal"
          },
          "auditLogId": "<uuid 9>"
        }
      ],
      "labels_without_members": [], "impact": null
    }
    "#);
    items(&answer);
}

async fn bulk_update_requires_declassify_to_lower_sensitivity() {
    let org = own_org();
    let outcome = async |token: &str, memory: MemoryId, label: &str| {
        let body = json!({ "memoryIds": [memory], "sensitivityLabel": label });
        only_outcome(&bulk(token, &body).await)
    };
    let (member, admin) = (&org.members.member.token, &org.members.admin.token);
    let memory = org.main.memories.restricted[0];
    insta::assert_snapshot!(outcome(member, memory, "confidential").await, @"forbidden: missing permission memory:declassify");
    assert_eq!(outcome(member, memory, "restricted").await, "ok");
    assert_eq!(outcome(admin, memory, "public").await, "ok");
    assert_eq!(outcome(member, memory, "confidential").await, "ok");
}

async fn bulk_update_requires_audience_but_not_right_to_read() {
    let org = own_org();
    let relabel = async |memory: MemoryId, label: &str| {
        let body = json!({ "memoryIds": [memory], "audienceTag": label });
        let answer = bulk(&org.members.member.token, &body).await;
        only_outcome(&answer)
    };
    let (private, restricted) = (&org.main.memories.private, &org.main.memories.restricted);
    insta::assert_snapshot!(relabel(private[0], "org:any").await, @"not_found: there is no such memory");
    assert_eq!(relabel(restricted[0], "team:platform").await, "ok");
    insta::assert_snapshot!(relabel(restricted[1], "user:owner").await, @"forbidden: missing permission memory:share");
}

async fn bulk_update_is_limited_to_workspaces_of_the_token() {
    let org = own_org();
    let ids = [org.main.memories.internal[0], org.side.memories.internal[0]];
    let body = json!({ "memoryIds": ids, "audienceTag": "team:platform" });
    let answer = bulk(&org.tokens.side_only, &body).await;
    insta::assert_snapshot!(answer.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 635
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "operationId": "<uuid 2>", "replayed": false,
      "summary": {"requested": 2, "succeeded": 1, "failed": 1},
      "results": [
        {
          "memoryId": "<uuid 3>", "ok": false, "auditLogId": "<uuid 4>",
          "error": {"code": "not_found", "message": "there is no such memory"}
        },
        {
          "memoryId": "<uuid 5>", "ok": true,
          "memory": {
            "id": "<uuid 5>", "sourceId": "<uuid 6>", "audienceTag": "team:platform",
            "sensitivityLabel": "internal"
          },
          "auditLogId": "<uuid 7>"
        }
      ],
      "labels_without_members": [], "impact": null
    }
    "#);
    items(&answer);
}

async fn bulk_update_requires_roles_that_relabel_or_review() {
    let org = own_org();
    let memory = org.main.memories.internal[0];
    let status = async |token: &str, label: &str, value: &str| {
        let body = json!({ "memoryIds": [memory], label: value });
        bulk(token, &body).await.status.as_u16()
    };
    let members = &org.members;
    let relabels_and_reviews = rows! {
        ("owner", &members.owner, 200, 200),
        ("admin", &members.admin, 200, 200),
        ("member", &members.member, 200, 200),
        ("a service account", &members.robot, 200, 200),
        ("a role that allows both", &members.reviewer, 200, 200),
        ("a role in one workspace", &members.guest, 200, 200),
        ("viewer", &members.viewer, 403, 403),
        ("a role that denies relabelling, on a base that allows it", &members.restrained, 403, 200),
        ("an inactive role that would allow relabelling", &members.deputy, 403, 403),
    };
    for (who, member, relabels, reviews) in relabels_and_reviews {
        assert_eq!(
            status(&member.token, "audienceTag", "team:a").await,
            relabels,
            "{who}"
        );
        assert_eq!(
            status(&member.token, "reviewStatus", "approved").await,
            reviews,
            "{who}"
        );
    }
    for token in [&org.tokens.reading_only, &org.tokens.mcp_key] {
        assert_eq!(status(token, "audienceTag", "team:a").await, 403);
    }
}

async fn bulk_update_without_any_permission_is_rejected_as_a_whole() {
    assert_rejections! { r#"
        viewer PATCH /v1/memories/bulk {"memoryIds": ["<memory>"], "audienceTag": "team:platform"}
        reading_only PATCH /v1/memories/bulk {"memoryIds": ["<memory>"], "audienceTag": "team:platform"}
          403 forbidden: missing permission memory:update {"permission":"memory:update"}
    "# }
}
