//! Tests of what audit entries record about a request: client, identifier, inbound webhook.

use bytes::Bytes;
use http::Request;
use knowledge_core::api::{Api, ClientInfo, Operation};
use knowledge_core::internals::keys;
use knowledge_core::service::{AuditAction, AuditEntry};
use serde_json::Value;
use uuid::Uuid;

use crate::audit::{entries, entry_of};
use crate::inbound_sender::Sender;
use crate::make::new_memory;
use crate::table::callers::Caller;
use crate::table::requests::Call;
use crate::world::World;

/// Sends a request and returns the identifier in its response.
async fn request_id(world: &World, request: Request<Bytes>) -> Uuid {
    let response = Api::new(world.service.clone()).handle(request).await;
    assert!(response.status().is_success());
    let id = response.headers()["request-id"].to_str().unwrap();
    id.parse().unwrap()
}

/// Returns the stored page of an entry.
async fn stored(world: &World, entry: &AuditEntry) -> Value {
    let contents = world.contents().await;
    serde_json::from_slice(&contents[&keys::audit(world.org.id, entry.id)]).unwrap()
}

#[tokio::test]
async fn audit_entry_names_client_and_request() {
    let world = World::new().await;
    let caller = Caller::admin(&world).await;
    let call = Call::new(&world, Operation::DeleteMemory, &caller).await;
    let mut request = call.request(Some(&caller));
    let client = ClientInfo {
        address: Some("2001:db8::7".parse().unwrap()),
        request_id: None,
    };
    request.extensions_mut().insert(client);
    // Only the host tells the address.
    let forged = "192.0.2.66".parse().unwrap();
    request.headers_mut().insert("x-forwarded-for", forged);
    let id = request_id(&world, request).await;
    let entry = entry_of(&world, AuditAction::MemoryDelete).await;
    assert_eq!(entry.client_address, client.address);
    assert_eq!(entry.request_id, Some(id));
    let page = stored(&world, &entry).await;
    assert_eq!(page["client_address"], "2001:db8::7");
    assert_eq!(page["request_id"], id.to_string());
}

#[tokio::test]
async fn audit_entry_has_the_request_id_of_the_host() {
    let world = World::new().await;
    let caller = Caller::admin(&world).await;
    let call = Call::new(&world, Operation::CreateSource, &caller).await;
    let mut request = call.request(Some(&caller));
    let given = Uuid::from_u128(7);
    request.extensions_mut().insert(ClientInfo {
        address: None,
        request_id: Some(given),
    });
    assert_eq!(request_id(&world, request).await, given);
    let mut entries = entries(&world).await;
    entries.retain(|entry| entry.request_id == Some(given));
    let [entry] = &entries[..] else {
        panic!("one entry");
    };
    assert_eq!(entry.action, AuditAction::SourceCreate);
    assert_eq!(entry.client_address, None);
}

#[tokio::test]
async fn unknown_client_takes_no_space() {
    let world = World::new().await;
    let [memory] = world.memories(1).await[..] else {
        panic!("one memory");
    };
    world.delete_memory(memory).await.unwrap();
    let entry = entry_of(&world, AuditAction::MemoryDelete).await;
    assert_eq!((entry.client_address, entry.request_id), (None, None));
    let page = stored(&world, &entry).await;
    for field in ["client_address", "request_id", "inbound_webhook_id"] {
        assert_eq!(page.get(field), None, "{field}");
    }
}

#[tokio::test]
async fn client_is_stored_once_per_page() {
    let world = World::new().await;
    let caller = world.owner.clone().with_client(ClientInfo {
        address: Some("192.0.2.7".parse().unwrap()),
        request_id: None,
    });
    let batch: Vec<_> = (0..100)
        .map(|number| new_memory(&number.to_string()))
        .collect();
    world
        .by(&caller)
        .ingest_memories(world.source, &batch)
        .await
        .unwrap();
    let entry = entry_of(&world, AuditAction::MemoryIngest).await;
    let page = stored(&world, &entry).await.to_string();
    assert_eq!(page.matches("192.0.2.7").count(), 1);
}

#[tokio::test]
async fn inbound_post_is_audited_with_its_webhook() {
    let world = World::new().await;
    let sender = Sender::new(&world).await;
    let batch = [new_memory("One")];
    sender.post(&world, "msg_1", &batch).await.unwrap();
    let entry = entry_of(&world, AuditAction::MemoryIngest).await;
    assert_eq!(entry.inbound_webhook_id, Some(sender.webhook));
    assert_eq!(entry.actor_id, Some(world.owner_id));
}
