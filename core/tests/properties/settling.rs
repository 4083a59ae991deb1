//! Test of a deleted role with more holders than one commit rewrites, and a crash at each moment.
//!
//! Nobody ever holds a role that does not exist, and each holder has exactly the permissions of the
//! new role.

use std::sync::Arc;

use knowledge_core::access::{Action, ActionSet, BuiltInRole, Credential, CredentialKind, RoleRef};
use knowledge_core::model::{NewCustomRole, Organization, RoleActions, RoleId};
use knowledge_core::service::{Caller, DeleteRole, KnowledgeService};
use knowledge_core::store::{MemoryStore, Store};
use knowledge_store::faults::{CommitFault, FaultPlan, FaultStore};
use knowledge_testing::requests::{new_member, new_organization, new_role, with};
use knowledge_testing::seed::Seed;
use knowledge_testing::simulation::{SimulatedTime, simulated_options};

use crate::copy;

/// Three batches of holders, the last one partly filled.
const HOLDERS: usize = 1_100;

fn role(slug: &str, allow: &[Action]) -> NewCustomRole {
    with(new_role(slug), |new| {
        new.actions = RoleActions {
            allow: ActionSet::of(allow),
            deny: ActionSet::EMPTY,
        };
    })
}

async fn open(store: Arc<dyn Store>, seed: u64) -> KnowledgeService {
    let env = SimulatedTime::new().env(seed);
    let options = with(simulated_options(), |options| {
        options.limits.members_per_org_max = 10_000;
    });
    KnowledgeService::open(store, env, options).await.unwrap()
}

/// Creates a store with a deleted role of many holders.
///
/// Its replacement was deleted in favour of a third role.
async fn deleted() -> (Arc<dyn Store>, Organization, RoleId) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let service = open(Arc::clone(&store), 1).await;
    let new = new_organization("acme", "olga");
    let seed = Seed::new(&service, &new).await.unwrap();
    let make = async |slug, allow| seed.role(&role(slug, allow)).await.unwrap().id;
    let first = make("first", &[Action::AuditRead]).await;
    let second = make("second", &[Action::MemoryCreate]).await;
    let third = make("third", &[Action::MemoryDelete]).await;
    for number in 0..HOLDERS {
        // Some hold the second role from the beginning.
        let role = if number % 10 == 0 { second } else { first };
        let new = new_member(&format!("m{number}"), RoleRef::Custom(role));
        seed.member(&new).await.unwrap();
    }
    for (from, to) in [(first, second), (second, third)] {
        let request = DeleteRole::builder()
            .reassign_to(RoleRef::Custom(to))
            .build();
        let deleted = service.roles().delete(&seed.owner, "acme", from, &request);
        deleted.await.unwrap();
    }
    (store, seed.org, third)
}

/// Asserts that all holders have the permissions of the third role, and that the counts agree.
async fn check(store: &Arc<dyn Store>, org: &Organization, context: &str) {
    let service = open(Arc::clone(store), 2).await;
    let verified = service.verify().await.unwrap();
    assert_eq!(verified.differences, [], "{context}");
    let members = service.provisioning().members(org.id).await.unwrap();
    assert_eq!(members.len(), HOLDERS + 1);
    for member in members
        .iter()
        .filter(|member| member.handle != "olga")
        .step_by(37)
    {
        let trusted = Caller::new(Credential::Trusted {
            org: org.id,
            member: member.id,
        });
        let caller = service.authenticate(&trusted, CredentialKind::Bearer).await;
        let actions = caller.unwrap().org_actions();
        let wanted = BuiltInRole::Viewer.actions() | ActionSet::of(&[Action::MemoryDelete]);
        assert_eq!(actions, wanted, "{context}: {}", member.handle);
    }
}

/// Runs maintenance until it is done or the store has crashed; returns true if it is done.
async fn settle(store: Arc<dyn Store>) -> bool {
    let service = open(store, 3).await;
    loop {
        match service.maintain(service.env().now()).await {
            Ok(done) if done.has_more => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}

#[tokio::test]
async fn crash_between_reassignment_batches_is_not_observable() {
    let (deleted, org, third) = deleted().await;
    check(&deleted, &org, "after the deletion").await;
    for fault in [
        CommitFault::Close,
        CommitFault::LostApplied,
        CommitFault::LostNotApplied,
    ] {
        for crash in 1.. {
            let store = copy(&*deleted).await;
            let plan = FaultPlan::none().at_commit(crash, fault);
            let is_done = settle(Arc::new(FaultStore::new(Arc::clone(&store), plan))).await;
            let context = format!("{fault:?} at commit {crash}");
            check(&store, &org, &context).await;
            assert!(settle(Arc::clone(&store)).await, "{context}");
            check(&store, &org, &context).await;
            let service = open(Arc::clone(&store), 4).await;
            let members = service.provisioning().members(org.id).await.unwrap();
            let held = members
                .iter()
                .filter(|member| member.role == RoleRef::Custom(third));
            assert_eq!(held.count(), HOLDERS, "{context}");
            if is_done {
                assert!(crash > 3, "maintenance takes more than three commits");
                break;
            }
        }
    }
}
