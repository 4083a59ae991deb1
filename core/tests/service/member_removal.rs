//! Tests of the removal of members, which takes effect at once.

use knowledge_core::Error;
use knowledge_core::access::{Action, BaseRole, CredentialKind, TokenScope};
use knowledge_core::internals::keys;
use knowledge_core::model::MemberId;
use knowledge_core::service::{AuditAction, Caller};
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::audit::{entries, entry_of};
use crate::make::{
    ADMIN, HOUR, MEMBER, MINUTE, OWNER, VIEWER, actions, code, custom, in_workspaces, new_mcp_key,
    new_member, new_organization, problem,
};
use crate::role_deletion::delete;
use crate::world::World;

async fn remove_as(world: &World, caller: &Caller, member: MemberId) -> Result<(), Error> {
    world.by(caller).remove_member(member).await
}

/// Asserts that of a removed member only the audit log, the tombstone and the handle are stored.
async fn assert_nothing_is_left(world: &World, member: MemberId) {
    let id = member.0.simple().to_string();
    let left: Vec<String> = world
        .contents()
        .await
        .into_iter()
        .filter(|(key, value)| {
            let value = String::from_utf8_lossy(value);
            key.to_string().contains(&id) || value.contains(&member.to_string())
        })
        .map(|(key, _)| key.to_string().split('/').next().unwrap().to_owned())
        .filter(|family| !family.starts_with("audit"))
        .collect();
    assert_eq!(left, ["former_member", "member_handle"], "{member}");
}

async fn assert_whole(world: &World) {
    let verified = world.service.verify().await.unwrap();
    assert_eq!(verified.differences, []);
    world.assert_holders_are_right().await;
}

/// Creates a member with a custom role in a workspace, an MCP key there, and this many tokens.
async fn busy_member(world: &World, tokens: usize) -> MemberId {
    let member = world.member(ADMIN).await;
    let caller = world.trusted(member);
    let key = new_mcp_key("workspace:research");
    world.by(&caller).create_mcp_key(&key).await.unwrap();
    let role = world.plain_role(BaseRole::Member).await;
    let assigned = world.assign_in(member, world.workspace.id, Some(custom(role.id)));
    assigned.await.unwrap();
    for _ in 0..tokens {
        world.token(member, TokenScope::default()).await;
    }
    member
}

#[tokio::test]
async fn removed_member_is_rejected_and_leaves_nothing() {
    let world = World::new().await;
    let member = busy_member(&world, 250).await;
    let token = world.token(member, TokenScope::default()).await.secret;
    let kept = world.token(world.owner_id, TokenScope::default()).await;
    let handle = world.read_member(member).await.handle;
    let users = world.counter(keys::member_count(world.org.id)).await;
    remove_as(&world, &world.owner, member).await.unwrap();
    let known = world
        .service
        .authenticate(&token.into(), CredentialKind::Bearer)
        .await;
    assert_eq!(code(known), "unauthenticated");
    assert_eq!(
        code(remove_as(&world, &world.owner, member).await),
        "not_found"
    );
    assert_whole(&world).await;
    world.maintain().await;
    assert_nothing_is_left(&world, member).await;
    assert_whole(&world).await;
    let provisioning = world.service.provisioning();
    let credentials = provisioning.credentials(world.org.id).await.unwrap();
    assert_eq!(credentials, [kept.record]);
    assert_eq!(
        world.counter(keys::member_count(world.org.id)).await,
        users - 1
    );
    let mcp_keys = keys::mcp_key_count(world.org.id, world.workspace.id);
    assert_eq!(world.counter(mcp_keys).await, 0);
    // Labels may still name the handle, so nobody else gets it.
    let again = new_member(&handle, VIEWER);
    let by_operator = provisioning.create_member(world.org.id, &again).await;
    assert_eq!(code(by_operator), "slug_taken");
    assert_eq!(code(world.add_member(&again).await), "slug_taken");
    assert_eq!(
        provisioning.member(world.org.id, &handle).await.unwrap(),
        None
    );
    let other = new_organization("other", &handle);
    provisioning.create_organization(&other).await.unwrap();
    assert_whole(&world).await;
}

