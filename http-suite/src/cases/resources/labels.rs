//! Dry runs of bulk updates, and `/v1/workspaces/{id}/labels`

use serde_json::{Value, json};

use crate::support::{Answer, Show, bulk, bulk_with_key, dashboard, get, new_key, own_org, put};

suite![
    dry_run_returns_items_and_impact_and_changes_nothing,
    dry_run_counts_members_that_gain_or_lose_sight,
    dry_run_leaves_its_key_unused,
    dry_run_rejects_invalid_values,
    bulk_update_names_label_without_members,
    labels_are_listed_with_counts_and_members,
    labels_of_hidden_memories_are_not_listed,
    labels_tell_nothing_of_a_hidden_workspace,
];

/// Returns the labels of a workspace that the bearer of a token sees, by their texts.
async fn labels(token: &str, workspace: &str) -> Vec<Value> {
    let listed = get(format!("/v1/workspaces/{workspace}/labels"));
    let listed = listed.bearer(token).await;
    assert_eq!(listed.status, 200, "{listed:?}");
    assert_eq!(listed.json()["is_complete"], true);
    listed.json()["data"].as_array().expect("a list").clone()
}

fn label<'l>(labels: &'l [Value], text: &str) -> Option<&'l Value> {
    labels.iter().find(|label| label["label"] == text)
}

fn impact(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["impact"].clone()
}

async fn dry_run_returns_items_and_impact_and_changes_nothing() {
    let org = own_org();
    let owner = &org.members.owner.token;
    let memory = org.main.memories.internal[0];
    let before = dashboard(owner, org.main.id).await.json();
    let body = json!({
        "memoryIds": [memory, "00000000-0000-0000-0000-000000000000"],
        "audienceTag": "team:nosuch", "reviewStatus": "approved", "dryRun": true,
    });
    let answer = bulk(owner, &body).await;
    insta::assert_snapshot!(answer.brief(), @r#"
    200 OK

    {
      "operationId": "<uuid 1>", "replayed": false,
      "summary": {"requested": 2, "succeeded": 1, "failed": 1},
      "results": [
        {
          "memoryId": "<uuid 2>", "ok": true,
          "memory": {
            "id": "<uuid 2>", "sourceId": "<uuid 3>", "audienceTag": "team:nosuch",
            "sensitivityLabel": "internal"
          },
          "auditLogId": "<uuid 1>"
        },
        {
          "memoryId": "<uuid 1>", "ok": false, "auditLogId": "<uuid 1>",
          "error": {"code": "not_found", "message": "there is no such memory"}
        }
      ],
      "labels_without_members": ["team:nosuch"],
      "impact": {
        "would_change": 1, "members_gaining": 0, "members_losing": 9, "is_complete": true,
        "labels_without_members": ["team:nosuch"]
      }
    }
    "#);
    let stored = get(format!("/v1/memories/{memory}")).bearer(owner).await;
    assert_eq!(stored.json()["audienceTag"], "workspace:handbook");
    assert_eq!(stored.json()["reviewStatus"], "pending");
    let after = dashboard(owner, org.main.id).await.json();
    assert_eq!(
        after["review_backlog_count"],
        before["review_backlog_count"]
    );
    let entries = get("/v1/audit-log?action=memory.bulk_update&resource_kind=memory");
    let entries = entries.bearer(owner).await.json();
    let memory = json!(memory);
    let mut entries = entries["data"].as_array().expect("a list").iter();
    assert!(entries.all(|entry| entry["resource"]["id"] != memory));
}

async fn dry_run_counts_members_that_gain_or_lose_sight() {
    let org = own_org();
    let owner = &org.members.owner.token;
    let memory = org.main.memories.internal[60];
    let own = json!({ "memoryIds": [memory], "audienceTag": "user:owner" });
    let with = |body: &Value, field: &str, value: Value| {
        let mut body = body.clone();
        body[field] = value;
        body
    };
    let dry = impact(&bulk(owner, &with(&own, "dryRun", json!(true))).await);
    assert_eq!(dry["members_gaining"], 0);
    let losing = dry["members_losing"].as_u64().expect("a number");
    assert!(losing > 1, "{dry}");
    assert_eq!(bulk(owner, &own).await.json()["impact"], Value::Null);
    // Those who lost sight of it gain it again.
    let back = json!({
        "memoryIds": [memory], "audienceTag": "workspace:handbook", "dryRun": true,
    });
    let dry = impact(&bulk(owner, &back).await);
    assert_eq!(dry["members_gaining"], losing);
    assert_eq!(dry["members_losing"], 0);
    // What changes nothing concerns nobody.
    let same = with(&own, "dryRun", json!(true));
    let dry = impact(&bulk(owner, &same).await);
    assert_eq!(
        (&dry["would_change"], &dry["members_losing"]),
        (&json!(0), &json!(0))
    );
}

async fn dry_run_leaves_its_key_unused() {
    let org = own_org();
    let (owner, key) = (&org.members.owner.token, new_key());
    let mut body = json!({
        "memoryIds": [org.main.memories.internal[1]],
        "sensitivityLabel": "confidential", "dryRun": true,
    });
    for _ in 0..2 {
        let dry = bulk_with_key(owner, &key, &body).await;
        assert_eq!(
            (dry.status.as_u16(), &dry.json()["replayed"]),
            (200, &json!(false))
        );
    }
    body["dryRun"] = json!(false);
    let made = bulk_with_key(owner, &key, &body).await;
    assert_eq!(
        (made.status.as_u16(), &made.json()["replayed"]),
        (200, &json!(false))
    );
    let again = bulk_with_key(owner, &key, &body).await;
    assert_eq!(again.json()["replayed"], true);
}

async fn dry_run_rejects_invalid_values() {
    let org = own_org();
    let body = json!({
        "memoryIds": [org.main.memories.internal[0]], "reviewStatus": "approved", "dryRun": "yes",
    });
    let answer = bulk(&org.members.owner.token, &body).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["details"]["fields"][0]["path"], "dryRun");
}

