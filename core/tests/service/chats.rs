//! Tests of chat sessions and their messages.

use knowledge_core::internals::keys;
use knowledge_core::limits::CONTENT_BYTES_MAX;
use knowledge_core::model::{ChatId, WorkspaceId};
use knowledge_core::service::{ChatMessage, PageRequest};
use uuid::Uuid;

use crate::make::{MINUTE, VIEWER, code, new_chat, page_at, problem};
use crate::world::World;
use knowledge_testing::requests::with;

async fn post(
    world: &World,
    chat: ChatId,
    content: &str,
) -> Result<ChatMessage, knowledge_core::Error> {
    world.post_message(chat, content).await
}

#[tokio::test]
async fn chat_message_is_stored_and_moves_its_chat() {
    let world = World::new().await;
    let chat = world.add_chat("Plans").await;
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
    // The same applies within one millisecond.
    post(&world, chat, "Again.").await.unwrap();
    let shown = world.dashboard().await.recent_chats;
    assert_eq!((shown.len(), &*shown[0].snippet), (1, "Again."));
}

#[tokio::test]
async fn chat_rejects_invalid_values() {
    let world = World::new().await;
    let chat = world.add_chat("Plans").await;
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
    let untitled = world.create_chat(&new_chat(" ")).await;
    assert_eq!(problem(untitled), "title too_small");
}

#[tokio::test]
async fn chat_belongs_to_its_workspace() {
    let world = World::new().await;
    let chat = world.add_chat("Plans").await;
    let sales = world.workspace("sales").await;
    let post = async |workspace, chat| world.within(workspace).post_message(chat, "Hi").await;
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
async fn chat_requires_its_action_to_write() {
    let world = World::new().await;
    let chat = world.add_chat("Plans").await;
    let viewer = world.caller(VIEWER).await;
    assert_eq!(
        code(world.by(&viewer).create_chat(&new_chat("Hi")).await),
        "forbidden"
    );
    let posted = world.by(&viewer).post_message(chat, "Hi").await;
    assert_eq!(code(posted), "forbidden");
}

/// The chat is not listed twice although the clock went back.
#[tokio::test]
async fn chat_message_with_earlier_time_moves_its_chat() {
    let world = World::new().await;
    let chat = world.add_chat("Plans").await;
    world.time.set(world.time.now().minus(MINUTE));
    post(&world, chat, "Earlier.").await.unwrap();
    let shown = world.dashboard().await.recent_chats;
    assert_eq!((shown.len(), &*shown[0].snippet), (1, "Earlier."));
}

#[tokio::test]
async fn chats_are_listed_newest_first_and_messages_oldest_first() {
    let world = World::new().await;
    let mut chats = Vec::new();
    for _ in 0..3 {
        chats.push(world.add_chat("Plans").await);
        world.time.pass(MINUTE);
    }
    let mut written = Vec::new();
    for number in 0..5 {
        let message = post(&world, chats[0], &format!("Message {number}")).await;
        written.push(message.unwrap());
        world.time.pass(MINUTE);
    }
    let request = |limit: usize, cursor| page_at(Some(limit), cursor);
    let listed = world.list_chats(&request(2, None)).await.unwrap();
    let rest = request(2, listed.next_cursor.clone());
    let rest = world.list_chats(&rest);
    let all = [listed.data, rest.await.unwrap().data].concat();
    chats.reverse();
    assert_eq!(all.iter().map(|chat| chat.id).collect::<Vec<_>>(), chats);
    assert_eq!(world.get_chat(chats[2]).await.unwrap(), all[2]);
    assert_eq!(all[2].last_message_at, written[4].created_at);

    let messages = async |page: PageRequest| world.list_messages(chats[2], &page).await.unwrap();
    let first = messages(request(3, None)).await;
    let rest = messages(request(3, first.next_cursor.clone())).await;
    assert_eq!(rest.next_cursor, None);
    assert_eq!([first.data, rest.data].concat(), written);
    let page = PageRequest::default();
    assert_eq!(world.list_messages(chats[1], &page).await.unwrap().data, []);
}

#[tokio::test]
async fn chat_is_found_only_in_its_own_workspace() {
    let world = World::new().await;
    let sales = world.workspace("sales").await;
    let reader = world.member(VIEWER).await;
    let plans = with(new_chat("Plans"), |new| new.participants = vec![reader]);
    let chat = world.chat(world.workspace.id, &plans).await.unwrap();
    let page = PageRequest::default();
    assert_eq!(code(world.within(sales).get_chat(chat).await), "not_found");
    let listed = world.within(sales).list_messages(chat, &page).await;
    assert_eq!(code(listed), "not_found");
    // A viewer may read a chat, as its snippet is on the dashboard.
    let read = world.by(&world.trusted(reader)).get_chat(chat).await;
    assert_eq!(read.unwrap().id, chat);
}
