//! Teams and roles of members, by their groups at the certified provider.

use std::collections::BTreeSet;

use knowledge_core::access::{BuiltInRole, RoleRef};
use knowledge_core::service::MemberAssignment;
use serde_json::json;

use crate::browser::{Browser, assert_refused};
use crate::provider::CertifiedProvider;
use crate::world::World;

const GROUPS: [&str; 6] = [
    "engineering = team:platform",
    "engineering = role:member",
    "support = team:support",
    "support = role:viewer@handbook",
    "leads = role:admin",
    "leads = role:member@handbook",
];

/// Starts a provider and a server that adds members by these groups.
async fn start(groups: &[&str]) -> (CertifiedProvider, World) {
    let provider = CertifiedProvider::start();
    let groups = groups.iter().map(|text| text.parse().expect(text));
    let world = World::new(&provider.issuer, |config| {
        config.create_members = true;
        config.groups = groups.collect();
    });
    let world = world.await;
    (provider, world)
}

fn teams(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn built_in(role: BuiltInRole) -> RoleRef {
    RoleRef::BuiltIn(role)
}

/// Signs a person with these groups in, and returns the role of its member in the organisation and
/// in the workspace.
async fn sign_in(
    (provider, world): (&mut CertifiedProvider, &World),
    account: &str,
    groups: &[&str],
) -> (RoleRef, Option<RoleRef>) {
    provider.set(
        account,
        &json!({ "name": "Grace Hopper", "groups": groups }),
    );
    let answer = Browser::new(world).sign_in(account).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let member = world.member(account).await.expect("the member");
    let provisioning = world.service.provisioning();
    let roles = provisioning.workspace_roles(world.org().id, member.id);
    let roles = roles.await.expect("a working store").into_iter();
    let mut here = roles.filter(|(workspace, _)| *workspace == world.org().main.id);
    (member.role, here.next().map(|(_, role)| role))
}

#[tokio::test]
async fn each_sign_in_brings_teams_and_roles_in_line() {
    let (mut provider, world) = start(&GROUPS).await;
    let here = (&mut provider, &world);
    let first = sign_in(here, "grace", &["engineering", "others"]).await;
    assert_eq!(first, (built_in(BuiltInRole::Member), None));
    assert_eq!(world.teams("grace").await, teams(&["platform"]));
    let grace = world.member("grace").await.expect("the member");
    assert_eq!(grace.name, "Grace Hopper");
    assert_eq!(world.changes().await, 0, "only the creation");

    // A team by hand remains; the others come and go.
    let provisioning = world.service.provisioning();
    let chess = ["chess".to_owned()];
    let added = provisioning.align_teams(world.org().id, grace.id, &[], &chess);
    added.await.expect("added");
    let here = (&mut provider, &world);
    let second = sign_in(here, "grace", &["support"]).await;
    let viewer = built_in(BuiltInRole::Viewer);
    assert_eq!(second, (viewer, Some(viewer)));
    assert_eq!(world.teams("grace").await, teams(&["chess", "support"]));
    // The team by hand, the teams, the role, and the role in the workspace.
    assert_eq!(world.changes().await, 4);

    // Of two roles in one place the first in the configuration counts.
    let here = (&mut provider, &world);
    let third = sign_in(here, "grace", &["leads", "support", "engineering"]).await;
    assert_eq!(third, (built_in(BuiltInRole::Member), Some(viewer)));
    let expected = teams(&["chess", "platform", "support"]);
    assert_eq!(world.teams("grace").await, expected);
    let changes = world.changes().await;
    let here = (&mut provider, &world);
    assert_eq!(
        sign_in(here, "grace", &["leads", "support", "engineering"]).await,
        third
    );
    assert_eq!(world.changes().await, changes, "nothing to bring in line");

    // A member who has lost every group is still one, with what was given by hand.
    let here = (&mut provider, &world);
    assert_eq!(sign_in(here, "grace", &[]).await, (viewer, None));
    assert_eq!(world.teams("grace").await, teams(&["chess"]));
}

#[tokio::test]
async fn roles_by_hand_are_left_alone() {
    let (mut provider, world) = start(&["engineering = role:member"]).await;
    let here = (&mut provider, &world);
    let owner = sign_in(here, "owner", &["engineering"]).await.0;
    assert_eq!(owner, built_in(BuiltInRole::Owner));
    let here = (&mut provider, &world);
    let admin = sign_in(here, "admin", &["engineering"]).await.0;
    assert_eq!(admin, built_in(BuiltInRole::Admin));
    let here = (&mut provider, &world);
    let viewer = sign_in(here, "viewer", &["engineering"]).await.0;
    assert_eq!(viewer, built_in(BuiltInRole::Member));
    // So is every role where no group decides about one.
    let (mut provider, world) = start(&["engineering = team:platform"]).await;
    let member = world.member("member").await.expect("the member");
    let provisioning = world.service.provisioning();
    let role = MemberAssignment::Workspace(world.org().main.id, Some(built_in(BuiltInRole::Admin)));
    let assigned = provisioning.assign_role(world.org().id, member.id, role);
    assigned.await.expect("assigned");
    let here = (&mut provider, &world);
    let roles = sign_in(here, "member", &["engineering"]).await;
    let expected = Some(built_in(BuiltInRole::Admin));
    assert_eq!(roles, (built_in(BuiltInRole::Member), expected));
}

#[tokio::test]
async fn people_without_a_known_group_are_not_added() {
    let (mut provider, world) = start(&GROUPS).await;
    for claims in [
        json!({}),
        json!({ "groups": [] }),
        json!({ "groups": ["others", "Engineering"] }),
    ] {
        provider.set("grace", &claims);
        assert_refused(&Browser::new(&world).sign_in("grace").await, 403);
        assert_eq!(world.member("grace").await, None, "{claims}");
    }
}

#[tokio::test]
async fn removed_member_is_not_added_again() {
    let (mut provider, world) = start(&GROUPS).await;
    let here = (&mut provider, &world);
    sign_in(here, "grace", &["engineering"]).await;
    let grace = world.member("grace").await.expect("the member");
    let provisioning = world.service.provisioning();
    let removed = provisioning.remove_member(world.org().id, grace.id).await;
    removed.expect("removed");
    assert_refused(&Browser::new(&world).sign_in("grace").await, 403);
    assert_eq!(world.member("grace").await, None);
}

#[tokio::test]
async fn missing_role_or_organization_is_reported_and_changes_nothing() {
    let (mut provider, world) =
        start(&["engineering = role:auditor", "engineering = team:a"]).await;
    let before = world.teams("viewer").await;
    provider.set("viewer", &json!({ "groups": ["engineering"] }));
    assert_refused(&Browser::new(&world).sign_in("viewer").await, 500);
    assert_eq!(world.teams("viewer").await, before);
    // Others are not concerned, nor is anybody by a workspace that is gone.
    provider.set("viewer", &json!({ "groups": [] }));
    assert_eq!(Browser::new(&world).sign_in("viewer").await.status, 303);
    let (mut provider, world) = start(&["engineering = role:member@gone"]).await;
    provider.set("viewer", &json!({ "groups": ["engineering"] }));
    assert_eq!(Browser::new(&world).sign_in("viewer").await.status, 303);
    let world = World::new(&provider.issuer, |config| {
        config.organization = Some("nobody".to_owned());
    });
    let world = world.await;
    assert_refused(&Browser::new(&world).sign_in("viewer").await, 500);
}
