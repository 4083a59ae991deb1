//! Tests of members: list, read, add and update, and the limits on granting roles.

use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, BaseRole, RoleRef};
use knowledge_core::model::{MemberId, RoleId};
use knowledge_core::service::{
    AddedMember, AuditAction, Caller, DeleteRole, IfMatch, MemberAssignment, MemberDetails,
    MemberUpdate, NewMember, PageRequest, WithEtag, WorkspaceRole,
};
use uuid::Uuid;

use crate::audit::{entries, entry_of};
use crate::make::{ADMIN, MEMBER, OWNER, VIEWER, actions, code, custom, new_member, problem};
use crate::world::World;
use knowledge_testing::requests::with;

const NONE: ActionSet = ActionSet::EMPTY;

async fn add(
    world: &World,
    caller: &Caller,
    new: &NewMember,
) -> Result<WithEtag<AddedMember>, Error> {
    world.by(caller).add_member(new).await
}

async fn update(
    world: &World,
    caller: &Caller,
    member: MemberId,
    update: MemberUpdate,
) -> Result<MemberDetails, Error> {
    let updated = world.by(caller).update_member(member, &update, None);
    Ok(updated.await?.value)
}

fn role(role: RoleRef) -> MemberUpdate {
    MemberUpdate::builder().role(role).build()
}

fn teams(teams: &[&str]) -> MemberUpdate {
    MemberUpdate::builder()
        .teams(teams.iter().map(|team| (*team).to_owned()).collect())
        .build()
}

/// Creates a member with the actions of a viewer and `member:manage`.
async fn keeper(world: &World) -> Caller {
    let role = world
        .role(BaseRole::Viewer, actions(&[Action::MemberManage]), NONE)
        .await;
    world.caller(custom(role.id)).await
}

async fn assert_whole(world: &World) {
    world.assert_holders_are_right().await;
    let differences = world.service.verify().await.unwrap().differences;
    assert!(differences.is_empty(), "{differences:?}");
}

#[tokio::test]
async fn member_list_shows_current_roles() {
    let world = World::new().await;
    let old = world.role(BaseRole::Viewer, NONE, NONE).await.id;
    let member = world.member(custom(old)).await;
    world
        .assign_in(member, world.workspace.id, Some(custom(old)))
        .await
        .unwrap();
    let to = DeleteRole::builder().reassign_to(MEMBER).build();
    world.delete_role(old, &to).await.unwrap();
    // The records of the holders are not rewritten yet.
    let viewer = world.caller(VIEWER).await;
    let page = PageRequest::default();
    let listed = world.by(&viewer).list_members(&page).await;
    let listed = listed.unwrap().data;
    assert_eq!(listed.len(), 3);
    let shown = listed.iter().find(|found| found.id == member).unwrap();
    assert_eq!(shown.role, MEMBER);
    let read = world.by(&viewer).get_member(member).await.unwrap();
    assert_eq!(read.value.member, *shown);
    let workspace_id = world.workspace.id;
    let there = WorkspaceRole {
        workspace_id,
        role: MEMBER,
    };
    assert_eq!(read.value.workspace_roles, [there]);
    world.maintain().await;
    let settled = world.by(&viewer).get_member(member).await.unwrap();
    assert_eq!(settled, read, "settling shows to nobody");

    // An earlier change of a holder leaves its index entry in place.
    assert_whole(&world).await;
}

#[tokio::test]
async fn member_with_deleted_role_can_be_updated_before_reassignment() {
    let world = World::new().await;
    let old = world.role(BaseRole::Viewer, NONE, NONE).await.id;
    let (first, second) = (
        world.member(custom(old)).await,
        world.member(custom(old)).await,
    );
    let to = DeleteRole::builder().reassign_to(MEMBER).build();
    world.delete_role(old, &to).await.unwrap();
    let named = update(&world, &world.owner, first, teams(&["platform"])).await;
    assert_eq!(named.unwrap().member.role, MEMBER);
    let raised = update(&world, &world.owner, second, role(ADMIN)).await;
    assert_eq!(raised.unwrap().member.role, ADMIN);
    world.assert_holders_are_right().await;
    world.maintain().await;
    assert_whole(&world).await;
}

