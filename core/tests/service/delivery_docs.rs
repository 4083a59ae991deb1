//! Test of the documented event bodies against those sent.

use std::collections::{BTreeMap, BTreeSet};

use knowledge_core::model::{EventType, SensitivityLabel};
use knowledge_core::service::Endpoint;
use serde_json::Value;

use crate::inbound_sender::Sender;
use crate::make::{HOUR, SUCCESS, new_memory, problem, sensitivity};
use crate::world::World;

const DOCS: &str = include_str!("../../../docs/webhooks.md");

/// Returns the documented examples of bodies, by event type.
fn documented() -> BTreeMap<String, Value> {
    let blocks = DOCS.split("```json\n").skip(1);
    let examples = blocks.map(|block| {
        let (block, _) = block.split_once("```").expect("the block ends");
        let example: Value = serde_json::from_str(block).expect("JSON");
        (
            example["type"].as_str().expect("a type").to_owned(),
            example,
        )
    });
    examples.collect()
}

/// Returns the names of all fields with the types of their values; texts with their formats.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), shape(value)))
            .collect(),
        Value::Array(items) => items.iter().map(shape).take(1).collect(),
        Value::String(text) if text.parse::<uuid::Uuid>().is_ok() => "a UUID".into(),
        Value::String(text) if text.parse::<knowledge_core::model::Timestamp>().is_ok() => {
            "a time".into()
        }
        Value::String(_) => "a text".into(),
        Value::Number(_) => "a number".into(),
        Value::Bool(_) => "true or false".into(),
        Value::Null => "null".into(),
    }
}

/// Triggers events of each type, with a webhook for each.
pub(crate) async fn trigger_events(world: &World) {
    let (owner, workspace) = (&world.owner, world.workspace.id);
    let mut pinged = None;
    for event_type in EventType::ALL {
        pinged = Some(world.webhook(*event_type).await.id);
    }
    let endpoint = Endpoint::Webhook(workspace, pinged.unwrap());
    world.ping_endpoint(endpoint).await.unwrap();
    let batch = [new_memory("Note")];
    world.ingest_memories(world.source, &batch).await.unwrap();
    let cited = world.memories(1).await;
    world.recall_of(&cited).await;
    let change = sensitivity(SensitivityLabel::Confidential);
    world.bulk(owner, &cited, change).await.unwrap();
    world.delete_memory(cited[0]).await.unwrap();
    let connector = world.connector(HOUR).await;
    world.report_sync(connector, &SUCCESS).await.unwrap();
    let sender = Sender::registered_by(world, owner).await;
    let refused = sender.post(world, "msg_1", &[new_memory("")]).await;
    assert_eq!(problem(refused), "memories[0].title too_small");
    world.fan_out().await;
}

/// Returns the bodies that are sent for events of each type, by type.
async fn sent(world: &World) -> BTreeMap<String, Vec<Value>> {
    trigger_events(world).await;
    let mut bodies: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for claimed in world.claim().await.deliveries {
        let body: Value = serde_json::from_slice(&claimed.request.body).unwrap();
        let of_type = bodies.entry(claimed.event_type.to_string()).or_default();
        assert_eq!(body["type"], claimed.event_type.to_string());
        of_type.push(body);
    }
    bodies
}

#[tokio::test]
async fn documented_event_bodies_match_those_sent() {
    let world = World::new().await;
    let (documented, sent) = (documented(), sent(&world).await);
    let is_like = |example: &Value, bodies: &[Value]| {
        let expected = shape(example);
        bodies.iter().any(|body| shape(body) == expected)
    };
    for (event_type, example) in &documented {
        let bodies = sent.get(event_type).map_or(&[][..], Vec::as_slice);
        assert!(
            is_like(example, bodies),
            "{event_type}: {example} {bodies:#?}"
        );
    }
    // The document describes these types as alike.
    for event_type in ["chunk.deleted", "memory.updated"] {
        let bodies = &sent[event_type];
        assert!(
            is_like(&documented["chunk.created"], bodies),
            "{event_type}"
        );
    }
    let changes = sent["citation.changed"].iter();
    let changes = changes.map(|body| body["data"]["change"].as_str().unwrap());
    assert_eq!(
        changes.collect::<BTreeSet<_>>(),
        BTreeSet::from(["deleted", "updated"])
    );
    let unsent = |event_type: &&EventType| !sent.contains_key(event_type.as_str());
    assert_eq!(EventType::ALL.iter().find(unsent), None);
}
