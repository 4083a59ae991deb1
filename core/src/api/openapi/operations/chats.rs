//! Chats and their messages.

use schemars::JsonSchema;

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::schema::{Content, Name};
use crate::service::{Chat, ChatMessage};

/// A new chat.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only used as a schema")]
struct NewChat {
    /// Title, 1 to 128 characters.
    title: Name,
}

/// A new message.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only used as a schema")]
struct NewChatMessage {
    /// Text, at most 32 KiB.
    content: Content,
}

/// Parameters of the operations on one chat, from the response to its creation.
const MADE: &[(&str, &str)] = &[
    ("id", "$request.path.id"),
    ("sessionId", "$response.body#/id"),
];

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(Operation::CreateChat, "")
        .needs("create_chat")
        .body::<NewChat>()
        .answers::<Chat>()
        .leads_to(Operation::GetChat, MADE)
        .leads_to(Operation::PostChatMessage, MADE)
        .leads_to(Operation::ListChatMessages, MADE);
    all.describe(Operation::ListChats, "Most recently created first.")
        .needs("list_chats")
        .answers_page::<Chat>();
    all.describe(Operation::GetChat, "")
        .needs("chat")
        .answers::<Chat>();
    all.describe(Operation::PostChatMessage, "")
        .needs("post_chat_message")
        .body::<NewChatMessage>()
        .answers::<ChatMessage>();
    all.describe(Operation::ListChatMessages, "Oldest first.")
        .needs("list_chat_messages")
        .answers_page::<ChatMessage>();
}
