//! Chat sessions and their messages.

use serde::{Deserialize, Serialize};

use crate::access::{Credential, permissions};
use crate::error::Error;
use crate::keys;
use crate::model::{ChatId, ChatMessageId, ChatSummary, MemberId, OrgId, Timestamp, WorkspaceId};
use crate::service::KnowledgeService;
use crate::service::kit::audit::{Actor, AuditedOperation};
use crate::service::kit::audit_entry::{AuditAction, ResourceKind};
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::validate::Problems;
use crate::store::{Direction, Transaction};

/// Maximum length of the snippet of a chat on the dashboard, in characters.
pub const SNIPPET_CHARS_MAX: usize = 160;

/// A chat session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Chat {
    /// Identifier of the chat.
    pub id: ChatId,
    /// Workspace of the chat.
    pub workspace_id: WorkspaceId,
    /// Title, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub title: String,
    /// Member that created the chat.
    pub created_by: MemberId,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the newest message; the time of creation if there is none.
    pub last_message_at: Timestamp,
}

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ChatMessage {
    /// Identifier of the message.
    pub id: ChatMessageId,
    /// Chat of the message.
    pub chat_id: ChatId,
    /// Member that wrote the message.
    pub author_id: MemberId,
    /// Text of the message.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Content"))]
    pub content: String,
    /// Time at which the message was written.
    pub created_at: Timestamp,
}

/// Returns the beginning of a text, cut between two characters.
fn snippet(text: &str) -> String {
    text.chars().take(SNIPPET_CHARS_MAX).collect()
}

impl KnowledgeService {
    /// Creates a chat.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid title; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without `chat:write`
    /// there.
    pub async fn create_chat(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        title: &str,
    ) -> Result<Chat, Error> {
        let mut problems = Problems::default();
        problems.name("title", title, self.limits());
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::CREATE_CHAT,
                )
                .await?;
            let org = caller.org_id();
            let chat = Chat {
                id: ChatId(self.env().uuid_at(now)),
                workspace_id: workspace,
                title: title.to_owned(),
                created_by: caller.member_id(),
                created_at: now,
                last_message_at: now,
            };
            let summary = summary(&chat, String::new());
            transaction.create(keys::chat(org, workspace, chat.id), &chat);
            transaction.put(keys::chat_recent(org, workspace, now, chat.id), &summary);
            AuditedOperation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::ChatCreate,
                (ResourceKind::Chat, chat.id.0),
                &chat,
            );
            transaction.done(chat)
        })
        .await
    }

    /// Lists the chats of a workspace, newest first.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without `dashboard:read`
    /// there.
    pub async fn list_chats(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<Chat>, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .authorize_in(&mut reading, credential, workspace, permissions::LIST_CHATS)
                .await?;
            let range = keys::chats(caller.org_id(), workspace);
            let listing = Listing::new("chats", &(), range, Direction::Reverse);
            let found = listing.page(self.store(), page, |_, chat| Ok(Some(chat)));
            reading.done(found.await?)
        })
        .await
    }

    /// Reads one chat.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or chat;
    /// [`Error::Forbidden`] without `dashboard:read` there.
    pub async fn chat(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        chat: ChatId,
    ) -> Result<Chat, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .authorize_in(&mut reading, credential, workspace, permissions::READ_CHAT)
                .await?;
            let found = read_chat(&mut reading, caller.org_id(), workspace, chat).await?;
            reading.done(found)
        })
        .await
    }

    /// Lists the messages of a chat, oldest first.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace or chat; [`Error::Forbidden`] without
    /// `dashboard:read` there.
    pub async fn list_chat_messages(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        chat: ChatId,
        page: &PageRequest,
    ) -> Result<Page<ChatMessage>, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .authorize_in(
                    &mut reading,
                    credential,
                    workspace,
                    permissions::LIST_CHAT_MESSAGES,
                )
                .await?;
            let org = caller.org_id();
            read_chat(&mut reading, org, workspace, chat).await?;
            let range = keys::chat_messages(org, chat);
            let listing = Listing::new("chat_messages", &(), range, Direction::Forward);
            let found = listing.page(self.store(), page, |_, message| Ok(Some(message)));
            reading.done(found.await?)
        })
        .await
    }

    /// Adds a message to a chat.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an empty text, or one that exceeds the maximum size of a
    /// memory's content; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace
    /// or chat; [`Error::Forbidden`] without `chat:write` there.
    pub async fn post_chat_message(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        chat: ChatId,
        content: &str,
    ) -> Result<ChatMessage, Error> {
        let mut problems = Problems::default();
        problems.content("content", content, self.limits().content_bytes_max);
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::POST_CHAT_MESSAGE,
                )
                .await?;
            let org = caller.org_id();
            let key = keys::chat(org, workspace, chat);
            let before = read_chat(&mut transaction, org, workspace, chat).await?;
            let message = ChatMessage {
                id: ChatMessageId(transaction.unique()),
                chat_id: chat,
                author_id: caller.member_id(),
                content: content.to_owned(),
                created_at: now,
            };
            transaction.create_unique(keys::chat_message(org, chat, message.id), &message);
            let after = Chat {
                last_message_at: now,
                ..before.clone()
            };
            if after.last_message_at != before.last_message_at {
                transaction.delete(keys::chat_recent(
                    org,
                    workspace,
                    before.last_message_at,
                    chat,
                ));
            }
            transaction.put(
                keys::chat_recent(org, workspace, now, chat),
                &summary(&after, snippet(content)),
            );
            transaction.put(key, &after);
            transaction.done(message)
        })
        .await
    }
}

async fn read_chat(
    transaction: &mut Transaction,
    org: OrgId,
    workspace: WorkspaceId,
    chat: ChatId,
) -> Result<Chat, Error> {
    let found = transaction
        .read::<Chat>(&keys::chat(org, workspace, chat))
        .await?;
    found.ok_or(Error::NotFound { what: "chat" })
}

fn summary(chat: &Chat, snippet: String) -> ChatSummary {
    ChatSummary {
        session_id: chat.id,
        title: chat.title.clone(),
        last_message_at: chat.last_message_at,
        snippet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snippet_is_cut_between_characters() {
        assert_eq!(snippet("short"), "short");
        assert_eq!(snippet(&"ü".repeat(161)), "ü".repeat(160));
    }
}
