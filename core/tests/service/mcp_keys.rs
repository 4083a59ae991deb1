//! Tests of MCP keys: permissions, audience and validity.

use std::time::Duration;

use knowledge_core::access::{Action, CredentialKind, TokenScope};
use knowledge_core::model::{McpClient, MemoryChange, MemoryFilter};
use knowledge_core::service::{Caller, IssuedMcpKey, NewMcpKey, NewRecall, PageRequest};

use crate::make::{ADMIN, DAY, MEMBER, MILLISECOND, actions, code, new_chat, new_mcp_key, problem};
use crate::world::World;
use knowledge_testing::requests::with;

async fn create(world: &World, new: &NewMcpKey) -> Result<IssuedMcpKey, knowledge_core::Error> {
    world.create_mcp_key(new).await
}

#[tokio::test]
async fn mcp_key_appears_on_dashboard_without_secret() {
    let world = World::new().await;
    let issued = create(&world, &new_mcp_key("org:acme")).await.unwrap();
    let shown = world.dashboard().await.mcp_keys.remove(0);
    assert_eq!(shown, issued.summary);
    assert_eq!(
        (shown.workspace_id, &*shown.name),
        (world.workspace.id, "Laptop")
    );
    assert_eq!(shown.client, McpClient::ClaudeCode);
    assert_eq!(shown.audience[0].to_string(), "org:acme");
    assert_eq!(shown.last_used_at, None);
    assert_eq!(shown.rotates_at, Some(world.time.now().plus(90 * DAY)));

    world.time.pass(DAY);
    let key = Caller::from(issued.secret.unwrap());
    world.service.note_use(&key).await;
    let shown = world.dashboard().await.mcp_keys.remove(0);
    assert_eq!(shown.last_used_at, Some(world.time.now()));
}

#[tokio::test]
async fn use_of_another_credential_is_none_of_a_key() {
    let world = World::new().await;
    create(&world, &new_mcp_key("org:acme")).await.unwrap();
    let scope = TokenScope {
        workspaces: Some(vec![world.workspace.id]),
        ..TokenScope::default()
    };
    let token = world.token(world.owner_id, scope).await.secret.into();
    world.service.note_use(&token).await;
    world.service.note_use(&world.owner).await;
    let shown = world.dashboard().await.mcp_keys.remove(0);
    assert_eq!(shown.last_used_at, None);
    let differences = world.service.verify().await.unwrap().differences;
    assert_eq!(differences, []);
}

#[tokio::test]
async fn mcp_key_only_reads_its_workspace() {
    let world = World::new().await;
    let sales = world.workspace("sales").await;
    let ids = world.approved_memories(1).await;
    let key = Caller::from(
        create(&world, &new_mcp_key("org:acme"))
            .await
            .unwrap()
            .secret
            .unwrap(),
    );
    world.by(&key).create_chat(&new_chat("Hi")).await.unwrap();
    assert_eq!(
        code(
            world
                .by(&key)
                .within(sales)
                .create_chat(&new_chat("Hi"))
                .await
        ),
        "not_found"
    );
    assert_eq!(code(world.by(&key).get_dashboard().await), "forbidden");
    let change = MemoryChange::builder()
        .sensitivity_label(knowledge_core::model::SensitivityLabel::Public)
        .build();
    assert_eq!(code(world.bulk(&key, &ids, change).await), "forbidden");
    let another = world
        .by(&key)
        .create_mcp_key(&new_mcp_key("org:acme"))
        .await;
    assert_eq!(code(another), "forbidden");
}

#[tokio::test]
async fn mcp_key_sees_only_its_audience() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    for (audience, expected) in [("workspace:research", true), ("org:acme", false)] {
        let key = create(&world, &new_mcp_key(audience)).await.unwrap();
        let recall = NewRecall::builder()
            .query("Where?")
            .memory_ids(ids.clone())
            .build();
        let caller = Caller::from(key.secret.unwrap());
        let made = world.by(&caller).create_recall(&recall).await;
        assert_eq!(made.is_ok(), expected, "{audience}");
    }
}

#[tokio::test]
async fn mcp_key_cannot_exceed_access_of_its_creator() {
    let world = World::new().await;
    let admin = world.caller(ADMIN).await;
    for (audience, expected) in [
        ("org:acme", true),
        ("workspace:research", true),
        ("org:evil", false),
        ("workspace:sales", false),
        ("team:board", false),
        ("user:ada", false),
    ] {
        let new = new_mcp_key(audience);
        let made = world.by(&admin).create_mcp_key(&new).await;
        assert_eq!(made.is_ok(), expected, "{audience}");
    }
    let member = world.caller(MEMBER).await;
    let new = new_mcp_key("org:acme");
    let made = world.by(&member).create_mcp_key(&new).await;
    assert_eq!(code(made), "forbidden");
}

/// A scoped token creates keys within its scope only.
#[tokio::test]
async fn scoped_token_creates_scoped_mcp_keys() {
    let world = World::new().await;
    let scope = TokenScope {
        actions: Some(actions(&[Action::McpKeyManage, Action::MemoryRead])),
        ..TokenScope::default()
    };
    let token = Caller::from(world.token(world.owner_id, scope).await.secret);
    let workspace = world.workspace.id;
    let made = world
        .by(&token)
        .create_mcp_key(&new_mcp_key("org:acme"))
        .await;
    let key = Caller::from(made.unwrap().secret.unwrap());
    assert_eq!(
        code(world.by(&key).create_chat(&new_chat("Hi")).await),
        "forbidden"
    );
    let principal = world
        .service
        .authenticate(&key, CredentialKind::Bearer)
        .await
        .unwrap();
    let mut reading = knowledge_core::store::Transaction::begin(world.service.store().clone());
    let held = principal
        .actions_in(&mut reading, &[workspace])
        .await
        .unwrap();
    assert_eq!(held[&workspace], actions(&[Action::MemoryRead]));
}

