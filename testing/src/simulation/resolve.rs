//! Resolution of operations into calls: references become existing entities.

use std::time::Duration;

use uuid::Uuid;

use super::world::{OrgState, World, unknown};
use crate::model::{Call, Caller};
use crate::strategies::{Actor, CastMember, CredentialUse, EntityRef, EtagRef, Op, RoleEntityRef};
use knowledge_core::access::{CredentialKind, RoleRef};
use knowledge_core::model::{
    AuditLogId, BulkUpdate, ChatId, ConnectorId, CredentialId, MemberId, MemoryChange, MemoryId,
    NewCitationSubscription, NewCustomRole, RecallId, RoleId, SourceId, WorkspaceId,
};
use knowledge_core::service::{IfMatch, MemberAssignment, NewRecall};

/// Result of resolving an operation.
#[derive(Clone, Debug)]
pub enum Step {
    /// Advance of the clock.
    Advance(Duration),
    /// Call of the service.
    Call(Box<Call>),
    /// No action, because there is nothing to repeat.
    Nothing,
}

/// Organisation of the caller, and the other one.
struct View<'w> {
    own: &'w OrgState,
    foreign: &'w OrgState,
}

fn choose<T: Copy>(own: &[T], foreign: &[T], entity: EntityRef, make: fn(Uuid) -> T) -> T {
    let (from, number) = match entity {
        EntityRef::Own(number) => (own, number),
        EntityRef::Foreign(number) => (foreign, number),
        EntityRef::Unknown(number) => (&[][..], number),
    };
    match from.len() {
        0 => unknown(make, number),
        count => from[usize::from(number) % count],
    }
}

impl View<'_> {
    fn workspace(&self, entity: EntityRef) -> WorkspaceId {
        choose(
            &self.own.workspaces,
            &self.foreign.workspaces,
            entity,
            WorkspaceId,
        )
    }

    /// Returns the referenced memories, each once; own ones from `workspace`, if given.
    fn memories(&self, entities: &[EntityRef], workspace: Option<WorkspaceId>) -> Vec<MemoryId> {
        let is_there = |place: &WorkspaceId| workspace.is_none_or(|wanted| wanted == *place);
        let own = self.own.memories.iter();
        let own: Vec<_> = own
            .filter(|(_, place)| is_there(place))
            .map(|(id, _)| *id)
            .collect();
        let foreign: Vec<_> = self.foreign.memories.iter().map(|(id, _)| *id).collect();
        let mut memories = Vec::new();
        for entity in entities {
            let id = choose(&own, &foreign, *entity, MemoryId);
            if !memories.contains(&id) {
                memories.push(id);
            }
        }
        memories
    }

    fn source(&self, entity: EntityRef) -> SourceId {
        choose(&self.own.sources, &self.foreign.sources, entity, SourceId)
    }

    fn member(&self, entity: EntityRef) -> MemberId {
        // Clara and the members before her, because roles are mostly assigned to her.
        let entity = match entity {
            EntityRef::Own(number) if number >= 5 => EntityRef::Own(CastMember::Clara as u8),
            other => other,
        };
        choose(&self.own.members, &self.foreign.members, entity, MemberId)
    }

    fn role(&self, entity: EntityRef) -> RoleId {
        let gone = &self.own.deleted_roles;
        match entity {
            EntityRef::Unknown(number) if !gone.is_empty() => {
                gone[usize::from(number) % gone.len()]
            }
            entity => choose(&self.own.roles, &self.foreign.roles, entity, RoleId),
        }
    }

    fn role_ref(&self, entity: RoleEntityRef) -> RoleRef {
        match entity {
            RoleEntityRef::BuiltIn(role) => RoleRef::BuiltIn(role),
            RoleEntityRef::Custom(entity) => RoleRef::Custom(self.role(entity)),
        }
    }

    fn slug(&self, entity: EntityRef) -> String {
        match entity {
            EntityRef::Own(_) => self.own.slug.clone(),
            EntityRef::Foreign(_) => self.foreign.slug.clone(),
            EntityRef::Unknown(_) => "nobodys".to_owned(),
        }
    }

    fn connector(&self, entity: EntityRef, place: Option<EntityRef>) -> (WorkspaceId, ConnectorId) {
        let nowhere = |id| (ConnectorId(id), self.own.workspaces[0]);
        let (own, foreign) = (&self.own.connectors, &self.foreign.connectors);
        let (connector, workspace) = match choose_placed(own, foreign, entity) {
            Some(found) => found,
            None => nowhere(unknown(|id| id, 0)),
        };
        (
            place.map_or(workspace, |entity| self.workspace(entity)),
            connector,
        )
    }

    fn chat(&self, entity: EntityRef, place: Option<EntityRef>) -> (WorkspaceId, ChatId) {
        let (own, foreign) = (&self.own.chats, &self.foreign.chats);
        let found = choose_placed(own, foreign, entity);
        let (chat, workspace) =
            found.unwrap_or_else(|| (unknown(ChatId, 0), self.own.workspaces[0]));
        (
            place.map_or(workspace, |entity| self.workspace(entity)),
            chat,
        )
    }

    fn tag(&self, role: RoleId, entity: EtagRef) -> IfMatch {
        let unknown = || IfMatch::Tags(vec!["\"never\"".to_owned()]);
        match entity {
            EtagRef::Any => IfMatch::Any,
            EtagRef::Unknown => unknown(),
            EtagRef::Known(number) => {
                let tags = self.own.role_tags.iter().rev();
                let mut tags = tags.filter(|(of, _)| *of == role);
                let found = tags.nth(usize::from(number));
                found.map_or_else(unknown, |(_, tag)| IfMatch::Tags(vec![tag.clone()]))
            }
        }
    }

    fn bearer(&self, by: Actor) -> Caller {
        self.own
            .caller_with(by.member, by.credential, CredentialKind::Bearer)
    }

    fn session(&self, by: Actor) -> Caller {
        self.own
            .caller_with(by.member, by.credential, CredentialKind::Session)
    }
}

