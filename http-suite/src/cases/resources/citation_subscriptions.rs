//! `/v1/citation-subscriptions`, except for creation.

use serde_json::{Value, json};

use crate::support::{Show, assert_rejections, delete, error, get, own_org, post, subscribe};

suite![
    subscription_is_listed_rotated_and_ended,
    subscription_rejects_invalid_requests,
];

async fn subscription_is_listed_rotated_and_ended() {
    let org = own_org();
    let token = &org.members.member.token;
    let new = json!({ "recall_id": org.recall, "webhook_url": "https://example.com/hook" });
    let made = subscribe(token, &new).await.json();
    let list = async || {
        let path = format!("/v1/citation-subscriptions?recall_id={}", org.recall);
        get(path).bearer(token).await
    };
    insta::assert_snapshot!(list().await.brief(), @r#"
    200 OK

    {
      "data": [
        {
          "id": "<uuid 1>", "org_id": "<uuid 2>", "workspace_id": "<uuid 3>",
          "recall_id": "<uuid 4>", "subscriber_user_id": "<uuid 5>",
          "webhook_url": "https://example.com/hook", "is_confirmed": false,
          "confirmation": "<pending>", "signing_secret": null, "created_at": "<time>",
          "state": "unconfirmed", "ended_reason": null, "ended_at": null
        }
      ],
      "next_cursor": null
    }
    "#);
    let path = format!(
        "/v1/citation-subscriptions/{}",
        made["id"].as_str().unwrap()
    );
    let read = get(&path).bearer(token).await;
    let (mut shown, mut listed) = (read.json(), list().await.json()["data"][0].take());
    for record in [&mut shown, &mut listed] {
        // A ping may be tried between the two.
        let confirmation = record["confirmation"].take();
        assert_eq!(confirmation["state"], "pending");
    }
    assert_eq!((read.status.as_u16(), &shown), (200, &listed));
    assert_eq!(shown["signing_secret"], Value::Null);

    let rotated = post(format!("{path}/rotate-secret")).bearer(token).await;
    insta::assert_snapshot!(rotated.brief(), @r#"
    200 OK

    {"signing_secret": "<secret>", "previous_secret_expires_at": "<time>"}
    "#);
    assert_ne!(rotated.json()["signing_secret"], made["signing_secret"]);
    assert_eq!(delete(&path).bearer(token).await.status, 204);
    insta::assert_snapshot!(error(&delete(&path).bearer(token).await), @r#"404 not_found: there is no such citation subscription {"kind":"citation_subscription"}"#);
    assert_eq!(list().await.json()["data"], json!([]));
}

async fn subscription_rejects_invalid_requests() {
    assert_rejections! { r#"
        owner GET /v1/citation-subscriptions?limit=x
          required: recall_id is required
          invalid_value: limit must be a number from 1 to 200
        owner GET /v1/citation-subscriptions?recall_id=<nil>
          404 not_found: there is no such recall {"kind":"recall"}
        viewer GET /v1/citation-subscriptions?recall_id=<recall>
          403 forbidden: missing permission citation_subscription:manage {"permission":"citation_subscription:manage"}
    "# }
}