/// Its credentials are found by a scan over those of its colleagues.
#[tokio::test]
async fn credentials_of_removed_member_are_deleted_in_steps() {
    let world = World::new().await;
    for _ in 0..450 {
        world.token(world.owner_id, TokenScope::default()).await;
    }
    let member = world.member(MEMBER).await;
    world.time.pass(MINUTE);
    let token = world.token(member, TokenScope::default()).await;
    // The scan, the records and some further reads.
    let step = 2 * 200 + 50;
    world.probe.take_reads();
    remove_as(&world, &world.owner, member).await.unwrap();
    assert!(world.probe.take_reads().count() < step);
    let place = keys::credential_id(world.org.id, token.record.id);
    assert!(world.read::<String>(&place).await.is_some(), "not yet");
    let secret = token.secret.into();
    let known = world
        .service
        .authenticate(&secret, CredentialKind::Bearer)
        .await;
    assert_eq!(code(known), "unauthenticated");
    let mut calls = 1;
    while world
        .service
        .maintain(world.time.now())
        .await
        .unwrap()
        .has_more
    {
        assert!(world.probe.take_reads().count() < step);
        assert_whole(&world).await;
        world.probe.take_reads();
        calls += 1;
    }
    assert_eq!(calls, 3);
    assert_nothing_is_left(&world, member).await;
    assert_whole(&world).await;
}

#[tokio::test]
async fn few_credentials_of_removed_member_are_deleted_before_maintenance() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let token = world.token(member, TokenScope::default()).await.record;
    remove_as(&world, &world.owner, member).await.unwrap();
    let place = keys::credential_id(world.org.id, token.id);
    assert_eq!(world.read::<String>(&place).await, None);
    assert_whole(&world).await;
}

/// A token that is scoped to several workspaces cannot be an MCP key, which has only one.
#[tokio::test]
async fn removal_does_not_look_for_mcp_key_of_wider_token() {
    let world = World::new().await;
    let scope = in_workspaces(&[world.workspace.id, world.workspace("sales").await]);
    let member = world.member(MEMBER).await;
    let revoked = world.token(member, scope.clone()).await.record.id;
    world.token(member, scope).await;
    world.probe.take_reads();
    let provisioning = world.service.provisioning();
    provisioning.revoke(world.org.id, revoked).await.unwrap();
    remove_as(&world, &world.owner, member).await.unwrap();
    assert!(!world.probe.take_reads().touch("mcp_key"));
    world.maintain().await;
    assert_nothing_is_left(&world, member).await;
}

#[tokio::test]
async fn member_removal_is_audited() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let before = world.read_member(member).await;
    remove_as(&world, &world.owner, member).await.unwrap();
    let entries = entries(&world).await;
    let mut removals = entries
        .iter()
        .filter(|entry| entry.action == AuditAction::MemberRemove);
    let (entry, further) = (removals.next().unwrap(), removals.next());
    assert!(further.is_none(), "{further:?}");
    assert_eq!(entry.actor_id, Some(world.owner_id));
    assert_eq!(entry.resource.id, member.0);
    assert_eq!(entry.before, Some(serde_json::to_value(&before).unwrap()));
    assert_eq!(entry.after, None);
}

#[tokio::test]
async fn member_removal_is_audited_with_the_role_that_replaced_a_deleted_one() {
    let world = World::new().await;
    let none = actions(&[]);
    let role = world.role(BaseRole::Member, none, none).await.id;
    let member = world.member(custom(role)).await;
    delete(&world, role, Some(VIEWER)).await.unwrap();
    remove_as(&world, &world.owner, member).await.unwrap();
    let entry = entry_of(&world, AuditAction::MemberRemove).await;
    assert_eq!(entry.before.unwrap()["role"], "viewer");
}

