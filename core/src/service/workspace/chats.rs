//! Chat sessions and their messages.
//!
//! A chat exists for its participants: its creator and the members that the creator named.

use serde::{Deserialize, Serialize};

use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::limits::CHAT_PARTICIPANTS_MAX;
use crate::model::{
    AuditAction, ChatId, ChatMessageId, ChatSummary, Member, MemberId, OrgId, Quota, ResourceKind,
    Timestamp, WorkspaceId,
};
use crate::operation::Operation;
use crate::request::rules::{Content, Id, Items, List, Name, Unique};
use crate::request::{Problems, request};
use crate::service::access::principal::Principal;
use crate::service::operation::{Authorized, Prefetch};
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::{Caller, Chats};
use crate::store::{Direction, Key};

/// Maximum length of the snippet of a chat on the dashboard, in characters.
pub const SNIPPET_CHARS_MAX: usize = 160;

request! {
    /// A new chat.
    pub struct NewChat {
        /// Title, 1 to 128 characters.
        title: String as Name,
        /// Members that take part besides the caller, at most 100, without duplicates.
        participants: Vec<MemberId>
            as List<Id<MemberId>, Items<0, CHAT_PARTICIPANTS_MAX>, Unique> = Vec::new(),
    }
}

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
    /// Members for whom the chat exists, its creator first.
    pub participants: Vec<MemberId>,
}

impl Chat {
    /// Returns true if the chat exists for a caller.
    pub(crate) fn exists_for(&self, caller: &Principal) -> bool {
        let member = caller.member_id();
        let takes_part = self.created_by == member || self.participants.contains(&member);
        takes_part && !caller.org.erases_member(self.created_by)
    }

    /// Returns the record of the chat for the dashboard.
    pub(crate) fn recent(&self, snippet: String) -> RecentChat {
        RecentChat {
            session_id: self.id,
            title: self.title.clone(),
            last_message_at: self.last_message_at,
            snippet,
            participants: self.participants.clone(),
        }
    }
}

/// A chat as the dashboards of its participants show it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecentChat {
    session_id: ChatId,
    title: String,
    pub(crate) last_message_at: Timestamp,
    pub(crate) snippet: String,
    pub(crate) participants: Vec<MemberId>,
}

impl RecentChat {
    /// Returns true if the chat exists for a caller, as [`Chat::exists_for`] does.
    pub(crate) fn exists_for(&self, caller: &Principal) -> bool {
        let is_erased = |creator: &MemberId| caller.org.erases_member(*creator);
        self.participants.contains(&caller.member_id())
            && !self.participants.first().is_some_and(is_erased)
    }
}

impl From<RecentChat> for ChatSummary {
    fn from(chat: RecentChat) -> Self {
        Self {
            session_id: chat.session_id,
            title: chat.title,
            last_message_at: chat.last_message_at,
            snippet: chat.snippet,
        }
    }
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

impl Chats<'_> {
    /// Creates a chat.
    ///
    /// It exists for its participants only: the caller and the members that the request names. They
    /// never change.
    ///
    /// # Errors
    /// Those of [`Operation::CreateChat`]; [`Error::InvalidRequest`] for a participant that is not
    /// a member of the organisation; [`Error::Conflict`] while what the caller made is being
    /// erased.
    pub async fn create(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        new: &NewChat,
    ) -> Result<Chat, Error> {
        self.service.checks().check(new)?;
        self.service
            .once(
                Operation::CreateChat,
                caller,
                &(workspace, new),
                |caller| async move {
                    let org = caller.org();
                    let members = new.participants.iter().map(|id| keys::member(org, *id));
                    let prefetch =
                        Prefetch::keys(members).and_keys([keys::usage(org, Quota::Chats)]);
                    let mut op = caller.in_workspace(workspace, prefetch).await?;
                    let now = op.now;
                    let participants = participants(&mut op, new).await?;
                    op.reserve(Quota::Chats, 1).await?;
                    let chat = Chat {
                        id: ChatId(self.service.env().uuid_at(now)),
                        workspace_id: workspace,
                        title: new.title.clone(),
                        created_by: op.principal.member_id(),
                        created_at: now,
                        last_message_at: now,
                        participants,
                    };
                    let recent = keys::chat_recent(org, workspace, now, chat.id);
                    let key = keys::chat(org, workspace, chat.id);
                    op.transaction.create(key, &chat);
                    op.transaction.put(recent, &chat.recent(String::new()));
                    let resource = (ResourceKind::Chat, chat.id.0);
                    op.created(AuditAction::ChatCreate, resource, &chat);
                    op.done(chat)
                },
                |caller, replay| async move {
                    let chat = ChatId(replay.created);
                    self.get(&caller, workspace, chat).await
                },
            )
            .await
    }

