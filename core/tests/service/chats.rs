//! Chat sessions and their messages.

use knowledge_core::limits::CONTENT_BYTES_MAX;
use knowledge_core::model::{ChatId, WorkspaceId};
use knowledge_core::service::ChatMessage;
use knowledge_core::store::keys;
use uuid::Uuid;

use crate::make::{MINUTE, VIEWER, code, problem};
use crate::world::World;

async fn post(
    world: &World,
    chat: ChatId,
    content: &str,
) -> Result<ChatMessage, knowledge_core::Error> {
    let workspace = world.workspace.id;
    world
        .service
        .post_chat_message(&world.owner, workspace, chat, content)
        .await
}

async fn new_chat(world: &World) -> ChatId {
    let chat = world
        .service
        .create_chat(&world.owner, world.workspace.id, "Plans")
        .await;
    chat.unwrap().id
}

#[tokio::test]
async fn a_message_is_kept_and_moves_its_chat() {
    let world = World::new().await;
    let chat = new_chat(&world).await;
    world.time.pass(MINUTE);
    let posted = post(&world, chat, "Hello.").await.unwrap();
    assert_eq!((posted.chat_id, posted.author_id), (chat, world.owner_id));
    assert_eq!(
        (&*posted.content, posted.created_at),
        ("Hello.", world.time.now())
    );
    let key = keys::chat_message(world.org.id, chat, posted.id);
    assert_eq!(world.read::<ChatMessage>(&key).await, Some(posted));
    let shown = world.dashboard().await.recent_chats;
    assert_eq!(shown.len(), 1, "the chat stands there once");
    assert_eq!(shown[0].last_message_at, world.time.now());
    // In the same millisecond too.
    post(&world, chat, "Again.").await.unwrap();
    let shown = world.dashboard().await.recent_chats;
    assert_eq!((shown.len(), &*shown[0].snippet), (1, "Again."));
}

#[tokio::test]
async fn bad_values_are_refused() {
    let world = World::new().await;
    let chat = new_chat(&world).await;
    assert_eq!(problem(post(&world, chat, "").await), "content too_small");
    let large = "x".repeat(CONTENT_BYTES_MAX + 1);
    assert_eq!(
        problem(post(&world, chat, &large).await),
        "content too_large"
    );
    post(&world, chat, &large[1..]).await.unwrap();
    let control = "\u{1}".repeat(CONTENT_BYTES_MAX);
    assert_eq!(
        problem(post(&world, chat, &control).await),
        "content too_large"
    );
    let untitled = world
        .service
        .create_chat(&world.owner, world.workspace.id, " ")
        .await;
    assert_eq!(problem(untitled), "title too_small");
}

#[tokio::test]
async fn a_chat_is_of_its_workspace() {
    let world = World::new().await;
    let chat = new_chat(&world).await;
    let sales = world.workspace("sales").await;
    let post = async |workspace, chat| {
        world
            .service
            .post_chat_message(&world.owner, workspace, chat, "Hi")
            .await
    };
    assert_eq!(code(post(sales, chat).await), "not_found");
    assert_eq!(
        code(post(WorkspaceId(Uuid::nil()), chat).await),
        "not_found"
    );
    assert_eq!(
        code(post(world.workspace.id, ChatId(Uuid::nil())).await),
        "not_found"
    );
}

#[tokio::test]
async fn writing_needs_its_action() {
    let world = World::new().await;
    let chat = new_chat(&world).await;
    let viewer = world.caller(VIEWER).await;
    let workspace = world.workspace.id;
    assert_eq!(
        code(world.service.create_chat(&viewer, workspace, "Hi").await),
        "forbidden"
    );
    let posted = world
        .service
        .post_chat_message(&viewer, workspace, chat, "Hi")
        .await;
    assert_eq!(code(posted), "forbidden");
}

/// A clock that went back does not make a chat stand there twice.
#[tokio::test]
async fn a_message_of_an_earlier_time_moves_its_chat_too() {
    let world = World::new().await;
    let chat = new_chat(&world).await;
    world.time.set(world.time.now().minus(MINUTE));
    post(&world, chat, "Earlier.").await.unwrap();
    let shown = world.dashboard().await.recent_chats;
    assert_eq!((shown.len(), &*shown[0].snippet), (1, "Earlier."));
}
