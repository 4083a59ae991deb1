//! `Idempotency-Key`: a bulk update or a creation changes data once, however often and concurrently
//! it is sent.

use futures::future::join_all;
use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};

use crate::support::{
    Show, base_url, bulk, bulk_with_key, error, get, is_replay, new_key, own_org, post, problems,
    quiet_org, send_at_once, without_replayed,
};

suite![
    replay_returns_stored_result,
    replay_compares_parsed_bodies,
    idempotency_key_is_bound_to_one_request,
    idempotency_key_is_equal_bare_and_quoted,
    idempotency_key_belongs_to_the_member,
    replay_requires_permission,
    replay_stores_only_successes,
    idempotency_key_is_required,
    idempotency_key_must_be_well_formed,
    idempotency_key_header_must_not_be_repeated,
    concurrent_calls_with_one_key_change_data_once,
    concurrent_creations_with_one_key_create_once,
    replay_of_a_creation_has_no_secret,
];

/// Number of concurrent creations with one key.
const CONCURRENT_CREATIONS: usize = 16;

fn approve(org: &OrgFixture) -> Value {
    json!({ "memoryIds": org.main.memories.internal[..2], "reviewStatus": "approved" })
}

async fn replay_returns_stored_result() {
    let org = own_org();
    let unknown = uuid::Uuid::max();
    let body = json!({
        "memoryIds": [org.main.memories.internal[0].0, unknown],
        "sensitivityLabel": "confidential",
    });
    let (token, key) = (&org.members.member.token, new_key());
    let first = bulk_with_key(token, &key, &body).await;
    // The stored result keeps the values of its time.
    let later = json!({
        "memoryIds": [org.main.memories.internal[0]],
        "sensitivityLabel": "restricted",
    });
    assert_eq!(bulk(token, &later).await.status, 200);
    let second = bulk_with_key(token, &key, &body).await;
    insta::assert_snapshot!(second.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 643
    content-type: application/json
    date: <date>
    idempotent-replayed: true
    request-id: <uuid 1>

    {
      "operationId": "<uuid 2>", "replayed": true,
      "summary": {"requested": 2, "succeeded": 1, "failed": 1},
      "results": [
        {
          "memoryId": "<uuid 3>", "ok": true,
          "memory": {
            "id": "<uuid 3>", "sourceId": "<uuid 4>", "audienceTag": "workspace:handbook",
            "sensitivityLabel": "confidential"
          },
          "auditLogId": "<uuid 5>"
        },
        {
          "memoryId": "<uuid 6>", "ok": false, "auditLogId": "<uuid 7>",
          "error": {"code": "not_found", "message": "there is no such memory"}
        }
      ],
      "labels_without_members": [], "impact": null
    }
    "#);
    assert!(!is_replay(&first));
    assert!(is_replay(&second));
    assert_eq!(without_replayed(&first), without_replayed(&second));
}

async fn replay_compares_parsed_bodies() {
    let org = own_org();
    let (token, key) = (&org.members.member.token, new_key());
    let memory = org.main.memories.internal[0];
    let send = async |body: String| bulk_with_key(token, &key, &json!({})).body(body).await;
    let first = send(format!(
        r#"{{"memoryIds":["{memory}"],"audienceTag":"team:a","reviewStatus":"approved"}}"#
    ));
    assert!(!is_replay(&first.await));
    let upper = memory.to_string().to_uppercase();
    let same = send(format!(
        "\t{{ \"reviewStatus\" : \"approved\",\r\n \"audienceTag\":\"team:\\u0061\", \"memoryIds\": [ \"{upper}\" ] }}\n"
    ));
    assert!(is_replay(&same.await));
}

async fn idempotency_key_is_bound_to_one_request() {
    let org = own_org();
    let (token, key) = (&org.members.member.token, new_key());
    assert!(!is_replay(&bulk_with_key(token, &key, &approve(org)).await));
    let reject = json!({
        "memoryIds": org.main.memories.internal[..2],
        "reviewStatus": "rejected",
    });
    let answer = bulk_with_key(token, &key, &reject).await;
    insta::assert_snapshot!(error(&answer), @"422 idempotency_key_reused: this Idempotency-Key was used for a different request; choose a new one");
    // The order of the memories is part of the request, as the results follow it.
    let reversed: Vec<_> = org.main.memories.internal[..2].iter().rev().collect();
    let reversed = json!({ "memoryIds": reversed, "reviewStatus": "approved" });
    assert_eq!(bulk_with_key(token, &key, &reversed).await.status, 422);
    assert!(is_replay(&bulk_with_key(token, &key, &approve(org)).await));
}

async fn idempotency_key_is_equal_bare_and_quoted() {
    let org = own_org();
    let token = &org.members.member.token;
    let key = new_key();
    let quoted = format!("\"{key}\"");
    assert!(!is_replay(
        &bulk_with_key(token, &quoted, &approve(org)).await
    ));
    assert!(is_replay(&bulk_with_key(token, &key, &approve(org)).await));

    let odd = r#"a\b"c"#;
    let odd_quoted = r#""a\\b\"c""#;
    assert!(!is_replay(&bulk_with_key(token, odd, &approve(org)).await));
    assert!(is_replay(
        &bulk_with_key(token, odd_quoted, &approve(org)).await
    ));
}

async fn idempotency_key_belongs_to_the_member() {
    let org = own_org();
    let (member, key) = (&org.members.member, new_key());
    assert!(!is_replay(
        &bulk_with_key(&member.token, &key, &approve(org)).await
    ));
    assert!(is_replay(
        &bulk_with_key(&member.second_token, &key, &approve(org)).await
    ));
    for other in [&org.members.admin.token, &org.members.robot.token] {
        assert!(!is_replay(&bulk_with_key(other, &key, &approve(org)).await));
    }
}

async fn replay_requires_permission() {
    let org = own_org();
    let key = new_key();
    let first = bulk_with_key(&org.members.admin.token, &key, &approve(org)).await;
    assert!(!is_replay(&first));
    // The same member, with a token of smaller scope.
    let answer = bulk_with_key(&org.tokens.reading_only, &key, &approve(org)).await;
    assert_eq!(answer.status, 403);
}

async fn replay_stores_only_successes() {
    let org = own_org();
    let key = new_key();
    let token = &org.members.admin.token;
    let wrong = json!({ "memoryIds": [], "reviewStatus": "approved" });
    assert_eq!(bulk_with_key(token, &key, &wrong).await.status, 400);
    let unknown_source = json!({
        "memoryIds": org.main.memories.internal[..2],
        "sourceId": uuid::Uuid::max(),
    });
    assert_eq!(
        bulk_with_key(token, &key, &unknown_source).await.status,
        400
    );
    let refused = bulk_with_key(&org.tokens.reading_only, &key, &approve(org)).await;
    assert_eq!(refused.status, 403);
    assert!(!is_replay(&bulk_with_key(token, &key, &approve(org)).await));
}

async fn idempotency_key_is_required() {
    let org = quiet_org();
    let call = bulk(&org.members.member.token, &approve(org)).without("idempotency-key");
    insta::assert_snapshot!(error(&call.await), @"400 idempotency_key_required: the header Idempotency-Key is required; send 1 to 255 visible ASCII characters, different for each new request");
}

async fn idempotency_key_must_be_well_formed() {
    let org = own_org();
    let send = async |key: &[u8]| {
        let call = bulk(&org.members.member.token, &approve(org)).without("idempotency-key");
        call.header("idempotency-key", key).await
    };
    insta::assert_snapshot!(problems(&send("k".repeat(256).as_bytes()).await), @"invalid_value: Idempotency-Key must have 1 to 255 visible ASCII characters, bare or as a quoted string");
    for bad in [
        &b""[..],
        b"\"\"",
        b"\"open",
        b"\"closed\" twice\"",
        b"two words",
        b"\xc3\xa4",
        b"\xff",
        b"tab\there",
    ] {
        assert_eq!(
            send(bad).await.status,
            400,
            "{}",
            String::from_utf8_lossy(bad)
        );
    }
    assert!(!is_replay(&send("k".repeat(255).as_bytes()).await));
    assert!(is_replay(
        &send(format!("\"{}\"", "k".repeat(255)).as_bytes()).await
    ));
}

async fn idempotency_key_header_must_not_be_repeated() {
    let org = quiet_org();
    let call = bulk(&org.members.member.token, &approve(org));
    let answer = call.header("idempotency-key", "another").await;
    insta::assert_snapshot!(problems(&answer), @"invalid_value: Idempotency-Key must not be repeated");
    assert_eq!(answer.status, 400);
}

async fn concurrent_calls_with_one_key_change_data_once() {
    let org = own_org();
    let operation = send_at_once(base_url(), org).await;
    let log = get("/v1/audit-log?action=memory.bulk_update&limit=200");
    let log = log.bearer(&org.members.owner.token).await.json();
    let entries = log["data"].as_array().expect("a list").iter();
    let operations: Vec<_> = entries
        .filter(|entry| entry["actor_id"] == json!(org.members.member.id))
        .map(|entry| &entry["operation_id"])
        .collect();
    // One entry for each memory.
    assert_eq!(operations, [&json!(operation); 40]);
}

/// The store is that of the server: a directory of a real engine.
async fn concurrent_creations_with_one_key_create_once() {
    let org = own_org();
    let token = &org.members.owner.token;
    let place = format!("/v1/workspaces/{}", org.main.id);
    let source = org.sources[0];
    let creations = rows! {
        ("/v1/sources".to_owned(), json!({ "name": "Files", "kind": "drive" })),
        (
            format!("{place}/memories"),
            json!({ "sourceId": source, "title": "Once", "content": "Only once." }),
        ),
        (
            format!("{place}/ingest"),
            json!({ "source_id": source, "memories": [{ "title": "Once", "content": "Once." }] }),
        ),
        (
            format!("{place}/webhooks"),
            json!({ "event_type": "chunk.created", "url": "https://example.com/once" }),
        ),
        (
            format!("{place}/mcp-keys"),
            json!({ "name": "Once", "client": "cursor", "audience": ["workspace:handbook"] }),
        ),
        (format!("{place}/chats"), json!({ "title": "Once" })),
        (format!("{place}/chats/{}/messages", org.chats[0]), json!({ "content": "Once" })),
    };
    for (path, body) in creations {
        let key = new_key();
        let calls = (0..CONCURRENT_CREATIONS).map(|_| {
            post(&path)
                .bearer(token)
                .key(&key)
                .json(&body)
                .into_future()
        });
        let (mut created, mut shown) = (Vec::new(), Vec::new());
        for answer in join_all(calls).await {
            assert!(answer.status == 200 || answer.status == 201, "{answer:?}");
            let mut body = answer.json();
            for secret in ["secret", "signing_secret"] {
                body.as_object_mut().expect("an object").remove(secret);
            }
            if answer.headers.contains_key("idempotent-replayed") {
                shown.push(body);
            } else {
                created.push(body);
            }
        }
        assert_eq!(created.len(), 1, "{path}");
        assert_eq!(
            shown,
            vec![created.remove(0); CONCURRENT_CREATIONS - 1],
            "{path}"
        );
    }
}

async fn replay_of_a_creation_has_no_secret() {
    let org = own_org();
    let path = format!("/v1/workspaces/{}/mcp-keys", org.main.id);
    let body = json!({ "name": "Laptop", "client": "cursor", "audience": ["workspace:handbook"] });
    let call = || post(&path).bearer(&org.members.owner.token).json(&body);
    let key = new_key();
    assert!(call().key(&key).await.json()["secret"].is_string());
    insta::assert_snapshot!(call().key(&key).await.brief(), @r#"
    201 Created
    idempotent-replayed: true

    {
      "id": "<uuid 1>", "workspaceId": "<uuid 2>", "name": "Laptop", "client": "cursor",
      "audience": ["workspace:handbook"], "lastUsedAt": null, "rotatesAt": "<time>",
      "state": "active", "endedReason": null, "endedAt": null, "secret": null
    }
    "#);
    let other = json!({ "name": "Other", "client": "cursor", "audience": ["workspace:handbook"] });
    let reused = call().json(&other).key(&key).await;
    reused.assert_field(422, "error", "idempotency_key_reused");
}
