//! `/v1/workspaces/{id}/memories`, `/v1/workspaces/{id}/ingest` and `/v1/memories/{id}`

use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, Show, bulk, delete, get, own_org, patch, post, quiet_org};

fn memories(org: &OrgFixture) -> String {
    format!("/v1/workspaces/{}/memories", org.main.id)
}

fn new(org: &OrgFixture) -> Value {
    json!({
        "sourceId": org.sources[1],
        "title": "Rotating keys",
        "content": "Every ninety days.",
        "sourceKey": "page/7",
        "sensitivityLabel": "public",
    })
}

async fn list(token: &str, path: String) -> Answer {
    get(path).bearer(token).send().await
}

/// Returns all items of a list, page by page.
async fn all(token: &str, path: &str) -> Vec<Value> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = list(token, format!("{path}&limit=30{cursor}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        let page = page.json();
        found.extend(page["data"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

#[tokio::test]
async fn memory_is_created_updated_and_deleted() {
    let org = own_org();
    let token = &org.members.admin.token;
    let made = post(memories(org))
        .bearer(token)
        .json(&new(org))
        .send()
        .await;
    insta::assert_snapshot!(made.show(), @r#"
    201 Created
    cache-control: no-store
    content-length: 497
    content-type: application/json
    date: <date>
    etag: "<etag 1>"
    request-id: <uuid 1>

    {
      "id": "<uuid 2>",
      "workspaceId": "<uuid 3>",
      "sourceId": "<uuid 4>",
      "originSourceId": "<uuid 4>",
      "sourceKey": "page/7",
      "audienceTag": "workspace:handbook",
      "sensitivityLabel": "public",
      "reviewStatus": "pending",
      "title": "Rotating keys",
      "createdBy": "<uuid 5>",
      "createdAt": "<time>",
      "updatedAt": "<time>",
      "content": "Every ninety days."
    }
    "#);
    let path = format!("/v1/memories/{}", made.json()["id"].as_str().unwrap());
    let read = get(&path).bearer(token).send().await;
    insta::assert_snapshot!(read.show(), @r#"
    200 OK
    cache-control: private, no-cache
    content-length: 497
    content-type: application/json
    date: <date>
    etag: "<etag 1>"
    request-id: <uuid 1>

    {
      "id": "<uuid 2>",
      "workspaceId": "<uuid 3>",
      "sourceId": "<uuid 4>",
      "originSourceId": "<uuid 4>",
      "sourceKey": "page/7",
      "audienceTag": "workspace:handbook",
      "sensitivityLabel": "public",
      "reviewStatus": "pending",
      "title": "Rotating keys",
      "createdBy": "<uuid 5>",
      "createdAt": "<time>",
      "updatedAt": "<time>",
      "content": "Every ninety days."
    }
    "#);
    assert_eq!(read.json(), made.json());
    assert_eq!(read.header("etag"), made.header("etag"));
    let known = get(&path)
        .bearer(token)
        .header("if-none-match", read.header("etag"));
    insta::assert_snapshot!(known.send().await.show(), @r#"
    304 Not Modified
    cache-control: private, no-cache
    date: <date>
    etag: "<etag 1>"
    request-id: <uuid 1>
    "#);

    let change = json!({ "content": "Every thirty days.", "audienceTag": "team:platform" });
    let bound = patch(&path)
        .bearer(token)
        .header("if-match", read.header("etag"))
        .json(&change);
    let changed = bound.clone().send().await;
    assert_eq!(changed.status, 200);
    let shown = changed.json();
    assert_eq!(shown["content"], "Every thirty days.");
    assert_eq!(shown["audienceTag"], "team:platform");
    assert_eq!(shown["title"], "Rotating keys");
    insta::assert_snapshot!(bound.send().await.show(), @r#"
    412 Precondition Failed
    cache-control: no-store
    content-length: 126
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "precondition_failed",
      "message": "the resource has changed since the version in If-Match; read it again",
      "details": {}
    }
    "#);
    let nothing = patch(&path).bearer(token).send().await;
    assert_eq!((nothing.status.as_u16(), nothing.json()), (200, shown));

    let deleted = delete(&path).bearer(token).send().await;
    insta::assert_snapshot!(deleted.show(), @"
    204 No Content
    date: <date>
    request-id: <uuid 1>
    ");
    for call in [get(&path), patch(&path), delete(&path)] {
        assert_eq!(call.bearer(token).send().await.status, 404);
    }
    let gone = get(&path).bearer(token).send().await;
    insta::assert_snapshot!(gone.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 70
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such memory",
      "details": {}
    }
    "#);
}

/// Memories that the reader may know of but not read are listed without content.
#[tokio::test]
async fn memories_are_listed_without_hidden_content() {
    let org = quiet_org();
    let path = format!("{}?sensitivityLabel=restricted&limit=1", memories(org));
    let found = list(&org.members.viewer.token, path).await;
    insta::assert_snapshot!(found.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 537
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "data": [
        {
          "id": "<uuid 2>",
          "workspaceId": "<uuid 3>",
          "sourceId": "<uuid 4>",
          "originSourceId": "<uuid 4>",
          "sourceKey": null,
          "audienceTag": "workspace:handbook",
          "sensitivityLabel": "restricted",
          "reviewStatus": "pending",
          "title": null,
          "createdBy": "<uuid 5>",
          "createdAt": "<time>",
          "updatedAt": "<time>"
        }
      ],
      "next_cursor": "<cursor>"
    }
    "#);
}

#[tokio::test]
async fn memories_are_filtered_by_label_within_visibility() {
    let org = quiet_org();
    let path = memories(org);
    let members = &org.members;
    let count =
        async |token: &str, filter: &str| all(token, &format!("{path}?{filter}")).await.len();
    let source = format!("sourceId={}", org.sources[0]);
    for (filter, expected) in [
        ("", 100),
        ("sensitivityLabel=confidential", 8),
        ("sensitivityLabel=internal&reviewStatus=approved", 20),
        ("audienceTag=workspace:handbook", 96),
        ("audienceTag=user:owner", 4),
        (&source, 100),
        ("audienceTag=user:owner&sensitivityLabel=restricted", 0),
    ] {
        assert_eq!(
            count(&members.owner.token, filter).await,
            expected,
            "{filter}"
        );
    }
    // A member relabels, and so sees the labels of memories that they may not read; a viewer does
    // not.
    for (member, seen, titled) in [(&members.member, 100, 80), (&members.viewer, 96, 80)] {
        let found = all(&member.token, &format!("{path}?")).await;
        let shown = found.iter().filter(|memory| !memory["title"].is_null());
        assert_eq!((found.len(), shown.count()), (seen, titled));
    }
    let secret = org.main.memories.restricted[0];
    let read = get(format!("/v1/memories/{secret}")).bearer(&members.viewer.token);
    let read = read.send().await.json();
    assert_eq!(
        (&read["title"], &read["content"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(read["sensitivityLabel"], "restricted");
    let private = org.main.memories.private[0];
    let read = get(format!("/v1/memories/{private}")).bearer(&members.viewer.token);
    assert_eq!(read.send().await.status, 404);
}

#[tokio::test]
async fn ingest_of_same_batch_changes_nothing() {
    let org = own_org();
    let token = &org.members.member.token;
    let path = format!("/v1/workspaces/{}/ingest", org.main.id);
    let batch = |content: &str| {
        json!({
            "source_id": org.sources[1],
            "memories": [
                { "title": "One", "content": "First.", "source_key": "page/1" },
                { "title": "Two", "content": content, "source_key": "page/2",
                  "audience_tag": "org:any", "sensitivity_label": "confidential" },
            ],
        })
    };
    let send = async |content: &str| post(&path).bearer(token).json(&batch(content)).send().await;
    insta::assert_snapshot!(send("Second.").await.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 146
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "memories": [
        {
          "id": "<uuid 2>",
          "outcome": "created"
        },
        {
          "id": "<uuid 3>",
          "outcome": "created"
        }
      ]
    }
    "#);
    let again = send("Second, revised.").await;
    insta::assert_snapshot!(again.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 148
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "memories": [
        {
          "id": "<uuid 2>",
          "outcome": "unchanged"
        },
        {
          "id": "<uuid 3>",
          "outcome": "updated"
        }
      ]
    }
    "#);
}

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
            "path": "content",
            "code": "required",
            "message": "is required"
          },
          {
            "path": "audienceTag",
            "code": "invalid_value",
            "message": "must be <scope>:<name>, the scope one of org, workspace, team, user, the name 1 to 64 characters of a-z 0-9 - _ ."
          },
          {
            "path": "title",
            "code": "too_small",
            "message": "must have 1 to 128 characters, not only white space, and no control characters"
          },
          {
            "path": "sourceKey",
            "code": "invalid_value",
            "message": "must have 1 to 512 characters"
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
    sourceId must be a UUID
    reviewStatus must be one of pending, approved, rejected
    content must have 1 to 32768 bytes, and at most 61440 once JSON escapes it
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
    let memory = format!("/v1/memories/{}", org.main.memories.internal[0]);
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
    let side = &org.tokens.side_only;
    insta::assert_snapshot!(reason(get(&memory), side).await, @"outside the scope of this credential");
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

/// A deleted memory is not found by a bulk update; a replay still returns the stored result.
#[tokio::test]
async fn replay_outlives_deleted_memory() {
    let org = own_org();
    let token = &org.members.admin.token;
    let memory = org.main.memories.internal[0];
    let relabel = bulk(
        token,
        &json!({ "memoryIds": [memory], "sensitivityLabel": "public" }),
    );
    let first = relabel.clone().send().await.json();
    let path = format!("/v1/memories/{memory}");
    assert_eq!(delete(&path).bearer(token).send().await.status, 204);
    let replayed = relabel.send().await.json();
    assert_eq!(replayed["replayed"], true);
    assert_eq!(replayed["results"], first["results"]);
    let anew = bulk(
        token,
        &json!({ "memoryIds": [memory], "sensitivityLabel": "internal" }),
    );
    let anew = anew.send().await.json();
    assert_eq!(anew["results"][0]["error"]["code"], "not_found");
}