#[tokio::test]
async fn added_member_is_listed_and_counted() {
    let world = World::new().await;
    let new = with(new_member("bob", MEMBER), |new| {
        new.teams = vec!["platform".to_owned()];
    });
    let added = add(&world, &world.owner, &new).await.unwrap();
    let id = added.value.details.member.id;
    let read = world.get_member(id).await.unwrap();
    assert_eq!(read.etag, added.etag);
    assert_eq!(read.value, added.value.details);
    assert_eq!(code(add(&world, &world.owner, &new).await), "slug_taken");
    let checklist = world.dashboard().await.first_value_checklist;
    let invited = checklist
        .suggested
        .iter()
        .find(|step| step.step_id == "invite_teammate");
    assert!(invited.unwrap().completed);
    assert_whole(&world).await;
}

#[tokio::test]
async fn member_update_reports_all_problems_at_once() {
    let world = World::new().await;
    let bad = with(new_member("x", MEMBER), |new| {
        new.handle = "No Slug".to_owned();
        new.name = String::new();
        new.teams = vec!["fine".to_owned(), "Not Fine".to_owned()];
    });
    assert_eq!(
        problem(add(&world, &world.owner, &bad).await),
        "handle invalid_value, name too_small, teams[1] invalid_value"
    );
    let unknown = new_member("bob", custom(RoleId(Uuid::nil())));
    assert_eq!(
        problem(add(&world, &world.owner, &unknown).await),
        "role not_found"
    );
    let member = world.member(VIEWER).await;
    let nameless = with(teams(&["Not Fine"]), |new| new.name = Some(" ".to_owned()));
    assert_eq!(
        problem(update(&world, &world.owner, member, nameless).await),
        "name too_small, teams[0] invalid_value"
    );
}

#[tokio::test]
async fn member_cannot_grant_role_or_team_beyond_their_own() {
    let world = World::new().await;
    let keeper = keeper(&world).await;
    let member = world.member(VIEWER).await;
    add(&world, &keeper, &new_member("one", VIEWER))
        .await
        .unwrap();
    let above = add(&world, &keeper, &new_member("two", MEMBER)).await;
    assert_eq!(code(above), "forbidden");
    let raised = update(&world, &keeper, member, role(MEMBER)).await;
    assert_eq!(code(raised), "forbidden");

    // A team opens its memories, also to a member who would join it by such an update.
    let teamed = update(&world, &keeper, member, teams(&["finance"])).await;
    assert_eq!(code(teamed), "forbidden");
    let mut new = new_member("three", VIEWER);
    new.teams = vec!["finance".to_owned()];
    assert_eq!(code(add(&world, &keeper, &new).await), "forbidden");
    let admin = world.caller(ADMIN).await;
    update(&world, &admin, member, teams(&["finance", "sales"]))
        .await
        .unwrap();
    // Present teams may stay, but only those who may give one take it away.
    let same = update(&world, &keeper, member, teams(&["sales", "finance"])).await;
    assert_eq!(same.unwrap().member.teams, ["sales", "finance"]);
    let fewer = update(&world, &keeper, member, teams(&["sales"])).await;
    assert_eq!(code(fewer), "forbidden");
    let fewer = update(&world, &admin, member, teams(&["sales"])).await;
    assert_eq!(fewer.unwrap().member.teams, ["sales"]);
}

