//! Deliveries to outbound webhooks and citation subscriptions.
//!
//! These tests use a service that sends nothing by itself: the test reports the outcome of each
//! attempt.

use knowledge_core::service::AttemptOutcome;
use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{
    Call, Show, Stage, assert_rejections, base_url, create_webhook, error, get, own_org, patch,
    post, subscribe,
};

suite![
    delivery_is_created_retried_and_completed,
    dead_letters_are_redelivered_and_lists_paginated,
    disabled_endpoint_rejects_pings_and_redeliveries,
    only_an_answered_ping_confirms_an_endpoint,
    one_answer_confirms_a_url_for_all_endpoints,
    endpoint_disabled_by_service_is_enabled_by_a_ping,
    deliveries_reject_unauthorized_and_unknown_access,
    delivery_belongs_only_to_its_endpoint,
    deliveries_reject_invalid_request,
];

/// Returns a URL at a host that only this organisation uses.
fn url(org: &OrgFixture) -> String {
    format!("https://{}.example.com/hook", org.slug)
}

/// Creates an outbound webhook and returns its path.
async fn webhook(org: &OrgFixture, base_url: &str) -> String {
    let new = json!({ "event_type": "chunk.created", "url": url(org) });
    let made = create_webhook(&org.members.admin.token, org.main.id, &new);
    let made = made.send_to(base_url).await.json();
    let id = made["id"].as_str().expect("an id");
    format!("/v1/workspaces/{}/webhooks/{id}", org.main.id)
}

/// Creates a citation subscription and returns its path.
async fn subscription(org: &OrgFixture, base_url: &str) -> String {
    let new = json!({ "recall_id": org.recall, "webhook_url": url(org) });
    let made = subscribe(&org.members.admin.token, &new);
    let made = made.send_to(base_url).await.json();
    let id = made["id"].as_str().expect("an id");
    format!("/v1/citation-subscriptions/{id}")
}

/// Asserts the outcome of an attempt, unless it is not reported.
#[track_caller]
fn assert_outcome(found: Option<&AttemptOutcome>, expected: &AttemptOutcome) {
    assert!(found.is_none_or(|found| found == expected), "{found:?}");
}

/// Orders a ping.
async fn ping(stage: &Stage, endpoint: &str) {
    let pinged = stage.send(post(format!("{endpoint}/ping"))).await;
    assert_eq!(pinged.status, 202);
}

/// Confirms a new endpoint: its URL answers the ping.
async fn confirmed(stage: &Stage, endpoint: String) -> String {
    let delivered = stage.attempt(&url(stage.org()), Some(204)).await;
    assert_outcome(delivered.as_ref(), &AttemptOutcome::Delivered);
    endpoint
}

