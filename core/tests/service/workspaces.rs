//! Test of workspaces as their callers see them.

use knowledge_core::access::TokenScope;
use knowledge_core::model::WorkspaceId;
use knowledge_core::service::{Caller, PageRequest};
use uuid::Uuid;

use crate::make::{VIEWER, code};
use crate::world::World;

async fn listed(world: &World, caller: &Caller) -> Vec<WorkspaceId> {
    let page = PageRequest::default();
    let found = world
        .service
        .workspaces()
        .list(caller, &page)
        .await
        .unwrap();
    assert_eq!(found.next_cursor, None);
    found.data.iter().map(|workspace| workspace.id).collect()
}

#[tokio::test]
async fn credential_lists_workspaces_in_its_scope() {
    let world = World::new().await;
    let (main, sales) = (world.workspace.id, world.workspace("sales").await);
    let viewer = world.member(VIEWER).await;
    let caller = world.trusted(viewer);
    assert_eq!(listed(&world, &caller).await, [main, sales]);
    let found = world.service.workspaces().get(&caller, main).await;
    assert_eq!(found.unwrap(), world.workspace);

    let scope = TokenScope {
        workspaces: Some(vec![sales]),
        ..TokenScope::default()
    };
    let scoped = world.token(viewer, scope).await;
    let scoped = Caller::from(scoped.secret.clone());
    assert_eq!(listed(&world, &scoped).await, [sales]);
    let elsewhere = world.service.workspaces().get(&scoped, main).await;
    assert_eq!(code(elsewhere), "not_found");
    assert!(world.service.workspaces().get(&scoped, sales).await.is_ok());
    let unknown = WorkspaceId(Uuid::nil());
    let found = world.service.workspaces().get(&scoped, unknown).await;
    assert_eq!(code(found), "not_found");
}
