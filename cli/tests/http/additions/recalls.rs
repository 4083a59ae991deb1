//! `/v1/workspaces/{id}/recalls` and `/v1/recalls/{id}`

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Show, delete, get, own_org, patch, post, quiet_org};

#[tokio::test]
async fn recall_is_created_listed_and_read() {
    let org = own_org();
    let member = &org.members.member.token;
    let recalls = format!("/v1/workspaces/{}/recalls", org.main.id);
    let cited = &org.main.memories.internal[60..62];
    let new = json!({ "query": "How long do keys live?", "memory_ids": cited });
    let made = post(&recalls).bearer(member).json(&new).send().await;
    insta::assert_snapshot!(made.show(), @r#"
    201 Created
    cache-control: no-store
    content-length: 317
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "id": "<uuid 2>",
      "workspace_id": "<uuid 3>",
      "query": "How long do keys live?",
      "memory_ids": [
        "<uuid 4>",
        "<uuid 5>"
      ],
      "created_by": "<uuid 6>",
      "created_at": "<time>"
    }
    "#);
    let listed = get(&recalls).bearer(member).send().await;
    insta::assert_snapshot!(listed.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 479
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "data": [
        {
          "id": "<uuid 2>",
          "workspace_id": "<uuid 3>",
          "query": "How long do keys live?",
          "created_by": "<uuid 4>",
          "created_at": "<time>"
        },
        {
          "id": "<uuid 5>",
          "workspace_id": "<uuid 3>",
          "query": "How do we rotate keys?",
          "created_by": "<uuid 6>",
          "created_at": "<time>"
        }
      ],
      "next_cursor": null
    }
    "#);
    let recall = format!("/v1/recalls/{}", made.json()["id"].as_str().unwrap());
    let read = get(&recall).bearer(member).send().await;
    assert_eq!((read.status.as_u16(), read.json()), (200, made.json()));

    let gone = format!("/v1/memories/{}", cited[0]);
    let deleted = delete(gone).bearer(&org.members.admin.token).send().await;
    assert_eq!(deleted.status, 204);
    let read = get(&recall).bearer(member).send().await;
    assert_eq!(read.json()["memory_ids"], json!(cited[1..]));
}

#[tokio::test]
async fn recall_exists_for_readers_of_all_it_cites() {
    let org = own_org();
    let (owner, viewer) = (&org.members.owner.token, &org.members.viewer.token);
    let recall = format!("/v1/recalls/{}", org.recall);
    let recalls = format!("/v1/workspaces/{}/recalls", org.main.id);
    assert_eq!(get(&recall).bearer(viewer).send().await.status, 200);
    let cited = format!("/v1/memories/{}", org.main.memories.internal[60]);
    let restricted = json!({ "sensitivityLabel": "restricted" });
    let changed = patch(cited).bearer(owner).json(&restricted).send().await;
    assert_eq!(changed.status, 200);
    let read = get(&recall).bearer(viewer).send().await;
    insta::assert_snapshot!(read.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 85
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such recall",
      "details": {
        "kind": "recall"
      }
    }
    "#);
    let listed = get(&recalls).bearer(viewer).send().await.json();
    assert_eq!(listed, json!({ "data": [], "next_cursor": null }));
    let subscriptions = format!("/v1/citation-subscriptions?recall_id={}", org.recall);
    let member = &org.members.member.token;
    assert_eq!(get(&subscriptions).bearer(member).send().await.status, 404);
    assert_eq!(get(&recall).bearer(owner).send().await.status, 200);
}

#[tokio::test]
async fn recall_rejects_invalid_requests() {
    let org = quiet_org();
    let recalls = format!("/v1/workspaces/{}/recalls", org.main.id);
    let send =
        async |token: &str, body: Value| post(&recalls).bearer(token).json(&body).send().await;
    let member = &org.members.member.token;
    let unknown = Uuid::nil();
    let body = json!({ "memory_ids": [org.main.memories.internal[0], unknown] });
    insta::assert_snapshot!(send(member, body).await.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 165
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: query is required",
      "details": {
        "fields": [
          {
            "path": "query",
            "code": "required",
            "message": "is required"
          }
        ]
      }
    }
    "#);
    let body = json!({ "query": "?", "memory_ids": [org.side.memories.internal[0]] });
    insta::assert_snapshot!(send(member, body.clone()).await.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 246
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: memory_ids[0] must be an approved memory of the workspace",
      "details": {
        "fields": [
          {
            "path": "memory_ids[0]",
            "code": "not_found",
            "message": "must be an approved memory of the workspace"
          }
        ]
      }
    }
    "#);
    insta::assert_snapshot!(send(&org.members.viewer.token, body).await.show(), @r#"
    403 Forbidden
    cache-control: no-store
    content-length: 79
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "forbidden",
      "message": "missing permission recall:create",
      "details": {}
    }
    "#);
    for path in [
        format!("/v1/workspaces/{unknown}/recalls"),
        format!("/v1/recalls/{unknown}"),
        "/v1/recalls/none".to_owned(),
    ] {
        assert_eq!(get(path).bearer(member).send().await.status, 404);
    }
}
