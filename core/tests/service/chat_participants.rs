//! Tests of the claim that a chat exists for its participants only.

use knowledge_core::limits::CHAT_PARTICIPANTS_MAX;
use knowledge_core::model::{ChatId, DashboardSummary, MemberId};
use knowledge_core::service::{Caller, PageRequest, WithEtag};
use uuid::Uuid;

use crate::make::{ADMIN, MEMBER, MINUTE, VIEWER, code, new_chat, problem};
use crate::world::World;
use knowledge_testing::requests::with;

/// Creates a chat of the owner and others.
async fn chat_with(world: &World, title: &str, others: &[MemberId]) -> ChatId {
    // Chats of one millisecond are in no particular order.
    world.time.pass(MINUTE);
    let new = with(new_chat(title), |new| new.participants = others.to_vec());
    world.chat(world.workspace.id, &new).await.unwrap()
}

async fn dashboard(world: &World, by: &Caller) -> WithEtag<DashboardSummary> {
    let found = world.by(by).get_dashboard().await;
    found.unwrap()
}

/// Returns the chats of the dashboard.
async fn recent(world: &World, by: &Caller) -> Vec<ChatId> {
    let chats = dashboard(world, by).await.value.recent_chats;
    chats.iter().map(|chat| chat.session_id).collect()
}

/// Returns the chats of the list, on one page.
async fn listed(world: &World, by: &Caller) -> Vec<ChatId> {
    let page = PageRequest::default();
    let listed = world.by(by).list_chats(&page).await.unwrap();
    assert_eq!(listed.next_cursor, None);
    listed.data.iter().map(|chat| chat.id).collect()
}

#[tokio::test]
async fn chat_exists_for_its_participants_only() {
    let world = World::new().await;
    let other = world.member(MEMBER).await;
    let named = world.trusted(other);
    let chat = chat_with(&world, "Plans", &[other]).await;
    let page = PageRequest::default();
    for by in [&world.owner, &named] {
        let read = world.by(by).get_chat(chat).await.unwrap();
        assert_eq!(read.participants, [world.owner_id, other]);
        world.by(by).post_message(chat, "Hi").await.unwrap();
        let messages = world.by(by).list_messages(chat, &page).await;
        assert!(!messages.unwrap().data.is_empty());
        assert_eq!(listed(&world, by).await, [chat]);
        assert_eq!(recent(&world, by).await, [chat]);
    }
    // Whatever they may do otherwise.
    let stranger = world.caller(ADMIN).await;
    assert_eq!(code(world.by(&stranger).get_chat(chat).await), "not_found");
    let posted = world.by(&stranger).post_message(chat, "Hi");
    assert_eq!(code(posted.await), "not_found");
    let messages = world.by(&stranger).list_messages(chat, &page);
    assert_eq!(code(messages.await), "not_found");
    assert_eq!(listed(&world, &stranger).await, []);
    assert_eq!(recent(&world, &stranger).await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn chat_names_members_once_and_at_most_100() {
    let world = World::new().await;
    let create = async |participants: Vec<MemberId>| {
        let new = with(new_chat("Plans"), |new| new.participants = participants);
        world.create_chat(&new).await
    };
    let member = world.member(VIEWER).await;
    let stranger = world.stranger("evil").await.founder.id;
    let unknown = create(vec![member, MemberId(Uuid::nil()), stranger]).await;
    let wrong = "participants[1] not_found, participants[2] not_found";
    assert_eq!(problem(unknown), wrong);
    let twice = create(vec![member, member]).await;
    assert_eq!(problem(twice), "participants[1] duplicate");
    let mut many = Vec::new();
    while many.len() < CHAT_PARTICIPANTS_MAX {
        many.push(world.member(VIEWER).await);
    }
    let full = create(many.clone()).await.unwrap();
    assert_eq!(full.participants.len(), CHAT_PARTICIPANTS_MAX + 1);
    many.push(member);
    assert_eq!(problem(create(many).await), "participants too_large");
    // The creator takes part, named or not.
    let named = create(vec![member, world.owner_id]).await.unwrap();
    assert_eq!(named.participants, [world.owner_id, member]);
}

#[tokio::test]
async fn removed_member_cannot_be_named_in_a_chat() {
    let world = World::new().await;
    let removed = world.member(MEMBER).await;
    let chat = chat_with(&world, "Plans", &[removed]).await;
    world.remove_member(removed).await.unwrap();
    let new = with(new_chat("Plans"), |new| new.participants = vec![removed]);
    let created = world.create_chat(&new).await;
    assert_eq!(problem(created), "participants[0] not_found");
    assert_eq!(listed(&world, &world.owner).await, [chat]);
}

#[tokio::test]
async fn hidden_chats_take_no_place_on_a_page() {
    let world = World::new().await;
    let other = world.member(VIEWER).await;
    let mut shown = Vec::new();
    for _ in 0..3 {
        shown.insert(0, chat_with(&world, "Ours", &[other]).await);
        chat_with(&world, "Mine", &[]).await;
    }
    let viewer = world.trusted(other);
    let mut page = PageRequest::builder().limit(1).build();
    let mut found = Vec::new();
    loop {
        let listed = world.by(&viewer).list_chats(&page).await.unwrap();
        assert_eq!(listed.data.len(), 1);
        found.extend(listed.data.iter().map(|chat| chat.id));
        page.cursor = listed.next_cursor;
        if page.cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, shown);
}

#[tokio::test]
async fn dashboard_finds_own_chats_behind_those_of_others() {
    let world = World::new().await;
    let other = world.member(VIEWER).await;
    let viewer = world.trusted(other);
    let mut own = Vec::new();
    for _ in 0..11 {
        own.insert(0, chat_with(&world, "Ours", &[other]).await);
    }
    let before = dashboard(&world, &viewer).await;
    for _ in 0..50 {
        chat_with(&world, "Mine", &[]).await;
    }
    assert_eq!(recent(&world, &viewer).await, own[..10]);
    // Neither the summary nor its tag shows what others write.
    let after = dashboard(&world, &viewer).await;
    assert_eq!((after.value, after.etag), (before.value, before.etag));
    assert_eq!(recent(&world, &world.owner).await.len(), 10);
}

/// The checklist states a fact of the workspace.
#[tokio::test]
async fn checklist_counts_chats_of_others() {
    let world = World::new().await;
    let viewer = world.caller(VIEWER).await;
    let has_asked = async || {
        let summary = dashboard(&world, &viewer).await.value;
        let steps = summary.first_value_checklist.suggested;
        let step = steps
            .iter()
            .find(|step| step.step_id == "ask_first_question");
        step.unwrap().completed
    };
    assert!(!has_asked().await);
    chat_with(&world, "Plans", &[]).await;
    assert!(has_asked().await);
}

/// An MCP key acts as its member.
#[tokio::test]
async fn mcp_key_writes_in_chats_of_its_member_only() {
    let world = World::new().await;
    let key: Caller = world.mcp_key_for("org:acme").await.secret.unwrap().into();
    let own = chat_with(&world, "Plans", &[]).await;
    let member = world.caller(MEMBER).await;
    let other = world.by(&member).create_chat(&new_chat("Theirs")).await;
    world.by(&key).post_message(own, "Hi").await.unwrap();
    let posted = world.by(&key).post_message(other.unwrap().id, "Hi");
    assert_eq!(code(posted.await), "not_found");
}
