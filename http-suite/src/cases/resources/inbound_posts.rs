//! `POST /v1/inbound/{org}/{id}`. A library of the Standard Webhooks project signs the messages.

use http::Method;
use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};
use uuid::Uuid;

use super::erasures::erase;
use crate::support::{
    Sender, Show, delete, error, foreign_org, get, now_seconds, own_org, post, problems,
};

suite![
    inbound_message_takes_effect_once,
    inbound_message_leaves_out_erased_keys,
    inbound_message_requires_valid_signature,
    inbound_secrets_are_both_valid_during_a_rotation,
    inbound_message_requires_authorized_owner,
    inbound_message_rejects_invalid_request,
    inbound_message_to_unknown_webhook_is_not_found,
    inbound_message_has_errors_common_to_all_operations,
];

fn batch(title: &str) -> Value {
    json!({ "memories": [{ "title": title, "content": "It is down.", "source_key": "ticket-7" }] })
}

/// Returns the memories of the webhook's source, as the owner lists them.
async fn memories(org: &OrgFixture, sender: &Sender) -> Vec<Value> {
    let source = sender.record["source_id"].as_str().expect("an identifier");
    let path = format!("/v1/workspaces/{}/memories?sourceId={source}", org.main.id);
    let listed = get(path).bearer(&org.members.owner.token).await;
    listed.json()["data"].as_array().expect("a list").clone()
}

async fn inbound_message_takes_effect_once() {
    let org = own_org();
    let sender = Sender::registered(org, &org.members.admin).await;
    let answer = sender.message("msg_1", &batch("Down")).await;
    insta::assert_snapshot!(answer.brief(), @"
    204 No Content
    ");
    let found = memories(org, &sender).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["title"], "Down");
    assert_eq!(found[0]["reviewStatus"], "pending");

    let again = sender.message("msg_1", &batch("Up")).await;
    assert_eq!(again.show(), answer.show());
    assert_eq!(memories(org, &sender).await, found);
    // A known source key updates its memory.
    let next = sender.message("msg_2", &batch("Up")).await;
    assert_eq!(next.status, 204);
    let updated = memories(org, &sender).await;
    assert_eq!(updated.len(), 1);
    assert_eq!(updated[0]["id"], found[0]["id"]);
    assert_eq!(updated[0]["title"], "Up");
}

async fn inbound_message_leaves_out_erased_keys() {
    let org = own_org();
    let sender = Sender::registered(org, &org.members.admin).await;
    assert_eq!(sender.send(&batch("Down")).await.status, 204);
    let found = memories(org, &sender).await;
    let named = json!({ "memoryIds": [found[0]["id"]] });
    let erased = erase(&org.members.owner.token, &named).await;
    assert_eq!(erased.status, 201, "{erased:?}");
    assert_eq!(erased.json()["remains"]["sourceKeyHashes"], 1);
    assert_eq!(sender.send(&batch("Up")).await.status, 204);
    assert_eq!(memories(org, &sender).await, Vec::<Value>::new());
}

