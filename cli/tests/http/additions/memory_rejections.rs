//! Rejected requests to add, list, read and change memories.

use serde_json::{Value, json};
use uuid::Uuid;

use super::memories::{list, memories, new};
use crate::support::{Answer, Show, delete, get, patch, post, quiet_org};

#[tokio::test]
async fn memory_rejects_invalid_request() {
    let org = quiet_org();
    let token = &org.members.owner.token;
    let send = async |body: Value| post(memories(org)).bearer(token).json(&body).send().await;
    let bad = json!({ "title": "", "sourceKey": "", "audienceTag": "nobody", "labels": [] });
    insta::assert_snapshot!(send(bad).await.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 776
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: sourceId is required (and 5 more)",
      "details": {
        "fields": [
          {
            "path": "sourceId",
            "code": "required",
            "message": "is required"
          },
          {
            "path": "title",
            "code": "too_small",
            "message": "must have 1 to 128 characters, not only white space, and no control characters"
          },
          {
            "path": "content",
            "code": "required",
            "message": "is required"
          },
          {
            "path": "sourceKey",
            "code": "invalid_value",
            "message": "must have 1 to 512 characters"
          },
          {
            "path": "audienceTag",
            "code": "invalid_value",
            "message": "must be <scope>:<name>, the scope one of org, workspace, team, user, the name 1 to 64 characters of a-z 0-9 - _ ."
          },
          {
            "path": "labels",
            "code": "unknown_field",
            "message": "is unknown; known fields: sourceId, title, content, sourceKey, audienceTag, sensitivityLabel"
          }
        ]
      }
    }
    "#);
    let mut unknown = new(org);
    unknown["sourceId"] = json!(Uuid::nil());
    let messages = |answer: Answer| {
        assert_eq!(answer.status, 400, "{answer:?}");
        let fields = answer.json()["details"]["fields"].clone();
        let fields = fields.as_array().unwrap().iter();
        let fields = fields.map(|field| format!("{} {}", field["path"], field["message"]));
        fields.collect::<Vec<_>>().join("\n").replace('"', "")
    };
    insta::assert_snapshot!(messages(send(unknown).await), @"sourceId must be a source of the organisation");
    let update = json!({ "title": 7, "content": "", "reviewStatus": "done", "sourceId": "x" });
    let memory = format!("/v1/memories/{}", org.main.memories.internal[0]);
    let updated = patch(&memory).bearer(token).json(&update).send().await;
    insta::assert_snapshot!(messages(updated), @"
    title must be a string, not a number
    content must have 1 to 32768 bytes, and at most 61440 once JSON escapes it
    sourceId must be a UUID
    reviewStatus must be one of pending, approved, rejected
    ");
    let path = format!("{}?limit=0&reviewStatus=done&color=red", memories(org));
    insta::assert_snapshot!(messages(list(token, path).await), @"
    reviewStatus must be one of pending, approved, rejected
    limit must be a number from 1 to 200
    color is unknown; known parameters: audienceTag, sensitivityLabel, reviewStatus, sourceId, limit, cursor
    ");
    let ingest = format!("/v1/workspaces/{}/ingest", org.main.id);
    let batch = json!({ "memories": [
        { "title": "One", "source_key": 1 },
        7,
        { "title": "", "content": "x", "sensitivity": "public" },
    ]});
    let refused = post(&ingest).bearer(token).json(&batch).send().await;
    insta::assert_snapshot!(messages(refused), @"
    source_id is required
    memories[0].content is required
    memories[0].source_key must be a string, not a number
    memories[1] must be an object, not a number
    memories[2].title must have 1 to 128 characters, not only white space, and no control characters
    memories[2].sensitivity is unknown; known fields: title, content, source_key, audience_tag, sensitivity_label
    ");
    let item = json!({ "title": "One", "content": "x", "source_key": "page/1" });
    let source = org.sources[0];
    for (memories, message) in [
        (
            vec![item.clone(); 101],
            "memories must have 1 to 100 items, not 101",
        ),
        (vec![], "memories must have 1 to 100 items, not 0"),
        (
            vec![item; 2],
            "memories[1].source_key must not repeat the key of memories[0]",
        ),
    ] {
        let batch = json!({ "source_id": source, "memories": memories });
        let refused = post(&ingest).bearer(token).json(&batch).send().await;
        assert_eq!(messages(refused), message);
    }
}

#[tokio::test]
async fn memory_rejects_unauthorized_and_unknown_access() {
    let org = quiet_org();
    let viewer = &org.members.viewer.token;
    let approved = org.main.memories.internal.last().unwrap();
    let memory = format!("/v1/memories/{approved}");
    let created = post(memories(org))
        .bearer(viewer)
        .json(&new(org))
        .send()
        .await;
    insta::assert_snapshot!(created.show(), @r#"
    403 Forbidden
    cache-control: no-store
    content-length: 79
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "forbidden",
      "message": "missing permission memory:create",
      "details": {}
    }
    "#);
    let reason = async |call: crate::support::Call, token: &str| {
        let answer = call.bearer(token).send().await;
        assert_eq!(answer.status, 403, "{answer:?}");
        answer.json()["message"].as_str().unwrap().to_owned()
    };
    let retitle = patch(&memory).json(&json!({ "title": "Mine" }));
    insta::assert_snapshot!(reason(retitle.clone(), viewer).await, @"missing permission memory:update");
    insta::assert_snapshot!(reason(delete(&memory), viewer).await, @"missing permission memory:delete");
    let elsewhere = get(&memory).bearer(&org.tokens.side_only).send().await;
    assert_eq!(elsewhere.status, 404);
    let secret = format!("/v1/memories/{}", org.main.memories.restricted[0]);
    let rewrite = patch(secret).json(&json!({ "content": "Mine" }));
    insta::assert_snapshot!(reason(rewrite, &org.members.member.token).await, @"missing permission memory:read_restricted");

    let owner = &org.members.owner.token;
    let nowhere = format!("/v1/workspaces/{}/memories", Uuid::nil());
    for call in [
        get(&nowhere),
        post(&nowhere).json(&new(org)),
        get("/v1/memories/none"),
        patch(format!("/v1/memories/{}", Uuid::nil())).json(&json!({ "title": "Mine" })),
    ] {
        assert_eq!(call.bearer(owner).send().await.status, 404);
    }
    let private = format!("/v1/memories/{}", org.main.memories.private[0]);
    for call in [
        get(&private),
        delete(&private),
        patch(&private).json(&json!({ "title": "Mine" })),
    ] {
        assert_eq!(call.bearer(viewer).send().await.status, 404);
    }
}
