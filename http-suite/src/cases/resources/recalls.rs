//! `/v1/workspaces/{id}/recalls` and `/v1/recalls/{id}`

use knowledge_core::model::MemoryId;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Show, assert_rejections, delete, error, get, own_org, patch, post, problems};

suite![
    recall_is_created_listed_and_read,
    recall_is_narrowed_to_what_was_used,
    recall_exists_for_readers_of_all_it_cites,
    viewer_registers_recalls_of_what_it_may_read,
    recalls_are_found_by_memory,
    recall_cites_by_source_key,
    recall_rejects_invalid_requests,
    search_registers_what_it_finds,
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

async fn recall_is_narrowed_to_what_was_used() {
    let org = own_org();
    let (member, viewer) = (&org.members.member.token, &org.members.viewer.token);
    let recalls = format!("/v1/workspaces/{}/recalls", org.main.id);
    let cited = &org.main.memories.internal[60..63];
    let new = json!({ "query": "How long do keys live?", "memory_ids": cited });
    let made = post(&recalls).bearer(member).json(&new).await.json();
    let recall = format!("/v1/recalls/{}", made["id"].as_str().unwrap());
    let used = json!({ "memory_ids": [cited[2], cited[0]] });
    let narrowed = patch(&recall).bearer(member).json(&used).await;
    assert_eq!(narrowed.status, 200, "{narrowed:?}");
    let mut expected = made.clone();
    expected["memory_ids"] = json!([cited[0], cited[2]]);
    assert_eq!(narrowed.json(), expected);
    assert_eq!(get(&recall).bearer(viewer).await.json(), expected);
    let found = get(format!("{recalls}?memoryId={}", cited[1])).bearer(member);
    let found = found.await.json().to_string();
    assert!(!found.contains(made["id"].as_str().unwrap()), "{found}");
    let wide = json!({ "memory_ids": cited });
    let refused = patch(&recall).bearer(member).json(&wide).await;
    insta::assert_snapshot!(problems(&refused), @"not_found: memory_ids[1] must be a memory that the recall cites");
    let refused = patch(&recall).bearer(viewer).json(&used).await;
    insta::assert_snapshot!(error(&refused), @r#"403 forbidden: only the member that registered a recall can narrow it {"permission":null}"#);
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
          too_small: memory_ids must have 1 to 500 items in both lists together, not 0
        member GET /v1/workspaces/<main>/recalls?memoryId=none
          invalid_value: memoryId must be a UUID of 36 characters, for example <uuid 1>
        member POST /v1/workspaces/<main>/recalls {"memory_ids": ["<memory>", "<nil>"]}
          required: query is required
        member POST /v1/workspaces/<main>/recalls {"query": "?", "memory_ids": ["<side_memory>"]}
        viewer POST /v1/workspaces/<main>/recalls {"query": "?", "memory_ids": ["<side_memory>"]}
          not_found: memory_ids[0] must be an approved memory of the workspace
        reading_only POST /v1/workspaces/<main>/recalls {"query": "?", "memory_ids": ["<memory>"]}
          403 forbidden: missing permission recall:create {"permission":"recall:create"}
        member PATCH /v1/recalls/<nil> {"memory_ids": []}
          too_small: memory_ids must have 1 to 500 items, not 0
        member PATCH /v1/recalls/<nil> {"memory_ids": ["<memory>", "<memory>"], "query": "?"}
          duplicate: memory_ids[1] must not repeat an earlier item of the list
          unknown_field: query is unknown; known fields: memory_ids
        member GET /v1/workspaces/<nil>/recalls
          404 not_found: there is no such workspace {"kind":"workspace"}
        member PATCH /v1/recalls/<nil> {"memory_ids": ["<memory>"]}
        member GET /v1/recalls/<nil>
        member GET /v1/recalls/none
          404 not_found: there is no such recall {"kind":"recall"}
    "# }
}

async fn search_registers_what_it_finds() {
    let org = own_org();
    let viewer = &org.members.viewer.token;
    let search = format!("/v1/workspaces/{}/recalls/search", org.main.id);
    let memories = &org.main.memories;
    let named = |id: &MemoryId| json!({ "memory_id": id });
    let candidates = [memories.confidential[0], memories.internal[60]];
    let body = json!({ "candidates": candidates.iter().map(named).collect::<Vec<_>>() });
    let found = post(&search).bearer(viewer).json(&body).await;
    assert_eq!(found.status, 200, "{found:?}");
    let found = found.json();
    assert_eq!(found["results"].as_array().unwrap().len(), 1);
    assert_eq!(found["results"][0]["memory_id"], json!(candidates[1]));
    let recall = format!("/v1/recalls/{}", found["recall_id"].as_str().unwrap());
    let recall = get(recall).bearer(viewer).await.json();
    assert_eq!(recall["memory_ids"], json!(candidates[1..]));

    let found_by = async |query: &str| {
        let body = json!({ "query": query, "limit": 3, "record": false });
        let found = post(&search).bearer(viewer).json(&body).await;
        assert_eq!(found.status, 200, "{found:?}");
        found.json()
    };
    let title = found["results"][0]["title"].as_str().unwrap();
    let by_title = found_by(title).await;
    assert_eq!(by_title["results"][0]["memory_id"], json!(candidates[1]));
    assert!(by_title["recall_id"].is_null());
    assert!(by_title["results"][0]["score"].as_f64() > Some(0.0));
    // Other forms of the same letters are the same words.
    let wide = |char: char| match char {
        '!'..='~' => char::from_u32(u32::from(char) + 0xfee0).unwrap(),
        other => other,
    };
    let wide: String = title.chars().map(wide).collect();
    assert_eq!(found_by(&wide).await, by_title);
    let none = found_by("\u{3c9}").await;
    assert_eq!(none, json!({ "recall_id": null, "results": [] }));
    let nothing = post(&search)
        .bearer(viewer)
        .json(&json!({ "query": " " }))
        .await;
    insta::assert_snapshot!(problems(&nothing), @"required: query must not be blank without candidates");
}
