//! Tests of members and their roles.

use knowledge_core::access::{Action, ActionSet, BaseRole, Credential, RoleRef};
use knowledge_core::model::{CustomRoleUpdate, MemberId, RoleId, WorkspaceId};
use knowledge_core::service::{Caller, MemberAssignment};
use knowledge_testing::seed::Seed;
use uuid::Uuid;

use crate::make::{
    ADMIN, MEMBER, OWNER, VIEWER, actions, code, custom, new_chat, new_role, problem,
};
use crate::world::World;
use knowledge_testing::requests::with;

const NONE: ActionSet = ActionSet::EMPTY;

async fn assign_as(
    world: &World,
    caller: &Caller,
    member: MemberId,
    assignment: MemberAssignment,
) -> Result<(), knowledge_core::Error> {
    world.by(caller).assign_role(member, assignment).await
}

#[tokio::test]
async fn assigned_role_applies_at_once() {
    let world = World::new().await;
    let member = world.member(VIEWER).await;
    let caller = world.trusted(member);
    let chat = async || world.by(&caller).create_chat(&new_chat("Hi")).await;
    assert_eq!(code(chat().await), "forbidden");
    world.assign(member, MEMBER).await.unwrap();
    chat().await.unwrap();
    world.assert_holders_are_right().await;
    let contents = world.contents().await;
    world.assign(member, MEMBER).await.unwrap();
    assert_eq!(
        world.contents().await,
        contents,
        "the same role again changes nothing"
    );
}

#[tokio::test]
async fn workspace_role_applies_only_in_its_workspace() {
    let world = World::new().await;
    let sales = world.workspace("sales").await;
    let member = world.member(VIEWER).await;
    let caller = world.trusted(member);
    let chat = async |workspace| {
        world
            .by(&caller)
            .within(workspace)
            .create_chat(&new_chat("Hi"))
            .await
    };
    world.assign_in(member, sales, Some(MEMBER)).await.unwrap();
    chat(sales).await.unwrap();
    assert_eq!(code(chat(world.workspace.id).await), "forbidden");
    world.assert_holders_are_right().await;
    world.assign_in(member, sales, None).await.unwrap();
    assert_eq!(code(chat(sales).await), "forbidden");
    world.assert_holders_are_right().await;
}

#[tokio::test]
async fn workspace_custom_role_cannot_be_assigned_elsewhere() {
    let world = World::new().await;
    let sales = world.workspace("sales").await;
    let new = with(new_role("seller"), |new| new.workspace_id = Some(sales));
    let role = Seed::role(&world, &new).await.unwrap();
    let (role, member) = (custom(role.id), world.member(VIEWER).await);
    assert_eq!(
        problem(world.assign(member, role).await),
        "role invalid_value"
    );
    let elsewhere = world
        .assign_in(member, world.workspace.id, Some(role))
        .await;
    assert_eq!(problem(elsewhere), "role invalid_value");
    world.assign_in(member, sales, Some(role)).await.unwrap();
    world.assert_holders_are_right().await;
}

#[tokio::test]
async fn assigned_role_must_exist_and_be_active() {
    let world = World::new().await;
    let member = world.member(VIEWER).await;
    let unknown = custom(RoleId(Uuid::nil()));
    assert_eq!(
        problem(world.assign(member, unknown).await),
        "role not_found"
    );
    let role = world.role(BaseRole::Member, NONE, NONE).await;
    let off = CustomRoleUpdate::builder().is_active(false).build();
    world.update_role(role.id, &off, None).await.unwrap();
    assert_eq!(
        problem(world.assign(member, custom(role.id)).await),
        "role invalid_value"
    );
    let owner = world
        .assign_in(member, world.workspace.id, Some(OWNER))
        .await;
    assert_eq!(
        problem(owner),
        "role invalid_value",
        "owners belong to the whole organisation"
    );
}

#[tokio::test]
async fn role_assignment_requires_existing_member_and_workspace() {
    let world = World::new().await;
    let nobody = MemberId(Uuid::nil());
    assert_eq!(code(world.assign(nobody, MEMBER).await), "not_found");
    let member = world.member(VIEWER).await;
    let nowhere = WorkspaceId(Uuid::nil());
    assert_eq!(
        code(world.assign_in(member, nowhere, Some(MEMBER)).await),
        "not_found"
    );
}