fn choose_placed<T: Copy>(
    own: &[(T, WorkspaceId)],
    foreign: &[(T, WorkspaceId)],
    entity: EntityRef,
) -> Option<(T, WorkspaceId)> {
    let (from, number) = match entity {
        EntityRef::Own(number) => (own, number),
        EntityRef::Foreign(number) => (foreign, number),
        EntityRef::Unknown(_) => return None,
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

    /// Resolves an operation against the current entities.
    #[must_use]
    pub fn resolve(&mut self, op: &Op) -> Step {
        let call = match op {
            Op::Advance(by) => return Step::Advance(*by),
            Op::Maintain => Call::Maintain,
            Op::Revoke(is_second_org, entity) => {
                let view = self.view(*is_second_org);
                let (own, foreign) = (&view.own.credentials, &view.foreign.credentials);
                Call::Revoke(view.own.id, choose(own, foreign, *entity, CredentialId))
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
                source_id: source.map(|entity| view.source(entity)),
                ..change.clone()
            },
        };
        let call = Call::BulkUpdate(view.bearer(*by), key.clone(), request);
        self.sent.push(call.clone());
        Some(call)
    }

    fn repeat(&self, of: u8, other: Option<&MemoryChange>, by: Option<Actor>) -> Option<Call> {
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
            Op::ListRoles(_, entity) => Call::ListRoles(by, view.slug(*entity)),
            Op::ReadRole(_, entity) => Call::ReadRole(by, slug, view.role(*entity)),
            Op::CreateRole(_, new, place) => {
                let workspace_id = place.map(|entity| view.workspace(entity));
                let new = NewCustomRole {
                    workspace_id,
                    ..new.clone()
                };
                Call::CreateRole(by, slug, new)
            }
            Op::UpdateRole(_, entity, update, tag) => {
                let role = view.role(*entity);
                let if_match = tag.map(|tag| view.tag(role, tag));
                Call::UpdateRole(by, slug, role, update.clone(), if_match)
            }
            Op::DeleteRole(_, entity, target) => {
                let target = target.map(|target| view.role_ref(target));
                Call::DeleteRole(by, slug, view.role(*entity), target)
            }
            Op::AssignRole(_, member, role, place) => {
                let role = view.role_ref(*role);
                let assignment = match place {
                    None => MemberAssignment::Organization(role),
                    Some(entity) => {
                        MemberAssignment::Workspace(view.workspace(*entity), Some(role))
                    }
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
        Some(view.call(op, view.bearer(by), by.credential))
    }
}

impl View<'_> {
    /// Returns the workspace of an MCP key.
    fn workspace_of_key(&self, credential: CredentialUse) -> WorkspaceId {
        let keys = &self.own.mcp_keys;
        match credential {
            CredentialUse::McpKey(number) if !keys.is_empty() => {
                keys[usize::from(number) % keys.len()].1
            }
            _ => self.own.workspaces[0],
        }
    }

    fn call(&self, op: &Op, by: Caller, credential: CredentialUse) -> Call {
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
                let own = self.workspace_of_key(credential);
                Call::NoteMcpKeyUse(by, place.map_or(own, |entity| self.workspace(entity)))
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
