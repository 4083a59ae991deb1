//! `/v1/citation-subscriptions`, except for creation.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Show, delete, get, own_org, post, quiet_org, subscribe};

#[tokio::test]
async fn subscription_is_listed_rotated_and_ended() {
    let org = own_org();
    let token = &org.members.member.token;
    let new = json!({ "recall_id": org.recall, "webhook_url": "https://example.com/hook" });
    let made = subscribe(token, &new).send().await.json();
    let list = async || {
        let path = format!("/v1/citation-subscriptions?recall_id={}", org.recall);
        get(path).bearer(token).send().await
    };
    insta::assert_snapshot!(list().await.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 412
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "data": [
        {
          "id": "<uuid 2>",
          "org_id": "<uuid 3>",
          "workspace_id": "<uuid 4>",
          "recall_id": "<uuid 5>",
          "subscriber_user_id": "<uuid 6>",
          "webhook_url": "https://example.com/hook",
          "is_confirmed": false,
          "signing_secret": null,
          "created_at": "<time>"
        }
      ],
      "next_cursor": null
    }
    "#);
    let path = format!(
        "/v1/citation-subscriptions/{}",
        made["id"].as_str().unwrap()
    );
    let read = get(&path).bearer(token).send().await;
    let shown = read.json();
    assert_eq!(
        (read.status.as_u16(), &shown),
        (200, &list().await.json()["data"][0])
    );
    assert_eq!(shown["signing_secret"], Value::Null);

    let rotated = post(format!("{path}/rotate-secret"))
        .bearer(token)
        .send()
        .await;
    insta::assert_snapshot!(rotated.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 127
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "signing_secret": "<secret>",
      "previous_secret_expires_at": "<time>"
    }
    "#);
    assert_ne!(rotated.json()["signing_secret"], made["signing_secret"]);
    assert_eq!(delete(&path).bearer(token).send().await.status, 204);
    insta::assert_snapshot!(delete(&path).bearer(token).send().await.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 115
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such citation subscription",
      "details": {
        "kind": "citation_subscription"
      }
    }
    "#);
    assert_eq!(list().await.json()["data"], json!([]));
}

#[tokio::test]
async fn subscription_rejects_invalid_requests() {
    let org = quiet_org();
    let owner = &org.members.owner.token;
    let list = async |query: &str, token: &str| {
        let path = format!("/v1/citation-subscriptions{query}");
        get(path).bearer(token).send().await
    };
    insta::assert_snapshot!(list("?limit=x", owner).await.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 269
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: recall_id is required (and 1 more)",
      "details": {
        "fields": [
          {
            "path": "recall_id",
            "code": "required",
            "message": "is required"
          },
          {
            "path": "limit",
            "code": "invalid_value",
            "message": "must be a number from 1 to 200"
          }
        ]
      }
    }
    "#);
    let unknown = format!("?recall_id={}", Uuid::nil());
    insta::assert_snapshot!(list(&unknown, owner).await.show(), @r#"
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
    let known = format!("?recall_id={}", org.recall);
    insta::assert_snapshot!(list(&known, &org.members.viewer.token).await.show(), @r#"
    403 Forbidden
    cache-control: no-store
    content-length: 94
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "forbidden",
      "message": "missing permission citation_subscription:manage",
      "details": {}
    }
    "#);
}
