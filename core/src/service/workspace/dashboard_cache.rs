//! Dashboard summaries that are still valid.
//!
//! While nothing of the caller's organisation and credential has changed, nothing is read: the decision
//! would be the same, and so would the summary. It is kept with its JSON.
//!
//! A request for an unchanged summary takes 78,000 instructions, of the build for tests over the store
//! in memory. It would take 492,000 if the JSON were written each time, and takes 1,008,000 without the
//! generations. [Decision 0004](../../../../docs/decisions/0004-generations.md) has the caches that
//! were decided against.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::access::{Credential, CredentialKind, MemberRef, SecretHash};
use crate::keys;
use crate::model::{DashboardSummary, MemberId, OrgId, WorkspaceId};
use crate::service::access::principal::Delegator;
use crate::service::generations::GenerationCache;
use crate::store::Key;

/// Maximum number of callers for whom a summary is kept while nothing has changed.
const UNCHANGED_MAX: usize = 1_024;

/// A dashboard summary with its entity tag.
#[derive(Debug)]
pub(crate) struct Dashboard {
    pub(crate) summary: DashboardSummary,
    pub(crate) etag: String,
    /// On whose behalf the MCP keys act, each once.
    ///
    /// It tells what the next summary reads with everything else, and decides nothing.
    pub(super) owners: Vec<Delegator>,
    json: OnceLock<Bytes>,
}

impl Dashboard {
    pub(crate) fn new(summary: DashboardSummary, etag: String, owners: Vec<Delegator>) -> Self {
        let json = OnceLock::new();
        Self {
            summary,
            etag,
            owners,
            json,
        }
    }

    /// Returns the summary as JSON, which is written once.
    pub(crate) fn json(&self) -> Bytes {
        let json = || {
            let json = serde_json::to_vec(&self.summary);
            Bytes::from(json.expect("summaries serialise: no maps, no fallible implementations"))
        };
        self.json.get_or_init(json).clone()
    }
}

/// Caller that asks for a summary.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Asking {
    /// Holder of the secret with this hash.
    Secret(SecretHash, CredentialKind),
    /// Member for whom the application vouches.
    Trusted(OrgId, MemberId),
}

impl Asking {
    pub(super) fn by(credential: &Credential) -> Self {
        match credential {
            Credential::Secret(secret) => Self::Secret(secret.hash(), secret.kind()),
            Credential::Trusted { org, member } => Self::Trusted(*org, *member),
        }
    }

    /// Returns the key of the credential, if it is stored.
    pub(super) fn key(&self) -> Option<Key> {
        match self {
            Self::Secret(hash, _) => Some(keys::credential(*hash)),
            Self::Trusted(..) => None,
        }
    }
}

/// The summaries of a process, by the caller, the member that it acts for and the workspace, while
/// the organisation and the credential of the caller are unchanged.
///
/// One that may not be served again is kept too, for its owners.
pub(crate) type DashboardCache =
    GenerationCache<(Asking, Option<MemberRef>, WorkspaceId), Arc<Dashboard>, UNCHANGED_MAX>;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use futures::FutureExt as _;

    use super::*;
    use crate::access::{BuiltInRole, RoleRef};
    use crate::env::Env;
    use crate::model::Timestamp;
    use crate::service::{
        Caller, KnowledgeService, NewChat, NewMember, NewOrganization, NewOwner, NewRetention,
        NewWorkspace, Options, SealingKey,
    };
    use crate::store::MemoryStore;

    const DAY: i64 = 24 * 60 * 60 * 1_000;

    struct World {
        service: KnowledgeService,
        time: Arc<AtomicI64>,
        workspace: WorkspaceId,
        owner: Caller,
        viewer: Caller,
    }

    impl World {
        fn new() -> Self {
            let time = Arc::new(AtomicI64::new(20_000 * DAY));
            let (clock, random) = (Arc::clone(&time), AtomicI64::new(0));
            let env = Env::new(
                move || Timestamp::from_millis(clock.load(Ordering::Relaxed)),
                move |buffer: &mut [u8]| {
                    for part in buffer.chunks_mut(8) {
                        let number = random.fetch_add(1, Ordering::Relaxed);
                        part.copy_from_slice(&number.to_be_bytes()[8 - part.len()..]);
                    }
                },
            );
            let options = Options::new(SealingKey::new([1; 32]));
            let opened = KnowledgeService::open(Arc::new(MemoryStore::new()), env, options);
            let service = run(opened).unwrap();
            let operator = service.provisioning();
            let ada = NewOwner::builder().handle("ada").name("Ada").build();
            let acme = NewOrganization::builder()
                .slug("acme")
                .name("Acme")
                .owner(ada);
            let (org, ada) = run(operator.create_organization(&acme.build())).unwrap();
            let viewer = RoleRef::BuiltIn(BuiltInRole::Viewer);
            let grace = NewMember::builder()
                .handle("grace")
                .name("Grace")
                .role(viewer);
            let grace = run(operator.create_member(org.id, &grace.build())).unwrap();
            let support = NewWorkspace::builder()
                .name("Support")
                .slug("support")
                .build();
            let workspace = run(operator.create_workspace(org.id, &support)).unwrap().id;
            let org = org.id;
            let trusted = |member| Caller::new(Credential::Trusted { org, member });
            Self {
                time,
                workspace,
                owner: trusted(ada.id),
                viewer: trusted(grace.id),
                service: service.clone(),
            }
        }

        fn dashboard(&self, caller: &Caller) -> Arc<Dashboard> {
            run(self.service.workspaces().dashboard(caller, self.workspace)).unwrap()
        }

        fn chat(&self) {
            let (service, place) = (&self.service, self.workspace);
            let chat = NewChat::builder().title("Tills").build();
            let chat = run(service.chats().create(&self.owner, place, &chat)).unwrap();
            let post = service
                .chats()
                .post_message(&self.owner, place, chat.id, "Why?");
            run(post).unwrap();
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        future.now_or_never().expect("the store answers at once")
    }

    #[test]
    fn dashboard_is_made_again_only_after_a_change() {
        let world = World::new();
        let first = world.dashboard(&world.owner);
        assert!(Arc::ptr_eq(&first, &world.dashboard(&world.owner)));
        assert_eq!(first.json(), serde_json::to_vec(&first.summary).unwrap());
        world.chat();
        let second = world.dashboard(&world.owner);
        assert_eq!(second.summary.recent_chats.len(), 1);
        assert!(Arc::ptr_eq(&second, &world.dashboard(&world.owner)));
    }

    #[test]
    fn dashboard_of_another_member_is_made_separately() {
        let world = World::new();
        world.chat();
        assert_eq!(world.dashboard(&world.owner).summary.recent_chats.len(), 1);
        assert_eq!(world.dashboard(&world.viewer).summary.recent_chats.len(), 0);
    }

    #[test]
    fn dashboard_is_made_again_once_a_chat_has_expired() {
        let world = World::new();
        world.chat();
        let retention = NewRetention::builder().chat_days(1).build();
        let set =
            world
                .service
                .workspaces()
                .set_retention(&world.owner, world.workspace, &retention);
        run(set).unwrap();
        let shown = || world.dashboard(&world.owner).summary.recent_chats.len();
        assert_eq!(shown(), 1);
        world.time.fetch_add(DAY - 1, Ordering::Relaxed);
        assert_eq!(shown(), 1);
        world.time.fetch_add(1, Ordering::Relaxed);
        assert_eq!(shown(), 0);
    }
}
