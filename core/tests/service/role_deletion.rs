//! Tests of role deletion: atomic to callers, whatever the number of holders and crashes.

use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, BaseRole, RoleRef};
use knowledge_core::internals::keys;
use knowledge_core::model::{CustomRoleUpdate, MemberId, RoleId};
use knowledge_core::service::DeleteRole;
use knowledge_store::faults::{CommitFault, FaultPlan};
use uuid::Uuid;

use crate::make::{
    ADMIN, MEMBER, OWNER, VIEWER, actions, code, custom, new_chat, new_role, problem,
};
use crate::world::World;
use knowledge_testing::requests::with;

const NONE: ActionSet = ActionSet::EMPTY;

pub(crate) async fn delete(world: &World, role: RoleId, to: Option<RoleRef>) -> Result<(), Error> {
    let request = DeleteRole::builder().maybe_reassign_to(to).build();
    world.delete_role(role, &request).await
}

/// Creates a role that writes chats, and one that reads the audit log.
pub(crate) async fn two_roles(world: &World) -> (RoleId, RoleId) {
    let writer = world
        .role(BaseRole::Viewer, actions(&[Action::ChatWrite]), NONE)
        .await;
    let auditor = world
        .role(BaseRole::Viewer, actions(&[Action::AuditRead]), NONE)
        .await;
    (writer.id, auditor.id)
}

pub(crate) async fn may_write(world: &World, member: MemberId) -> bool {
    let caller = world.trusted(member);
    let chat = world.by(&caller).create_chat(&new_chat("Hi")).await;
    chat.is_ok()
}

async fn may_audit(world: &World, member: MemberId) -> bool {
    let unknown = knowledge_core::model::AuditLogId(Uuid::nil());
    let entry = world
        .by(&world.trusted(member))
        .get_audit_entry(unknown)
        .await;
    matches!(entry, Err(Error::NotFound { .. }))
}

async fn holders(world: &World, role: RoleRef) -> i64 {
    world.counter(keys::holder_count(world.org.id, role)).await
}

pub(crate) async fn redirects(world: &World) -> usize {
    let range = keys::role_redirects(world.org.id);
    let contents = world.contents().await;
    contents.keys().filter(|key| range.contains(key)).count()
}

#[tokio::test]
async fn role_without_holders_is_deleted() {
    let world = World::new().await;
    let before = world.contents().await;
    let (role, _) = two_roles(&world).await;
    delete(&world, role, None).await.unwrap();
    assert_eq!(code(delete(&world, role, None).await), "not_found");
    assert_eq!(world.list_roles().await.unwrap().len(), 1);
    assert_eq!(redirects(&world).await, 0);
    let after = world.contents().await;
    let left: Vec<_> = after
        .keys()
        .filter(|key| !before.contains_key(*key))
        .collect();
    let names = left.iter().map(|key| key.to_string());
    assert!(
        names
            .into_iter()
            .all(|name| !name.contains(&role.0.simple().to_string()))
    );
}