async fn inbound_message_requires_valid_signature() {
    let org = own_org();
    let sender = Sender::registered(org, &org.members.admin).await;
    let right = sender.message("msg_1", &batch("Down"));
    let unsigned = right.clone().without("webhook-signature").await;
    insta::assert_snapshot!(error(&unsigned), @r#"401 unauthenticated: the message is not signed; send webhook-id, webhook-timestamp and webhook-signature once each [www-authenticate: StandardWebhooks realm="knowledge"]"#);
    let other = right.clone().body(batch("Up").to_string()).await;
    insta::assert_snapshot!(error(&other), @r#"401 unauthenticated: webhook-signature has no valid signature of this message [www-authenticate: StandardWebhooks realm="knowledge"]"#);
    // No credential replaces the signature, and nothing is read before it is verified.
    let token = &org.members.owner.token;
    let refused = [
        right.clone().without("webhook-id").bearer(token),
        right.clone().without("webhook-timestamp"),
        right.clone().header("webhook-id", "msg_1"),
        right
            .clone()
            .without("webhook-id")
            .header("webhook-id", "msg_2"),
        right.clone().body("{"),
        right.clone().without("content-type").body("{"),
        sender.message_at(
            "msg_1",
            now_seconds() - 600,
            batch("Down").to_string().as_bytes(),
        ),
        sender.message_at(
            "msg_1",
            now_seconds() + 600,
            batch("Down").to_string().as_bytes(),
        ),
    ];
    for call in refused {
        let answer = call.clone().await;
        assert_eq!(answer.status, 401, "{call:?}");
        assert_eq!(answer.json()["error"], "unauthenticated");
    }
    assert!(memories(org, &sender).await.is_empty());
}

async fn inbound_secrets_are_both_valid_during_a_rotation() {
    let org = own_org();
    let sender = Sender::registered(org, &org.members.admin).await;
    let rotated = post(format!("{}/rotate-secret", sender.path()))
        .bearer(&org.members.owner.token)
        .await
        .json();
    let secret = rotated["signing_secret"].as_str().expect("a secret");
    let new = Sender {
        secret: secret.to_owned(),
        url: sender.url.clone(),
        record: sender.record.clone(),
    };
    assert_eq!(sender.send(&batch("Old")).await.status, 204);
    assert_eq!(new.send(&batch("New")).await.status, 204);
    let read = get(sender.path()).bearer(&org.members.owner.token);
    let read = read.await.json();
    assert_eq!(read["acts_as"], json!(org.members.owner.id));
    assert_eq!(read["created_by"], json!(org.members.admin.id));
}

async fn inbound_message_requires_authorized_owner() {
    let org = own_org();
    let sender = Sender::registered(org, &org.members.admin).await;
    let member = format!("/v1/orgs/{}/members/{}", org.slug, org.members.admin.id);
    let removed = delete(member).session(&org.members.owner.session);
    assert_eq!(removed.await.status, 204);
    let answer = sender.send(&batch("Down")).await;
    insta::assert_snapshot!(error(&answer), @r#"403 forbidden: the member this webhook acts as was removed, or the credential it depends on has ended; rotate the secret to act in its place {"permission":null}"#);
    assert!(memories(org, &sender).await.is_empty());
}

async fn inbound_message_rejects_invalid_request() {
    let org = own_org();
    let sender = Sender::registered(org, &org.members.admin).await;
    let broken = json!({
        "memories": [
            { "title": "Down", "content": "It is down." },
            { "title": "", "content": "It is down.", "audience_tag": "all", "url": "https://example.com/" },
            { "title": "Up", "sensitivity_label": "secret" },
        ],
        "source": "tickets",
    });
    let answer = sender.message("msg_1", &broken).await;
    insta::assert_snapshot!(problems(&answer), @"
    too_small: memories[1].title must have 1 to 128 characters, not only white space, and no control characters
    invalid_value: memories[1].audience_tag must be <scope>:<name>, the scope one of org, workspace, team, user, the name 1 to 64 characters of a-z 0-9 - _ .
    unknown_field: memories[1].url is unknown; known fields: title, content, source_key, audience_tag, sensitivity_label
    required: memories[2].content is required
    invalid_value: memories[2].sensitivity_label must be one of public, internal, confidential, restricted
    unknown_field: source is unknown; known fields: memories
    ");
    let many: Vec<_> = (0..101)
        .map(|_| batch("Down")["memories"][0].clone())
        .collect();
    for body in [
        json!({}),
        json!([]),
        json!({ "memories": [] }),
        json!({ "memories": many }),
    ] {
        assert_eq!(sender.send(&body).await.status, 400, "{body}");
    }
    for id in ["msg.1", &"i".repeat(256)] {
        let rejected = sender.message(id, &batch("Down")).await;
        let problems = &rejected.json()["details"]["fields"];
        assert_eq!(
            (rejected.status.as_u16(), &problems[0]["path"]),
            (400, &json!("webhook-id"))
        );
    }
    assert!(memories(org, &sender).await.is_empty());
    // A rejected message is not a duplicate.
    let mended = sender.message("msg_1", &batch("Down")).await;
    assert_eq!(mended.status, 204);
}

async fn inbound_message_to_unknown_webhook_is_not_found() {
    let org = own_org();
    let sender = Sender::registered(org, &org.members.admin).await;
    let deleted = Sender::registered(org, &org.members.admin).await;
    let gone = delete(deleted.path()).bearer(&org.members.owner.token);
    assert_eq!(gone.await.status, 204);
    let answer = deleted.send(&batch("Down")).await;
    insta::assert_snapshot!(error(&answer), @r#"404 not_found: there is no such inbound webhook {"kind":"inbound_webhook"}"#);
    let (own, id) = (org.id, sender.record["id"].as_str().expect("an identifier"));
    for path in [
        format!("{own}/{}", Uuid::max()),
        format!("{own}/tickets"),
        format!("{}/{id}", foreign_org().id),
        format!("{}/{id}", Uuid::max()),
        format!("{}/{id}", org.slug),
    ] {
        let elsewhere = Sender {
            url: format!("/v1/inbound/{path}"),
            secret: sender.secret.clone(),
            record: Value::Null,
        };
        let refused = elsewhere.send(&batch("Down")).await;
        assert_eq!(refused.show(), answer.show(), "{path}");
    }
    assert!(memories(org, &sender).await.is_empty());
}

async fn inbound_message_has_errors_common_to_all_operations() {
    let org = own_org();
    let sender = Sender::registered(org, &org.members.admin).await;
    let right = sender.message("msg_1", &batch("Down"));
    for method in [Method::GET, Method::PUT, Method::HEAD] {
        let answer = right.clone().method(method).body("").await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("allow")),
            (405, "POST")
        );
    }
    let large = right.clone().body(" ".repeat(1_024 * 1_024 + 1));
    assert_eq!(large.await.status, 413);
    let text = right.clone().without("content-type");
    assert_eq!(text.header("content-type", "text/plain").await.status, 415);
    assert_eq!(right.await.status, 204);
}
