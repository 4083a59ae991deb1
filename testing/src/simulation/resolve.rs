//! Resolution of operations into calls: references become existing entities.

use std::time::Duration;

use uuid::Uuid;

use super::call::{Call, Request};
use super::world::{Entity, OrgState, PlacedEntity, WORKSPACES, World, unknown};
use crate::model::Caller;
use crate::strategies::{Actor, CastMember, CursorRef, EntityRef, EtagRef, PageRef, RoleEntityRef};
use knowledge_core::access::{CredentialKind, RoleRef};
use knowledge_core::model::{AudienceLabel, MemberId, MemoryId, RoleId, SourceId, WorkspaceId};
use knowledge_core::service::{Endpoint, IfMatch, PageRequest};

/// Result of resolving an operation.
#[derive(Clone, Debug)]
pub enum Step {
    /// Advance of the clock.
    Advance(Duration),
    /// Call of the service.
    Call(Call),
    /// No action, because there is nothing to repeat.
    Nothing,
}

/// Organisation of the caller, and the other one.
pub(super) struct View<'w> {
    pub(super) own: &'w OrgState,
    pub(super) foreign: &'w OrgState,
}

fn pick<T: Copy>(from: &[T], number: u8) -> Option<T> {
    let number = usize::from(number).checked_rem(from.len())?;
    from.get(number).copied()
}