#[tokio::test]
async fn role_with_holders_requires_a_target() {
    let world = World::new().await;
    let (role, _) = two_roles(&world).await;
    for _ in 0..3 {
        world.member(custom(role)).await;
    }
    let refused = delete(&world, role, None).await;
    assert!(
        matches!(refused, Err(Error::RoleInUse { holder_count: 3 })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn reassign_target_must_be_active_role_of_whole_organization() {
    let world = World::new().await;
    let (role, inactive) = two_roles(&world).await;
    world.member(custom(role)).await;
    let local = with(new_role("local"), |new| {
        new.workspace_id = Some(world.workspace.id);
    });
    let local = world.create_role(&local).await.unwrap();
    let off = CustomRoleUpdate::builder().is_active(false).build();
    world.update_role(inactive, &off, None).await.unwrap();
    for (target, expected) in [
        (custom(role), "reassign_to invalid_value"),
        (custom(RoleId(Uuid::nil())), "reassign_to not_found"),
        (custom(inactive), "reassign_to invalid_value"),
        (custom(local.id), "reassign_to invalid_value"),
        (ADMIN, "reassign_to invalid_value"),
        (OWNER, "reassign_to invalid_value"),
    ] {
        assert_eq!(
            problem(delete(&world, role, Some(target)).await),
            expected,
            "{target}"
        );
    }
    // The request is validated although the role has no holders.
    let unused = delete(&world, local.id, Some(custom(local.id))).await;
    assert_eq!(problem(unused), "reassign_to invalid_value");
}

#[tokio::test]
async fn member_cannot_reassign_to_role_beyond_their_own() {
    let world = World::new().await;
    let manages = actions(&[Action::RoleManage, Action::ChatWrite]);
    let manager = world.role(BaseRole::Viewer, manages, NONE).await;
    let manager = world.caller(custom(manager.id)).await;
    let (role, wider) = two_roles(&world).await;
    world.member(custom(role)).await;
    for (target, expected) in [(custom(wider), false), (MEMBER, false), (VIEWER, true)] {
        let request = DeleteRole::builder().reassign_to(target).build();
        let deleted = world.by(&manager).delete_role(role, &request).await;
        assert_eq!(deleted.is_ok(), expected, "{target}");
    }
}

/// The switch applies at once; maintenance then rewrites the holders in bounded steps.
#[tokio::test]
async fn thousands_of_holders_are_reassigned_atomically() {
    const HOLDERS: usize = 2_100;
    let world = World::new().await;
    let (from, to) = two_roles(&world).await;
    let mut members = Vec::with_capacity(HOLDERS);
    for _ in 0..HOLDERS {
        members.push(world.member(custom(from)).await);
    }
    let workspace_holder = world.member(VIEWER).await;
    world
        .assign_in(workspace_holder, world.workspace.id, Some(custom(from)))
        .await
        .unwrap();
    world.member(custom(to)).await;
    let commits = world.faults.counts().commits;
    delete(&world, from, Some(custom(to))).await.unwrap();
    assert_eq!(world.faults.counts().commits, commits + 1);

    let (first, last) = (members[0], members[HOLDERS - 1]);
    for member in [first, last] {
        assert!(!may_write(&world, member).await && may_audit(&world, member).await);
    }
    assert!(!may_write(&world, workspace_holder).await);
    assert_eq!(holders(&world, custom(to)).await, HOLDERS as i64 + 2);
    world.assert_holders_are_right().await;
    // The slug is free for a new role, which has no holders.
    let again = world.role(BaseRole::Member, NONE, NONE).await;
    assert_eq!(holders(&world, custom(again.id)).await, 0);

    let mut rewritten = 0;
    loop {
        let before = world.faults.counts();
        let done = world.service.maintain(world.time.now()).await.unwrap();
        assert!(done.holders_rewritten <= 500, "a bounded part");
        let after = world.faults.counts();
        let ranges_read = after.ranges_read - before.ranges_read;
        let gets = after.reads - before.reads - ranges_read;
        assert!(gets < 10, "in few reads");
        rewritten += done.holders_rewritten;
        if !done.has_more {
            break;
        }
    }
    assert_eq!(rewritten, HOLDERS as u64 + 1);
    assert_eq!(redirects(&world).await, 0);
    assert_eq!(world.read_member(last).await.role, custom(to));
    assert!(!may_write(&world, last).await && may_audit(&world, last).await);
    world.assert_holders_are_right().await;
    assert_eq!(
        world
            .service
            .maintain(world.time.now())
            .await
            .unwrap()
            .holders_rewritten,
        0
    );
}

#[tokio::test]
async fn holders_of_built_in_target_are_counted() {
    let world = World::new().await;
    let (role, _) = two_roles(&world).await;
    let member = world.member(custom(role)).await;
    delete(&world, role, Some(MEMBER)).await.unwrap();
    assert!(may_write(&world, member).await);
    assert_eq!(holders(&world, MEMBER).await, 1);
    world.maintain().await;
    assert_eq!(world.read_member(member).await.role, MEMBER);
    world.assert_holders_are_right().await;
}

#[tokio::test]
async fn roles_deleted_during_reassignment_form_a_chain() {
    let world = World::new().await;
    let (a, b) = two_roles(&world).await;
    let c = world.role(BaseRole::Member, NONE, NONE).await.id;
    let first = world.member(custom(a)).await;
    let second = world.member(custom(b)).await;
    delete(&world, a, Some(custom(b))).await.unwrap();
    delete(&world, b, Some(custom(c))).await.unwrap();
    for member in [first, second] {
        assert!(may_write(&world, member).await && !may_audit(&world, member).await);
    }
    assert_eq!(holders(&world, custom(c)).await, 2);
    world.assert_holders_are_right().await;
    world.maintain().await;
    assert_eq!(redirects(&world).await, 0);
    for member in [first, second] {
        assert_eq!(world.read_member(member).await.role, custom(c));
    }
    world.assert_holders_are_right().await;
}

#[tokio::test]
async fn maintenance_call_reassigns_a_bounded_number_of_holders() {
    let world = World::new().await;
    let mut roles = Vec::new();
    for _ in 0..6 {
        let role = world.role(BaseRole::Member, NONE, NONE).await.id;
        world.member(custom(role)).await;
        roles.push(role);
    }
    for role in roles {
        delete(&world, role, Some(VIEWER)).await.unwrap();
    }
    let done = world.service.maintain(world.time.now()).await.unwrap();
    assert!(done.has_more && done.purged <= 4, "{done:?}");
    world.maintain().await;
    assert_eq!(redirects(&world).await, 0);
    world.assert_holders_are_right().await;
}

/// The target of a redirect also counts the holders that are still to be rewritten.
#[tokio::test]
async fn reassign_target_with_pending_holders_requires_a_target() {
    let world = World::new().await;
    let (a, b) = two_roles(&world).await;
    let member = world.member(custom(a)).await;
    delete(&world, a, Some(custom(b))).await.unwrap();
    let refused = delete(&world, b, None).await;
    assert!(
        matches!(refused, Err(Error::RoleInUse { holder_count: 1 })),
        "{refused:?}"
    );
    world.assign(member, VIEWER).await.unwrap();
    delete(&world, b, None).await.unwrap();
    world.maintain().await;
    assert_eq!(redirects(&world).await, 0);
    world.assert_holders_are_right().await;
}

#[tokio::test]
async fn role_assigned_during_reassignment_is_kept() {
    let world = World::new().await;
    let (from, to) = two_roles(&world).await;
    let mut members = Vec::new();
    for _ in 0..4 {
        members.push(world.member(custom(from)).await);
    }
    world
        .assign_in(members[3], world.workspace.id, Some(custom(from)))
        .await
        .unwrap();
    delete(&world, from, Some(custom(to))).await.unwrap();
    world.assign(members[0], MEMBER).await.unwrap();
    world.assign(members[1], custom(to)).await.unwrap();
    world
        .assign_in(members[3], world.workspace.id, None)
        .await
        .unwrap();
    world.assert_holders_are_right().await;
    assert_eq!(
        problem(world.assign(members[0], custom(from)).await),
        "role not_found"
    );
    world.maintain().await;
    let roles = [MEMBER, custom(to), custom(to), custom(to)];
    for (member, role) in members.into_iter().zip(roles) {
        assert_eq!(world.read_member(member).await.role, role);
    }
    world.assert_holders_are_right().await;
}

/// One of the concurrent operations is retried.
#[tokio::test]
async fn concurrent_assignment_and_deletion_are_serialized() {
    let world = World::new().await;
    let (from, to) = two_roles(&world).await;
    let member = world.member(VIEWER).await;
    let other = world.served_with(FaultPlan::none()).await;
    world
        .probe
        .before_commit(async move { delete(&other, from, None).await.unwrap() });
    assert_eq!(
        problem(world.assign(member, custom(from)).await),
        "role not_found"
    );

    let other = world.served_with(FaultPlan::none()).await;
    world
        .probe
        .before_commit(async move { other.assign(member, custom(to)).await.unwrap() });
    let refused = delete(&world, to, None).await;
    assert!(
        matches!(refused, Err(Error::RoleInUse { holder_count: 1 })),
        "{refused:?}"
    );
    world.assert_holders_are_right().await;
}

/// A caller is authenticated even if its record is read before the rewrite, and its role after it.
#[tokio::test]
async fn reassignment_between_two_reads_does_not_reject_caller() {
    let world = World::new().await;
    let (from, to) = two_roles(&world).await;
    let member = world.member(custom(from)).await;
    let other = world.served_with(FaultPlan::none()).await;
    let role = keys::role(world.org.id, from);
    world.probe.before_read(role, async move {
        delete(&other, from, Some(custom(to))).await.unwrap();
        other.maintain().await;
    });
    assert!(may_audit(&world, member).await);
    assert!(world.probe.has_happened());
}

/// Executes the deletions of the crash test: two roles into a third, with all kinds of holders.
async fn deletions(world: &World, (a, b, c): (RoleId, RoleId, RoleId)) -> Result<(), Error> {
    delete(world, a, Some(custom(b))).await?;
    delete(world, b, Some(custom(c))).await?;
    loop {
        let done = world.service.maintain(world.time.now()).await?;
        if !done.has_more {
            return Ok(());
        }
    }
}

#[tokio::test]
async fn crash_at_any_commit_preserves_invariants() {
    let original = World::new().await;
    let (a, b) = two_roles(&original).await;
    let c = original.role(BaseRole::Member, NONE, NONE).await.id;
    let mut members = Vec::new();
    for role in [a, a, a, b, b, c] {
        members.push(original.member(custom(role)).await);
    }
    original
        .assign_in(members[5], original.workspace.id, Some(custom(a)))
        .await
        .unwrap();

    let mut crashes = 0;
    for number in 1.. {
        let world = original
            .copy(FaultPlan::none().at_commit(number, CommitFault::Close))
            .await;
        let crashed = deletions(&world, (a, b, c)).await.is_err();
        // After the crash, another process serves the stored data.
        let world = world.served_with(FaultPlan::none()).await;
        world.assert_holders_are_right().await;
        let has_gone = |role: RoleId| {
            let key = keys::role(world.org.id, role);
            let world = &world;
            async move { world.read::<serde_json::Value>(&key).await.is_none() }
        };
        let writes = !has_gone(a).await || has_gone(b).await;
        assert_eq!(
            may_write(&world, members[0]).await,
            writes,
            "crash at commit {number}"
        );
        assert!(may_write(&world, members[5]).await == writes);
        // A repeated call finds the completed part and does the rest.
        for (role, to) in [(a, b), (b, c)] {
            match delete(&world, role, Some(custom(to))).await {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                // The first deletion was complete, so that its target is gone as well.
                Err(error) => panic!("{error}"),
            }
        }
        world.maintain().await;
        world.assert_holders_are_right().await;
        assert_eq!(redirects(&world).await, 0);
        for member in &members {
            assert_eq!(world.read_member(*member).await.role, custom(c));
        }
        if !crashed {
            break;
        }
        crashes += 1;
    }
    assert!(crashes >= 5, "{crashes} commits were made to fail");
}
