//! `/v1/workspaces/{id}/recalls` and `/v1/recalls/{id}`

use serde_json::json;

use crate::support::{Show, assert_rejections, delete, error, get, own_org, patch, post};

suite![
    recall_is_created_listed_and_read,
    recall_exists_for_readers_of_all_it_cites,
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
          "created_by": "<uuid 3>", "created_at": "<time>"
        },
        {
          "id": "<uuid 4>", "workspace_id": "<uuid 2>", "query": "How do we rotate keys?",
          "created_by": "<uuid 5>", "created_at": "<time>"
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

async fn recall_rejects_invalid_requests() {
    assert_rejections! { r#"
        member POST /v1/workspaces/<main>/recalls {"memory_ids": ["<memory>", "<nil>"]}
          required: query is required
        member POST /v1/workspaces/<main>/recalls {"query": "?", "memory_ids": ["<side_memory>"]}
          not_found: memory_ids[0] must be an approved memory of the workspace
        viewer POST /v1/workspaces/<main>/recalls {"query": "?", "memory_ids": ["<side_memory>"]}
          403 forbidden: missing permission recall:create {"permission":"recall:create"}
        member GET /v1/workspaces/<nil>/recalls
          404 not_found: there is no such workspace {"kind":"workspace"}
        member GET /v1/recalls/<nil>
        member GET /v1/recalls/none
          404 not_found: there is no such recall {"kind":"recall"}
    "# }
}
