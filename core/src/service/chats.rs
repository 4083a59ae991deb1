//! Chat sessions and their messages.

use serde::{Deserialize, Serialize};

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::page::{Listing, Page, PageRequest};
use super::validate::Problems;
use crate::access::{Credential, needs};
use crate::error::Error;
use crate::model::{ChatId, ChatMessageId, ChatSummary, MemberId, OrgId, Timestamp, WorkspaceId};
use crate::keys;
use crate::store::{Direction, Transaction};

/// The longest snippet of a chat on the dashboard, in characters.
pub const SNIPPET_CHARS_MAX: usize = 160;

/// A chat session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Chat {
    /// The identifier.
    pub id: ChatId,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub title: String,
    /// Who opened it.
    pub created_by: MemberId,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When the newest message was written; before the first, when it was opened.
    pub last_message_at: Timestamp,
}

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ChatMessage {
    /// The identifier.
    pub id: ChatMessageId,
    /// The chat.
    pub chat_id: ChatId,
    /// Who wrote it.
    pub author_id: MemberId,
    /// The text.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Content"))]
    pub content: String,
    /// When it was written.
    pub created_at: Timestamp,
}

/// The beginning of a text, cut between two characters.
fn snippet(text: &str) -> String {
    text.chars().take(SNIPPET_CHARS_MAX).collect()
}

impl KnowledgeService {
    /// Opens a chat.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a bad title; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown
    /// workspace; [`Error::Forbidden`] without `chat:write` there.
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
                .enter_workspace(&mut transaction, credential, workspace, needs::CREATE_CHAT)
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
            Operation::begin(&transaction, self.env(), now).created(
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

    /// The chats of a workspace, the last one opened first.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown
    /// workspace; [`Error::Forbidden`] without `dashboard:read` there.
    pub async fn list_chats(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<Chat>, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .enter_workspace(&mut reading, credential, workspace, needs::LIST_CHATS)
                .await?;
            let range = keys::chats(caller.org_id(), workspace);
            let listing = Listing::new("chats", &(), range, Direction::Reverse);
            let found = listing.page(self.store(), page, |_, chat| Ok(Some(chat)));
            reading.done(found.await?)
        })
        .await
    }

    /// One chat.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or chat; [`Error::Forbidden`] without
    /// `dashboard:read` there.
    pub async fn chat(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        chat: ChatId,
    ) -> Result<Chat, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .enter_workspace(&mut reading, credential, workspace, needs::READ_CHAT)
                .await?;
            let found = read_chat(&mut reading, caller.org_id(), workspace, chat).await?;
            reading.done(found)
        })
        .await
    }

    /// The messages of a chat, in the order they were written.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown
    /// workspace or chat; [`Error::Forbidden`] without `dashboard:read` there.
    pub async fn list_chat_messages(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        chat: ChatId,
        page: &PageRequest,
    ) -> Result<Page<ChatMessage>, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .enter_workspace(
                    &mut reading,
                    credential,
                    workspace,
                    needs::LIST_CHAT_MESSAGES,
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

    /// Writes a message into a chat.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for no text or one over the size of a memory; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace or chat; [`Error::Forbidden`] without `chat:write` there.
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
                .enter_workspace(
                    &mut transaction,
                    credential,
                    workspace,
                    needs::POST_CHAT_MESSAGE,
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
    fn a_snippet_is_cut_between_characters() {
        assert_eq!(snippet("short"), "short");
        assert_eq!(snippet(&"ü".repeat(161)), "ü".repeat(160));
    }
}
