//! Tests of connectors: list, read, update and delete.

use knowledge_core::Error;
use knowledge_core::internals::keys;
use knowledge_core::model::{ConnectorId, ConnectorScope, ConnectorStatus, EventType};
use knowledge_core::service::{AuditAction, ConnectorDetails, ConnectorUpdate, PageRequest};

use crate::audit::{entries, entry_of};
use crate::make::{HOUR, MEMBER, MINUTE, SUCCESS, code, failure, problem};
use crate::world::{World, data};

async fn update(
    world: &World,
    connector: ConnectorId,
    update: ConnectorUpdate,
) -> Result<ConnectorDetails, Error> {
    world.update_connector(connector, &update).await
}

#[tokio::test]
async fn connector_list_shows_health() {
    let world = World::new().await;
    let (first, second) = (world.connector(HOUR).await, world.connector(HOUR).await);
    let failed = failure("no answer");
    world.report_sync(first, &failed).await.unwrap();
    let page = PageRequest::default();
    let listed = world.list_connectors(&page).await.unwrap();
    assert_eq!(listed.next_cursor, None);
    let mut expected = [first, second];
    expected.sort();
    let ids: Vec<_> = listed.data.iter().map(|found| found.connector.id).collect();
    assert_eq!(ids, expected);
    for found in listed.data {
        let id = found.connector.id;
        let (status, errors) = if id == first {
            (ConnectorStatus::Degraded, 1)
        } else {
            (ConnectorStatus::Pending, 0)
        };
        assert_eq!((found.status, found.error_count_24h), (status, errors));
        assert_eq!(world.get_connector(id).await.unwrap(), found);
    }
    // A connector of another workspace is not listed.
    let sales = world.workspace("sales").await;
    let elsewhere = world.within(sales).list_connectors(&page);
    assert_eq!(elsewhere.await.unwrap().data, []);
    let elsewhere = world.within(sales).get_connector(first).await;
    assert_eq!(code(elsewhere), "not_found");
}

#[tokio::test]
async fn connector_update_changes_only_named_fields() {
    let world = World::new().await;
    let id = world.connector(HOUR).await;
    let before = update(&world, id, ConnectorUpdate::default())
        .await
        .unwrap();
    let everything = ConnectorUpdate::builder()
        .account_label("other@acme")
        .scope(ConnectorScope::Organization)
        .sync_interval(5 * MINUTE)
        .is_paused(true)
        .build();
    let after = update(&world, id, everything).await.unwrap();
    assert_eq!(after.connector.account_label, "other@acme");
    assert_eq!(after.connector.scope, ConnectorScope::Organization);
    assert_eq!(after.connector.sync_interval_seconds, 300);
    assert_eq!(after.status, ConnectorStatus::Paused);
    assert_eq!(after.connector.kind, before.connector.kind);
    let label = ConnectorUpdate::builder().account_label("third").build();
    let last = update(&world, id, label).await.unwrap();
    assert_eq!(last.connector.scope, ConnectorScope::Organization);
    assert!(last.connector.is_paused);

    let actions: Vec<_> = entries(&world)
        .await
        .iter()
        .map(|entry| entry.action)
        .collect();
    let changes = actions
        .iter()
        .filter(|action| **action == AuditAction::ConnectorUpdate);
    assert_eq!(changes.count(), 2, "the empty update is none");
    assert!(world.service.verify().await.unwrap().differences.is_empty());
}

#[tokio::test]
async fn connector_with_shorter_interval_becomes_stale() {
    let world = World::with_endpoint().await;
    let id = world.connector(HOUR).await;
    world.report_sync(id, &SUCCESS).await.unwrap();
    world.time.pass(30 * MINUTE);
    let shorter = ConnectorUpdate::builder().sync_interval(MINUTE).build();
    assert_eq!(
        update(&world, id, shorter).await.unwrap().status,
        ConnectorStatus::Stale
    );
    let announced = world.events_of(EventType::ConnectorStatusChanged).await;
    assert!(announced.iter().any(|event| data(event)["to"] == "stale"));
}

#[tokio::test]
async fn connector_update_reports_all_problems_at_once() {
    let world = World::new().await;
    let id = world.connector(HOUR).await;
    let bad = ConnectorUpdate::builder()
        .account_label(String::new())
        .sync_interval(MINUTE / 2)
        .build();
    assert_eq!(
        problem(update(&world, id, bad).await),
        "account_label too_small, sync_interval_seconds invalid_value"
    );
}

#[tokio::test]
async fn deleted_connector_is_gone_and_releases_its_quota() {
    let world = World::with(|options| options.limits.connectors_per_workspace_max = 1).await;
    let (id, workspace) = (world.connector(HOUR).await, world.workspace.id);
    let delete = async || world.delete_connector(id).await;
    world.report_sync(id, &SUCCESS).await.unwrap();
    delete().await.unwrap();
    assert_eq!(code(delete().await), "not_found");
    assert_eq!(world.dashboard().await.connector_health, []);
    let counter = keys::connector_count(world.org.id, workspace);
    assert_eq!(world.counter(counter).await, 0);
    let entry = entry_of(&world, AuditAction::ConnectorDelete).await;
    assert_eq!((entry.before.is_some(), entry.after), (true, None));
    // Its scheduled tasks find nothing, and end.
    world.time.pass(3 * HOUR);
    world.maintain().await;
    assert!(world.service.verify().await.unwrap().differences.is_empty());
    world.connector(HOUR).await;
}

#[tokio::test]
async fn connectors_are_not_managed_by_members() {
    let world = World::new().await;
    let id = world.connector(HOUR).await;
    let member = world.caller(MEMBER).await;
    let none = ConnectorUpdate::default();
    let updated = world.by(&member).update_connector(id, &none).await;
    assert_eq!(code(updated), "forbidden");
    let deleted = world.by(&member).delete_connector(id).await;
    assert_eq!(code(deleted), "forbidden");
    assert!(world.by(&member).get_connector(id).await.is_ok());
}
