//! Tests of the operator's interface to endpoints and their deliveries.

use std::collections::BTreeMap;

use http::Method;
use knowledge_core::model::{EventType, WebhookId, WorkspaceId};
use knowledge_core::service::AuditAction;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::admin::{ask, get, problems};
use crate::audit::entries;
use crate::dispatching::answer;
use crate::make::set_active;
use crate::world::World;

async fn new_webhook(world: &World, workspace: WorkspaceId) -> WebhookId {
    let url = "https://example.com/";
    let created = world.webhook_at(workspace, EventType::ChunkCreated, url);
    created.await.id
}

/// Attempts the one due delivery; the receiver responds with this status.
async fn attempt(world: &World, status: u16) {
    let claimed = world.claim_one().await;
    world.finish(&claimed, &answer(status)).await;
}

/// Returns the identifier in a response.
fn id(answer: &Value) -> String {
    answer["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn admin_api_lists_endpoints_with_pending_counts() {
    let world = World::new().await;
    let webhook = new_webhook(&world, world.workspace.id).await;
    let elsewhere = new_webhook(&world, world.workspace("elsewhere").await).await;
    let subscription = world.subscription().await;
    let listed = get(&world, "/orgs/acme/endpoints").await;
    let kinds = |listed: &Value| -> BTreeMap<String, Value> {
        let listed = listed["data"].as_array().unwrap().iter();
        listed
            .map(|endpoint| (id(endpoint), endpoint["kind"].clone()))
            .collect()
    };
    let mut expected = BTreeMap::from([
        (webhook.to_string(), json!("webhook")),
        (elsewhere.to_string(), json!("webhook")),
        (subscription.to_string(), json!("citation_subscription")),
    ]);
    assert_eq!(kinds(&listed), expected);
    let listed = get(&world, "/orgs/acme/endpoints?workspace=research").await;
    expected.remove(&elsewhere.to_string());
    assert_eq!(kinds(&listed), expected);
    let path = "/orgs/acme/endpoints?workspace=nowhere";
    let (status, refused) = ask(&world, Method::GET, path, Value::Null).await;
    assert_eq!(
        (status, problems(&refused)),
        (400, vec!["workspace not_found".to_owned()])
    );

    let path = format!("/orgs/acme/endpoints/{webhook}");
    let shown = get(&world, &path).await;
    let fields = [
        ("id", json!(webhook)),
        ("kind", json!("webhook")),
        ("workspace_id", json!(world.workspace.id)),
        ("event_type", json!("chunk.created")),
        ("url", json!("https://example.com/")),
        ("is_active", json!(true)),
        ("disabled_reason", Value::Null),
        ("is_confirmed", json!(true)),
        (
            "confirmation",
            json!({ "state": "confirmed", "next_attempt_at": null, "reason": null }),
        ),
        ("pending", json!(0)),
        ("dead", json!(0)),
    ];
    for (name, value) in fields {
        assert_eq!(shown[name], value, "{name}");
    }
    let (status, made) = ask(&world, Method::POST, &format!("{path}/ping"), Value::Null).await;
    assert_eq!((status, &made["status"]), (202, &json!("pending")));
    assert_eq!(get(&world, &path).await["pending"], 1);
    let shown = get(&world, &format!("/orgs/acme/endpoints/{subscription}")).await;
    assert_eq!(shown["event_type"], "citation.changed");
}

#[tokio::test]
async fn admin_api_shows_deliveries_and_redelivers() {
    let world = World::new().await;
    for endpoint in [
        new_webhook(&world, world.workspace.id).await.0,
        world.subscription().await.0,
    ] {
        let path = format!("/orgs/acme/endpoints/{endpoint}");
        let post = async |path: String| ask(&world, Method::POST, &path, Value::Null).await;
        let (_, made) = post(format!("{path}/ping")).await;
        let delivery = format!("{path}/deliveries/{}", id(&made));
        assert_eq!(get(&world, &delivery).await, made);
        attempt(&world, 500).await;
        let dead = get(&world, &format!("{path}/deliveries?status=dead")).await;
        assert_eq!(dead["data"][0]["attempts"][0]["status"], 500);
        assert_eq!(get(&world, &path).await["dead"], 1);
        let (status, redelivered) = post(format!("{path}/deliveries/redeliver-dead")).await;
        let expected = json!({ "redelivered": 1, "has_more": false });
        assert_eq!((status, redelivered), (202, expected));
        attempt(&world, 204).await;
        let done = get(&world, &delivery).await;
        assert_eq!(done["status"], "delivered");
        let (status, again) = post(format!("{delivery}/redeliver")).await;
        assert_eq!((status, &again["status"]), (202, &json!("pending")));
        assert_eq!(again["id"], made["id"]);
        attempt(&world, 204).await;
    }
    // The operator acts, so the entries name no member.
    for action in [
        AuditAction::WebhookPing,
        AuditAction::WebhookRedeliver,
        AuditAction::SubscriptionPing,
        AuditAction::SubscriptionRedeliver,
    ] {
        let mut done = entries(&world).await;
        done.retain(|entry| entry.action == action);
        assert!(!done.is_empty(), "{action}");
        assert!(
            done.iter().all(|entry| entry.actor_id.is_none()),
            "{action}"
        );
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn admin_api_rejects_unknown_and_inactive_endpoints() {
    let world = World::new().await;
    let webhook = new_webhook(&world, world.workspace.id).await;
    let ping = format!("/orgs/acme/endpoints/{webhook}/ping");
    let (_, made) = ask(&world, Method::POST, &ping, Value::Null).await;
    let off = set_active(false);
    world.update_webhook(webhook, &off, None).await.unwrap();
    let path = format!("/orgs/acme/endpoints/{webhook}");
    assert_eq!(get(&world, &path).await["is_active"], false);
    let deliveries = format!("{path}/deliveries");
    for path in [
        &ping,
        &format!("{deliveries}/{}/redeliver", id(&made)),
        &format!("{deliveries}/redeliver-dead"),
    ] {
        let (status, refused) = ask(&world, Method::POST, path, Value::Null).await;
        assert_eq!((status, &refused["error"]), (409, &json!("endpoint_off")));
    }
    for (missing, message) in [
        (
            format!("/orgs/acme/endpoints/{}", Uuid::max()),
            "there is no such endpoint",
        ),
        (
            "/orgs/acme/endpoints/seven".to_owned(),
            "there is no such endpoint",
        ),
        (
            format!("{deliveries}/{}", Uuid::max()),
            "there is no such delivery",
        ),
        (format!("{deliveries}/seven"), "there is no such delivery"),
    ] {
        let (status, refused) = ask(&world, Method::GET, &missing, Value::Null).await;
        assert_eq!((status, &refused["message"]), (404, &json!(message)));
    }
    let globex =
        json!({"slug": "globex", "name": "Globex", "owner": {"handle": "hank", "name": "Hank"}});
    ask(&world, Method::POST, "/orgs", globex).await;
    let elsewhere = format!("/orgs/globex/endpoints/{webhook}");
    for path in [elsewhere.clone(), format!("{elsewhere}/deliveries")] {
        let (status, _) = ask(&world, Method::GET, &path, Value::Null).await;
        assert_eq!(status, 404);
    }
}