#[tokio::test]
async fn removal_interrupted_by_crash_is_completed_by_maintenance() {
    let world = World::new().await;
    let member = busy_member(&world, 3).await;
    // Commit 1 is the removal; the store closes at the first commit of the clean-up.
    let plan = FaultPlan::none().at_commit(2, CommitFault::Close);
    let crashed = world.served_with(plan).await;
    remove_as(&crashed, &crashed.owner, member).await.unwrap();
    let world = crashed.served_with(FaultPlan::none()).await;
    assert!(
        !world
            .service
            .provisioning()
            .credentials(world.org.id)
            .await
            .unwrap()
            .is_empty()
    );
    let verified = world.service.verify().await.unwrap();
    assert_eq!(verified.differences, [], "whole also in between");
    assert_eq!(
        code(world.by(&world.trusted(member)).get_dashboard().await),
        "unauthenticated"
    );
    world.maintain().await;
    assert_eq!(
        world
            .service
            .provisioning()
            .credentials(world.org.id)
            .await
            .unwrap(),
        []
    );
    assert_whole(&world).await;
}

/// Of an expired token, the credential may be purged before its place among those of the member.
#[tokio::test]
async fn removal_finds_expired_tokens_without_credentials() {
    let world = World::new().await;
    let member = busy_member(&world, 80).await;
    world.time.pass(HOUR);
    // The first commit purges a hundred of 160 records, in no particular order.
    let plan = FaultPlan::none().at_commit(2, CommitFault::Close);
    let crashed = world.served_with(plan).await;
    let now = crashed.time.now();
    crashed.service.maintain(now).await.unwrap_err();
    let world = crashed.served_with(FaultPlan::none()).await;
    remove_as(&world, &world.owner, member).await.unwrap();
    assert_whole(&world).await;
    world.maintain().await;
    assert_nothing_is_left(&world, member).await;
    assert_whole(&world).await;
}

#[tokio::test]
async fn last_owner_cannot_be_removed() {
    let world = World::new().await;
    let last = remove_as(&world, &world.owner, world.owner_id).await;
    assert_eq!(problem(last), "member invalid_value");
    let provisioning = world.service.provisioning();
    let last = provisioning
        .remove_member(world.org.id, world.owner_id)
        .await;
    assert_eq!(problem(last), "member invalid_value");
    let second = world.member(OWNER).await;
    let removed = provisioning
        .remove_member(world.org.id, world.owner_id)
        .await
        .unwrap();
    assert_eq!(removed.id, world.owner_id);
    let last = provisioning.remove_member(world.org.id, second).await;
    assert_eq!(problem(last), "member invalid_value");
    assert_whole(&world).await;
}

#[tokio::test]
async fn owners_who_remove_each_other_leave_one() {
    for _ in 0..20 {
        let world = World::new().await;
        let second = world.member(OWNER).await;
        let caller = world.trusted(second);
        let (one, other) = tokio::join!(
            remove_as(&world, &world.owner, second),
            remove_as(&world, &caller, world.owner_id)
        );
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        assert_whole(&world).await;
    }
}

#[tokio::test]
async fn owner_is_removed_only_by_owners() {
    let world = World::new().await;
    let owner = world.member(OWNER).await;
    let admin = world.caller(ADMIN).await;
    assert_eq!(code(remove_as(&world, &admin, owner).await), "forbidden");
    let member = world.member(VIEWER).await;
    remove_as(&world, &admin, member).await.unwrap();
    let narrow = world.caller_who_may(actions(&[Action::RoleManage])).await;
    assert_eq!(code(remove_as(&world, &narrow, owner).await), "forbidden");
    let elsewhere = world
        .by(&world.owner)
        .in_org("other")
        .remove_member(owner)
        .await;
    assert_eq!(code(elsewhere), "not_found");
}

#[tokio::test]
async fn operator_may_grant_any_role_but_must_leave_an_owner() {
    let world = World::new().await;
    let provisioning = world.service.provisioning();
    let member = world.member(VIEWER).await;
    let assign = async |member, role| {
        let assignment = knowledge_core::service::MemberAssignment::Organization(role);
        provisioning
            .assign_role(world.org.id, member, assignment)
            .await
    };
    assign(member, OWNER).await.unwrap();
    assign(world.owner_id, MEMBER).await.unwrap();
    assert_eq!(problem(assign(member, MEMBER).await), "role invalid_value");
    assert_eq!(
        code(assign(MemberId(uuid::Uuid::nil()), MEMBER).await),
        "not_found"
    );
    assert_whole(&world).await;
}
