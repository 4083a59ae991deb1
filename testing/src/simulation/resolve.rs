//! Operations become calls: what was picked is looked up among what there is.

use std::time::Duration;

use uuid::Uuid;

use super::world::{Cast, World, unknown};
use knowledge_core::access::{CredentialKind, RoleRef};
use knowledge_core::model::{
    AuditLogId, BulkUpdate, ChatId, ConnectorId, CredentialId, MemberId, MemoryChange, MemoryId,
    NewCitationSubscription, NewCustomRole, RecallId, RoleId, SourceId, WorkspaceId,
};
use knowledge_core::service::{IfMatch, MemberAssignment, NewRecall};
use crate::model::{Call, Caller};
use crate::strategies::{By, CastMember, Op, Pick, RolePick, TagPick, Through};

/// What an operation becomes.
#[derive(Clone, Debug)]
pub enum Step {
    /// Time goes by.
    Advance(Duration),
    /// A call.
    Call(Box<Call>),
    /// Nothing: there is nothing to repeat.
    Nothing,
}

/// The organisation that somebody acts in, and the other one.
struct View<'w> {
    own: &'w Cast,
    foreign: &'w Cast,
}

fn choose<T: Copy>(own: &[T], foreign: &[T], pick: Pick, make: fn(Uuid) -> T) -> T {
    let (from, number) = match pick {
        Pick::Own(number) => (own, number),
        Pick::Foreign(number) => (foreign, number),
        Pick::Unknown(number) => (&[][..], number),
    };
    match from.len() {
        0 => unknown(make, number),
        count => from[usize::from(number) % count],
    }
}

impl View<'_> {
    fn workspace(&self, pick: Pick) -> WorkspaceId {
        choose(
            &self.own.workspaces,
            &self.foreign.workspaces,
            pick,
            WorkspaceId,
        )
    }

    /// The memories picked, each once; those of the own organisation from one workspace, where one is given.
    fn memories(&self, picks: &[Pick], workspace: Option<WorkspaceId>) -> Vec<MemoryId> {
        let is_there = |place: &WorkspaceId| workspace.is_none_or(|wanted| wanted == *place);
        let own = self.own.memories.iter();
        let own: Vec<_> = own
            .filter(|(_, place)| is_there(place))
            .map(|(id, _)| *id)
            .collect();
        let foreign: Vec<_> = self.foreign.memories.iter().map(|(id, _)| *id).collect();
        let mut memories = Vec::new();
        for pick in picks {
            let id = choose(&own, &foreign, *pick, MemoryId);
            if !memories.contains(&id) {
                memories.push(id);
            }
        }
        memories
    }

    fn source(&self, pick: Pick) -> SourceId {
        choose(&self.own.sources, &self.foreign.sources, pick, SourceId)
    }

    fn member(&self, pick: Pick) -> MemberId {
        // Clara and those before her: roles are assigned to her most.
        let pick = match pick {
            Pick::Own(number) if number >= 5 => Pick::Own(CastMember::Clara as u8),
            other => other,
        };
        choose(&self.own.members, &self.foreign.members, pick, MemberId)
    }

    fn role(&self, pick: Pick) -> RoleId {
        let gone = &self.own.deleted_roles;
        match pick {
            Pick::Unknown(number) if !gone.is_empty() => gone[usize::from(number) % gone.len()],
            pick => choose(&self.own.roles, &self.foreign.roles, pick, RoleId),
        }
    }

    fn role_ref(&self, pick: RolePick) -> RoleRef {
        match pick {
            RolePick::BuiltIn(role) => RoleRef::BuiltIn(role),
            RolePick::Custom(pick) => RoleRef::Custom(self.role(pick)),
        }
    }

    fn slug(&self, pick: Pick) -> String {
        match pick {
            Pick::Own(_) => self.own.slug.clone(),
            Pick::Foreign(_) => self.foreign.slug.clone(),
            Pick::Unknown(_) => "nobodys".to_owned(),
        }
    }

    fn connector(&self, pick: Pick, place: Option<Pick>) -> (WorkspaceId, ConnectorId) {
        let nowhere = |id| (ConnectorId(id), self.own.workspaces[0]);
        let (own, foreign) = (&self.own.connectors, &self.foreign.connectors);
        let (connector, workspace) = match choose_placed(own, foreign, pick) {
            Some(found) => found,
            None => nowhere(unknown(|id| id, 0)),
        };
        (
            place.map_or(workspace, |pick| self.workspace(pick)),
            connector,
        )
    }

    fn chat(&self, pick: Pick, place: Option<Pick>) -> (WorkspaceId, ChatId) {
        let (own, foreign) = (&self.own.chats, &self.foreign.chats);
        let found = choose_placed(own, foreign, pick);
        let (chat, workspace) =
            found.unwrap_or_else(|| (unknown(ChatId, 0), self.own.workspaces[0]));
        (place.map_or(workspace, |pick| self.workspace(pick)), chat)
    }

    fn tag(&self, role: RoleId, pick: TagPick) -> IfMatch {
        let unknown = || IfMatch::Tags(vec!["\"never\"".to_owned()]);
        match pick {
            TagPick::Any => IfMatch::Any,
            TagPick::Unknown => unknown(),
            TagPick::Known(number) => {
                let tags = self.own.role_tags.iter().rev();
                let mut tags = tags.filter(|(of, _)| *of == role);
                let found = tags.nth(usize::from(number));
                found.map_or_else(unknown, |(_, tag)| IfMatch::Tags(vec![tag.clone()]))
            }
        }
    }

    fn bearer(&self, by: By) -> Caller {
        self.own
            .caller_through(by.member, by.through, CredentialKind::Bearer)
    }

    fn session(&self, by: By) -> Caller {
        self.own
            .caller_through(by.member, by.through, CredentialKind::Session)
    }
}

