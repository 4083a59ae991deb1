//! `/v1/erasures`

use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{
    Answer, Show, bulk, delete, error, get, new_key, own_org, post, problems, put, subscribe,
};

suite![
    erasure_of_named_memories_removes_what_cites_only_them,
    erasure_counts_named_memories_that_it_leaves,
    erasure_of_a_key_prefix_leaves_other_keys_of_the_source,
    erasure_with_dry_run_counts_and_erases_nothing,
    erased_keys_are_left_out_until_they_are_revived,
    erasure_of_a_source_removes_all_its_memories,
    erasure_of_a_removed_member_removes_memories_recalls_and_chats,
];

async fn erase_with_key(token: &str, key: &str, body: &Value) -> Answer {
    post("/v1/erasures").bearer(token).key(key).json(body).await
}

pub(super) async fn erase(token: &str, body: &Value) -> Answer {
    erase_with_key(token, &new_key(), body).await
}

/// Asserts the fields of the scope of a receipt that are set, and its counts that are not 0.
#[track_caller]
fn assert_erased(receipt: &Answer, scope: &Value, counts: &Value) {
    assert_eq!(receipt.status, 201, "{receipt:?}");
    let receipt = receipt.json();
    assert_eq!(receipt["status"], "completed", "{receipt}");
    let mut counted = receipt["counts"].clone();
    for name in ["notFound", "forbidden"] {
        counted[name] = receipt[name].clone();
    }
    let without = |mut fields: Value, absent: Value| {
        let named = fields.as_object_mut().expect("an object");
        named.retain(|_, value| *value != absent);
        fields
    };
    let named = without(receipt["scope"].clone(), Value::Null);
    assert_eq!(without(named, json!(false)), *scope);
    assert_eq!(without(counted, json!(0)), *counts);
}

/// Asserts that a receipt is complete, listed first, and read as it was returned.
async fn assert_receipt(token: &str, receipt: &Answer) {
    let receipt = receipt.json();
    assert_eq!(receipt["status"], "completed");
    let path = format!("/v1/erasures/{}", receipt["id"].as_str().unwrap());
    let read = get(path).bearer(token).await;
    assert_eq!((read.status.as_u16(), read.json()), (200, receipt.clone()));
    let listed = get("/v1/erasures?limit=1").bearer(token).await;
    assert_eq!(listed.json()["data"][0], receipt);
}

async fn ingest(org: &OrgFixture, token: &str, source: usize, keys: &[&str]) -> Vec<Value> {
    let memories = keys
        .iter()
        .map(|key| json!({ "title": key, "content": "What it says.", "source_key": key }));
    let body = json!({
        "source_id": org.sources[source], "memories": memories.collect::<Vec<_>>(),
    });
    let path = format!("/v1/workspaces/{}/ingest", org.main.id);
    let ingested = post(path).bearer(token).json(&body).await;
    assert_eq!(ingested.status, 200, "{ingested:?}");
    let ingested = ingested.json()["memories"].as_array().unwrap().clone();
    ingested.iter().map(|memory| memory["id"].clone()).collect()
}

async fn status_of(token: &str, memory: &Value) -> u16 {
    let path = format!("/v1/memories/{}", memory.as_str().unwrap());
    get(path).bearer(token).await.status.as_u16()
}