async fn bulk_update_names_label_without_members() {
    let org = own_org();
    let (owner, key) = (&org.members.owner.token, new_key());
    let body =
        |label: &str| json!({ "memoryIds": [org.main.memories.internal[2]], "audienceTag": label });
    let made = bulk_with_key(owner, &key, &body("team:typo")).await;
    assert_eq!(made.json()["labels_without_members"], json!(["team:typo"]));
    let again = bulk_with_key(owner, &key, &body("team:typo")).await.json();
    assert_eq!(again["replayed"], true);
    assert_eq!(again["labels_without_members"], json!(["team:typo"]));
    for nobody in ["user:nobody", "workspace:nowhere", "org:elsewhere"] {
        let made = bulk(owner, &body(nobody)).await.json();
        assert_eq!(made["labels_without_members"], json!([nobody]));
    }
    for somebody in ["team:platform", "user:viewer", "workspace:handbook"] {
        let made = bulk(owner, &body(somebody)).await.json();
        assert_eq!(made["labels_without_members"], json!([]), "{somebody}");
    }
}

async fn labels_are_listed_with_counts_and_members() {
    let org = own_org();
    let (owner, here) = (&org.members.owner.token, org.main.id.to_string());
    let before = labels(owner, &here).await;
    let count = |labels: &[Value], text: &str| {
        label(labels, text).and_then(|label| label["memories"].as_u64())
    };
    let default = count(&before, "workspace:handbook").expect("a label in use");
    assert_eq!(label(&before, "team:hidden-from-all"), None);
    let platform = label(&before, "team:platform").expect("a team with members");
    assert_eq!(platform["has_members"], true);
    let moved = json!({
        "memoryIds": org.main.memories.internal[3..5], "audienceTag": "team:hidden-from-all",
    });
    assert_eq!(bulk(owner, &moved).await.json()["summary"]["succeeded"], 2);
    let after = labels(owner, &here).await;
    assert_eq!(count(&after, "workspace:handbook"), Some(default - 2));
    let lost = json!({ "label": "team:hidden-from-all", "memories": 2, "has_members": false });
    assert_eq!(label(&after, "team:hidden-from-all"), Some(&lost));
}

async fn labels_of_hidden_memories_are_not_listed() {
    let org = own_org();
    let (viewer, here) = (&org.members.viewer.token, org.main.id.to_string());
    let before = labels(viewer, &here).await;
    // Private memories of the owner, and what awaits review.
    assert_eq!(label(&before, "user:owner"), None);
    let own = label(&before, "user:viewer").expect("its own label");
    assert_eq!(
        (&own["memories"], &own["has_members"]),
        (&json!(0), &json!(true))
    );
    let memories = &org.main.memories;
    let hidden = json!({
        "memoryIds": [memories.private[0], memories.internal[5]],
        "sensitivityLabel": "confidential",
    });
    bulk(&org.members.owner.token, &hidden).await;
    assert_eq!(labels(viewer, &here).await, before);
    let away = get(format!("/v1/workspaces/{here}/labels"));
    let away = away.bearer(&org.tokens.side_only).await;
    assert_eq!(away.status, 404);
}

async fn labels_tell_nothing_of_a_hidden_workspace() {
    let org = own_org();
    let (owner, admin) = (&org.members.owner.token, &org.members.admin.token);
    let closed = put(format!("/v1/workspaces/{}/access", org.empty.id));
    let closed = closed.bearer(owner).json(&json!({ "access": "private" }));
    assert_eq!(closed.await.status, 200);
    let (here, hidden) = (
        org.main.id.to_string(),
        format!("workspace:{}", org.empty.slug),
    );
    let body = |label: &str, dry_run: bool| {
        json!({
            "memoryIds": [org.main.memories.internal[60]],
            "audienceTag": label, "dryRun": dry_run,
        })
    };
    let unknown = impact(&bulk(admin, &body("workspace:nowhere", true)).await);
    let told = impact(&bulk(admin, &body(&hidden, true)).await);
    assert_eq!(told["members_losing"], unknown["members_losing"]);
    assert_eq!(told["labels_without_members"], json!([hidden]));
    let known = impact(&bulk(owner, &body(&hidden, true)).await);
    assert!(known["members_losing"].as_u64() < told["members_losing"].as_u64());
    let made = bulk(owner, &body(&hidden, false)).await.json();
    assert_eq!(made["labels_without_members"], json!([]));
    for (token, covers) in [(owner, true), (admin, false)] {
        let listed = labels(token, &here).await;
        let shown = json!({ "label": hidden, "memories": 1, "has_members": covers });
        assert_eq!(label(&listed, &hidden), Some(&shown));
    }
}