#[tokio::test]
async fn owner_is_changed_only_by_owners() {
    let world = World::new().await;
    let (admin, ada) = (world.caller(ADMIN).await, world.owner_id);
    let named = MemberUpdate::builder().name("Somebody").build();
    for change in [named, role(VIEWER), teams(&["platform"])] {
        assert_eq!(code(update(&world, &admin, ada, change).await), "forbidden");
    }
    let restrict = MemberAssignment::Workspace(world.workspace.id, Some(VIEWER));
    let assign =
        async |caller: &Caller, assignment| world.by(caller).assign_role(ada, assignment).await;
    assert_eq!(code(assign(&admin, restrict).await), "forbidden");
    assign(&world.owner, restrict).await.unwrap();
    let end = world.by(&admin).end_workspace_role(ada, world.workspace.id);
    assert_eq!(code(end.await), "forbidden");
    let made = add(&world, &admin, &new_member("eve", OWNER)).await;
    assert_eq!(code(made), "forbidden");
    let member = world.member(VIEWER).await;
    assert_eq!(
        code(update(&world, &admin, member, role(OWNER)).await),
        "forbidden"
    );

    // Owners may change each other while one remains; `member:manage` suffices for administrators.
    let last = update(&world, &world.owner, ada, role(ADMIN)).await;
    assert_eq!(problem(last), "role invalid_value");
    let second = world.member(OWNER).await;
    let stepped_down = update(&world, &world.trusted(second), ada, role(ADMIN)).await;
    assert_eq!(stepped_down.unwrap().member.role, ADMIN);
    update(&world, &admin, ada, role(VIEWER)).await.unwrap();
    assert_whole(&world).await;
}

#[tokio::test]
async fn member_update_is_audited_by_kind_of_change() {
    let world = World::new().await;
    let member = world.member(VIEWER).await;
    update(&world, &world.owner, member, MemberUpdate::default())
        .await
        .unwrap();
    update(&world, &world.owner, member, teams(&["platform"]))
        .await
        .unwrap();
    let updated = entry_of(&world, AuditAction::MemberUpdate).await;
    assert_eq!(updated.before.unwrap()["teams"], serde_json::json!([]));
    update(&world, &world.owner, member, role(MEMBER))
        .await
        .unwrap();
    let assigned = entry_of(&world, AuditAction::RoleAssign).await;
    assert_eq!(assigned.after.unwrap()["role"], "member");
    // An update of role and teams writes both audit entries.
    let both = with(teams(&["platform", "security"]), |new| {
        new.role = Some(VIEWER);
    });
    update(&world, &world.owner, member, both).await.unwrap();
    entry_of(&world, AuditAction::RoleAssign).await;
    let mut found = entries(&world).await;
    found.retain(|entry| entry.action == AuditAction::MemberUpdate);
    let given = found.iter().map(|entry| entry.after.as_ref().unwrap());
    let given = given.filter(|after| after["teams"] == serde_json::json!(["platform", "security"]));
    let roles: Vec<_> = given.map(|after| after["role"].clone()).collect();
    assert_eq!(roles, ["viewer"]);
}

#[tokio::test]
async fn member_update_can_require_a_version() {
    let world = World::new().await;
    let member = world.member(VIEWER).await;
    let tag = world.get_member(member).await.unwrap().etag;
    let change = async |name: &str, tag: &str| {
        let update = MemberUpdate::builder().name(name.to_owned()).build();
        let tags = IfMatch::Tags(vec![tag.to_owned()]);
        world.update_member(member, &update, Some(&tags)).await
    };
    let changed = change("One", &tag).await.unwrap();
    assert_eq!(code(change("Two", &tag).await), "precondition_failed");
    change("Two", &changed.etag).await.unwrap();
}

#[tokio::test]
async fn workspace_role_is_unassigned_once() {
    let world = World::new().await;
    let (member, workspace) = (world.member(VIEWER).await, world.workspace.id);
    world
        .assign_in(member, workspace, Some(MEMBER))
        .await
        .unwrap();
    let end = async || world.end_workspace_role(member, workspace).await;
    end().await.unwrap();
    assert_eq!(code(end().await), "not_found");
    assert_whole(&world).await;
}
