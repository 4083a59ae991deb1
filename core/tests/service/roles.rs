//! Tests of custom roles: create, list, read and update.

use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, BaseRole};
use knowledge_core::internals::keys;
use knowledge_core::model::{
    CustomRole, CustomRoleUpdate, NewCustomRole, RoleActions, RoleActionsUpdate, RoleId,
    WorkspaceId,
};
use knowledge_core::service::{AuditAction, Caller, DeleteRole, IfMatch};
use uuid::Uuid;

use crate::make::{ACME, HOUR, MEMBER, actions, code, new_role, problem};
use crate::world::World;
use knowledge_testing::requests::with;

pub(crate) const NONE: ActionSet = ActionSet::EMPTY;

pub(crate) async fn update(
    world: &World,
    role: RoleId,
    update: CustomRoleUpdate,
) -> Result<CustomRole, Error> {
    let updated = world.update_role(role, &update, None).await;
    updated.map(|role| role.value)
}

pub(crate) fn active(is_active: bool) -> CustomRoleUpdate {
    CustomRoleUpdate::builder().is_active(is_active).build()
}

pub(crate) fn with_actions(allow: ActionSet, deny: ActionSet) -> CustomRoleUpdate {
    CustomRoleUpdate::builder()
        .actions(RoleActions { allow, deny }.into())
        .build()
}

#[tokio::test]
async fn role_is_created_as_requested() {
    let world = World::new().await;
    let new = NewCustomRole::builder()
        .name("Curator")
        .slug("curator")
        .base_role(BaseRole::Member)
        .description("Keeps things tidy.")
        .actions(RoleActions {
            allow: actions(&[Action::MemoryDelete]),
            deny: actions(&[Action::ChatWrite]),
        })
        .build();
    let made = world.create_role(&new).await.unwrap();
    assert_eq!((made.org_id, made.workspace_id), (world.org.id, None));
    assert_eq!((&*made.name, &*made.slug), ("Curator", "curator"));
    assert_eq!((made.base_role, made.actions), (new.base_role, new.actions));
    assert_eq!(made.description, new.description);
    assert!(made.is_active);
    assert_eq!(made.created_by, world.owner_id);
    assert_eq!(
        (made.created_at, made.updated_at),
        (world.time.now(), world.time.now())
    );
    let read = world.get_role(made.id).await.unwrap();
    assert_eq!(read.value, made);
    assert_eq!(code(world.get_role(RoleId(Uuid::nil())).await), "not_found");
}

#[tokio::test]
async fn role_reports_all_problems_at_once() {
    let world = World::new().await;
    let both = actions(&[Action::MemoryDelete]);
    let bad = with(new_role("bad"), |new| {
        new.name = " ".to_owned();
        new.slug = "No".to_owned();
        new.description = "x".repeat(1_025);
        new.actions = RoleActions {
            allow: both,
            deny: both,
        };
    });
    let made = world.create_role(&bad).await;
    let expected = "name too_small, slug invalid_value, description too_large, actions duplicate";
    assert_eq!(problem(made), expected);
    let role = world.role(BaseRole::Viewer, NONE, NONE).await;
    let change = CustomRoleUpdate::builder()
        .name(bad.name)
        .slug(bad.slug)
        .description(bad.description)
        .actions(bad.actions.into())
        .build();
    assert_eq!(problem(update(&world, role.id, change).await), expected);
    let elsewhere = with(new_role("elsewhere"), |new| {
        new.workspace_id = Some(WorkspaceId(Uuid::nil()));
    });
    let made = world.create_role(&elsewhere).await;
    assert_eq!(problem(made), "workspace_id not_found");
}

#[tokio::test]
async fn roles_are_listed_by_name_then_identifier() {
    let world = World::new().await;
    for (slug, name) in [("a", "Zeta"), ("b", "Alpha"), ("c", "Alpha"), ("d", "Mid")] {
        let new = with(new_role(slug), |new| new.name = name.to_owned());
        world.create_role(&new).await.unwrap();
    }
    let listed = world.list_roles().await.unwrap();
    let names: Vec<_> = listed
        .iter()
        .map(|role| (role.name.clone(), role.id))
        .collect();
    assert_eq!(listed.len(), 4);
    assert!(names.is_sorted());
}

#[tokio::test]
async fn roles_per_organization_are_limited() {
    let world = World::new().await;
    let create = async |number: u32| {
        let new = new_role(&format!("role-{number}"));
        world.create_role(&new).await
    };
    let first = create(0).await.unwrap();
    for number in 1..100 {
        create(number).await.unwrap();
    }
    assert_eq!(problem(create(100).await), "body limit_reached");
    let none = DeleteRole::default();
    world.delete_role(first.id, &none).await.unwrap();
    create(100).await.unwrap();
    let listed = world.list_roles().await.unwrap();
    assert_eq!(listed.len(), 100);
}

#[tokio::test]
async fn role_slug_is_unique_and_released() {
    let world = World::new().await;
    let create = async |slug: &str| world.create_role(&new_role(slug)).await;
    let slug = |slug: &str| CustomRoleUpdate::builder().slug(slug.to_owned()).build();
    let first = create("one").await.unwrap();
    assert_eq!(code(create("one").await), "slug_taken");
    let second = create("two").await.unwrap();
    assert_eq!(
        code(update(&world, second.id, slug("one")).await),
        "slug_taken"
    );
    update(&world, second.id, slug("two")).await.unwrap();
    // Renaming releases the old slug, and deletion the last one.
    update(&world, first.id, slug("uno")).await.unwrap();
    create("one").await.unwrap();
    let none = DeleteRole::default();
    world.delete_role(first.id, &none).await.unwrap();
    create("uno").await.unwrap();
}