fn choose_placed<T: Copy>(
    own: &[(T, WorkspaceId)],
    foreign: &[(T, WorkspaceId)],
    pick: Pick,
) -> Option<(T, WorkspaceId)> {
    let (from, number) = match pick {
        Pick::Own(number) => (own, number),
        Pick::Foreign(number) => (foreign, number),
        Pick::Unknown(_) => return None,
    };
    (!from.is_empty()).then(|| from[usize::from(number) % from.len()])
}

impl World {
    fn view(&self, is_second_org: bool) -> View<'_> {
        let [first, second] = &self.orgs;
        if is_second_org {
            View {
                own: second,
                foreign: first,
            }
        } else {
            View {
                own: first,
                foreign: second,
            }
        }
    }

    /// What an operation becomes with what there is now.
    #[must_use]
    pub fn resolve(&mut self, op: &Op) -> Step {
        let call = match op {
            Op::Advance(by) => return Step::Advance(*by),
            Op::Maintain => Call::Maintain,
            Op::Revoke(is_second_org, pick) => {
                let view = self.view(*is_second_org);
                let (own, foreign) = (&view.own.credentials, &view.foreign.credentials);
                Call::Revoke(view.own.id, choose(own, foreign, *pick, CredentialId))
            }
            Op::BulkUpdate { .. } => match self.bulk_update(op) {
                Some(call) => call,
                None => return Step::Nothing,
            },
            Op::Repeat { of, change, by } => match self.repeat(*of, change.as_ref(), *by) {
                Some(call) => call,
                None => return Step::Nothing,
            },
            op => match self.govern(op).or_else(|| self.work(op)) {
                Some(call) => call,
                None => return Step::Nothing,
            },
        };
        Step::Call(Box::new(call))
    }

    fn bulk_update(&mut self, op: &Op) -> Option<Call> {
        let Op::BulkUpdate {
            by,
            key,
            memories,
            has_duplicate,
            change,
            source,
        } = op
        else {
            return None;
        };
        let view = self.view(by.is_second_org);
        let mut memory_ids = view.memories(memories, None);
        if *has_duplicate {
            memory_ids.extend(memory_ids.first().copied());
        }
        let request = BulkUpdate {
            memory_ids,
            change: MemoryChange {
                source_id: source.map(|pick| view.source(pick)),
                ..change.clone()
            },
        };
        let call = Call::BulkUpdate(view.bearer(*by), key.clone(), request);
        self.sent.push(call.clone());
        Some(call)
    }

    fn repeat(&self, of: u8, other: Option<&MemoryChange>, by: Option<By>) -> Option<Call> {
        let number = usize::from(of).checked_rem(self.sent.len())?;
        let Call::BulkUpdate(sender, key, request) = &self.sent[number] else {
            return None;
        };
        let by = by.map_or_else(
            || sender.clone(),
            |by| self.view(by.is_second_org).bearer(by),
        );
        let request = BulkUpdate {
            change: other.unwrap_or(&request.change).clone(),
            ..request.clone()
        };
        Some(Call::BulkUpdate(by, key.clone(), request))
    }

    fn govern(&self, op: &Op) -> Option<Call> {
        let (Op::ListRoles(by, _)
        | Op::ReadRole(by, _)
        | Op::CreateRole(by, ..)
        | Op::UpdateRole(by, ..)
        | Op::DeleteRole(by, ..)
        | Op::AssignRole(by, ..)
        | Op::UnassignRole(by, ..)) = op
        else {
            return None;
        };
        let view = self.view(by.is_second_org);
        let (by, slug) = (view.session(*by), view.own.slug.clone());
        Some(match op {
            Op::ListRoles(_, pick) => Call::ListRoles(by, view.slug(*pick)),
            Op::ReadRole(_, pick) => Call::ReadRole(by, slug, view.role(*pick)),
            Op::CreateRole(_, new, place) => {
                let workspace_id = place.map(|pick| view.workspace(pick));
                let new = NewCustomRole {
                    workspace_id,
                    ..new.clone()
                };
                Call::CreateRole(by, slug, new)
            }
            Op::UpdateRole(_, pick, update, tag) => {
                let role = view.role(*pick);
                let if_match = tag.map(|tag| view.tag(role, tag));
                Call::UpdateRole(by, slug, role, update.clone(), if_match)
            }
            Op::DeleteRole(_, pick, target) => {
                let target = target.map(|target| view.role_ref(target));
                Call::DeleteRole(by, slug, view.role(*pick), target)
            }
            Op::AssignRole(_, member, role, place) => {
                let role = view.role_ref(*role);
                let assignment = match place {
                    None => MemberAssignment::Organization(role),
                    Some(pick) => MemberAssignment::Workspace(view.workspace(*pick), Some(role)),
                };
                Call::AssignRole(by, slug, view.member(*member), assignment)
            }
            Op::UnassignRole(_, member, place) => {
                let assignment = MemberAssignment::Workspace(view.workspace(*place), None);
                Call::AssignRole(by, slug, view.member(*member), assignment)
            }
            _ => return None,
        })
    }

    fn work(&self, op: &Op) -> Option<Call> {
        let by = match op {
            Op::Ingest { by, .. }
            | Op::CreateSource(by, ..)
            | Op::CreateWebhook(by, ..)
            | Op::CreateInboundWebhook(by, ..)
            | Op::CreateRecall(by, ..)
            | Op::Subscribe(by, ..)
            | Op::CreateConnector(by, ..)
            | Op::ReportSync(by, ..)
            | Op::PauseConnector(by, ..)
            | Op::CreateChat(by, ..)
            | Op::PostMessage(by, ..)
            | Op::CreateMcpKey(by, ..)
            | Op::NoteMcpKeyUse(by, ..)
            | Op::Dashboard(by, ..)
            | Op::ReadAudit(by, ..) => *by,
            _ => return None,
        };
        let view = self.view(by.is_second_org);
        Some(view.call(op, view.bearer(by), by.through))
    }
}

