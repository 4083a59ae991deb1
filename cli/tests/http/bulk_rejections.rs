//! `PATCH /v1/memories/bulk` with an invalid body.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Show, bulk, quiet_org};

#[tokio::test]
async fn bulk_update_reports_all_problems_of_a_body() {
    let org = quiet_org();
    let memory = org.main.memories.internal[0];
    let body = json!({
        "memoryIds": [memory, "one", 2, memory],
        "audienceTag": "everybody",
        "sensitivityLabel": "secret",
        "sourceId": "wiki",
        "reviewStatus": null,
        "title": "Keys",
    });
    let answer = bulk(&org.members.member.token, &body).send().await;
    insta::assert_snapshot!(answer.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 883
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: memoryIds[1] must be a UUID (and 6 more)",
      "details": {
        "fields": [
          {
            "path": "memoryIds[1]",
            "code": "invalid_value",
            "message": "must be a UUID"
          },
          {
            "path": "memoryIds[2]",
            "code": "invalid_type",
            "message": "must be a string, not a number"
          },
          {
            "path": "audienceTag",
            "code": "invalid_value",
            "message": "must be <scope>:<name>, the scope one of org, workspace, team, user, the name 1 to 64 characters of a-z 0-9 - _ ."
          },
          {
            "path": "sensitivityLabel",
            "code": "invalid_value",
            "message": "must be one of public, internal, confidential, restricted"
          },
          {
            "path": "sourceId",
            "code": "invalid_value",
            "message": "must be a UUID"
          },
          {
            "path": "reviewStatus",
            "code": "invalid_type",
            "message": "must be a string, not null"
          },
          {
            "path": "title",
            "code": "unknown_field",
            "message": "is unknown; known fields: memoryIds, audienceTag, sensitivityLabel, sourceId, reviewStatus"
          }
        ]
      }
    }
    "#);
}

#[tokio::test]
async fn bulk_update_bounds_its_list_and_rejects_duplicates() {
    let org = quiet_org();
    let memory = org.main.memories.internal[0];
    let refusal = async |ids: Value| {
        let body = json!({ "memoryIds": ids, "audienceTag": "team:platform" });
        let answer = bulk(&org.members.member.token, &body).send().await;
        assert_eq!(answer.status, 400);
        answer.json()["details"].to_string()
    };
    insta::assert_snapshot!(refusal(json!([])).await, @r#"{"fields":[{"code":"too_small","message":"must have 1 to 1000 items, not 0","path":"memoryIds"}]}"#);
    let too_many: Vec<_> = (1..=1_001).map(Uuid::from_u128).collect();
    insta::assert_snapshot!(refusal(json!(too_many)).await, @r#"{"fields":[{"code":"too_large","message":"must have 1 to 1000 items, not 1001","path":"memoryIds"}]}"#);
    insta::assert_snapshot!(refusal(json!([memory, Uuid::max(), memory])).await, @r#"{"fields":[{"code":"duplicate","message":"must not repeat an earlier item of the list","path":"memoryIds[2]"}]}"#);
    insta::assert_snapshot!(refusal(json!(memory)).await, @r#"{"fields":[{"code":"invalid_type","message":"must be a list of UUIDs, not a string","path":"memoryIds"}]}"#);
}

#[tokio::test]
async fn bulk_update_requires_memories_and_a_change() {
    let org = quiet_org();
    let refusal = async |body: Value| {
        let answer = bulk(&org.members.member.token, &body).send().await;
        assert_eq!(answer.status, 400);
        answer.json()["details"].to_string()
    };
    insta::assert_snapshot!(refusal(json!({})).await, @r#"{"fields":[{"code":"required","message":"is required","path":"memoryIds"},{"code":"required","message":"must set at least one of audienceTag, sensitivityLabel, sourceId, reviewStatus","path":"body"}]}"#);
    let memory = org.main.memories.internal[0];
    insta::assert_snapshot!(refusal(json!({ "memoryIds": [memory] })).await, @r#"{"fields":[{"code":"required","message":"must set at least one of audienceTag, sensitivityLabel, sourceId, reviewStatus","path":"body"}]}"#);
    insta::assert_snapshot!(refusal(json!({ "audienceTag": "team:platform" })).await, @r#"{"fields":[{"code":"required","message":"is required","path":"memoryIds"}]}"#);
}

#[tokio::test]
async fn bulk_update_with_unknown_source_is_rejected() {
    let org = quiet_org();
    let body = json!({
        "memoryIds": [org.main.memories.internal[0]],
        "sourceId": Uuid::max(),
    });
    let answer = bulk(&org.members.member.token, &body).send().await;
    insta::assert_snapshot!(answer.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 222
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: sourceId must be a source of the organisation",
      "details": {
        "fields": [
          {
            "path": "sourceId",
            "code": "not_found",
            "message": "must be a source of the organisation"
          }
        ]
      }
    }
    "#);
}