async fn erasure_of_named_memories_removes_what_cites_only_them() {
    let org = own_org();
    let owner = &org.members.owner.token;
    let subscription = json!({
        "recall_id": org.recall, "webhook_url": "https://example.com/citations",
    });
    let subscribed = subscribe(owner, &subscription).await;
    assert_eq!(subscribed.status, 201, "{subscribed:?}");
    let named = &org.main.memories.internal[60..63];
    let key = new_key();
    let body = json!({ "memoryIds": named });
    let erased = erase_with_key(owner, &key, &body).await;
    insta::assert_snapshot!(erased.brief(), @r#"
    201 Created

    {
      "id": "<uuid 1>", "createdBy": "<uuid 2>", "createdAt": "<time>",
      "scope": {
        "memberId": null, "sourceId": null, "sourceKeyPrefix": null, "anyPrefix": false,
        "memoriesNamed": 3
      },
      "suppress": true, "status": "completed", "completedAt": "<time>",
      "counts": {
        "memories": 3, "sourceKeys": 0, "recalls": 1, "citationSubscriptions": 1, "chats": 0,
        "chatMessages": 0
      },
      "notFound": 0, "forbidden": 0,
      "remains": {
        "auditLogUntil": "<time>", "deliveriesUntil": "<time>", "replaysUntil": "<time>",
        "backupsBefore": "<time>", "sourceKeyHashes": 0
      }
    }
    "#);
    assert_receipt(owner, &erased).await;
    for memory in named {
        assert_eq!(status_of(owner, &json!(memory)).await, 404);
    }
    let recall = format!("/v1/recalls/{}", org.recall);
    assert_eq!(get(recall).bearer(owner).await.status, 404);

    let replayed = erase_with_key(owner, &key, &body).await;
    let marked = "201 Created\nidempotent-replayed: true\n";
    let expected = erased.brief().replacen("201 Created\n", marked, 1);
    assert_eq!(replayed.brief(), expected);
    assert_eq!(replayed.json(), erased.json());
    let other = json!({ "memoryIds": named[..1] });
    let reused = erase_with_key(owner, &key, &other).await;
    insta::assert_snapshot!(error(&reused), @"422 idempotency_key_reused: this Idempotency-Key was used for a different request; choose a new one");
}

async fn erasure_counts_named_memories_that_it_leaves() {
    let org = own_org();
    let (owner, admin) = (&org.members.owner, &org.members.admin);
    let (here, there) = (&org.main.memories, &org.side.memories);
    let approved = json!({ "memoryIds": there.internal[..1], "reviewStatus": "approved" });
    assert_eq!(bulk(&owner.token, &approved).await.status, 200);
    let role = put(format!(
        "/v1/orgs/{}/members/{}/workspace-roles/{}",
        org.slug, admin.id, org.side.id
    ));
    let role = role
        .session(&owner.session)
        .json(&json!({ "role": "viewer" }));
    assert_eq!(role.await.status, 204);
    // In `side` the administrator is a viewer, for whom what awaits review does not exist.
    let named = json!([
        here.internal[0],
        there.internal[0],
        there.internal[1],
        Uuid::max(),
    ]);
    let erased = erase(&admin.token, &json!({ "memoryIds": named })).await;
    let scope = json!({ "memoriesNamed": 4 });
    let counts = json!({ "memories": 1, "notFound": 2, "forbidden": 1 });
    assert_erased(&erased, &scope, &counts);
    let mut statuses = Vec::new();
    for memory in named.as_array().unwrap() {
        statuses.push(status_of(&owner.token, memory).await);
    }
    assert_eq!(statuses, [404, 200, 200, 404]);
    let wide = json!({ "sourceId": org.sources[0] });
    let refused = erase(&admin.token, &wide).await;
    insta::assert_snapshot!(error(&refused), @r#"403 forbidden: missing permission erasure:manage {"permission":"erasure:manage"}"#);
}

async fn erasure_of_a_key_prefix_leaves_other_keys_of_the_source() {
    let org = own_org();
    let admin = &org.members.admin.token;
    let here = ingest(org, admin, 1, &["page/1", "page/2", "note/1"]).await;
    let elsewhere = ingest(org, admin, 2, &["page/1"]).await;
    let body = json!({ "sourceId": org.sources[1], "sourceKeyPrefix": "page/" });
    let erased = erase(admin, &body).await;
    assert_erased(&erased, &body, &json!({ "memories": 2, "sourceKeys": 2 }));
    assert_receipt(admin, &erased).await;
    let mut statuses = Vec::new();
    for memory in here.iter().chain(&elsewhere) {
        statuses.push(status_of(admin, memory).await);
    }
    assert_eq!(statuses, [404, 404, 200, 200]);
}

/// Returns a batch of a source with memories of these keys.
fn batch(org: &OrgFixture, keys: &[&str]) -> Value {
    let memories = keys
        .iter()
        .map(|key| json!({ "title": key, "content": "What it says.", "source_key": key }));
    json!({ "source_id": org.sources[1], "memories": memories.collect::<Vec<_>>() })
}

async fn erasure_with_dry_run_counts_and_erases_nothing() {
    let org = own_org();
    let admin = &org.members.admin.token;
    let keys = ["u-1/a", "u-1", "u-10", "u-1-b"];
    let added = ingest(org, admin, 1, &keys).await;
    let key = new_key();
    let mut body = json!({
        "sourceId": org.sources[1], "sourceKeyPrefix": "u-1", "dryRun": true,
    });
    let counted = erase_with_key(admin, &key, &body).await;
    insta::assert_snapshot!(counted.brief(), @r#"
    200 OK

    {
      "dryRun": true,
      "scope": {
        "memberId": null, "sourceId": "<uuid 1>", "sourceKeyPrefix": "u-1", "anyPrefix": false,
        "memoriesNamed": null
      },
      "suppress": true,
      "counts": {
        "memories": 2, "sourceKeys": 2, "recalls": 0, "citationSubscriptions": 0, "chats": 0,
        "chatMessages": 0
      },
      "notFound": 0, "forbidden": 0
    }
    "#);
    body["anyPrefix"] = json!(true);
    let counted = erase_with_key(admin, &key, &body).await.json();
    assert_eq!(counted["counts"]["memories"], 4);
    for memory in &added {
        assert_eq!(status_of(admin, memory).await, 200);
    }
    let receipts = get("/v1/erasures").bearer(admin).await.json();
    assert_eq!(receipts["data"], json!([]));

    // The key of a dry run can be used again.
    body["dryRun"] = json!(false);
    body["anyPrefix"] = json!(false);
    let erased = erase_with_key(admin, &key, &body).await;
    let scope = json!({ "sourceId": org.sources[1], "sourceKeyPrefix": "u-1" });
    assert_erased(&erased, &scope, &json!({ "memories": 2, "sourceKeys": 2 }));
    let mut statuses = Vec::new();
    for memory in &added {
        statuses.push(status_of(admin, memory).await);
    }
    assert_eq!(statuses, [404, 404, 200, 200]);
}

async fn erased_keys_are_left_out_until_they_are_revived() {
    let org = own_org();
    let admin = &org.members.admin.token;
    ingest(org, admin, 1, &["page/1", "page/2"]).await;
    let mut erasure = json!({ "sourceId": org.sources[1], "sourceKeyPrefix": "page" });
    let erased = erase(admin, &erasure).await.json();
    assert_eq!(erased["remains"]["sourceKeyHashes"], 2);

    let path = format!("/v1/workspaces/{}/ingest", org.main.id);
    let mut body = batch(org, &["page/1", "page/3"]);
    let again = post(&path).bearer(admin).json(&body).await;
    insta::assert_snapshot!(again.brief(), @r#"
    200 OK

    {"memories": [{"id": null, "outcome": "erased"}, {"id": "<uuid 1>", "outcome": "created"}]}
    "#);
    let single = json!({
        "sourceId": org.sources[1], "title": "Page", "content": "What it says.",
        "sourceKey": "page/2",
    });
    let memories = format!("/v1/workspaces/{}/memories", org.main.id);
    let refused = post(&memories).bearer(admin).json(&single).await;
    insta::assert_snapshot!(problems(&refused), @"erased: sourceKey must not be a key that was erased, unless revive is true");

    body["revive"] = json!(true);
    let revived = post(&path).bearer(admin).json(&body).await.json();
    let outcomes = ["/memories/0/outcome", "/memories/1/outcome"];
    let outcomes = outcomes.map(|place| revived.pointer(place).cloned());
    assert_eq!(outcomes, [json!("created"), json!("unchanged")].map(Some));

    erasure["suppress"] = json!(false);
    let erased = erase(admin, &erasure).await.json();
    assert_eq!(erased["remains"]["sourceKeyHashes"], 0);
    let free = post(&path)
        .bearer(admin)
        .json(&batch(org, &["page/1"]))
        .await;
    assert_eq!(free.json()["memories"][0]["outcome"], "created");
}

async fn erasure_of_a_source_removes_all_its_memories() {
    let org = own_org();
    let owner = &org.members.owner.token;
    let body = json!({ "sourceId": org.sources[0] });
    let erased = erase(owner, &body).await;
    assert_erased(&erased, &body, &json!({ "memories": 120, "recalls": 1 }));
    assert_receipt(owner, &erased).await;
    for workspace in [&org.main, &org.side] {
        let path = format!("/v1/workspaces/{}/memories", workspace.id);
        let listed = get(path).bearer(owner).await.json();
        assert_eq!(listed, json!({ "data": [], "next_cursor": null }));
    }
}

async fn erasure_of_a_removed_member_removes_memories_recalls_and_chats() {
    let org = own_org();
    let (owner, member) = (&org.members.owner, &org.members.member);
    let added = ingest(org, &member.token, 1, &["page/1", "page/2"]).await;
    let workspace = format!("/v1/workspaces/{}", org.main.id);
    let cited = &org.main.memories.internal[60..61];
    let recall = json!({ "query": "How long do keys live?", "memory_ids": cited });
    let chat = json!({ "title": "Plans", "participants": [owner.id] });
    let mut made = Vec::new();
    for (path, body) in [("recalls", recall), ("chats", chat)] {
        let path = format!("{workspace}/{path}");
        let created = post(&path).bearer(&member.token).json(&body).await;
        assert_eq!(created.status, 201, "{created:?}");
        made.push(created.json()["id"].as_str().unwrap().to_owned());
    }
    let messages = format!("{workspace}/chats/{}/messages", made[1]);
    let message = json!({ "content": "Where do we begin?" });
    for author in [member, owner] {
        let posted = post(&messages).bearer(&author.token).json(&message);
        assert_eq!(posted.await.status, 201);
    }
    let removed = delete(format!("/v1/orgs/{}/members/{}", org.slug, member.id));
    assert_eq!(removed.session(&owner.session).await.status, 204);

    let body = json!({ "memberId": member.id });
    let erased = erase(&owner.token, &body).await;
    let counts = json!({
        "memories": 2, "sourceKeys": 2, "recalls": 1, "chats": 1, "chatMessages": 2,
    });
    assert_erased(&erased, &body, &counts);
    assert_receipt(&owner.token, &erased).await;
    for memory in &added {
        assert_eq!(status_of(&owner.token, memory).await, 404);
    }
    for path in [
        format!("/v1/recalls/{}", made[0]),
        format!("{workspace}/chats/{}", made[1]),
    ] {
        assert_eq!(get(path).bearer(&owner.token).await.status, 404);
    }
    assert_eq!(status_of(&owner.token, &json!(cited[0])).await, 200);
}
