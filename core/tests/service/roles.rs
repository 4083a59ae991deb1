//! Tests of custom roles: create, list, read and update, and the actions that they grant.

use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, BaseRole, Credential};
use knowledge_core::internals::keys;
use knowledge_core::model::{
    CustomRole, CustomRoleUpdate, NewCustomRole, RoleActions, RoleActionsUpdate, RoleId,
    WorkspaceId,
};
use knowledge_core::service::{AuditAction, DeleteRole, IfMatch};
use uuid::Uuid;

use crate::make::{ACME, HOUR, MEMBER, actions, code, custom, new_role, problem};
use crate::world::World;

const NONE: ActionSet = ActionSet::EMPTY;

async fn update(
    world: &World,
    role: RoleId,
    update: CustomRoleUpdate,
) -> Result<CustomRole, Error> {
    let updated = world
        .service
        .update_custom_role(&world.owner, ACME, role, &update, None)
        .await;
    updated.map(|role| role.value)
}

/// Creates a caller who manages roles and otherwise only has the actions of a viewer.
async fn manager(world: &World, extra: &[Action]) -> Credential {
    let allow = actions(&[Action::RoleManage, Action::MemberManage]) | actions(extra);
    let role = world.role(BaseRole::Viewer, allow, NONE).await;
    world.caller(custom(role.id)).await
}

fn active(is_active: bool) -> CustomRoleUpdate {
    CustomRoleUpdate {
        is_active: Some(is_active),
        ..CustomRoleUpdate::default()
    }
}

fn with_actions(allow: ActionSet, deny: ActionSet) -> CustomRoleUpdate {
    CustomRoleUpdate {
        actions: Some(RoleActions { allow, deny }.into()),
        ..CustomRoleUpdate::default()
    }
}

#[tokio::test]
async fn role_is_created_as_requested() {
    let world = World::new().await;
    let new = NewCustomRole {
        name: "Curator".to_owned(),
        slug: "curator".to_owned(),
        base_role: BaseRole::Member,
        description: "Keeps things tidy.".to_owned(),
        workspace_id: None,
        actions: RoleActions {
            allow: actions(&[Action::MemoryDelete]),
            deny: actions(&[Action::ChatWrite]),
        },
    };
    let made = world
        .service
        .create_custom_role(&world.owner, ACME, &new)
        .await
        .unwrap();
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
    let read = world
        .service
        .custom_role(&world.owner, ACME, made.id)
        .await
        .unwrap();
    assert_eq!(read.value, made);
    let unknown = world
        .service
        .custom_role(&world.owner, ACME, RoleId(Uuid::nil()))
        .await;
    assert_eq!(code(unknown), "not_found");
}

#[tokio::test]
async fn role_reports_all_problems_at_once() {
    let world = World::new().await;
    let both = actions(&[Action::MemoryDelete]);
    let bad = NewCustomRole {
        name: " ".to_owned(),
        slug: "No".to_owned(),
        description: "x".repeat(1_025),
        actions: RoleActions {
            allow: both,
            deny: both,
        },
        ..new_role("bad")
    };
    let made = world
        .service
        .create_custom_role(&world.owner, ACME, &bad)
        .await;
    let expected = "name too_small, slug invalid_value, description too_large, actions duplicate";
    assert_eq!(problem(made), expected);
    let role = world.role(BaseRole::Viewer, NONE, NONE).await;
    let change = CustomRoleUpdate {
        name: Some(bad.name),
        slug: Some(bad.slug),
        description: Some(bad.description),
        actions: Some(bad.actions.into()),
        ..CustomRoleUpdate::default()
    };
    assert_eq!(problem(update(&world, role.id, change).await), expected);
    let elsewhere = NewCustomRole {
        workspace_id: Some(WorkspaceId(Uuid::nil())),
        ..new_role("elsewhere")
    };
    let made = world
        .service
        .create_custom_role(&world.owner, ACME, &elsewhere)
        .await;
    assert_eq!(problem(made), "workspace_id not_found");
}

