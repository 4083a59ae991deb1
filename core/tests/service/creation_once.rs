//! Tests of calls of the service that create something with an idempotency key.

use http::Request;
use knowledge_core::access::RoleRef;
use knowledge_core::api::Api;
use knowledge_core::limits::IDEMPOTENCY_RETENTION;
use knowledge_core::model::{EventType, MemoryChange, MemoryUpdate, NewWebhook, ReviewStatus};
use knowledge_core::service::{Caller, NewSource, PageRequest};
use knowledge_testing::requests::{create_memory, new_chat, new_mcp_key, new_memory};

use crate::make::{ADMIN, HOUR, MEMBER, VIEWER, code};
use crate::world::World;

/// Returns a caller with an idempotency key.
fn once(caller: &Caller) -> Caller {
    caller.clone().with_idempotency_key("key".parse().unwrap())
}

fn tickets() -> NewSource {
    NewSource::builder().name("Tickets").kind("drive").build()
}

#[tokio::test]
async fn repeated_call_returns_what_the_first_created() {
    let world = World::new().await;
    let by = once(&world.owner);
    let first = world.by(&by).create_source(&tickets()).await.unwrap();
    let before = world.contents().await;
    for _ in 0..2 {
        let again = world.by(&by).create_source(&tickets()).await;
        assert_eq!(again.unwrap(), first);
    }
    assert!(world.contents().await == before);
    // Without the key, it is another one.
    assert_ne!(world.create_source(&tickets()).await.unwrap().id, first.id);
    world.assert_whole().await;
}

#[tokio::test]
async fn repeated_message_is_read_alone() {
    let world = World::new().await;
    let chat = world.add_chat("Plans").await;
    let post = async |by: &Caller, text| world.by(by).post_message(chat, text).await;
    let by = once(&world.owner);
    let first = post(&by, "Hello.").await.unwrap();
    post(&world.owner, "Anybody?").await.unwrap();
    assert_eq!(post(&by, "Hello.").await.unwrap(), first);
    assert_eq!(code(post(&by, "Bye.").await), "idempotency_key_reused");
    let page = PageRequest::default();
    let listed = world.list_messages(chat, &page);
    assert_eq!(listed.await.unwrap().data.len(), 2);
}

#[tokio::test]
async fn repeated_batch_returns_the_first_result() {
    let world = World::new().await;
    let batch = [new_memory("First"), new_memory("Second")];
    let by = once(&world.owner);
    let ingest = async || {
        let ingested = world.by(&by).ingest_memories(world.source, &batch);
        ingested.await.unwrap()
    };
    let first = ingest().await;
    world.delete_memory(first[0].id.unwrap()).await.unwrap();
    assert_eq!(ingest().await, first);
}

#[tokio::test]
async fn repetition_has_no_secret() {
    let world = World::new().await;
    let by = once(&world.owner);
    let url = "https://example.com/hooks".parse().unwrap();
    let new = NewWebhook::builder().event_type(EventType::ChunkCreated);
    let new = new.url(url).build();
    let mut first = world.by(&by).create_webhook(&new).await.unwrap();
    assert!(first.signing_secret.take().is_some());
    assert_eq!(world.by(&by).create_webhook(&new).await.unwrap(), first);

    let new = new_mcp_key("org:acme");
    let mut first = world.by(&by).create_mcp_key(&new).await.unwrap();
    assert!(first.secret.take().is_some());
    assert_eq!(world.by(&by).create_mcp_key(&new).await.unwrap(), first);
}

#[tokio::test]
async fn key_belongs_to_the_call_the_operation_and_the_member() {
    let world = World::new().await;
    let by = once(&world.owner);
    let (plans, ideas) = (new_chat("Plans"), new_chat("Ideas"));
    let chat = world.by(&by).create_chat(&plans).await;
    let chat = chat.unwrap();
    let other = world.by(&by).create_chat(&ideas).await;
    assert_eq!(code(other), "idempotency_key_reused");
    let elsewhere = world.workspace("elsewhere").await;
    let other = world.by(&by).within(elsewhere).create_chat(&plans).await;
    assert_eq!(code(other), "idempotency_key_reused");

    world.by(&by).create_source(&tickets()).await.unwrap();
    let admin = once(&world.caller(ADMIN).await);
    let other = world.by(&admin).create_chat(&plans).await;
    assert_ne!(other.unwrap().id, chat.id);
}

#[tokio::test]
async fn repetition_requires_the_permissions_of_the_operation() {
    let world = World::new().await;
    let member = world.member(ADMIN).await;
    let by = once(&world.trusted(member));
    let create = async || world.by(&by).create_source(&tickets()).await;
    let first = create().await.unwrap();
    let assign = async |role: RoleRef| world.assign(member, role).await.unwrap();
    assign(VIEWER).await;
    assert_eq!(code(create().await), "forbidden");
    assign(ADMIN).await;
    assert_eq!(create().await.unwrap(), first);
}

#[tokio::test]
async fn deleted_creation_is_gone_until_the_key_expires() {
    let world = World::new().await;
    let by = once(&world.owner);
    let plans = new_chat("Plans");
    let create = async || {
        let created = world.by(&by).create_chat(&plans).await;
        created.map(|chat| chat.id)
    };
    let first = create().await.unwrap();
    world.delete_chat(first).await.unwrap();
    let gone = create().await.unwrap_err();
    assert_eq!(gone.code(), "created_resource_gone");
    assert!(!gone.to_string().contains("new key"), "{gone}");
    world.time.pass(IDEMPOTENCY_RETENTION);
    assert_ne!(create().await.unwrap(), first);
}

#[tokio::test]
async fn repetition_tells_nothing_of_a_hidden_memory() {
    let world = World::new().await;
    let by = once(&world.caller(MEMBER).await);
    let mut new = create_memory("For others", world.source);
    new.audience_tag = Some("user:ada".parse().unwrap());
    let create = async || world.by(&by).create_memory(&new).await.unwrap();
    let first = create().await;
    let id = first.value.summary.id;
    assert_eq!(code(world.by(&by).get_memory(id).await), "not_found");
    world.time.pass(HOUR);
    let update = MemoryUpdate::builder().content("Changed.").build();
    world.update_memory(id, &update, None).await.unwrap();
    assert_eq!(create().await, first);
    let approval = MemoryChange::builder().review_status(ReviewStatus::Approved);
    world.change(&[id], approval.build()).await.unwrap();
    assert_eq!(create().await, first);
    world.delete_memory(id).await.unwrap();
    assert_eq!(create().await, first);
}

/// A request over HTTP is compared with others as JSON, and a call by its arguments.
#[tokio::test]
async fn request_over_http_is_another_one() {
    let world = World::new().await;
    let token = world.token(world.owner_id, Default::default()).await.secret;
    let by = once(&world.owner);
    world.by(&by).create_source(&tickets()).await.unwrap();
    let request = Request::post("/v1/sources")
        .header("authorization", format!("Bearer {}", token.expose()))
        .header("content-type", "application/json")
        .header("idempotency-key", "key")
        .body(r#"{"name": "Tickets", "kind": "drive"}"#.into());
    let api = Api::new(world.service.clone());
    let response = api.handle(request.unwrap()).await;
    assert_eq!(response.status(), 422);
}
