//! Tests of the operator's interface on behalf of members: sources, memories and dashboards.

use http::Method;
use knowledge_core::service::AuditAction;
use serde_json::{Value, json};

use crate::admin::{ask, get, problems};
use crate::audit::entries;
use crate::make::{MEMBER, VIEWER};
use crate::world::World;

fn batch(source: &Value, content: &str) -> Value {
    let memory = json!({"title": "On call", "content": content, "source_key": "pages/42"});
    json!({"source_id": source, "memories": [memory]})
}

#[tokio::test]
async fn operator_ingests_on_behalf_of_a_member() {
    let world = World::new().await;
    let new = json!({"name": "Wiki", "kind": "import"});
    let sources = "/orgs/acme/members/ada/sources";
    let (status, source) = ask(&world, Method::POST, sources, new).await;
    assert_eq!((status, &source["name"]), (201, &json!("Wiki")));
    let listed = get(&world, "/orgs/acme/sources?limit=1").await;
    let cursor = listed["next_cursor"].as_str().unwrap();
    let rest = get(&world, &format!("/orgs/acme/sources?cursor={cursor}")).await;
    assert_eq!(rest["data"], json!([source]));

    let ingest = "/orgs/acme/members/ada/workspaces/research/ingest";
    let mut outcomes = Vec::new();
    for content in ["Ask Ada.", "Ask Ada.", "Ask Grace."] {
        let body = batch(&source["id"], content);
        let (status, result) = ask(&world, Method::POST, ingest, body).await;
        assert_eq!(status, 200, "{result}");
        outcomes.push(result["memories"][0]["outcome"].clone());
    }
    assert_eq!(outcomes, ["created", "unchanged", "updated"]);
    let dashboard = "/orgs/acme/members/ada/workspaces/research/dashboard-summary";
    let summary = get(&world, dashboard).await;
    assert_eq!(summary, json!(world.dashboard().await));
    assert_eq!(summary["review_backlog_count"], 1);

    let of_owner = entries(&world).await;
    let of_owner = of_owner
        .iter()
        .filter(|entry| entry.actor_id == Some(world.owner_id) && entry.credential_id.is_none());
    let actions: Vec<AuditAction> = of_owner.map(|entry| entry.action).collect();
    let created = actions.contains(&AuditAction::SourceCreate);
    assert!(created && actions.contains(&AuditAction::MemoryIngest));
}

#[tokio::test]
async fn operator_gains_nothing_that_the_member_may_not_do() {
    let world = World::new().await;
    let source = json!(world.source);
    let viewer = world.member(VIEWER).await;
    let path = format!("/orgs/acme/members/{viewer}");
    let new = json!({"name": "Wiki", "kind": "import"});
    let sources = format!("{path}/sources");
    let (status, refused) = ask(&world, Method::POST, &sources, new).await;
    assert_eq!((status, &refused["error"]), (403, &json!("forbidden")));
    let ingest = format!("{path}/workspaces/research/ingest");
    let (status, _) = ask(&world, Method::POST, &ingest, batch(&source, "Ask Ada.")).await;
    assert_eq!(status, 403);

    let member = world.member(MEMBER).await;
    let ingest = format!("/orgs/acme/members/{member}/workspaces/research/ingest");
    let body = batch(&json!(viewer), "Ask Ada.");
    let (status, unknown) = ask(&world, Method::POST, &ingest, body).await;
    let expected = vec!["source_id not_found".to_owned()];
    assert_eq!((status, problems(&unknown)), (400, expected));
    for missing in [
        "members/nobody/workspaces/research",
        "members/ada/workspaces/none",
    ] {
        let ingest = format!("/orgs/acme/{missing}/ingest");
        let (status, _) = ask(&world, Method::POST, &ingest, batch(&source, "Ask Ada.")).await;
        assert_eq!(status, 404, "{missing}");
        let dashboard = format!("/orgs/acme/{missing}/dashboard-summary");
        let (status, _) = ask(&world, Method::GET, &dashboard, Value::Null).await;
        assert_eq!(status, 404, "{missing}");
    }
    assert_eq!(world.dashboard().await.review_backlog_count, 0);
}