    /// Lists the chats of a workspace that the caller takes part in, newest first.
    ///
    /// # Errors
    /// Those of [`Operation::ListChats`].
    pub async fn list(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<Chat>, Error> {
        self.service
            .perform(Operation::ListChats, caller, |caller| async move {
                let org = caller.org();
                let range = keys::chats(org, workspace);
                let listing = Listing::new("chats", &(), range, Direction::Reverse);
                let retention = keys::retention(org, workspace);
                let prefetch = Prefetch::page(&listing, page).and_keys([retention]);
                let mut op = caller.in_workspace(workspace, prefetch).await?;
                let now = op.now;
                let retention = op.retention(workspace).await?;
                let caller = &op.principal;
                let found = listing
                    .page(&mut op.transaction, page, |_, chat: Chat| {
                        let exists = chat.exists_for(caller)
                            && retention.keeps_chat(chat.last_message_at, now);
                        Ok(PageRecord::visible(exists.then_some(chat)))
                    })
                    .await?;
                op.done(found)
            })
            .await
    }

    /// Reads one chat.
    ///
    /// # Errors
    /// Those of [`Operation::GetChat`].
    pub async fn get(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        chat: ChatId,
    ) -> Result<Chat, Error> {
        self.service
            .perform(Operation::GetChat, caller, |caller| async move {
                let prefetch = Prefetch::keys(chat_keys(caller.org(), workspace, chat));
                let mut op = caller.in_workspace(workspace, prefetch).await?;
                let found = find(&mut op, workspace, chat).await?;
                op.done(found)
            })
            .await
    }

    /// Lists the messages of a chat, oldest first.
    ///
    /// # Errors
    /// Those of [`Operation::ListChatMessages`]; [`Error::NotFound`] for an unknown chat, or one
    /// that the caller takes no part in.
    pub async fn list_messages(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        chat: ChatId,
        page: &PageRequest,
    ) -> Result<Page<ChatMessage>, Error> {
        self.service
            .perform(Operation::ListChatMessages, caller, |caller| async move {
                let org = caller.org();
                let range = keys::chat_messages(org, chat);
                let listing = Listing::new("chat_messages", &(), range, Direction::Forward);
                let keys = chat_keys(org, workspace, chat);
                let prefetch = Prefetch::page(&listing, page).and_keys(keys);
                let mut op = caller.in_workspace(workspace, prefetch).await?;
                find(&mut op, workspace, chat).await?;
                let show = |_: &Key, message| Ok(PageRecord::Shown(message));
                let found = listing.page(&mut op.transaction, page, show).await?;
                op.done(found)
            })
            .await
    }

    /// Reads one message of a chat.
    ///
    /// # Errors
    /// As [`Self::list_messages`], and [`Error::NotFound`] for an unknown message.
    pub(crate) async fn get_message(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        chat: ChatId,
        message: ChatMessageId,
    ) -> Result<ChatMessage, Error> {
        self.service
            .perform(Operation::ListChatMessages, caller, |caller| async move {
                let org = caller.org();
                let key = keys::chat_message(org, chat, message);
                let of_chat = chat_keys(org, workspace, chat);
                let prefetch = Prefetch::keys(of_chat).and_keys([key.clone()]);
                let mut op = caller.in_workspace(workspace, prefetch).await?;
                find(&mut op, workspace, chat).await?;
                let found = op.find(&key, EntityKind::Message).await?;
                op.done(found)
            })
            .await
    }

    /// Adds a message to a chat.
    ///
    /// # Errors
    /// Those of [`Operation::PostChatMessage`]; [`Error::InvalidRequest`] for an empty text, or one
    /// that exceeds the maximum size of a memory's content; [`Error::NotFound`] for an unknown
    /// chat, or one that the caller takes no part in.
    pub async fn post_message(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        chat: ChatId,
        content: &str,
    ) -> Result<ChatMessage, Error> {
        self.service
            .checks()
            .value::<Content>("content", &content.to_owned())?;
        self.service
            .once(
                Operation::PostChatMessage,
                caller,
                &(workspace, chat, content),
                |caller| async move {
                    let org = caller.org();
                    let counter = keys::usage(org, Quota::ChatMessages);
                    let prefetch =
                        Prefetch::keys(chat_keys(org, workspace, chat)).and_keys([counter]);
                    let mut op = caller.in_workspace(workspace, prefetch).await?;
                    let now = op.now;
                    let key = keys::chat(org, workspace, chat);
                    let before = find(&mut op, workspace, chat).await?;
                    op.reserve(Quota::ChatMessages, 1).await?;
                    let transaction = &mut op.transaction;
                    let message = ChatMessage {
                        id: ChatMessageId(transaction.unique()),
                        chat_id: chat,
                        author_id: op.principal.member_id(),
                        content: content.to_owned(),
                        created_at: now,
                    };
                    transaction.create_unique(keys::chat_message(org, chat, message.id), &message);
                    let recent = |at| keys::chat_recent(org, workspace, at, chat);
                    if before.last_message_at != now {
                        transaction.delete(recent(before.last_message_at));
                    }
                    let after = Chat {
                        last_message_at: now,
                        ..before
                    };
                    transaction.put(recent(now), &after.recent(snippet(content)));
                    transaction.put(key, &after);
                    op.set_created_id(message.id.0);
                    op.done(message)
                },
                |caller, replay| async move {
                    let message = ChatMessageId(replay.created);
                    self.get_message(&caller, workspace, chat, message).await
                },
            )
            .await
    }
}

/// Returns the keys of what [`find_any_chat`] reads.
pub(crate) fn chat_keys(org: OrgId, workspace: WorkspaceId, chat: ChatId) -> [Key; 2] {
    [
        keys::chat(org, workspace, chat),
        keys::retention(org, workspace),
    ]
}

/// Returns a chat that has not expired, whoever takes part in it; the commit checks it.
///
/// # Errors
/// [`Error::NotFound`]; those of the store.
pub(crate) async fn find_any_chat(
    op: &mut Authorized<'_>,
    workspace: WorkspaceId,
    chat: ChatId,
) -> Result<Chat, Error> {
    let kind = EntityKind::Chat;
    let key = keys::chat(op.org(), workspace, chat);
    let found: Chat = op.find(&key, kind).await?;
    let retention = op.retention(workspace).await?;
    if retention.keeps_chat(found.last_message_at, op.now) {
        Ok(found)
    } else {
        Err(Error::NotFound { kind })
    }
}

/// Returns a chat that exists for the caller; the commit checks it.
async fn find(
    op: &mut Authorized<'_>,
    workspace: WorkspaceId,
    chat: ChatId,
) -> Result<Chat, Error> {
    let found = find_any_chat(op, workspace, chat).await?;
    if found.exists_for(&op.principal) {
        Ok(found)
    } else {
        Err(Error::not_found(EntityKind::Chat))
    }
}

/// Returns the participants of a new chat, the caller first. The commit checks that they exist.
async fn participants(op: &mut Authorized<'_>, new: &NewChat) -> Result<Vec<MemberId>, Error> {
    let org = op.org();
    let named = new.participants.iter().map(|id| keys::member(org, *id));
    let named: Vec<Key> = named.collect();
    let members = op.transaction.get_many::<Member>(&named).await?;
    let mut problems = Problems::default();
    let (mut participants, creator) = (Vec::new(), op.principal.member_id());
    participants.push(creator);
    for (index, (id, member)) in new.participants.iter().zip(members).enumerate() {
        if member.is_none() {
            let message = "must be a member of the organisation";
            let path = format!("participants[{index}]");
            problems.push(path, ProblemCode::NotFound, message);
        }
        if *id != creator {
            participants.push(*id);
        }
    }
    problems.into_result()?;
    Ok(participants)
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