#[tokio::test]
async fn omitted_list_of_actions_is_unchanged() {
    let world = World::new().await;
    let (audit, read) = (
        actions(&[Action::AuditRead]),
        actions(&[Action::MemoryRead]),
    );
    let role = world.role(BaseRole::Viewer, audit, read).await;
    let lists = |allow, deny| {
        CustomRoleUpdate::builder()
            .actions(
                RoleActionsUpdate::builder()
                    .maybe_allow(allow)
                    .maybe_deny(deny)
                    .build(),
            )
            .build()
    };
    let updated = update(&world, role.id, lists(Some(NONE), None))
        .await
        .unwrap();
    assert_eq!(
        updated.actions,
        RoleActions {
            allow: NONE,
            deny: read
        }
    );
    let updated = update(&world, role.id, lists(None, Some(audit)))
        .await
        .unwrap();
    assert_eq!(
        updated.actions,
        RoleActions {
            allow: NONE,
            deny: audit
        }
    );
    // The unchanged list is validated together with the new one.
    let refused = update(&world, role.id, lists(Some(audit), None)).await;
    assert_eq!(problem(refused), "actions duplicate");
}

#[tokio::test]
async fn role_update_changes_only_named_fields() {
    let world = World::new().await;
    let role = world.role(BaseRole::Viewer, NONE, NONE).await;
    world.time.pass(HOUR);
    let change = with(with_actions(actions(&[Action::AuditRead]), NONE), |new| {
        new.name = Some("Other".to_owned());
        new.base_role = Some(BaseRole::Member);
        new.description = Some("Why.".to_owned());
    });
    let updated = update(&world, role.id, change).await.unwrap();
    let expected = CustomRole {
        name: "Other".to_owned(),
        base_role: BaseRole::Member,
        description: "Why.".to_owned(),
        actions: RoleActions {
            allow: actions(&[Action::AuditRead]),
            deny: NONE,
        },
        updated_at: world.time.now(),
        ..role.clone()
    };
    assert_eq!(updated, expected);
    assert_eq!(
        code(update(&world, RoleId(Uuid::nil()), active(true)).await),
        "not_found"
    );
}

#[tokio::test]
async fn role_update_without_change_writes_nothing() {
    let world = World::new().await;
    let role = world.role(BaseRole::Viewer, NONE, NONE).await;
    let contents = world.contents().await;
    world.time.pass(HOUR);
    for same in [CustomRoleUpdate::default(), active(true)] {
        assert_eq!(update(&world, role.id, same).await.unwrap(), role);
    }
    assert_eq!(world.contents().await, contents);
}

#[tokio::test]
async fn role_update_can_require_a_version() {
    let world = World::new().await;
    let role = world.role(BaseRole::Viewer, NONE, NONE).await;
    let known = world.get_role(role.id).await.unwrap().etag;
    assert!(
        known.starts_with('"') && known.ends_with('"'),
        "a strong tag"
    );
    let when = async |condition: &IfMatch, description: &str| {
        let change = CustomRoleUpdate::builder()
            .description(description.to_owned())
            .build();
        world.update_role(role.id, &change, Some(condition)).await
    };
    let of = |tags: &[&str]| IfMatch::Tags(tags.iter().map(|tag| (*tag).to_owned()).collect());
    let updated = when(&of(&["\"other\"", &known]), "1").await.unwrap();
    assert_ne!(updated.etag, known);
    assert_eq!(code(when(&of(&[&known]), "2").await), "precondition_failed");
    let weak = format!("W/{}", updated.etag);
    assert_eq!(
        code(when(&of(&[&weak]), "2").await),
        "precondition_failed",
        "compared strongly"
    );
    assert_eq!(
        code(when(&of(&[&known]), "1").await),
        "precondition_failed",
        "also for no change"
    );
    when(&IfMatch::Any, "2").await.unwrap();
    let read = world.get_role(role.id).await.unwrap();
    assert_eq!(read.value.description, "2");
    assert_ne!(read.etag, updated.etag);
}

#[tokio::test]
async fn roles_are_managed_by_session_in_own_organization() {
    let world = World::new().await;
    let list = async |caller: &Caller, org: &str| {
        world.by(caller).in_org(org).list_roles().await.map(|_| ())
    };
    let member = world.member(MEMBER).await;
    let session = Caller::from(world.session(member).await.secret);
    let token = world.token(member, Default::default()).await.secret.into();
    list(&session, ACME).await.unwrap();
    assert_eq!(code(list(&token, ACME).await), "unauthenticated");
    assert_eq!(code(list(&session, "evil").await), "not_found");
    let create = world.by(&session).create_role(&new_role("x")).await;
    assert_eq!(code(create), "forbidden");
}

#[tokio::test]
async fn role_update_is_audited_with_before_and_after() {
    let world = World::new().await;
    let role = world.role(BaseRole::Viewer, NONE, NONE).await;
    update(&world, role.id, active(false)).await.unwrap();
    let entries = crate::audit::entries(&world).await;
    let entry = entries
        .iter()
        .find(|entry| entry.action == AuditAction::RoleUpdate)
        .unwrap();
    assert_eq!(entry.resource.id, role.id.0);
    assert_eq!(entry.before.as_ref().unwrap()["is_active"], true);
    assert_eq!(entry.after.as_ref().unwrap()["is_active"], false);
    assert_eq!(world.counter(keys::role_count(world.org.id)).await, 1);
}