impl View<'_> {
    /// Returns the audience label of an own workspace.
    pub(super) fn label_of(&self, workspace: WorkspaceId) -> Option<AudienceLabel> {
        let mut own = self.own.workspaces.iter();
        let slug = WORKSPACES.get(own.position(|own| *own == workspace)?)?;
        format!("workspace:{slug}").parse().ok()
    }

    pub(super) fn workspace(&self, entity: EntityRef) -> WorkspaceId {
        self.one(entity)
    }

    pub(super) fn memory(&self, entity: EntityRef) -> MemoryId {
        self.placed(entity, None).1
    }

    fn chosen<T: Copy>(own: &[T], foreign: &[T], entity: EntityRef) -> Option<T> {
        match entity {
            EntityRef::Own(number) => pick(own, number),
            EntityRef::Foreign(number) => pick(foreign, number),
            EntityRef::Unknown(_) => None,
        }
    }

    /// Returns the referenced memories, each once; own ones from `workspace`, if given.
    pub(super) fn memories(
        &self,
        entities: &[EntityRef],
        workspace: Option<WorkspaceId>,
    ) -> Vec<MemoryId> {
        let is_there = |place: &WorkspaceId| workspace.is_none_or(|wanted| wanted == *place);
        let own = self.own.memories.iter();
        let own: Vec<_> = own
            .filter(|(_, place)| is_there(place))
            .map(|(id, _)| *id)
            .collect();
        let foreign: Vec<_> = self.foreign.memories.iter().map(|(id, _)| *id).collect();
        let mut memories = Vec::new();
        for entity in entities {
            let found = Self::chosen(&own, &foreign, *entity);
            let id = found.unwrap_or_else(|| self.unknown(*entity));
            if !memories.contains(&id) {
                memories.push(id);
            }
        }
        memories
    }

    pub(super) fn source(&self, entity: EntityRef) -> SourceId {
        self.one(entity)
    }

    /// Returns Clara or one of the members before her: roles are mostly assigned to her.
    pub(super) fn member(&self, entity: EntityRef) -> MemberId {
        let entity = match entity {
            EntityRef::Own(number) if number >= 5 => EntityRef::Own(CastMember::Clara as u8),
            other => other,
        };
        self.one(entity)
    }

    /// Returns a member that was added later, if there is one.
    pub(super) fn added_member(&self, entity: EntityRef) -> MemberId {
        let added = self.own.members.get(CastMember::ALL.len()..);
        match entity {
            EntityRef::Own(number) => {
                let added = added.and_then(|added| pick(added, number));
                added.unwrap_or_else(|| unknown(number))
            }
            other => self.one(other),
        }
    }

    pub(super) fn role(&self, entity: EntityRef) -> RoleId {
        match entity {
            EntityRef::Unknown(number) if !self.own.deleted_roles.is_empty() => {
                pick(&self.own.deleted_roles, number).expect("some roles were deleted")
            }
            entity => self.one(entity),
        }
    }

    pub(super) fn role_ref(&self, entity: RoleEntityRef) -> RoleRef {
        match entity {
            RoleEntityRef::BuiltIn(role) => RoleRef::BuiltIn(role),
            RoleEntityRef::Custom(entity) => RoleRef::Custom(self.role(entity)),
        }
    }

    pub(super) fn slug(&self, entity: EntityRef) -> String {
        match entity {
            EntityRef::Own(_) => self.own.slug.clone(),
            EntityRef::Foreign(_) => self.foreign.slug.clone(),
            EntityRef::Unknown(_) => "nobodys".to_owned(),
        }
    }

    /// Returns a placed entity with its workspace, or with another one.
    pub(super) fn placed<T: PlacedEntity>(
        &self,
        entity: EntityRef,
        place: Option<EntityRef>,
    ) -> (WorkspaceId, T) {
        let found = Self::chosen(T::all_placed(self.own), T::all_placed(self.foreign), entity);
        let nowhere = || (self.unknown(entity), self.own.workspaces[0]);
        let (id, workspace) = found.unwrap_or_else(nowhere);
        (place.map_or(workspace, |entity| self.workspace(entity)), id)
    }

    /// Returns an entity of some kind.
    pub(super) fn one<T: Entity>(&self, entity: EntityRef) -> T {
        let found = Self::chosen(T::all(self.own), T::all(self.foreign), entity);
        found.unwrap_or_else(|| self.unknown(entity))
    }

    /// Returns an identifier of a deleted entity, or one that never existed.
    pub(super) fn unknown<T: From<Uuid>>(&self, entity: EntityRef) -> T {
        let (EntityRef::Own(number) | EntityRef::Foreign(number) | EntityRef::Unknown(number)) =
            entity;
        match pick(&self.own.deleted, number) {
            Some(id) if number > 0 => T::from(id),
            _ => unknown(number),
        }
    }

    /// Returns a webhook or a subscription.
    pub(super) fn endpoint(&self, entity: EntityRef, is_webhook: bool) -> Endpoint {
        if is_webhook {
            let (workspace, id) = self.placed(entity, None);
            Endpoint::Webhook(workspace, id)
        } else {
            Endpoint::Subscription(self.one(entity))
        }
    }

    /// Returns a condition on the version of a resource.
    pub(super) fn if_match(&self, resource: Uuid, entity: Option<EtagRef>) -> Option<IfMatch> {
        let unknown = || IfMatch::Tags(vec!["\"never\"".to_owned()]);
        Some(match entity? {
            EtagRef::Any => IfMatch::Any,
            EtagRef::Unknown => unknown(),
            EtagRef::Known(number) => {
                let tags = self.own.tags.iter().rev();
                let mut tags = tags.filter(|(of, _)| *of == resource);
                let found = tags.nth(usize::from(number));
                found.map_or_else(unknown, |(_, tag)| IfMatch::Tags(vec![tag.clone()]))
            }
        })
    }

    /// Returns a request with a page of its list.
    pub(super) fn paged<R: Request>(&self, page: PageRef, request: impl Fn(PageRequest) -> R) -> R {
        let list = request(PageRequest::default()).list();
        let cursors = self.own.cursors.iter().rev();
        let cursor = match page.cursor {
            None => None,
            Some(CursorRef::Any(number)) => {
                let all = self.own.cursors.len().max(1);
                cursors.cycle().nth(usize::from(number) % all)
            }
            Some(CursorRef::Own(number)) => {
                let own: Vec<_> = cursors
                    .filter(|(of, _)| Some(of) == list.as_ref())
                    .collect();
                own.get(usize::from(number) % own.len().max(1)).copied()
            }
        };
        request(
            PageRequest::builder()
                .maybe_limit(page.limit)
                .maybe_cursor(cursor.map(|(_, cursor)| cursor.clone()))
                .build(),
        )
    }

    pub(super) fn bearer(&self, by: Actor) -> Caller {
        self.own
            .caller_with(by.member, by.credential, CredentialKind::Bearer)
    }

    pub(super) fn session(&self, by: Actor) -> Caller {
        self.own
            .caller_with(by.member, by.credential, CredentialKind::Session)
    }
}

impl World {
    pub(super) fn view(&self, is_second_org: bool) -> View<'_> {
        let [first, second] = &self.orgs;
        let (own, foreign) = if is_second_org {
            (second, first)
        } else {
            (first, second)
        };
        View { own, foreign }
    }
}
