//! `POST /v1/citation-subscriptions`

use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Show, own_org, quiet_org, subscribe};

const URL: &str = "https://example.com/citations?from=knowledge";

fn body(org: &OrgFixture) -> Value {
    json!({ "recall_id": org.recall, "webhook_url": URL })
}

#[tokio::test]
async fn subscription_is_created() {
    let org = own_org();
    let answer = subscribe(&org.members.member.token, &body(org))
        .send()
        .await;
    insta::assert_snapshot!(answer.show(), @r#"
    201 Created
    cache-control: no-store
    content-length: 450
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "id": "<uuid 2>",
      "org_id": "<uuid 3>",
      "workspace_id": "<uuid 4>",
      "recall_id": "<uuid 5>",
      "subscriber_user_id": "<uuid 6>",
      "webhook_url": "https://example.com/citations?from=knowledge",
      "is_confirmed": false,
      "signing_secret": "<secret>",
      "created_at": "<time>"
    }
    "#);
    let created = answer.json();
    let expected = [
        ("org_id", json!(org.id)),
        ("workspace_id", json!(org.main.id)),
        ("recall_id", json!(org.recall)),
        ("subscriber_user_id", json!(org.members.member.id)),
        ("webhook_url", json!(URL)),
    ];
    for (field, value) in expected {
        assert_eq!(created[field], value, "{field}");
    }
    let again = subscribe(&org.members.member.token, &body(org))
        .send()
        .await
        .json();
    for field in ["id", "signing_secret"] {
        assert_ne!(again[field], created[field], "{field}");
    }
}

#[tokio::test]
async fn subscriptions_per_recall_are_limited() {
    let org = own_org();
    for _ in 0..50 {
        let answer = subscribe(&org.members.member.token, &body(org))
            .send()
            .await;
        assert_eq!(answer.status, 201);
    }
    let answer = subscribe(&org.members.member.token, &body(org))
        .send()
        .await;
    assert_eq!(answer.status, 400);
    insta::assert_snapshot!(answer.header("error-message"), @"the recall already has 50 subscriptions, the maximum");
}

#[tokio::test]
async fn subscription_rejects_invalid_request() {
    let org = quiet_org();
    let send = async |body: Value| subscribe(&org.members.member.token, &body).send().await;
    insta::assert_snapshot!(send(json!({ "recall": 1 })).await.show(), @"
    400 Bad Request
    cache-control: no-store
    content-length: 0
    date: <date>
    error-code: invalid_request
    error-message: recall_id is required; webhook_url is required; a field of the body is unknown; known fields: recall_id, webhook_url
    request-id: <uuid 1>
    ");
    let message = async |recall_id: Value, webhook_url: Value| {
        let answer = send(json!({ "recall_id": recall_id, "webhook_url": webhook_url })).await;
        assert_eq!(
            (answer.status.as_u16(), answer.body.len()),
            (400, 0),
            "{answer:?}"
        );
        answer.header("error-message").to_owned()
    };
    let recall = json!(org.recall);
    insta::assert_snapshot!(message(json!("first"), json!(URL)).await, @"recall_id must be a UUID");
    insta::assert_snapshot!(message(json!(null), json!([URL])).await, @"recall_id must be a string, not null; webhook_url must be a string, not a list");
    insta::assert_snapshot!(message(recall.clone(), json!("http://example.com")).await, @"webhook_url must begin with https:// (the operator can allow http)");
    insta::assert_snapshot!(message(recall.clone(), json!("example.com/hook")).await, @"webhook_url must be an absolute URL that begins with https://, for example https://example.com/hooks");
    insta::assert_snapshot!(message(recall.clone(), json!("ftp://example.com")).await, @"webhook_url must be an absolute URL that begins with https://, for example https://example.com/hooks");
    insta::assert_snapshot!(message(recall.clone(), json!("https://a:b@example.com")).await, @"webhook_url must not contain a user name or a password");
    insta::assert_snapshot!(message(recall.clone(), json!("https://example.com/#a")).await, @"webhook_url must not have a fragment (#?)");
    let long = format!("https://example.com/{}", "a".repeat(2_048));
    insta::assert_snapshot!(message(recall, json!(long)).await, @"webhook_url must have at most 2048 characters");
}

#[tokio::test]
async fn subscription_rejects_unauthenticated_caller() {
    let org = quiet_org();
    let answer = subscribe("", &body(org))
        .without("authorization")
        .send()
        .await;
    insta::assert_snapshot!(answer.show(), @r#"
    401 Unauthorized
    cache-control: no-store
    content-length: 0
    date: <date>
    error-code: unauthenticated
    error-message: an access token is required; send Authorization: Bearer wkt_...
    request-id: <uuid 1>
    www-authenticate: Bearer realm="knowledge"
    "#);
}

#[tokio::test]
async fn subscription_requires_permission() {
    let org = quiet_org();
    let answer = subscribe(&org.members.viewer.token, &body(org))
        .send()
        .await;
    insta::assert_snapshot!(answer.show(), @"
    403 Forbidden
    cache-control: no-store
    content-length: 0
    date: <date>
    error-code: forbidden
    error-message: missing permission citation_subscription:manage
    request-id: <uuid 1>
    ");
    let narrowed_elsewhere = subscribe(&org.tokens.side_only, &body(org)).send().await;
    insta::assert_snapshot!(narrowed_elsewhere.header("error-message"), @"there is no such recall");
}

#[tokio::test]
async fn subscription_requires_known_recall() {
    let org = quiet_org();
    let unknown = json!({ "recall_id": Uuid::max(), "webhook_url": URL });
    let answer = subscribe(&org.members.member.token, &unknown).send().await;
    insta::assert_snapshot!(answer.show(), @"
    404 Not Found
    cache-control: no-store
    content-length: 0
    date: <date>
    error-code: not_found
    error-message: there is no such recall
    request-id: <uuid 1>
    ");
}
