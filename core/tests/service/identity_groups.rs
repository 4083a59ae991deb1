//! Tests of the teams and roles that the groups of an identity provider decide about.

use knowledge_core::access::{BaseRole, RoleRef};
use knowledge_core::model::{MemberId, WorkspaceAccess};
use knowledge_core::service::AuditAction;
use uuid::Uuid;

use crate::audit::entries;
use crate::make::{ADMIN, MEMBER, VIEWER, code, custom, new_access, new_member, problem, with};
use crate::world::World;

/// Returns the number of entries of an action.
async fn count(world: &World, action: AuditAction) -> usize {
    let entries = entries(world).await;
    entries
        .iter()
        .filter(|entry| entry.action == action)
        .count()
}

#[tokio::test]
async fn aligned_teams_leave_unmanaged_teams_alone() {
    let world = World::new().await;
    let (org, provisioning) = (world.org.id, world.service.provisioning());
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let new = with(new_member("grace", VIEWER), |new| {
        new.teams = names(&["chess", "support"]);
    });
    let ada = world.add(&new).await;
    let managed = names(&["platform", "support"]);
    for (granted, expected) in [
        (&["platform"][..], &["chess", "platform"][..]),
        (&["platform"], &["chess", "platform"]),
        (&["platform", "support"], &["chess", "platform", "support"]),
        (&["platform", "platform"], &["chess", "platform"]),
        (&["support", "support"], &["chess", "support"]),
        (&[], &["chess"]),
    ] {
        let granted = names(granted);
        let aligned = provisioning.align_teams(org, ada, &managed, &granted);
        aligned.await.unwrap();
        assert_eq!(world.read_member(ada).await.teams, expected);
    }
    // A sign-in that changes nothing records nothing.
    assert_eq!(count(&world, AuditAction::MemberUpdate).await, 5);
    let entries = entries(&world).await;
    let mut entries = entries.iter();
    let entry = entries.find(|entry| entry.action == AuditAction::MemberUpdate);
    assert_eq!(entry.unwrap().actor_id, None);

    let many: Vec<_> = (0..1_000).map(|number| format!("team-{number}")).collect();
    for (granted, expected) in [
        (names(&["Not A Team"]), "teams invalid_value"),
        (many, "teams too_large"),
    ] {
        let aligned = provisioning.align_teams(org, ada, &[], &granted).await;
        assert_eq!(problem(aligned), expected);
    }
    assert_eq!(world.read_member(ada).await.teams, ["chess"]);
    let nobody = MemberId(Uuid::nil());
    let aligned = provisioning.align_teams(org, nobody, &[], &managed).await;
    assert_eq!(code(aligned), "not_found");
}

#[tokio::test]
async fn aligned_role_replaces_managed_roles_only() {
    let world = World::new().await;
    let (org, provisioning) = (world.org.id, world.service.provisioning());
    let ada = world.member(VIEWER).await;
    let managed = [VIEWER, MEMBER];
    let align = async |granted| {
        let aligned = provisioning.align_role(org, ada, None, &managed, granted);
        aligned.await.unwrap();
        world.read_member(ada).await.role
    };
    assert_eq!(align(Some(MEMBER)).await, MEMBER);
    assert_eq!(align(None).await, MEMBER);
    assert_eq!(align(Some(VIEWER)).await, VIEWER);
    assert_eq!(count(&world, AuditAction::RoleAssign).await, 2);
    // An administrator by hand stays one, and an owner an owner.
    world.assign(ada, ADMIN).await.unwrap();
    assert_eq!(align(Some(MEMBER)).await, ADMIN);
    let owner = provisioning.align_role(org, world.owner_id, None, &managed, Some(VIEWER));
    owner.await.unwrap();
    assert_eq!(count(&world, AuditAction::RoleAssign).await, 3);
}

#[tokio::test]
async fn aligned_role_in_a_workspace_begins_and_ends() {
    let world = World::new().await;
    let (org, provisioning) = (world.org.id, world.service.provisioning());
    let ada = world.member(VIEWER).await;
    let here = world.workspace.id;
    let role = world.plain_role(BaseRole::Viewer).await;
    let role = custom(role.id);
    let align = async |granted: Option<RoleRef>| {
        let managed = [MEMBER, role];
        let aligned = provisioning.align_role(org, ada, Some(here), &managed, granted);
        aligned.await.unwrap();
        let held = provisioning.workspace_roles(org, ada).await.unwrap();
        held.into_iter().map(|(_, role)| role).collect::<Vec<_>>()
    };
    assert_eq!(align(None).await, []);
    assert_eq!(align(Some(MEMBER)).await, [MEMBER]);
    assert_eq!(align(Some(role)).await, [role]);
    assert_eq!(align(None).await, []);
    world.assign_in(ada, here, Some(ADMIN)).await.unwrap();
    assert_eq!(align(None).await, [ADMIN]);
    assert_eq!(align(Some(MEMBER)).await, [ADMIN]);
}

/// Groups decide who is one of the people of a private workspace.
#[tokio::test]
async fn aligned_role_opens_a_private_workspace() {
    let world = World::new().await;
    let (org, provisioning) = (world.org.id, world.service.provisioning());
    let ada = world.member(VIEWER).await;
    let here = world.workspace.id;
    let private = new_access(WorkspaceAccess::Private);
    world.set_access(&private).await.unwrap();
    let caller = world.trusted(ada);
    for granted in [None, Some(MEMBER), None] {
        let aligned = provisioning.align_role(org, ada, Some(here), &[MEMBER], granted);
        aligned.await.unwrap();
        let found = world.by(&caller).get_workspace().await;
        assert_eq!(found.is_ok(), granted.is_some(), "{found:?}");
    }
}

#[tokio::test]
async fn sealed_text_opens_for_its_purpose_only() {
    let world = World::new().await;
    let (purpose, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let sealed = world.service.seal_text("state", purpose);
    assert!(!sealed.contains("state"));
    let open = |sealed: &str, purpose| world.service.open_text(sealed, purpose);
    assert_eq!(open(&sealed, purpose).as_deref(), Some("state"));
    assert_eq!(open(&sealed, other), None);
    assert_eq!(open(&sealed[1..], purpose), None);
    assert_eq!(open("", purpose), None);
}