#[tokio::test]
async fn member_cannot_assign_role_beyond_their_own() {
    let world = World::new().await;
    let allow = actions(&[Action::MemberManage, Action::AuditRead]);
    let clerk_role = world.role(BaseRole::Viewer, allow, NONE).await;
    let clerk_id = world.member(custom(clerk_role.id)).await;
    let clerk = world.trusted(clerk_id);
    let wide = world
        .role(BaseRole::Viewer, actions(&[Action::MemoryDelete]), NONE)
        .await;
    let auditor = world
        .role(BaseRole::Viewer, actions(&[Action::AuditRead]), NONE)
        .await;
    let member = world.member(VIEWER).await;
    for (role, expected) in [
        (MEMBER, false),
        (ADMIN, false),
        (custom(wide.id), false),
        (custom(auditor.id), true),
        (VIEWER, true),
    ] {
        for assignment in [
            MemberAssignment::Organization(role),
            MemberAssignment::Workspace(world.workspace.id, Some(role)),
        ] {
            let assigned = assign_as(&world, &clerk, member, assignment).await;
            assert_eq!(assigned.is_ok(), expected, "{assignment:?}");
        }
    }
    let itself = MemberAssignment::Organization(ADMIN);
    assert_eq!(
        code(assign_as(&world, &clerk, clerk_id, itself).await),
        "forbidden"
    );
}

#[tokio::test]
async fn owner_role_is_changed_only_by_owners() {
    let world = World::new().await;
    let admin = world.caller(ADMIN).await;
    let member = world.member(MEMBER).await;
    let assign = async |caller: &Caller, member, role: RoleRef| {
        assign_as(&world, caller, member, MemberAssignment::Organization(role)).await
    };
    assert_eq!(code(assign(&admin, member, OWNER).await), "forbidden");
    assert_eq!(
        code(assign(&admin, world.owner_id, MEMBER).await),
        "forbidden"
    );
    assign(&admin, member, ADMIN).await.unwrap();
    assign(&world.owner, member, OWNER).await.unwrap();
    assert_eq!(code(assign(&admin, member, VIEWER).await), "forbidden");
    assign(&world.trusted(member), world.owner_id, MEMBER)
        .await
        .unwrap();
    world.assert_holders_are_right().await;
}

#[tokio::test]
async fn last_owner_cannot_be_demoted() {
    let world = World::new().await;
    let alone = world.assign(world.owner_id, ADMIN).await;
    assert_eq!(problem(alone), "role invalid_value");
    let second = world.member(OWNER).await;
    world.assign(world.owner_id, ADMIN).await.unwrap();
    let second = world.trusted(second);
    let demoted = MemberAssignment::Organization(VIEWER);
    let &Credential::Trusted { member, .. } = second.credential() else {
        unreachable!()
    };
    assert_eq!(
        problem(assign_as(&world, &second, member, demoted).await),
        "role invalid_value"
    );
}

/// Two owners demote each other at the same moment, and one of them remains owner.
#[tokio::test]
async fn concurrent_demotions_leave_an_owner() {
    let world = World::new().await;
    let second = world.member(OWNER).await;
    let other = world.served_with(Default::default()).await;
    let (first, second_caller) = (world.owner_id, world.trusted(second));
    world.probe.before_commit(async move {
        let demoted = MemberAssignment::Organization(MEMBER);
        assign_as(&other, &second_caller, first, demoted)
            .await
            .unwrap();
    });
    let refused = world.assign(second, MEMBER).await;
    assert_eq!(
        code(refused),
        "forbidden",
        "no owner any more, nor allowed to manage"
    );
    assert_eq!(world.read_member(second).await.role, OWNER);
    world.assert_holders_are_right().await;
}

#[tokio::test]
async fn role_assignment_requires_member_manage() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let assignment = MemberAssignment::Organization(VIEWER);
    let refused = assign_as(&world, &world.trusted(member), member, assignment).await;
    assert_eq!(code(refused), "forbidden");
}
