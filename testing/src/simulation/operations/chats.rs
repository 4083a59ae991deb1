//! Chats and their messages.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use super::{Weighted, by_bearer, list_in, lists, of, placed, placed_with, requests};
use crate::call::ApiCall;
use crate::model::{
    Asked, AuditFacts, ChatFacts, ErrorResponse, Expected, Model, Moment, RequestErrors, Response,
    Who,
};
use crate::simulation::call::{Listing, Request};
use crate::simulation::indeterminate::Changes;
use crate::simulation::part::Part;
use crate::simulation::world::OrgState;
use crate::strategies::{actor, elsewhere, entity, name, text};
use knowledge_core::api::Operation;
use knowledge_core::model::{ChatId, ChatMessageId, MemberId, Quota, Timestamp, WorkspaceId};
use knowledge_core::service::{AuditAction, Chat, ChatMessage, NewChat, PageRequest};
use knowledge_core::store::Direction;

requests! {
    CreateChat by chats.create { workspace: WorkspaceId, new: NewChat }
    ListChats by chats.list { workspace: WorkspaceId, page: PageRequest }
    GetChat by chats.get { workspace: WorkspaceId, chat: ChatId }
    DeleteChat by chats.delete { workspace: WorkspaceId, chat: ChatId }
    PostChatMessage by chats.post_message { workspace: WorkspaceId, chat: ChatId, content: Text }
    ListChatMessages by chats.list_messages {
        workspace: WorkspaceId, chat: ChatId, page: PageRequest
    }
}

/// Text of a message.
#[derive(Clone, Debug)]
pub(in crate::simulation) struct Text(String);

impl Part for Text {
    type Arg<'a> = &'a str;

    fn arg(&self) -> &str {
        &self.0
    }

    fn add_to(&self, call: &mut ApiCall) {
        call.set_body(&json!({ "content": self.0 }));
    }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let new = (entity(), name(), prop::collection::vec(entity(), 0..6));
    let create = by_bearer(actor(), new, |view, by, (place, title, named)| {
        let named = named.iter().map(|member| view.member(*member));
        let named: BTreeSet<MemberId> = named.collect();
        let new = NewChat::builder().title(title);
        let new = new.participants(named.into_iter().collect()).build();
        CreateChat::new(by, view.workspace(place), new)
    });
    let one = (entity(), elsewhere());
    let list_messages = lists(actor(), one, |view, by, (chat, place), page| {
        let (workspace, chat) = view.placed(chat, place);
        ListChatMessages::new(by, workspace, chat, page)
    });
    vec![
        of(1, create),
        of(1, list_in(actor(), ListChats::new)),
        of(1, placed(actor(), GetChat::new)),
        of(1, placed(actor(), DeleteChat::new)),
        of(
            3,
            placed_with(actor(), text().prop_map(Text), PostChatMessage::new),
        ),
        of(2, list_messages),
    ]
}

impl Request for CreateChat {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        errors.name("title", &self.new.title);
        let named = &self.new.participants;
        errors.distinct("participants", named);
        let who = errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        let mut unknown = RequestErrors::default();
        let members = &model.org(who.org).members;
        unknown.known("participants", named, |member| members.contains_key(member));
        unknown.then(Ok(()))?;
        model.check_quota(who.org, Quota::Chats, 1)?;
        let others = named.iter().filter(|member| **member != who.member);
        let chat = Chat {
            id: ChatId(model.made(at.learned.and_then(Response::id))),
            workspace_id: self.workspace,
            title: self.new.title.clone(),
            created_by: who.member,
            created_at: at.now,
            last_message_at: at.now,
            participants: [&who.member].into_iter().chain(others).copied().collect(),
        };
        let facts = ChatFacts {
            chat: chat.clone(),
            messages: BTreeMap::new(),
            newest: String::new(),
        };
        let org = model.org_mut(who.org);
        org.chats.insert(chat.id, facts);
        let entry = AuditFacts::ok(chat.id, (), &chat);
        org.audit(&who, AuditAction::ChatCreate, entry, at.now);
        Ok(Response::of(&chat))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let id = response.id().map(|id| (ChatId(id), self.workspace));
        org_state.chats.extend(id);
    }
}

