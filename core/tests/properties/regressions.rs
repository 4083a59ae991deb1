//! What the property tests have found, kept as examples. Each runs against the model as they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use knowledge_core::access::{ActionSet, BaseRole, BuiltInRole};
use knowledge_core::model::{NewCustomRole, RoleActions};
use knowledge_core::store::{Commit, Key, Store, TransactionError, transact};
use knowledge_store::faults::FaultRates;
use knowledge_testing::simulation::{SimulatedTime, check_operations};
use knowledge_testing::strategies::{By, CastMember, Op, Pick, RolePick, Through};

use crate::memory;

const OLGA: By = By {
    is_second_org: false,
    member: CastMember::Olga,
    through: Through::Usual,
};
const CLARA: By = By {
    member: CastMember::Clara,
    ..OLGA
};

fn person(member: CastMember) -> Pick {
    Pick::Own(member as u8)
}

fn role(slug: &str, allow: &[&str]) -> Op {
    let allow = allow.iter().map(|name| name.parse().unwrap());
    let new = NewCustomRole {
        name: slug.to_owned(),
        slug: slug.to_owned(),
        base_role: BaseRole::Viewer,
        description: String::new(),
        workspace_id: None,
        actions: RoleActions {
            allow: allow.collect(),
            deny: ActionSet::EMPTY,
        },
    };
    Op::CreateRole(OLGA, new, None)
}

async fn check(ops: &[Op]) {
    let outcome = check_operations(memory().await, 1, FaultRates::default(), ops).await;
    if let Err(divergence) = outcome {
        panic!("{divergence}");
    }
}

/// Whoever held a role that was deleted does not hold it any more, also before the background has rewritten that.
#[tokio::test]
async fn a_deleted_role_cannot_be_assigned_to_those_who_held_it() {
    let first_role = RolePick::Custom(Pick::Own(0));
    let deleted_role = RolePick::Custom(Pick::Unknown(0));
    let clara = person(CastMember::Clara);
    check(&[
        Op::AssignRole(OLGA, clara, first_role, Some(Pick::Own(0))),
        Op::DeleteRole(
            OLGA,
            Pick::Own(0),
            Some(RolePick::BuiltIn(BuiltInRole::Viewer)),
        ),
        Op::AssignRole(OLGA, clara, deleted_role, Some(Pick::Own(0))),
        Op::Maintain,
        Op::AssignRole(OLGA, clara, deleted_role, Some(Pick::Own(0))),
    ])
    .await;
}

/// Where a role in a workspace ends, the one in the organisation counts again: nobody can grant that either who does
/// not hold it.
#[tokio::test]
async fn ending_a_role_in_a_workspace_grants_the_one_in_the_organisation() {
    let viewer = RolePick::BuiltIn(BuiltInRole::Viewer);
    let (adam, clara) = (person(CastMember::Adam), person(CastMember::Clara));
    check(&[
        role("doormen", &["member:manage"]),
        Op::AssignRole(OLGA, clara, RolePick::Custom(Pick::Own(1)), None),
        Op::AssignRole(OLGA, adam, viewer, Some(Pick::Own(0))),
        Op::UnassignRole(CLARA, adam, Pick::Own(0)),
        Op::UnassignRole(OLGA, adam, Pick::Own(0)),
    ])
    .await;
}

/// Puts a number under both keys in one commit.
async fn put_both(store: &Arc<dyn Store>, keys: &[Key; 2], number: u32) {
    let commit = keys.iter().fold(Commit::builder(), |commit, key| {
        commit.put(key.clone(), number.to_string())
    });
    store.commit(commit.build().unwrap()).await.unwrap();
}

/// What is refused, or answered without a commit, was decided on what stood at one moment, as a commit is: a caller
/// whose role changes between two reads is not told what holders of the old one are told.
#[tokio::test]
async fn what_is_told_without_a_commit_rests_on_one_moment() {
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
                let first = transaction.read::<u32>(&keys[0]).await?.unwrap();
                if attempts.fetch_add(1, Ordering::SeqCst) == 0 {
                    put_both(store, keys, first + 1).await;
                }
                let second = transaction.read::<u32>(&keys[1]).await?.unwrap();
                if refuses && first == second {
                    return Err(TransactionError::Contended);
                }
                transaction.done((first, second))
            })
            .await;
        match told {
            Ok((first, second)) => assert!(!refuses && first == second, "{first} {second}"),
            Err(_) => assert!(refuses),
        }
        assert_eq!(attempts.load(Ordering::SeqCst), 2);
    }
}
