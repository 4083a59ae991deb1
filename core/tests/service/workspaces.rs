//! Test of workspaces as their callers see them.

use knowledge_core::model::WorkspaceId;
use knowledge_core::service::{Caller, PageRequest};
use uuid::Uuid;

use crate::make::{VIEWER, code, in_workspaces};
use crate::world::World;

async fn listed(world: &World, caller: &Caller) -> Vec<WorkspaceId> {
    let page = PageRequest::default();
    let found = world.by(caller).list_workspaces(&page).await.unwrap();
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
    let found = world.by(&caller).get_workspace().await;
    assert_eq!(found.unwrap(), world.workspace);

    let scope = in_workspaces(&[sales]);
    let scoped = world.token(viewer, scope).await;
    let scoped = Caller::from(scoped.secret.clone());
    assert_eq!(listed(&world, &scoped).await, [sales]);
    assert_eq!(code(world.by(&scoped).get_workspace().await), "not_found");
    assert!(
        world
            .by(&scoped)
            .within(sales)
            .get_workspace()
            .await
            .is_ok()
    );
    let unknown = WorkspaceId(Uuid::nil());
    let found = world.by(&scoped).within(unknown).get_workspace().await;
    assert_eq!(code(found), "not_found");
}
