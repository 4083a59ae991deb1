//! Rejected requests to `/v1/erasures`.

use serde_json::json;
use uuid::Uuid;

use super::erasures::erase;
use crate::support::{Show, get, post, quiet_org};

#[tokio::test]
async fn erasure_rejects_invalid_requests() {
    let org = quiet_org();
    let (owner, member) = (&org.members.owner.token, &org.members.member.token);
    let named = json!({ "memoryIds": [Uuid::max()] });
    let without_key = post("/v1/erasures").bearer(owner).json(&named).send().await;
    insta::assert_snapshot!(without_key.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 172
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "idempotency_key_required",
      "message": "the header Idempotency-Key is required; send 1 to 255 visible ASCII characters, different for each new request",
      "details": {}
    }
    "#);
    let both = json!({ "memoryIds": [Uuid::max()], "sourceId": org.sources[0] });
    insta::assert_snapshot!(erase(owner, &both).await.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 254
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: body must name only one of memberId, sourceId and memoryIds",
      "details": {
        "fields": [
          {
            "path": "body",
            "code": "invalid_value",
            "message": "must name only one of memberId, sourceId and memoryIds"
          }
        ]
      }
    }
    "#);
    let unknown = json!({ "memberId": Uuid::max() });
    insta::assert_snapshot!(erase(owner, &unknown).await.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 256
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: memberId must be a member of the organisation, or a former one",
      "details": {
        "fields": [
          {
            "path": "memberId",
            "code": "not_found",
            "message": "must be a member of the organisation, or a former one"
          }
        ]
      }
    }
    "#);
    insta::assert_snapshot!(erase(member, &named).await.show(), @r#"
    403 Forbidden
    cache-control: no-store
    content-length: 80
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "forbidden",
      "message": "missing permission erasure:manage",
      "details": {}
    }
    "#);
    let path = format!("/v1/erasures/{}", Uuid::max());
    let missing = get(path).bearer(owner).send().await;
    insta::assert_snapshot!(missing.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 87
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such erasure",
      "details": {
        "kind": "erasure"
      }
    }
    "#);
}
