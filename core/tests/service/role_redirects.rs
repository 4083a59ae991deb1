//! Tests of the redirects that deleted roles leave until their holders are rewritten.

use knowledge_core::access::{ActionSet, BaseRole};
use knowledge_core::service::MemberAssignment;
use knowledge_store::faults::FaultPlan;

use crate::make::{MEMBER, VIEWER, custom};
use crate::role_deletion::{delete, may_write, redirects, two_roles};
use crate::world::World;

const NONE: ActionSet = ActionSet::EMPTY;

/// Repeated deletions before any reassignment lock no member out, and maintenance still ends.
#[tokio::test]
async fn deletion_that_makes_the_chain_too_long_is_rejected() {
    let world = World::new().await;
    let mut role = world.role(BaseRole::Member, NONE, NONE).await.id;
    let member = world.member(custom(role)).await;
    let mut deleted = 0;
    let refused = loop {
        let next = world.role(BaseRole::Member, NONE, NONE).await.id;
        match delete(&world, role, Some(custom(next))).await {
            Ok(()) => deleted += 1,
            Err(error) => break error,
        }
        assert!(deleted < 1_000, "it has to end");
        role = next;
    };
    assert_eq!(refused.code(), "conflict");
    assert_eq!(deleted, 64);
    assert!(may_write(&world, member).await);
    world.assert_holders_are_right().await;
    world.maintain().await;
    assert_eq!(redirects(&world).await, 0);
    delete(&world, role, Some(VIEWER)).await.unwrap();
    assert!(!may_write(&world, member).await);
    let reassigned = MemberAssignment::Organization(MEMBER);
    world.assign_role(member, reassigned).await.unwrap();
    world.maintain().await;
    world.assert_holders_are_right().await;
}

#[tokio::test]
async fn deletion_of_unheld_role_removes_redirects_to_it() {
    let world = World::new().await;
    let (writer, auditor) = two_roles(&world).await;
    let (last, _) = two_roles(&world).await;
    let member = world.member(VIEWER).await;
    let place = world.workspace.id;
    let assigned = world.assign_in(member, place, Some(custom(writer))).await;
    assigned.unwrap();
    delete(&world, writer, Some(custom(auditor))).await.unwrap();
    delete(&world, auditor, Some(custom(last))).await.unwrap();
    assert_eq!(redirects(&world).await, 2);
    world.assign_in(member, place, None).await.unwrap();
    delete(&world, last, None).await.unwrap();
    assert_eq!(redirects(&world).await, 0);
    world.assert_whole().await;
}

#[tokio::test]
async fn deletion_of_unheld_role_leaves_no_redirect() {
    let world = World::new().await;
    let (role, target) = two_roles(&world).await;
    delete(&world, role, Some(custom(target))).await.unwrap();
    assert_eq!(redirects(&world).await, 0);
    world.assert_whole().await;
}

/// Concurrent deletions may leave more redirects than one deletion alone allows.
#[tokio::test]
async fn deletion_removes_redirects_beyond_their_limit() {
    let world = World::new().await;
    let mut roles = Vec::new();
    for _ in 0..65 {
        let role = world.role(BaseRole::Viewer, NONE, NONE).await.id;
        roles.push((role, world.member(custom(role)).await));
    }
    let (target, _) = two_roles(&world).await;
    roles.sort();
    let (last, holder) = roles.pop().unwrap();
    let (other_last, _) = roles.pop().unwrap();
    for (role, _) in roles {
        delete(&world, role, Some(MEMBER)).await.unwrap();
    }
    let other = world.served_with(FaultPlan::none()).await;
    world.probe.before_commit(async move {
        delete(&other, other_last, Some(MEMBER)).await.unwrap();
    });
    delete(&world, last, Some(custom(target))).await.unwrap();
    assert_eq!(redirects(&world).await, 65);
    world.assign(holder, VIEWER).await.unwrap();
    delete(&world, target, None).await.unwrap();
    assert_eq!(redirects(&world).await, 64);
    world.assert_whole().await;
    world.maintain().await;
    assert_eq!(redirects(&world).await, 0);
    world.assert_whole().await;
}
