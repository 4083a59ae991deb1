//! Tests of the actions that custom roles grant, and of who may grant them.

use knowledge_core::Error;
use knowledge_core::access::{Action, BaseRole};
use knowledge_core::model::{CustomRoleUpdate, RoleActions};
use knowledge_core::service::Caller;

use crate::make::{actions, code, custom, new_chat, new_role};
use crate::roles::{NONE, active, update, with_actions};
use crate::world::World;
use knowledge_testing::requests::with;

/// Creates a caller who manages roles and otherwise only has the actions of a viewer.
async fn manager(world: &World, extra: &[Action]) -> Caller {
    let allow = actions(&[Action::RoleManage, Action::MemberManage]) | actions(extra);
    let role = world.role(BaseRole::Viewer, allow, NONE).await;
    world.caller(custom(role.id)).await
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
    let chat = async || world.by(&caller).create_chat(&new_chat("Hi")).await;
    let dashboard = async || {
        let summary = world.by(&caller).get_dashboard().await;
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
        let new = with(new_role(slug), |new| {
            new.base_role = base_role;
            new.actions = RoleActions {
                allow: actions(allow),
                deny: NONE,
            };
        });
        world.by(&manager).create_role(&new).await
    };
    create("held", BaseRole::Viewer, &[Action::AuditRead])
        .await
        .unwrap();
    let refused = create("wide", BaseRole::Viewer, &[Action::MemoryDelete]).await;
    let Err(Error::Forbidden { reason, .. }) = refused else {
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
        world
            .by(&manager)
            .update_role(role.id, &change, None)
            .await
            .map(|_| ())
    };
    let delete = actions(&[Action::MemoryDelete]);
    assert_eq!(code(update(with_actions(delete, NONE)).await), "forbidden");
    let member = CustomRoleUpdate::builder()
        .base_role(BaseRole::Member)
        .build();
    assert_eq!(code(update(member).await), "forbidden");
    // An inactive role may not get the wider list either.
    update(active(false)).await.unwrap();
    assert_eq!(code(update(with_actions(delete, NONE)).await), "forbidden");
    update(with_actions(actions(&[Action::MemberManage]), NONE))
        .await
        .unwrap();
    update(active(true)).await.unwrap();
}
