//! `POST /v1/citation-subscriptions`

use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};

use crate::support::{Show, assert_rejections, own_org, subscribe};

suite![
    subscription_is_created,
    subscriptions_per_recall_are_limited,
    subscription_rejects_invalid_request,
    subscription_rejects_unauthenticated_caller,
    subscription_requires_permission,
    subscription_requires_known_recall,
];

const URL: &str = "https://example.com/citations?from=knowledge";

fn body(org: &OrgFixture) -> Value {
    json!({ "recall_id": org.recall, "webhook_url": URL })
}

async fn subscription_is_created() {
    let org = own_org();
    let answer = subscribe(&org.members.member.token, &body(org)).await;
    insta::assert_snapshot!(answer.show(), @r#"
    201 Created
    cache-control: no-store
    content-length: 508
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "id": "<uuid 2>", "org_id": "<uuid 3>", "workspace_id": "<uuid 4>", "recall_id": "<uuid 5>",
      "subscriber_user_id": "<uuid 6>",
      "webhook_url": "https://example.com/citations?from=knowledge", "is_confirmed": false,
      "signing_secret": "<secret>", "created_at": "<time>", "state": "unconfirmed",
      "ended_reason": null, "ended_at": null
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
        .await
        .json();
    for field in ["id", "signing_secret"] {
        assert_ne!(again[field], created[field], "{field}");
    }
}

async fn subscriptions_per_recall_are_limited() {
    let org = own_org();
    for _ in 0..50 {
        let answer = subscribe(&org.members.member.token, &body(org)).await;
        assert_eq!(answer.status, 201);
    }
    let answer = subscribe(&org.members.member.token, &body(org)).await;
    assert_eq!(answer.status, 400);
    insta::assert_snapshot!(answer.header("error-message"), @"the recall already has 50 subscriptions, the maximum");
}

async fn subscription_rejects_invalid_request() {
    assert_rejections! { r#"
        member POST /v1/citation-subscriptions {"recall": 1}
          400 invalid_request in headers: recall_id is required; webhook_url is required; a field of the body is unknown; known fields: recall_id, webhook_url
        member POST /v1/citation-subscriptions {"recall_id": "first", "webhook_url": "https://example.com/citations?from=knowledge"}
          400 invalid_request in headers: recall_id must be a UUID
        member POST /v1/citation-subscriptions {"recall_id": null, "webhook_url": ["https://example.com/citations?from=knowledge"]}
          400 invalid_request in headers: recall_id must be a string, not null; webhook_url must be a string, not a list
        member POST /v1/citation-subscriptions {"recall_id": "<recall>", "webhook_url": "http://example.com"}
          400 invalid_request in headers: webhook_url must begin with https:// (the operator can allow http)
        member POST /v1/citation-subscriptions {"recall_id": "<recall>", "webhook_url": "example.com/hook"}
        member POST /v1/citation-subscriptions {"recall_id": "<recall>", "webhook_url": "ftp://example.com"}
          400 invalid_request in headers: webhook_url must be an absolute URL that begins with https://, for example https://example.com/hooks
        member POST /v1/citation-subscriptions {"recall_id": "<recall>", "webhook_url": "https://a:b@example.com"}
          400 invalid_request in headers: webhook_url must not contain a user name or a password
        member POST /v1/citation-subscriptions {"recall_id": "<recall>", "webhook_url": "https://example.com/#a"}
          400 invalid_request in headers: webhook_url must not have a fragment (#?)
        member POST /v1/citation-subscriptions {"recall_id": "<recall>", "webhook_url": "https://example.com/<2048 x>"}
          400 invalid_request in headers: webhook_url must have at most 2048 characters
    "# }
}

async fn subscription_rejects_unauthenticated_caller() {
    assert_rejections! { r#"
        nobody POST /v1/citation-subscriptions {"recall_id": "<recall>", "webhook_url": "https://example.com/citations?from=knowledge"}
          401 unauthenticated in headers: an access token is required; send Authorization: Bearer wkt_... [www-authenticate: Bearer realm="knowledge"]
    "# }
}

async fn subscription_requires_permission() {
    assert_rejections! { r#"
        viewer POST /v1/citation-subscriptions {"recall_id": "<recall>", "webhook_url": "https://example.com/citations?from=knowledge"}
          403 forbidden in headers: missing permission citation_subscription:manage
        side_only POST /v1/citation-subscriptions {"recall_id": "<recall>", "webhook_url": "https://example.com/citations?from=knowledge"}
          404 not_found in headers: there is no such recall
    "# }
}

async fn subscription_requires_known_recall() {
    assert_rejections! { r#"
        member POST /v1/citation-subscriptions {"recall_id": "<max>", "webhook_url": "https://example.com/citations?from=knowledge"}
          404 not_found in headers: there is no such recall
    "# }
}
