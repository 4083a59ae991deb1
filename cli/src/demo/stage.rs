//! The organisation of the demo while its history is created.

use std::collections::HashMap;
use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::access::Credential;
use knowledge_core::env::Clock as _;
use knowledge_core::model::{MemberId, OrgId, Timestamp, Workspace};
use knowledge_core::service::{Caller, KnowledgeService};

use super::clock::HistoryClock;
use super::data::ORGANIZATION;

/// Memories that the recall cites: the first ones, which every member of the workspace can read.
pub(super) const CITED: usize = 5;

/// The organisation with its members, its workspaces and the clock.
pub(super) struct Stage {
    pub(super) service: KnowledgeService,
    clock: HistoryClock,
    now: Timestamp,
    pub(super) org: OrgId,
    workspaces: Vec<Workspace>,
    members: HashMap<&'static str, MemberId>,
}

impl Stage {
    pub(super) async fn create(
        service: KnowledgeService,
        clock: HistoryClock,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let provisioning = service.provisioning();
        let (org, owner) = provisioning.create_organization(&ORGANIZATION.new).await?;
        let mut workspaces = Vec::new();
        for workspace in &ORGANIZATION.workspaces {
            workspaces.push(provisioning.create_workspace(org.id, workspace).await?);
            // They are listed in the order of their creation, and the console opens the first one.
            clock.set(clock.now().plus(Duration::from_millis(1)));
        }
        let mut members = HashMap::from([(ORGANIZATION.new.owner.handle.as_str(), owner.id)]);
        for member in &ORGANIZATION.members {
            let created = provisioning.create_member(org.id, member).await?;
            members.insert(member.handle.as_str(), created.id);
        }
        Ok(Self {
            service,
            clock,
            now,
            org: org.id,
            workspaces,
            members,
        })
    }

    /// Sets the clock to this long before the end of the history.
    pub(super) fn ago(&self, ago: Duration) -> Timestamp {
        let time = self.now.minus(ago);
        self.clock.set(time);
        time
    }

    /// Returns the workspace with most of the memories.
    pub(super) fn main(&self) -> &Workspace {
        &self.workspaces[0]
    }

    pub(super) fn workspace(&self, slug: &str) -> &Workspace {
        let mut workspaces = self.workspaces.iter();
        let found = workspaces.find(|workspace| workspace.slug == slug);
        found.expect("a test has looked up the workspaces of the data")
    }

    pub(super) fn member(&self, handle: &str) -> MemberId {
        self.members[handle]
    }

    /// Returns a credential of the member with this handle.
    pub(super) fn act_as(&self, handle: &str) -> Caller {
        Caller::new(Credential::Trusted {
            org: self.org,
            member: self.member(handle),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use knowledge_core::env::{Env, OsRandomness};
    use knowledge_core::service::{Options, SealingKey};
    use knowledge_core::store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn workspaces_are_created_one_after_another() {
        let now = Timestamp::from_millis(1_790_000_000_000);
        let clock = HistoryClock::at(now);
        let store = Arc::new(MemoryStore::new());
        let env = Env::new(clock.clone(), OsRandomness);
        let service =
            KnowledgeService::open(store, env, Options::new(SealingKey::new([7; 32]))).await;
        let service = service.expect("an empty store");
        let stage = Stage::create(service, clock, now).await.expect("a stage");
        let times = stage.workspaces.iter().map(|place| place.created_at);
        assert!(times.is_sorted_by(|before, after| before < after));
    }
}