impl Request for ListChats {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let chats = model.org(who.org).chats.values();
        let place = (who.member, self.workspace);
        let shown = chats.filter(|facts| model.org(who.org).shows_chat(facts, place, at.now));
        let records = shown
            .map(|facts| (facts.chat.id.0, json!(facts.chat)))
            .collect();
        self.page_of(model, Direction::Reverse, records, at)
    }
}

/// Authorises a caller and returns the chat.
fn find(
    model: &Model,
    asked: Asked<'_>,
    (workspace, chat): (WorkspaceId, ChatId),
    now: Timestamp,
) -> Result<(Who, ChatFacts), ErrorResponse> {
    let who = model.authorize_in(asked, workspace, now)?;
    let org = model.org(who.org);
    let found = org.chats.get(&chat);
    let found = found.filter(|facts| org.shows_chat(facts, (who.member, workspace), now));
    Ok((who, found.ok_or(ErrorResponse::NotFound)?.clone()))
}

impl Request for GetChat {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (_, found) = find(model, self.asked(), (self.workspace, self.chat), at.now)?;
        Ok(Response::of(&found.chat))
    }
}

impl Request for DeleteChat {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let org = model.org(who.org);
        let rules = org.rules(&who);
        let may = |condition| rules.may(Operation::DeleteChat, condition, self.workspace);
        let others = may("for a chat of another member, also one that the caller takes no part in");
        let erases = others && who.scope.audience.is_none();
        let found = org.chats.get(&self.chat).filter(|facts| {
            let is_here = facts.chat.workspace_id == self.workspace;
            let is_known = erases || facts.chat.participants.contains(&who.member);
            is_here && is_known && org.keeps_chat(facts, at.now)
        });
        let chat = found.ok_or(ErrorResponse::NotFound)?.chat.clone();
        let is_own = chat.created_by == who.member;
        let is_permitted = if is_own {
            may("for a chat that the caller created")
        } else {
            others
        };
        if !is_permitted {
            return Err(ErrorResponse::Forbidden.into());
        }
        let org = model.org_mut(who.org);
        org.chats.remove(&self.chat);
        let entry = AuditFacts::ok(self.chat, &chat, ());
        org.audit(&who, AuditAction::ChatDelete, entry, at.now);
        Ok(Response::done())
    }

    fn learn(&self, org_state: &mut OrgState, _response: &Response) {
        org_state.forget(self.chat.0);
    }
}

impl Request for PostChatMessage {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        errors.text("content", &self.content.0, model.limits.content_bytes_max);
        let who = errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        let org = model.org(who.org);
        let found = org.chats.get(&self.chat);
        let place = (who.member, self.workspace);
        if !found.is_some_and(|facts| org.shows_chat(facts, place, at.now)) {
            return Err(ErrorResponse::NotFound.into());
        }
        model.check_quota(who.org, Quota::ChatMessages, 1)?;
        let id = ChatMessageId(model.made(at.learned.and_then(Response::id)));
        let found = model.org_mut(who.org).chats.get_mut(&self.chat);
        let facts = found.ok_or(ErrorResponse::NotFound)?;
        let message = ChatMessage {
            id,
            chat_id: self.chat,
            author_id: who.member,
            content: self.content.0.clone(),
            created_at: at.now,
        };
        facts.chat.last_message_at = at.now;
        facts.newest.clone_from(&self.content.0);
        facts.messages.insert(id, message.clone());
        Ok(Response::of(&message))
    }

    fn reconstruct(&self, _model: &Model, changes: &Changes<'_>) -> Result<Response, String> {
        let id = changes.only("chat_message")?;
        Ok(Response::of(&json!({ "id": id })))
    }
}

impl Request for ListChatMessages {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (_, found) = find(model, self.asked(), (self.workspace, self.chat), at.now)?;
        let messages = found.messages.values();
        let records = messages.map(|message| (message.id.0, json!(message)));
        self.page_of(model, Direction::Forward, records.collect(), at)
    }
}
