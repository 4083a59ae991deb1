//! Dashboard summaries that are still valid.
//!
//! A summary follows from the entries that it was made from, from its caller and from the time. An
//! entry with the same version has the same value, so a summary of the same versions is made once
//! and then only compared. What a caller may see is decided by each call as ever: the entries that
//! authorise it are read and checked, and a summary is kept for each member.
//!
//! While nothing of the caller's organisation and credential has changed at all, nothing is read:
//! the decision would be the same, and so would the summary.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;

use super::retention::StoredRetention;
use crate::access::{Credential, CredentialKind, SecretHash};
use crate::keys;
use crate::model::{DashboardSummary, MemberId, OrgId, Timestamp, Workspace, WorkspaceId};
use crate::service::generations::GenerationCache;
use crate::store::{Entry, Key, KeyEntry, Version};

/// Maximum number of summaries that a process keeps. One takes some 20 kB.
const KEPT_MAX: usize = 256;
/// Maximum number of callers for whom a summary is kept while nothing has changed.
const UNCHANGED_MAX: usize = 1_024;

/// A dashboard summary with its entity tag.
#[derive(Debug)]
pub(crate) struct Dashboard {
    pub(crate) summary: DashboardSummary,
    pub(crate) etag: String,
    json: OnceLock<Bytes>,
}

impl Dashboard {
    pub(crate) fn new(summary: DashboardSummary, etag: String) -> Self {
        let json = OnceLock::new();
        Self {
            summary,
            etag,
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

/// Entries that a call read for a summary.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) retention: &'a StoredRetention,
    pub(super) counts: &'a [Option<Entry>],
    pub(super) ranges: [&'a [KeyEntry]; 5],
}

impl Sources<'_> {
    fn counts(&self) -> impl Iterator<Item = Option<Version>> {
        let counts = self.counts.iter();
        counts.map(|entry| entry.as_ref().map(|entry| entry.version))
    }
}

/// Everything that a summary follows from.
struct Origin {
    workspace: Workspace,
    retention: StoredRetention,
    /// Times at which the summary is the same.
    during: Range<Timestamp>,
    counts: Vec<Option<Version>>,
    ranges: [Vec<(Key, Version)>; 5],
}

impl Origin {
    fn new(sources: Sources<'_>, during: Range<Timestamp>) -> Self {
        let versions = |range: &[KeyEntry]| {
            let found = range.iter();
            let versions = found.map(|found| (found.key.clone(), found.entry.version));
            versions.collect()
        };
        Self {
            workspace: sources.workspace.clone(),
            retention: sources.retention.clone(),
            during,
            counts: sources.counts().collect(),
            ranges: sources.ranges.map(versions),
        }
    }

    fn is_of(&self, sources: Sources<'_>, now: Timestamp) -> bool {
        let is_same = |(found, seen): (&&[KeyEntry], &Vec<(Key, Version)>)| {
            let found = found.iter().map(|found| (&found.key, found.entry.version));
            found.eq(seen.iter().map(|(key, version)| (key, *version)))
        };
        self.during.contains(&now)
            && sources.counts().eq(self.counts.iter().copied())
            && sources.ranges.iter().zip(&self.ranges).all(is_same)
            && self.workspace == *sources.workspace
            && self.retention == *sources.retention
    }
}

/// A summary that is kept.
struct Kept {
    workspace: WorkspaceId,
    member: MemberId,
    origin: Origin,
    dashboard: Arc<Dashboard>,
}

impl Kept {
    fn is_for(&self, workspace: WorkspaceId, member: MemberId) -> bool {
        self.member == member && self.workspace == workspace
    }
}

/// Caller that asks for a summary.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Asking {
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

/// The latest summaries of a process, one for each workspace and member, in the order in which they
/// were made.
#[derive(Default)]
pub(crate) struct DashboardCache {
    latest: Mutex<VecDeque<Kept>>,
    /// Summaries while the organisation and the credential are unchanged.
    pub(super) unchanged: GenerationCache<(Asking, WorkspaceId), Arc<Dashboard>, UNCHANGED_MAX>,
}

impl fmt::Debug for DashboardCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DashboardCache").finish_non_exhaustive()
    }
}

impl DashboardCache {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the summary for a member that follows from these entries, if it was kept, and the time
    /// at which it changes by itself.
    pub(super) fn find(
        &self,
        member: MemberId,
        sources: Sources<'_>,
        now: Timestamp,
    ) -> Option<(Arc<Dashboard>, Timestamp)> {
        let kept = self.kept();
        let workspace = sources.workspace.id;
        let found = kept.iter().find(|kept| kept.is_for(workspace, member))?;
        let is_current = found.origin.is_of(sources, now);
        is_current.then(|| (Arc::clone(&found.dashboard), found.origin.during.end))
    }

    /// Keeps the summary for a member that follows from these entries until it changes by itself.
    pub(super) fn keep(
        &self,
        member: MemberId,
        sources: Sources<'_>,
        during: Range<Timestamp>,
        dashboard: &Arc<Dashboard>,
    ) {
        let origin = Origin::new(sources, during);
        let workspace = sources.workspace.id;
        let mut kept = self.kept();
        let earlier = kept.iter().position(|kept| kept.is_for(workspace, member));
        match earlier {
            Some(index) => drop(kept.remove(index)),
            None if kept.len() == KEPT_MAX => drop(kept.pop_front()),
            None => {}
        }
        kept.push_back(Kept {
            workspace,
            member,
            origin,
            dashboard: Arc::clone(dashboard),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use futures::FutureExt as _;

    use super::*;
    use crate::access::{BuiltInRole, RoleRef};
    use crate::env::Env;
    use crate::service::{
        KnowledgeService, NewChat, NewMember, NewOrganization, NewOwner, NewRetention,
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
            run(self.service.dashboard(caller, self.workspace)).unwrap()
        }

        fn chat(&self) {
            let (service, place) = (&self.service, self.workspace);
            let chat = NewChat::builder().title("Tills").build();
            let chat = run(service.create_chat(&self.owner, place, &chat)).unwrap();
            let post = service.post_chat_message(&self.owner, place, chat.id, "Why?");
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
        let set = world
            .service
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