#[tokio::test]
async fn roles_are_listed_by_name_then_identifier() {
    let world = World::new().await;
    for (slug, name) in [("a", "Zeta"), ("b", "Alpha"), ("c", "Alpha"), ("d", "Mid")] {
        let new = NewCustomRole {
            name: name.to_owned(),
            ..new_role(slug)
        };
        world
            .service
            .create_custom_role(&world.owner, ACME, &new)
            .await
            .unwrap();
    }
    let listed = world
        .service
        .list_custom_roles(&world.owner, ACME)
        .await
        .unwrap();
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
        world
            .service
            .create_custom_role(&world.owner, ACME, &new)
            .await
    };
    let first = create(0).await.unwrap();
    for number in 1..100 {
        create(number).await.unwrap();
    }
    assert_eq!(problem(create(100).await), "body limit_reached");
    let none = DeleteRole::default();
    world
        .service
        .delete_custom_role(&world.owner, ACME, first.id, &none)
        .await
        .unwrap();
    create(100).await.unwrap();
    let listed = world
        .service
        .list_custom_roles(&world.owner, ACME)
        .await
        .unwrap();
    assert_eq!(listed.len(), 100);
}

#[tokio::test]
async fn role_slug_is_unique_and_released() {
    let world = World::new().await;
    let create = async |slug: &str| {
        world
            .service
            .create_custom_role(&world.owner, ACME, &new_role(slug))
            .await
    };
    let slug = |slug: &str| CustomRoleUpdate {
        slug: Some(slug.to_owned()),
        ..CustomRoleUpdate::default()
    };
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
    world
        .service
        .delete_custom_role(&world.owner, ACME, first.id, &none)
        .await
        .unwrap();
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
    let lists = |allow, deny| CustomRoleUpdate {
        actions: Some(RoleActionsUpdate { allow, deny }),
        ..CustomRoleUpdate::default()
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
    let change = CustomRoleUpdate {
        name: Some("Other".to_owned()),
        base_role: Some(BaseRole::Member),
        description: Some("Why.".to_owned()),
        ..with_actions(actions(&[Action::AuditRead]), NONE)
    };
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
    let known = world
        .service
        .custom_role(&world.owner, ACME, role.id)
        .await
        .unwrap()
        .etag;
    assert!(
        known.starts_with('"') && known.ends_with('"'),
        "a strong tag"
    );
    let when = async |condition: &IfMatch, description: &str| {
        let change = CustomRoleUpdate {
            description: Some(description.to_owned()),
            ..CustomRoleUpdate::default()
        };
        let service = &world.service;
        service
            .update_custom_role(&world.owner, ACME, role.id, &change, Some(condition))
            .await
    };
    let of = |tags: &[&str]| IfMatch::Tags(tags.iter().map(|tag| (*tag).to_owned()).collect());
    let updated = when(&of(&["\"other\"", &known]), "1").await.unwrap();
    assert_ne!(updated.etag, known);
    let outdated = when(&of(&[&known]), "2").await;
    assert_eq!(code(outdated), "precondition_failed");
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
    let read = world
        .service
        .custom_role(&world.owner, ACME, role.id)
        .await
        .unwrap();
    assert_eq!(read.value.description, "2");
    assert_ne!(read.etag, updated.etag);
}

#[tokio::test]
async fn effective_actions_are_base_plus_allow_minus_deny() {
    let world = World::new().await;
    let role =
        |base, allow: &[Action], deny: &[Action]| world.role(base, actions(allow), actions(deny));
    let viewer = BaseRole::Viewer.actions();
    let member = BaseRole::Member.actions();
    let plain = role(BaseRole::Member, &[], &[]).await;
    assert_eq!(plain.effective_actions(), member);
    let wider = role(BaseRole::Viewer, &[Action::AuditRead], &[]).await;
    assert_eq!(
        wider.effective_actions(),
        viewer | actions(&[Action::AuditRead])
    );
    let narrower = role(BaseRole::Member, &[Action::AuditRead], &[Action::ChatWrite]).await;
    let expected = (member | actions(&[Action::AuditRead])) - actions(&[Action::ChatWrite]);
    assert_eq!(narrower.effective_actions(), expected);
    let inactive = update(&world, narrower.id, active(false)).await.unwrap();
    let expected = member - actions(&[Action::ChatWrite]);
    assert_eq!(inactive.effective_actions(), expected, "it still denies");
}

/// The computed actions are those enforced, from the next call on.
#[tokio::test]
async fn role_update_applies_to_its_holders_at_once() {
    let world = World::new().await;
    let role = world
        .role(BaseRole::Viewer, actions(&[Action::ChatWrite]), NONE)
        .await;
    let caller = world.caller(custom(role.id)).await;
    let chat = async || {
        world
            .service
            .create_chat(&caller, world.workspace.id, "Hi")
            .await
    };
    let dashboard = async || {
        let summary = world
            .service
            .dashboard_summary(&caller, world.workspace.id)
            .await;
        summary.map(|_| ())
    };
    chat().await.unwrap();
    update(&world, role.id, active(false)).await.unwrap();
    assert_eq!(code(chat().await), "forbidden");
    dashboard().await.unwrap();
    update(&world, role.id, active(true)).await.unwrap();
    chat().await.unwrap();
    let deny = actions(&[Action::DashboardRead]);
    update(&world, role.id, with_actions(NONE, deny))
        .await
        .unwrap();
    assert_eq!(
        code(dashboard().await),
        "forbidden",
        "denied although the base role has it"
    );
    assert_eq!(code(chat().await), "forbidden");
}

#[tokio::test]
async fn member_cannot_create_role_beyond_their_own() {
    let world = World::new().await;
    let manager = manager(&world, &[Action::AuditRead]).await;
    let create = async |slug: &str, base_role, allow: &[Action]| {
        let new = NewCustomRole {
            base_role,
            actions: RoleActions {
                allow: actions(allow),
                deny: NONE,
            },
            ..new_role(slug)
        };
        world.service.create_custom_role(&manager, ACME, &new).await
    };
    create("held", BaseRole::Viewer, &[Action::AuditRead])
        .await
        .unwrap();
    let refused = create("wide", BaseRole::Viewer, &[Action::MemoryDelete]).await;
    let Err(Error::Forbidden { reason }) = refused else {
        panic!("{refused:?}")
    };
    assert!(reason.ends_with("memory:delete"), "{reason}");
    assert_eq!(
        code(create("member", BaseRole::Member, &[]).await),
        "forbidden"
    );
}

#[tokio::test]
async fn member_cannot_extend_role_beyond_their_own() {
    let world = World::new().await;
    let manager = manager(&world, &[]).await;
    let role = world.role(BaseRole::Viewer, NONE, NONE).await;
    let update = async |change: CustomRoleUpdate| {
        let service = &world.service;
        service
            .update_custom_role(&manager, ACME, role.id, &change, None)
            .await
            .map(|_| ())
    };
    let delete = actions(&[Action::MemoryDelete]);
    assert_eq!(code(update(with_actions(delete, NONE)).await), "forbidden");
    let member = CustomRoleUpdate {
        base_role: Some(BaseRole::Member),
        ..CustomRoleUpdate::default()
    };
    assert_eq!(code(update(member).await), "forbidden");
    // An inactive role may get the wider list, but may not be activated with it.
    update(active(false)).await.unwrap();
    update(with_actions(delete, NONE)).await.unwrap();
    assert_eq!(code(update(active(true)).await), "forbidden");
    update(with_actions(actions(&[Action::MemberManage]), NONE))
        .await
        .unwrap();
    update(active(true)).await.unwrap();
}

#[tokio::test]
async fn roles_are_managed_by_session_in_own_organization() {
    let world = World::new().await;
    let list = async |caller: &Credential, org: &str| {
        world
            .service
            .list_custom_roles(caller, org)
            .await
            .map(|_| ())
    };
    let member = world.member(MEMBER).await;
    let session = Credential::from(world.session(member).await.secret);
    let token = world.token(member, Default::default()).await.secret.into();
    list(&session, ACME).await.unwrap();
    assert_eq!(code(list(&token, ACME).await), "unauthenticated");
    assert_eq!(code(list(&session, "evil").await), "not_found");
    let create = world
        .service
        .create_custom_role(&session, ACME, &new_role("x"))
        .await;
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
