//! The organisation of the demo while its history is created.

use std::collections::HashMap;
use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::access::{Credential, RoleRef};
use knowledge_core::model::{Member, MemberId, OrgId, Timestamp, Workspace};
use knowledge_core::service::{KnowledgeService, NewMember, NewWorkspace};

use super::cast::{self, Person, WorkspaceSpec};
use super::clock::HistoryClock;

/// Memories that the recall cites: the first ones, which every member of the workspace can read.
pub(super) const CITED: usize = 5;

/// The organisation with its members, its workspaces and the clock.
pub(super) struct Stage {
    pub(super) service: KnowledgeService,
    clock: HistoryClock,
    now: Timestamp,
    pub(super) org: OrgId,
    pub(super) operations: Workspace,
    pub(super) customers: Workspace,
    pub(super) members: HashMap<&'static str, MemberId>,
}

impl Stage {
    pub(super) async fn create(
        service: KnowledgeService,
        clock: HistoryClock,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let provisioning = service.provisioning();
        let (org, owner) = provisioning
            .create_organization(cast::ORG_NAME, cast::ORG_SLUG, &new_member(&cast::OWNER))
            .await?;
        let workspace = |spec: &WorkspaceSpec| NewWorkspace {
            name: spec.name.to_owned(),
            slug: spec.slug.to_owned(),
            audience: None,
        };
        let operations = provisioning
            .create_workspace(org.id, &workspace(&cast::OPERATIONS))
            .await?;
        let customers = provisioning
            .create_workspace(org.id, &workspace(&cast::CUSTOMERS))
            .await?;
        let mut members = HashMap::from([(cast::OWNER.handle, owner.id)]);
        for person in std::iter::once(&cast::ADMIN).chain(cast::PEOPLE) {
            let member: Member = provisioning
                .create_member(org.id, &new_member(person))
                .await?;
            members.insert(person.handle, member.id);
        }
        Ok(Self {
            service,
            clock,
            now,
            org: org.id,
            operations,
            customers,
            members,
        })
    }

    /// Sets the clock to this long before the end of the history.
    pub(super) fn ago(&self, ago: Duration) -> Timestamp {
        let time = self.now.minus(ago);
        self.clock.set(time);
        time
    }

    pub(super) fn member(&self, handle: &str) -> MemberId {
        self.members[handle]
    }

    /// Returns a credential of the member with this handle.
    pub(super) fn act_as(&self, handle: &str) -> Credential {
        Credential::Trusted {
            org: self.org,
            member: self.member(handle),
        }
    }
}

fn new_member(person: &Person) -> NewMember {
    NewMember {
        kind: person.kind,
        handle: person.handle.to_owned(),
        name: person.name.to_owned(),
        role: RoleRef::BuiltIn(person.role),
        teams: person.teams.iter().map(|team| (*team).to_owned()).collect(),
    }
}
