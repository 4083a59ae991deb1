//! `/v1/workspaces/{id}/recalls` and `/v1/recalls/{id}`

use knowledge_core::model::MemoryId;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Show, assert_rejections, delete, error, get, own_org, patch, post, problems};

suite![
    recall_is_created_listed_and_read,
    recall_exists_for_readers_of_all_it_cites,
    viewer_registers_recalls_of_what_it_may_read,
    recalls_are_found_by_memory,
    recall_cites_by_source_key,
    recall_rejects_invalid_requests,
];

async fn recall_is_created_listed_and_read() {
    let org = own_org();
    let member = &org.members.member.token;
    let recalls = format!("/v1/workspaces/{}/recalls", org.main.id);
    let cited = &org.main.memories.internal[60..62];
    let new = json!({ "query": "How long do keys live?", "memory_ids": cited });
    let made = post(&recalls).bearer(member).json(&new).await;
    insta::assert_snapshot!(made.brief(), @r#"
    201 Created

    {
      "id": "<uuid 1>", "workspace_id": "<uuid 2>", "query": "How long do keys live?",
      "memory_ids": ["<uuid 3>", "<uuid 4>"], "created_by": "<uuid 5>", "created_at": "<time>"
    }
    "#);
    let listed = get(&recalls).bearer(member).await;
    insta::assert_snapshot!(listed.brief(), @r#"
    200 OK

    {
      "data": [
        {
          "id": "<uuid 1>", "workspace_id": "<uuid 2>", "query": "How long do keys live?",
          "memory_ids": ["<uuid 3>", "<uuid 4>"], "created_by": "<uuid 5>", "created_at": "<time>"
        },
        {
          "id": "<uuid 6>", "workspace_id": "<uuid 2>", "query": "How do we rotate keys?",
          "memory_ids": ["<uuid 3>", "<uuid 4>", "<uuid 7>"], "created_by": "<uuid 8>",
          "created_at": "<time>"
        }
      ],
      "next_cursor": null
    }
    "#);
    let recall = format!("/v1/recalls/{}", made.json()["id"].as_str().unwrap());
    let read = get(&recall).bearer(member).await;
    assert_eq!((read.status.as_u16(), read.json()), (200, made.json()));

    let gone = format!("/v1/memories/{}", cited[0]);
    let deleted = delete(gone).bearer(&org.members.admin.token).await;
    assert_eq!(deleted.status, 204);
    let read = get(&recall).bearer(member).await;
    assert_eq!(read.json()["memory_ids"], json!(cited[1..]));
}

async fn recall_exists_for_readers_of_all_it_cites() {
    let org = own_org();
    let (owner, viewer) = (&org.members.owner.token, &org.members.viewer.token);
    let recall = format!("/v1/recalls/{}", org.recall);
    let recalls = format!("/v1/workspaces/{}/recalls", org.main.id);
    assert_eq!(get(&recall).bearer(viewer).await.status, 200);
    let cited = format!("/v1/memories/{}", org.main.memories.internal[60]);
    let restricted = json!({ "sensitivityLabel": "restricted" });
    let changed = patch(cited).bearer(owner).json(&restricted).await;
    assert_eq!(changed.status, 200);
    let read = get(&recall).bearer(viewer).await;
    insta::assert_snapshot!(error(&read), @r#"404 not_found: there is no such recall {"kind":"recall"}"#);
    let listed = get(&recalls).bearer(viewer).await.json();
    assert_eq!(listed, json!({ "data": [], "next_cursor": null }));
    let subscriptions = format!("/v1/citation-subscriptions?recall_id={}", org.recall);
    let member = &org.members.member.token;
    assert_eq!(get(&subscriptions).bearer(member).await.status, 404);
    assert_eq!(get(&recall).bearer(owner).await.status, 200);
}

async fn viewer_registers_recalls_of_what_it_may_read() {
    let org = own_org();
    let viewer = &org.members.viewer;
    let recalls = format!("/v1/workspaces/{}/recalls", org.main.id);
    let readable = org.main.memories.internal[60];
    let new = |memories: &[MemoryId]| json!({ "query": "How?", "memory_ids": memories });
    let made = post(&recalls).bearer(&viewer.token);
    let made = made.json(&new(&[readable])).await;
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    assert_eq!(made["memory_ids"], json!([readable]));
    assert_eq!(made["created_by"], json!(viewer.id));
    let hidden = org.main.memories.confidential[0];
    let refused = post(&recalls).bearer(&viewer.token);
    let refused = refused.json(&new(&[readable, hidden])).await;
    insta::assert_snapshot!(problems(&refused), @"not_found: memory_ids[1] must be an approved memory of the workspace");
    let recall = format!("/v1/recalls/{}", made["id"].as_str().unwrap());
    assert_eq!(delete(recall).bearer(&viewer.token).await.status, 204);
}

async fn recalls_are_found_by_memory() {
    let org = own_org();
    let member = &org.members.member.token;
    let recalls = format!("/v1/workspaces/{}/recalls", org.main.id);
    let cited = &org.main.memories.internal[62..64];
    let new = json!({ "query": "How long do keys live?", "memory_ids": cited });
    let made = post(&recalls).bearer(member).json(&new).await.json();
    let found = async |memory: String| {
        let path = format!("{recalls}?memoryId={memory}");
        let listed = get(path).bearer(member).await.json();
        let listed = listed["data"].as_array().unwrap().clone();
        listed
            .iter()
            .map(|recall| recall["id"].clone())
            .collect::<Vec<Value>>()
    };
    let both = vec![made["id"].clone(), json!(org.recall)];
    assert_eq!(found(cited[0].to_string()).await, both);
    assert_eq!(found(cited[1].to_string()).await, both[..1]);
    assert_eq!(found(Uuid::nil().to_string()).await, Vec::<Value>::new());
    // For whom the memory does not exist, no recall is found by it.
    let hidden = json!({ "audienceTag": "team:nobody" });
    let path = format!("/v1/memories/{}", cited[1]);
    let owner = &org.members.owner.token;
    assert_eq!(patch(path).bearer(owner).json(&hidden).await.status, 200);
    assert_eq!(found(cited[1].to_string()).await, Vec::<Value>::new());
    assert_eq!(found(cited[0].to_string()).await, both);
}

async fn recall_cites_by_source_key() {
    let org = own_org();
    let admin = &org.members.admin.token;
    let memories = format!("/v1/workspaces/{}/memories", org.main.id);
    let new = json!({
        "sourceId": org.sources[0], "title": "On call", "content": "Ask Ada.", "sourceKey": "p/1",
    });
    let made = post(&memories).bearer(admin).json(&new).await.json();
    let recalls = format!("/v1/workspaces/{}/recalls", org.main.id);
    let key = json!({ "source_id": org.sources[0], "source_key": "p/1" });
    let recall = json!({ "query": "Who is on call?", "source_keys": [key] });
    let refused = post(&recalls).bearer(admin).json(&recall).await;
    insta::assert_snapshot!(problems(&refused), @"not_found: source_keys[0] must be an approved memory of the workspace");
    let path = format!("/v1/memories/{}", made["id"].as_str().unwrap());
    let approve = json!({ "reviewStatus": "approved" });
    assert_eq!(patch(path).bearer(admin).json(&approve).await.status, 200);
    let registered = post(&recalls).bearer(admin).json(&recall).await;
    assert_eq!(registered.status, 201, "{registered:?}");
    assert_eq!(registered.json()["memory_ids"], json!([made["id"]]));
}

async fn recall_rejects_invalid_requests() {
    assert_rejections! { r#"
        member POST /v1/workspaces/<main>/recalls {"query": "a\u0000b"}
          invalid_value: query must not contain the character U+0000
          too_small: memory_ids must have 1 to 500 items in both lists, not 0
        member GET /v1/workspaces/<main>/recalls?memoryId=none
          invalid_value: memoryId must be a UUID of 36 characters, for example <uuid 1>
        member POST /v1/workspaces/<main>/recalls {"memory_ids": ["<memory>", "<nil>"]}
          required: query is required
        member POST /v1/workspaces/<main>/recalls {"query": "?", "memory_ids": ["<side_memory>"]}
        viewer POST /v1/workspaces/<main>/recalls {"query": "?", "memory_ids": ["<side_memory>"]}
          not_found: memory_ids[0] must be an approved memory of the workspace
        reading_only POST /v1/workspaces/<main>/recalls {"query": "?", "memory_ids": ["<memory>"]}
          403 forbidden: missing permission recall:create {"permission":"recall:create"}
        member GET /v1/workspaces/<nil>/recalls
          404 not_found: there is no such workspace {"kind":"workspace"}
        member GET /v1/recalls/<nil>
        member GET /v1/recalls/none
          404 not_found: there is no such recall {"kind":"recall"}
    "# }
}