impl View<'_> {
    /// The workspace that an MCP key opens.
    fn workspace_of_key(&self, through: Through) -> WorkspaceId {
        let keys = &self.own.mcp_keys;
        match through {
            Through::McpKey(number) if !keys.is_empty() => keys[usize::from(number) % keys.len()].1,
            _ => self.own.workspaces[0],
        }
    }

    fn call(&self, op: &Op, by: Caller, through: Through) -> Call {
        match op {
            Op::Ingest {
                workspace,
                source,
                memories,
                ..
            } => {
                let (workspace, source) = (self.workspace(*workspace), self.source(*source));
                Call::Ingest(by, workspace, source, memories.clone())
            }
            Op::CreateSource(_, new) => Call::CreateSource(by, new.clone()),
            Op::CreateWebhook(_, place, new) => {
                Call::CreateWebhook(by, self.workspace(*place), new.clone())
            }
            Op::CreateInboundWebhook(_, place, new) => {
                Call::CreateInboundWebhook(by, self.workspace(*place), new.clone())
            }
            Op::CreateRecall(_, place, memories) => {
                let workspace = self.workspace(*place);
                let new = NewRecall {
                    query: "What now?".to_owned(),
                    memory_ids: self.memories(memories, Some(workspace)),
                };
                Call::CreateRecall(by, workspace, new)
            }
            Op::Subscribe(_, recall, url) => {
                let (own, foreign) = (&self.own.recalls, &self.foreign.recalls);
                let new = NewCitationSubscription {
                    recall_id: choose(own, foreign, *recall, RecallId),
                    webhook_url: url.clone(),
                };
                Call::Subscribe(by, new)
            }
            Op::CreateConnector(_, place, new) => {
                Call::CreateConnector(by, self.workspace(*place), new.clone())
            }
            Op::ReportSync(_, connector, place, report) => {
                let (workspace, connector) = self.connector(*connector, *place);
                Call::ReportSync(by, workspace, connector, report.clone())
            }
            Op::PauseConnector(_, connector, place, is_paused) => {
                let (workspace, connector) = self.connector(*connector, *place);
                Call::PauseConnector(by, workspace, connector, *is_paused)
            }
            Op::CreateChat(_, place, title) => {
                Call::CreateChat(by, self.workspace(*place), title.clone())
            }
            Op::PostMessage(_, chat, place, content) => {
                let (workspace, chat) = self.chat(*chat, *place);
                Call::PostMessage(by, workspace, chat, content.clone())
            }
            Op::CreateMcpKey(_, place, new) => {
                Call::CreateMcpKey(by, self.workspace(*place), new.clone())
            }
            Op::NoteMcpKeyUse(_, place) => {
                let own = self.workspace_of_key(through);
                Call::NoteMcpKeyUse(by, place.map_or(own, |pick| self.workspace(pick)))
            }
            Op::ReadAudit(_, id) => {
                let (own, foreign) = (&self.own.audit, &self.foreign.audit);
                Call::ReadAudit(by, choose(own, foreign, *id, AuditLogId))
            }
            Op::Dashboard(_, place) => Call::Dashboard(by, self.workspace(*place)),
            _ => unreachable!("the caller sorts the operations"),
        }
    }
}
