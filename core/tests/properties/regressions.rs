//! Examples that the property tests have found, each run against the model.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use knowledge_core::access::{ActionSet, BaseRole, BuiltInRole};
use knowledge_core::model::{NewCustomRole, RoleActions};
use knowledge_core::store::{Commit, Key, Store, TransactionError, transact};
use knowledge_store::faults::FaultRates;
use knowledge_testing::simulation::operations::{
    assign_role, create_custom_role, delete_custom_role, delete_workspace, end_workspace_role,
    maintain,
};
use knowledge_testing::simulation::{SimulatedTime, check_operations};
use knowledge_testing::strategies::{
    Actor, CastMember, CredentialUse, EntityRef, Op, RoleEntityRef,
};

use crate::memory;

const OLGA: Actor = Actor {
    is_second_org: false,
    member: CastMember::Olga,
    credential: CredentialUse::Usual,
};
const CLARA: Actor = Actor {
    member: CastMember::Clara,
    ..OLGA
};

fn person(member: CastMember) -> EntityRef {
    EntityRef::Own(member as u8)
}

fn role(slug: &str, allow: &[&str]) -> Op {
    let allow = allow.iter().map(|name| name.parse().unwrap());
    let new = NewCustomRole::builder()
        .name(slug.to_owned())
        .slug(slug.to_owned())
        .base_role(BaseRole::Viewer)
        .description(String::new())
        .actions(RoleActions {
            allow: allow.collect(),
            deny: ActionSet::EMPTY,
        })
        .build();
    create_custom_role(OLGA, new, None)
}

async fn check(ops: &[Op]) {
    let outcome = check_operations(memory().await, 1, FaultRates::default(), ops).await;
    if let Err(divergence) = outcome {
        panic!("{divergence}");
    }
}

/// The former holders lose a deleted role at once, before maintenance has rewritten their records.
#[tokio::test]
async fn deleted_role_cannot_be_assigned_to_its_former_holders() {
    let first_role = RoleEntityRef::Custom(EntityRef::Own(0));
    let deleted_role = RoleEntityRef::Custom(EntityRef::Unknown(0));
    let clara = person(CastMember::Clara);
    check(&[
        assign_role(OLGA, clara, first_role, Some(EntityRef::Own(0))),
        delete_custom_role(
            OLGA,
            EntityRef::Own(0),
            Some(RoleEntityRef::BuiltIn(BuiltInRole::Viewer)),
        ),
        assign_role(OLGA, clara, deleted_role, Some(EntityRef::Own(0))),
        maintain(),
        assign_role(OLGA, clara, deleted_role, Some(EntityRef::Own(0))),
    ])
    .await;
}

/// A role that was reassigned counts the holders in a removed workspace, until maintenance.
#[tokio::test]
async fn reassigned_role_counts_holders_in_removed_workspace() {
    let (first, second) = (EntityRef::Own(0), EntityRef::Own(1));
    let held = RoleEntityRef::Custom(first);
    let clara = person(CastMember::Clara);
    let target = RoleEntityRef::Custom(second);
    check(&[
        role("target", &[]),
        assign_role(OLGA, clara, held, Some(second)),
        delete_workspace(false),
        delete_custom_role(OLGA, first, Some(target)),
        delete_custom_role(OLGA, first, None),
        maintain(),
        delete_custom_role(OLGA, first, None),
    ])
    .await;
}

/// Unassigning a role in a workspace restores the one in the organisation.
///
/// An actor who may not grant the restored role may not do so.
#[tokio::test]
async fn unassigning_workspace_role_requires_right_to_grant_org_role() {
    let viewer = RoleEntityRef::BuiltIn(BuiltInRole::Viewer);
    let (adam, clara) = (person(CastMember::Adam), person(CastMember::Clara));
    check(&[
        role("doormen", &["member:manage"]),
        assign_role(OLGA, clara, RoleEntityRef::Custom(EntityRef::Own(1)), None),
        assign_role(OLGA, adam, viewer, Some(EntityRef::Own(0))),
        end_workspace_role(CLARA, adam, EntityRef::Own(0)),
        end_workspace_role(OLGA, adam, EntityRef::Own(0)),
    ])
    .await;
}

/// Stores a number under both keys in one commit.
async fn put_both(store: &Arc<dyn Store>, keys: &[Key; 2], number: u32) {
    let commit = keys.iter().fold(Commit::builder(), |commit, key| {
        commit.put(key.clone(), number.to_string())
    });
    store.commit(commit.build().unwrap()).await.unwrap();
}

/// Errors and results without a commit are based on one moment, as commits are.
///
/// A caller whose role changes between two reads does not get the result of the old role.
#[tokio::test]
async fn result_without_commit_is_based_on_one_moment() {
    let store: Arc<dyn Store> = memory().await;
    let env = SimulatedTime::new().env(1);
    let keys = ["a", "b"].map(|key| Key::new(key).unwrap());
    put_both(&store, &keys, 0).await;
    for refuses in [false, true] {
        let (store, keys) = (&store, &keys);
        let attempts = AtomicU32::new(0);
        let attempts = &attempts;
        let told: Result<(u32, u32), TransactionError> =
            transact(store, &env, |mut transaction| async move {
                let first = transaction.get::<u32>(&keys[0]).await?.unwrap();
                if attempts.fetch_add(1, Ordering::SeqCst) == 0 {
                    put_both(store, keys, first + 1).await;
                }
                let second = transaction.get::<u32>(&keys[1]).await?.unwrap();
                if refuses && first == second {
                    return Err(TransactionError::Contended);
                }
                Ok(transaction.done((first, second)))
            })
            .await;
        match told {
            Ok((first, second)) => assert!(!refuses && first == second, "{first} {second}"),
            Err(_) => assert!(refuses),
        }
        assert_eq!(attempts.load(Ordering::SeqCst), 2);
    }
}
