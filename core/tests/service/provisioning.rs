//! Tests of provisioning: the operator creates organisations, workspaces and members.

use knowledge_core::access::{BaseRole, CredentialKind};
use knowledge_core::model::{MemberKind, OrgId, RoleId};
use knowledge_core::service::PageRequest;
use uuid::Uuid;

use crate::make::{
    ACME, OWNER, VIEWER, code, custom, new_member, new_role, new_workspace, problem,
};
use crate::world::World;
use knowledge_testing::requests::{new_organization, with};

#[tokio::test]
async fn organization_is_found_by_its_slug() {
    let world = World::new().await;
    let provisioning = world.service.provisioning();
    assert_eq!(
        provisioning.organization(ACME).await.unwrap(),
        Some(world.org.clone())
    );
    for unknown in ["evil", "", "No Slug", &"x".repeat(10_000)] {
        assert_eq!(provisioning.organization(unknown).await.unwrap(), None);
    }
    let taken = provisioning
        .create_organization(&new_organization(ACME, "eve"))
        .await;
    assert_eq!(code(taken), "slug_taken");
    world.time.pass(crate::make::HOUR);
    let (second, _) = provisioning
        .create_organization(&new_organization("evil", "eve"))
        .await
        .unwrap();
    let listed = provisioning.organizations().await.unwrap();
    assert_eq!(listed, [world.org.clone(), second]);
}

#[tokio::test]
async fn organization_is_created_with_an_owner() {
    let world = World::new().await;
    let provisioning = world.service.provisioning();
    let bad = with(new_organization("No", "Bad Handle"), |new| {
        new.name = String::new();
    });
    let made = provisioning.create_organization(&bad).await;
    let expected = "slug invalid_value, name too_small, owner.handle invalid_value";
    assert_eq!(problem(made), expected);
    let members = provisioning.members(world.org.id).await.unwrap();
    assert_eq!(members.len(), 1);
    assert_eq!((members[0].id, members[0].role), (world.owner_id, OWNER));
}

#[tokio::test]
async fn workspace_audience_defaults_to_its_members() {
    let world = World::new().await;
    let provisioning = world.service.provisioning();
    let named = with(new_workspace("sales"), |new| {
        new.audience = Some("team:sales".parse().unwrap());
    });
    let sales = provisioning
        .create_workspace(world.org.id, &named)
        .await
        .unwrap();
    assert_eq!(sales.audience.to_string(), "team:sales");
    assert_eq!(world.workspace.audience.to_string(), "workspace:research");
    let taken = provisioning
        .create_workspace(world.org.id, &new_workspace("sales"))
        .await;
    assert_eq!(code(taken), "slug_taken");
    let unknown = OrgId(Uuid::nil());
    let made = provisioning
        .create_workspace(unknown, &new_workspace("sales"))
        .await;
    assert_eq!(code(made), "not_found");
    let bad = provisioning
        .create_workspace(world.org.id, &new_workspace("No"))
        .await;
    assert_eq!(problem(bad), "slug invalid_value");
    let listed = provisioning.workspaces(world.org.id).await.unwrap();
    assert_eq!(listed.len(), 2);
}

#[tokio::test]
async fn member_requires_unique_handle_and_valid_role() {
    let world = World::new().await;
    let provisioning = world.service.provisioning();
    let create = async |handle: &str, role| {
        provisioning
            .create_member(world.org.id, &new_member(handle, role))
            .await
    };
    create("bob", VIEWER).await.unwrap();
    assert_eq!(code(create("bob", VIEWER).await), "slug_taken");
    assert_eq!(
        problem(create("ann", custom(RoleId(Uuid::nil()))).await),
        "role not_found"
    );
    let local = with(new_role("local"), |new| {
        new.workspace_id = Some(world.workspace.id);
    });
    let local = world.create_role(&local).await.unwrap();
    assert_eq!(
        problem(create("ann", custom(local.id)).await),
        "role not_found"
    );
    let role = world.plain_role(BaseRole::Member).await;
    create("ann", custom(role.id)).await.unwrap();
    world.assert_holders_are_right().await;
    let unknown = provisioning
        .create_member(OrgId(Uuid::nil()), &new_member("x", VIEWER))
        .await;
    assert_eq!(code(unknown), "not_found");
}

#[tokio::test]
async fn member_teams_have_plain_names_and_are_limited() {
    let world = World::new().await;
    let provisioning = world.service.provisioning();
    let create = async |teams: Vec<String>| {
        let handle = world.name("m");
        let new = with(new_member(&handle, VIEWER), |new| {
            new.teams = teams;
            new.kind = MemberKind::ServiceAccount;
        });
        provisioning.create_member(world.org.id, &new).await
    };
    let longest = |count: usize| (0..count).map(|number| format!("{number:0>64}")).collect();
    create(longest(100)).await.unwrap();
    assert_eq!(problem(create(longest(2_000)).await), "teams too_large");
    let bad = vec!["core".to_owned(), "No Team".to_owned()];
    assert_eq!(problem(create(bad).await), "teams[1] invalid_value");
}

#[tokio::test]
async fn credentials_are_listed_without_secrets() {
    let world = World::new().await;
    let token = world.token(world.owner_id, Default::default()).await;
    let session = world.session(world.owner_id).await;
    let provisioning = world.service.provisioning();
    let listed = provisioning.credentials(world.org.id).await.unwrap();
    let mut issued = vec![token.record, session.record];
    issued.sort_by_key(|record| record.id);
    assert_eq!(listed, issued);
    let unknown = provisioning.revoke(OrgId(Uuid::nil()), listed[0].id).await;
    assert_eq!(code(unknown), "not_found", "of another organisation");
}

#[tokio::test]
async fn provisioning_lists_are_paginated() {
    let world = World::new().await;
    let provisioning = world.service.provisioning();
    for _ in 0..4 {
        world.member(VIEWER).await;
        world.token(world.owner_id, Default::default()).await;
        world.session(world.owner_id).await;
    }
    let org = world.org.id;
    let all = provisioning.members(org).await.unwrap();
    let mut found = Vec::new();
    let mut page = PageRequest::builder().limit(2).build();
    loop {
        let members = provisioning.list_members(org, &page).await.unwrap();
        assert!(members.data.len() <= 2);
        found.extend(members.data);
        page.cursor = members.next_cursor;
        if page.cursor.is_none() {
            break;
        }
    }
    assert_eq!((found.len(), &found), (5, &all));
    let kind = Some(CredentialKind::Session);
    let first = provisioning
        .list_credentials(org, kind, &page)
        .await
        .unwrap();
    page.cursor = first.next_cursor;
    let rest = provisioning
        .list_credentials(org, kind, &page)
        .await
        .unwrap();
    assert_eq!((first.data.len(), rest.data.len()), (2, 2));
    assert_eq!(rest.next_cursor, None);
    let sessions = first.data.iter().chain(&rest.data);
    assert!(
        sessions
            .clone()
            .all(|record| record.kind == CredentialKind::Session)
    );
    let other = provisioning.list_credentials(org, None, &page).await;
    assert_eq!(
        problem(other),
        "cursor invalid_value",
        "a cursor is of one list"
    );
    page.cursor = None;
    let orgs = provisioning.list_organizations(&page).await.unwrap();
    assert_eq!(orgs.data, std::slice::from_ref(&world.org));
    let workspaces = provisioning.list_workspaces(org, &page).await.unwrap();
    assert_eq!(workspaces.data, std::slice::from_ref(&world.workspace));
}
