//! Chat sessions and their messages.

use serde::{Deserialize, Serialize};

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::validate::Problems;
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::Error;
use crate::model::{ChatId, ChatSummary, MemberId, Timestamp, WorkspaceId};
use crate::store::keys;

/// The longest snippet of a chat on the dashboard, in characters.
pub const SNIPPET_CHARS_MAX: usize = 160;

/// A chat session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// The identifier.
    pub id: ChatId,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// 1 to 128 characters.
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
pub struct ChatMessage {
    /// The identifier.
    pub id: uuid::Uuid,
    /// The chat.
    pub chat_id: ChatId,
    /// Who wrote it.
    pub author_id: MemberId,
    /// The text.
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
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            caller
                .enter(&mut transaction, workspace, needs::CREATE_CHAT)
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
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            caller
                .enter(&mut transaction, workspace, needs::POST_CHAT_MESSAGE)
                .await?;
            let org = caller.org_id();
            let key = keys::chat(org, workspace, chat);
            let before = transaction
                .read::<Chat>(&key)
                .await?
                .ok_or(Error::NotFound { what: "chat" })?;
            let message = ChatMessage {
                id: transaction.unique(),
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