async fn delivery_is_created_retried_and_completed() {
    let stage = Stage::set().await;
    let (org, base_url) = (stage.org(), stage.base_url());
    let webhook = confirmed(&stage, webhook(org, base_url).await).await;
    // Its URL is confirmed.
    let subscription = subscription(org, base_url).await;
    for (endpoint, pings) in [(webhook, 2), (subscription, 1)] {
        let made = stage.send(post(format!("{endpoint}/ping"))).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(made.brief(), @r#"
            202 Accepted

            {
              "id": "<uuid 1>", "event_id": "<uuid 2>", "event_type": "webhook.ping", "status": "pending",
              "created_at": "<time>", "next_attempt_at": "<time>", "attempts": []
            }
            "#);
        }
        let deliveries = format!("{endpoint}/deliveries");
        let path = format!("{deliveries}/{}", made.json()["id"].as_str().unwrap());
        assert_eq!(stage.send(get(&path)).await.json(), made.json());

        let dead_lettered = stage.attempt(&url(org), None).await;
        assert_outcome(dead_lettered.as_ref(), &AttemptOutcome::Dead(None));
        let dead = stage.send(get(format!("{deliveries}?status=dead"))).await;
        assert_eq!(dead.json()["data"][0]["id"], made.json()["id"]);
        let attempt = &dead.json()["data"][0]["attempts"][0];
        assert_eq!(attempt["status"], Value::Null);
        assert_eq!(attempt["error"]["code"], "connection_failed");
        // Duration and exact failure differ between environments.
        if dead_lettered.is_some() {
            insta::allow_duplicates! {
                insta::assert_snapshot!(dead.brief(), @r#"
                200 OK

                {
                  "data": [
                    {
                      "id": "<uuid 1>", "event_id": "<uuid 2>", "event_type": "webhook.ping", "status": "dead",
                      "created_at": "<time>", "next_attempt_at": null,
                      "attempts": [
                        {
                          "at": "<time>", "duration_ms": 35, "status": null,
                          "error": {"code": "connection_failed", "message": "nobody listens"}
                        }
                      ]
                    }
                  ],
                  "next_cursor": null
                }
                "#);
            }
        }
        let put_back = stage.send(post(format!("{path}/redeliver"))).await;
        assert_eq!(put_back.status, 202);
        let waiting = put_back.json();
        assert_eq!(waiting["id"], made.json()["id"]);
        assert_eq!(waiting["status"], "pending");
        assert_eq!(waiting["attempts"].as_array().unwrap().len(), 1);

        let delivered = stage.attempt(&url(org), Some(204)).await;
        assert_outcome(delivered.as_ref(), &AttemptOutcome::Delivered);
        let done = stage.send(get(&path)).await.json();
        assert_eq!(done["status"], "delivered");
        assert_eq!(done["next_attempt_at"], Value::Null);
        assert_eq!(done["attempts"][1]["status"], 204);
        // The other one of the webhook is the ping that confirmed the URL.
        for (status, count) in [("pending", 0), ("delivered", pings), ("dead", 0)] {
            let listed = stage
                .send(get(format!("{deliveries}?status={status}")))
                .await
                .json();
            assert_eq!(listed["data"].as_array().unwrap().len(), count, "{status}");
        }
    }
}

async fn dead_letters_are_redelivered_and_lists_paginated() {
    let stage = Stage::set().await;
    let endpoint = webhook(stage.org(), stage.base_url()).await;
    let deliveries = format!("{endpoint}/deliveries");
    let mut made = Vec::new();
    for _ in 0..3 {
        let ping = stage.send(post(format!("{endpoint}/ping"))).await.json();
        made.push(ping["id"].clone());
        let dead_lettered = stage.attempt(&url(stage.org()), Some(500)).await;
        assert_outcome(dead_lettered.as_ref(), &AttemptOutcome::Dead(None));
    }
    let mut listed = Vec::new();
    let mut cursor = String::new();
    for _ in 0..3 {
        let path = format!("{deliveries}?limit=1{cursor}");
        let page = stage.send(get(path)).await.json();
        listed.push(page["data"][0]["id"].clone());
        cursor = page["next_cursor"]
            .as_str()
            .map_or_else(String::new, |next| format!("&cursor={next}"));
    }
    made.reverse();
    assert_eq!((listed, cursor), (made, String::new()));

    let all = post(format!("{deliveries}/redeliver-dead"));
    let put_back = stage.send(all.clone()).await;
    insta::assert_snapshot!(put_back.brief(), @r#"
    202 Accepted

    {"redelivered": 3, "has_more": false}
    "#);
    let waiting = stage
        .send(get(format!("{deliveries}?status=pending")))
        .await;
    assert_eq!(waiting.json()["data"].as_array().unwrap().len(), 3);
    assert_eq!(stage.send(all).await.json()["redelivered"], 0);
}

async fn disabled_endpoint_rejects_pings_and_redeliveries() {
    let stage = Stage::set().await;
    let endpoint = webhook(stage.org(), stage.base_url()).await;
    let made = stage.send(post(format!("{endpoint}/ping"))).await.json();
    let delivery = format!("{endpoint}/deliveries/{}", made["id"].as_str().unwrap());
    let off = stage
        .send(patch(&endpoint).json(&json!({ "is_active": false })))
        .await;
    assert_eq!(off.json()["disabled_reason"], Value::Null);
    for path in [
        format!("{endpoint}/ping"),
        format!("{delivery}/redeliver"),
        format!("{endpoint}/deliveries/redeliver-dead"),
    ] {
        let refused = stage.send(post(path)).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(error(&refused), @"409 endpoint_off: the endpoint is inactive; activate the webhook, or send a ping if the service disabled the endpoint");
        }
    }
    let on = patch(&endpoint).json(&json!({ "is_active": true }));
    assert_eq!(stage.send(on).await.status, 200);
    ping(&stage, &endpoint).await;
}

async fn only_an_answered_ping_confirms_an_endpoint() {
    let stage = Stage::set().await;
    let (org, base_url) = (stage.org(), stage.base_url());
    let webhook = webhook(org, base_url).await;
    let new = json!({ "sourceId": org.sources[0], "title": "New", "content": "New." });
    let memories = format!("/v1/workspaces/{}/memories", org.main.id);
    assert_eq!(stage.send(post(memories).json(&new)).await.status, 201);
    stage.fan_out().await;
    let shown = async || stage.send(get(&webhook)).await.json()["is_confirmed"].clone();
    // The one due delivery is the ping.
    stage.attempt(&url(org), Some(500)).await;
    assert_eq!(shown().await, false);
    let claimed = patch(&webhook).json(&json!({ "is_confirmed": true }));
    assert_eq!(stage.send(claimed).await.status, 400);
    assert_eq!(shown().await, false);
    // Another one on request is sent at once, and then the event.
    ping(&stage, &webhook).await;
    for status in [204, 200] {
        let delivered = stage.attempt(&url(org), Some(status)).await;
        assert_outcome(delivered.as_ref(), &AttemptOutcome::Delivered);
        assert_eq!(shown().await, true);
    }
    let listed = stage
        .send(get(format!("{webhook}/deliveries")))
        .await
        .json();
    let listed = listed["data"].as_array().expect("a list");
    let shown: Vec<_> = listed
        .iter()
        .map(|delivery| (&delivery["event_type"], &delivery["status"]))
        .collect();
    let (ping, event) = (json!("webhook.ping"), json!("chunk.created"));
    let (delivered, pending) = (json!("delivered"), json!("pending"));
    assert!(shown.contains(&(&event, &delivered)), "{shown:?}");
    assert!(shown.contains(&(&ping, &delivered)), "{shown:?}");
    // The first ping is tried again later.
    assert!(shown.contains(&(&ping, &pending)), "{shown:?}");
}

async fn one_answer_confirms_a_url_for_all_endpoints() {
    let stage = Stage::set().await;
    let (org, base_url) = (stage.org(), stage.base_url());
    let (first, second) = (webhook(org, base_url).await, webhook(org, base_url).await);
    let mut endpoints = vec![first, second, subscription(org, base_url).await];
    let confirmation = async |path: &String| {
        let shown = stage.send(get(path)).await.json();
        let is_confirmed = shown["confirmation"]["state"] == "confirmed";
        assert_eq!(shown["is_confirmed"], is_confirmed);
        shown["confirmation"].clone()
    };
    for path in &endpoints {
        let shown = confirmation(path).await;
        assert_eq!(
            shown,
            json!({ "state": "pending", "next_attempt_at": null, "reason": null })
        );
    }
    // The one due delivery is the ping of one of them; the others wait for it.
    stage.attempt(&url(org), Some(500)).await;
    for path in &endpoints {
        let shown = confirmation(path).await;
        assert_eq!(
            (&shown["state"], &shown["reason"]),
            (&json!("pending"), &json!("no_answer"))
        );
        assert!(shown["next_attempt_at"].is_string(), "{shown}");
    }
    ping(&stage, &endpoints[1]).await;
    let delivered = stage.attempt(&url(org), Some(204)).await;
    assert_outcome(delivered.as_ref(), &AttemptOutcome::Delivered);
    // One that is created later needs no ping.
    endpoints.push(webhook(org, base_url).await);
    for path in &endpoints {
        let shown = confirmation(path).await;
        assert_eq!(
            shown,
            json!({ "state": "confirmed", "next_attempt_at": null, "reason": null })
        );
    }
}

async fn endpoint_disabled_by_service_is_enabled_by_a_ping() {
    let stage = Stage::set().await;
    let (org, base_url) = (stage.org(), stage.base_url());
    let endpoint = confirmed(&stage, webhook(org, base_url).await).await;
    let made = stage.send(post(format!("{endpoint}/ping"))).await.json();
    stage.attempt(&url(org), Some(500)).await;
    let delivery = format!("{endpoint}/deliveries/{}", made["id"].as_str().unwrap());
    let redeliver = post(format!("{delivery}/redeliver"));
    // Unlike a ping, this delivery has a schedule, and a 410 disables the endpoint.
    let new = json!({ "sourceId": org.sources[0], "title": "New", "content": "New." });
    let memories = format!("/v1/workspaces/{}/memories", org.main.id);
    assert_eq!(stage.send(post(memories).json(&new)).await.status, 201);
    stage.fan_out().await;
    let gone = stage.attempt(&url(org), Some(410)).await;
    assert!(
        matches!(gone, None | Some(AttemptOutcome::Dead(Some(_)))),
        "{gone:?}"
    );
    let disabled = stage.send(get(&endpoint)).await.json();
    assert_eq!(
        (&disabled["is_active"], &disabled["disabled_reason"]),
        (&json!(false), &json!("gone"))
    );
    assert_eq!(stage.send(redeliver.clone()).await.status, 409);
    ping(&stage, &endpoint).await;
    let delivered = stage.attempt(&url(org), Some(200)).await;
    assert_outcome(delivered.as_ref(), &AttemptOutcome::Delivered);
    let enabled = stage.send(get(&endpoint)).await.json();
    assert_eq!(
        (&enabled["is_active"], &enabled["disabled_reason"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(stage.send(redeliver).await.status, 202);
}

/// Returns a request of each operation on an endpoint.
fn requests(endpoint: &str) -> [(&'static str, Call); 5] {
    let deliveries = format!("{endpoint}/deliveries");
    let delivery = format!("{deliveries}/{}", Uuid::max());
    rows! {
        ("list", get(&deliveries)),
        ("read", get(&delivery)),
        ("redeliver", post(format!("{delivery}/redeliver"))),
        ("redeliver dead", post(format!("{deliveries}/redeliver-dead"))),
        ("ping", post(format!("{endpoint}/ping"))),
    }
}

async fn deliveries_reject_unauthorized_and_unknown_access() {
    let org = own_org();
    let base_url = base_url();
    let nothing = Uuid::max();
    let endpoints = [
        (
            webhook(org, base_url).await,
            format!("/v1/workspaces/{}/webhooks/{nothing}", org.main.id),
            &org.members.member.token,
            "missing permission webhook:manage",
            "there is no such webhook",
        ),
        (
            subscription(org, base_url).await,
            format!("/v1/citation-subscriptions/{nothing}"),
            &org.members.viewer.token,
            "missing permission citation_subscription:manage",
            "there is no such citation subscription",
        ),
    ];
    let admin = &org.members.admin.token;
    for (endpoint, unknown, lacking, needed, missing) in &endpoints {
        for (name, call) in requests(endpoint) {
            let anonymous = call.clone().await;
            assert_eq!(anonymous.status, 401, "{name}");
            let session = call.clone().session(&org.members.admin.session).await;
            assert_eq!(session.status, 401, "{name}");
            let forbidden = call.bearer(lacking).await;
            assert_eq!(
                (forbidden.status.as_u16(), &forbidden.json()["message"]),
                (403, &json!(needed)),
                "{name}"
            );
        }
        for (name, call) in requests(unknown) {
            let refused = call.bearer(admin).await;
            assert_eq!(
                (refused.status.as_u16(), &refused.json()["message"]),
                (404, &json!(missing)),
                "{name}"
            );
        }
        // The endpoint exists, but not the delivery, whatever its identifier.
        for delivery in [Uuid::max().to_string(), "seven".to_owned()] {
            let delivery = format!("{endpoint}/deliveries/{delivery}");
            for call in [get(&delivery), post(format!("{delivery}/redeliver"))] {
                let refused = call.bearer(admin).await;
                refused.assert_field(404, "message", "there is no such delivery");
            }
        }
    }
}

async fn delivery_belongs_only_to_its_endpoint() {
    let stage = Stage::set().await;
    let (org, base_url) = (stage.org(), stage.base_url());
    let (one, other) = (webhook(org, base_url).await, webhook(org, base_url).await);
    let made = stage.send(post(format!("{one}/ping"))).await.json();
    let id = made["id"].as_str().unwrap();
    assert_eq!(
        stage
            .send(get(format!("{one}/deliveries/{id}")))
            .await
            .status,
        200
    );
    for endpoint in [other, subscription(org, base_url).await] {
        let read = stage.send(get(format!("{endpoint}/deliveries/{id}"))).await;
        assert_eq!(read.status, 404);
    }
}

async fn deliveries_reject_invalid_request() {
    assert_rejections! { r#"
        admin GET /v1/workspaces/<main>/webhooks/<max>/deliveries?status=lost&limit=201&cursor=%21&event=1
          invalid_value: status must be one of pending, delivered, dead
          invalid_value: cursor must be an unmodified next_cursor of this list
          invalid_value: limit must be a number from 1 to 200
          unknown_field: event is unknown; known parameters: status, limit, cursor
        admin POST /v1/workspaces/<main>/webhooks/<max>/deliveries/<max>/redeliver {"now": true}
        admin POST /v1/workspaces/<main>/webhooks/<max>/deliveries/redeliver-dead {"now": true}
        admin POST /v1/workspaces/<main>/webhooks/<max>/ping {"now": true}
          unknown_field: now is unknown; the body must be empty
    "# }
}