#[tokio::test]
async fn mcp_key_is_valid_for_a_week_past_its_rotation() {
    let world = World::new().await;
    let key = Caller::from(
        create(&world, &new_mcp_key("org:acme"))
            .await
            .unwrap()
            .secret
            .unwrap(),
    );
    let (all, page) = (MemoryFilter::default(), PageRequest::default());
    let read = async || world.by(&key).list_memories(&all, &page).await;
    world.time.pass((90 + 7) * DAY - MILLISECOND);
    read().await.unwrap();
    world.time.pass(MILLISECOND);
    assert_eq!(code(read().await), "unauthenticated");
}

#[tokio::test]
async fn mcp_key_of_removed_workspace_does_not_exist() {
    let world = World::new().await;
    let key = create(&world, &new_mcp_key("org:acme")).await.unwrap();
    let (key, workspace) = (Caller::from(key.secret.unwrap()), world.workspace.id);
    let provisioning = world.service.provisioning();
    let removed = provisioning.delete_workspace(world.org.id, workspace);
    removed.await.unwrap();
    let (all, page) = (MemoryFilter::default(), PageRequest::default());
    let read = world
        .by(&key)
        .within(workspace)
        .list_memories(&all, &page)
        .await;
    assert_eq!(code(read), "not_found");
}

#[tokio::test]
async fn mcp_key_rejects_invalid_values() {
    let world = World::new().await;
    let bad = with(new_mcp_key("org:acme"), |new| {
        new.name = String::new();
        new.audience = Vec::new();
        new.rotation = Duration::ZERO;
    });
    let expected = "name too_small, audience too_small, rotationSeconds invalid_value";
    assert_eq!(problem(create(&world, &bad).await), expected);
    let long = with(new_mcp_key("org:acme"), |new| {
        new.audience = vec!["org:acme".parse().unwrap(); 33];
        new.rotation = 367 * DAY;
    });
    assert_eq!(
        problem(create(&world, &long).await),
        "audience too_large, rotationSeconds invalid_value"
    );
}

#[tokio::test]
async fn mcp_keys_per_workspace_are_limited() {
    let world = World::with(|options| options.limits.mcp_keys_per_workspace_max = 1).await;
    create(&world, &new_mcp_key("org:acme")).await.unwrap();
    let second = create(&world, &new_mcp_key("org:acme")).await;
    assert_eq!(problem(second), "body limit_reached");
}

/// Lifetime of a key of `new_mcp_key`: its rotation interval and a week.
const LIFETIME: Duration = DAY.saturating_mul(97);

async fn has_key(world: &World) -> bool {
    let dashboard = world.dashboard().await;
    let steps = dashboard.first_value_checklist.required;
    let is_completed = steps
        .iter()
        .any(|step| step.step_id == "create_mcp_key" && step.completed);
    assert_eq!(is_completed, !dashboard.mcp_keys.is_empty());
    is_completed
}

#[tokio::test]
async fn expired_mcp_key_is_gone_and_releases_its_quota() {
    let world = World::with(|options| options.limits.mcp_keys_per_workspace_max = 1).await;
    create(&world, &new_mcp_key("org:acme")).await.unwrap();
    world.time.pass(LIFETIME - MILLISECOND);
    assert!(has_key(&world).await);
    let tag = world.dashboard_tag().await;
    world.time.pass(MILLISECOND);
    assert!(!has_key(&world).await, "before anything is swept");
    assert_ne!(
        world.dashboard_tag().await,
        tag,
        "time alone changed the answer"
    );
    create(&world, &new_mcp_key("org:acme")).await.unwrap();
    assert!(has_key(&world).await);
    world.maintain().await;
    assert!(has_key(&world).await, "the new one stays");
    assert_eq!(world.service.verify().await.unwrap().differences, []);
}

#[tokio::test]
async fn expired_mcp_key_is_purged() {
    let world = World::new().await;
    let issued = create(&world, &new_mcp_key("org:acme")).await.unwrap();
    let key = Caller::from(issued.secret.unwrap());
    world.service.note_use(&key).await;
    world.time.pass(LIFETIME);
    world.maintain().await;
    let family = |key: &knowledge_core::store::Key| key.to_string().starts_with("mcp_key");
    let contents = world.contents().await;
    let left: Vec<_> = contents.iter().filter(|(key, _)| family(key)).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].1, "0", "the counter alone");
}

#[tokio::test]
async fn revoked_mcp_key_is_gone_and_releases_its_quota() {
    let world = World::with(|options| options.limits.mcp_keys_per_workspace_max = 1).await;
    let issued = create(&world, &new_mcp_key("org:acme")).await.unwrap();
    let provisioning = world.service.provisioning();
    for _ in 0..2 {
        provisioning
            .revoke(world.org.id, issued.summary.id)
            .await
            .unwrap();
    }
    assert!(!has_key(&world).await);
    create(&world, &new_mcp_key("org:acme")).await.unwrap();
    world.time.pass(LIFETIME);
    world.maintain().await;
    assert_eq!(world.service.verify().await.unwrap().differences, []);
}
