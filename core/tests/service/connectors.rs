//! Tests of the statuses of connectors, and of the times at which these change.

use knowledge_core::internals::keys;
use knowledge_core::model::{ConnectorHealth, ConnectorId, ConnectorStatus, EventType};
use knowledge_core::service::{ConnectorUpdate, SyncOutcome, SyncReport};

use crate::make::{
    DAY, HOUR, MEMBER, MILLISECOND, MINUTE, SUCCESS, VIEWER, code, failure, new_connector, problem,
};
use crate::world::{World, data};
use knowledge_testing::requests::with;

async fn report(world: &World, connector: ConnectorId, report: SyncReport) {
    world.report_sync(connector, &report).await.unwrap();
}

async fn health(world: &World) -> ConnectorHealth {
    world.dashboard().await.connector_health.remove(0)
}

async fn status(world: &World) -> ConnectorStatus {
    health(world).await.status
}

fn refused() -> SyncReport {
    SyncReport::new(SyncOutcome::Failure {
        error: "the password is wrong".to_owned(),
        is_authentication: true,
    })
}

/// Returns the announced statuses, in order.
async fn announced(world: &World) -> Vec<(String, String)> {
    let mut events = world.events_of(EventType::ConnectorStatusChanged).await;
    events.sort_by_key(|event| event.timestamp);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
    events
        .iter()
        .map(|event| (text(&data(event)["from"]), text(&data(event)["to"])))
        .collect()
}

#[tokio::test]
async fn connector_shows_values_it_was_created_with() {
    let world = World::new().await;
    let id = world.connector(HOUR).await;
    let health = health(&world).await;
    assert_eq!(health.service_account_id, id);
    assert_eq!(
        (&*health.kind, &*health.account_label),
        ("confluence", "wiki@acme")
    );
    assert_eq!(health.scope.as_str(), "personal");
    assert_eq!(health.workspace_slug, "research");
    assert_eq!(health.status, ConnectorStatus::Pending);
    assert_eq!(health.error_count_24h, 0);
    let times = [
        health.last_sync,
        health.last_success_at,
        health.next_sync_at,
    ];
    assert_eq!((times, health.last_error), ([None; 3], None));
}

#[tokio::test]
async fn connector_report_appears_on_dashboard() {
    let world = World::new().await;
    let id = world.connector(HOUR).await;
    let first = world.time.now();
    report(&world, id, SUCCESS.clone()).await;
    let after = health(&world).await;
    assert_eq!(after.status, ConnectorStatus::Healthy);
    assert_eq!(
        (after.last_sync, after.last_success_at),
        (Some(first), Some(first))
    );
    assert_eq!(
        after.next_sync_at,
        Some(first.plus(HOUR)),
        "one interval from now"
    );

    world.time.pass(MINUTE);
    let planned = world.time.now().plus(5 * MINUTE);
    let failed = failure(&"é".repeat(600)).with_next_sync_at(planned);
    report(&world, id, failed).await;
    let after = health(&world).await;
    assert_eq!(after.status, ConnectorStatus::Degraded);
    assert_eq!(after.last_sync, Some(world.time.now()));
    assert_eq!(after.last_success_at, Some(first));
    assert_eq!(after.next_sync_at, Some(planned));
    assert_eq!(
        after.last_error,
        Some("é".repeat(500)),
        "cut between two characters"
    );
    assert_eq!(after.error_count_24h, 1);
    world.time.pass(MINUTE);
    report(&world, id, SUCCESS.clone()).await;
    assert_eq!(health(&world).await.last_error, None);
}

#[tokio::test]
async fn connector_fails_after_three_failures_until_a_success() {
    let world = World::new().await;
    let id = world.connector(DAY).await;
    report(&world, id, SUCCESS.clone()).await;
    for expected in [
        ConnectorStatus::Degraded,
        ConnectorStatus::Degraded,
        ConnectorStatus::Failing,
    ] {
        report(&world, id, failure("no answer")).await;
        assert_eq!(status(&world).await, expected);
    }
    world.time.pass(3 * DAY);
    assert_eq!(
        status(&world).await,
        ConnectorStatus::Failing,
        "before stale"
    );
    report(&world, id, SUCCESS.clone()).await;
    assert_eq!(status(&world).await, ConnectorStatus::Healthy);
}

#[tokio::test]
async fn connector_needs_authentication_until_next_other_report() {
    let world = World::new().await;
    let id = world.connector(HOUR).await;
    for _ in 0..4 {
        report(&world, id, refused()).await;
        assert_eq!(
            status(&world).await,
            ConnectorStatus::AuthRequired,
            "before failing"
        );
    }
    report(&world, id, failure("no answer")).await;
    assert_eq!(status(&world).await, ConnectorStatus::Failing);
    report(&world, id, refused()).await;
    report(&world, id, SUCCESS.clone()).await;
    assert_eq!(status(&world).await, ConnectorStatus::Degraded);
}

#[tokio::test]
async fn paused_connector_stays_paused_despite_reports() {
    let world = World::new().await;
    let id = world.connector(HOUR).await;
    report(&world, id, refused()).await;
    let pause = async |is_paused| {
        let update = ConnectorUpdate::paused(is_paused);
        world.update_connector(id, &update).await
    };
    assert!(pause(true).await.unwrap().connector.is_paused);
    assert_eq!(status(&world).await, ConnectorStatus::Paused);
    let contents = world.contents().await;
    pause(true).await.unwrap();
    assert_eq!(
        world.contents().await,
        contents,
        "pausing again changes nothing"
    );
    world.time.pass(MINUTE);
    assert!(!pause(false).await.unwrap().connector.is_paused);
    assert_eq!(status(&world).await, ConnectorStatus::AuthRequired);
}

#[tokio::test]
async fn connector_is_stale_after_exactly_two_intervals() {
    let world = World::new().await;
    let id = world.connector(HOUR).await;
    world.time.pass(10 * HOUR);
    assert_eq!(
        status(&world).await,
        ConnectorStatus::Pending,
        "before stale"
    );
    report(&world, id, SUCCESS.clone()).await;
    world.time.pass(2 * HOUR - MILLISECOND);
    assert_eq!(status(&world).await, ConnectorStatus::Healthy);
    world.time.pass(MILLISECOND);
    assert_eq!(status(&world).await, ConnectorStatus::Stale);
    // A failure leaves it stale.
    report(&world, id, failure("no answer")).await;
    assert_eq!(status(&world).await, ConnectorStatus::Stale);
    report(&world, id, SUCCESS.clone()).await;
    assert_eq!(status(&world).await, ConnectorStatus::Degraded);
}

#[tokio::test]
async fn connector_errors_leave_the_window_hour_by_hour() {
    let world = World::new().await;
    let id = world.connector(20 * DAY).await;
    let begin = world.time.now();
    for hour in 0..30 {
        world.time.set(begin.plus(hour * HOUR));
        report(&world, id, failure("no answer")).await;
        report(&world, id, failure("no answer")).await;
    }
    let count = async || health(&world).await.error_count_24h;
    assert_eq!(
        count().await,
        2 * 25,
        "those of the last 24 hours and of the hour they began in"
    );
    world.time.set(begin.plus(30 * HOUR - MILLISECOND));
    assert_eq!(count().await, 2 * 25);
    world.time.set(begin.plus(30 * HOUR));
    assert_eq!(count().await, 2 * 24);
    world
        .time
        .set(begin.plus(29 * HOUR + 25 * HOUR - MILLISECOND));
    assert_eq!(count().await, 2);
    world.time.set(begin.plus(29 * HOUR + 25 * HOUR));
    assert_eq!(count().await, 0);
}

#[tokio::test]
async fn connector_status_is_announced_only_when_it_changes() {
    let world = World::with_endpoint().await;
    let id = world.connector(HOUR).await;
    assert_eq!(announced(&world).await, []);
    let mut expected = Vec::new();
    for (sent, change) in [
        (SUCCESS.clone(), Some(("pending", "healthy"))),
        (SUCCESS.clone(), None),
        (failure("no answer"), Some(("healthy", "degraded"))),
        (failure("no answer"), None),
        (failure("no answer"), Some(("degraded", "failing"))),
        (refused(), Some(("failing", "auth_required"))),
        (SUCCESS.clone(), Some(("auth_required", "degraded"))),
    ] {
        world.time.pass(MINUTE);
        report(&world, id, sent).await;
        expected.extend(change.map(|(from, to)| (from.to_owned(), to.to_owned())));
        assert_eq!(announced(&world).await, expected);
    }
}

#[tokio::test]
async fn connector_status_changed_by_time_is_announced_by_maintenance() {
    let world = World::with_endpoint().await;
    let id = world.connector(HOUR).await;
    report(&world, id, SUCCESS.clone()).await;
    world.time.pass(2 * HOUR - MILLISECOND);
    world.maintain().await;
    assert_eq!(announced(&world).await.len(), 1);
    world.time.pass(MILLISECOND);
    world.maintain().await;
    world.maintain().await;
    let expected = [("pending", "healthy"), ("healthy", "stale")]
        .map(|(from, to)| (from.to_owned(), to.to_owned()));
    assert_eq!(announced(&world).await, expected, "once");
    assert_eq!(status(&world).await, ConnectorStatus::Stale);
}

/// Each report schedules a task; those that a later report supersedes schedule no further one.
#[tokio::test]
async fn connector_report_replaces_the_scheduled_check() {
    let world = World::new().await;
    let id = world.connector(HOUR).await;
    let begin = world.time.now();
    for _ in 0..5 {
        report(&world, id, SUCCESS.clone()).await;
        world.time.pass(MINUTE);
    }
    assert_eq!(world.planned().await, 1);
    world.time.set(begin.plus(2 * HOUR));
    assert_eq!(world.maintain().await, 0);
    assert_eq!(world.planned().await, 1);
    world.time.pass(5 * MINUTE);
    world.maintain().await;
    assert_eq!(
        world.planned().await,
        0,
        "a stale connector changes by a report alone"
    );
}

#[tokio::test]
async fn connector_error_that_expires_is_announced_by_maintenance() {
    let world = World::with_endpoint().await;
    let id = world.connector(10 * DAY).await;
    report(&world, id, failure("no answer")).await;
    report(&world, id, SUCCESS.clone()).await;
    for _ in 0..30 {
        world.time.pass(HOUR);
        world.maintain().await;
    }
    let last = announced(&world).await.pop().unwrap();
    assert_eq!(last, ("degraded".to_owned(), "healthy".to_owned()));
}

#[tokio::test]
async fn connector_rejects_invalid_values() {
    let world = World::new().await;
    let bad = with(new_connector(MINUTE - MILLISECOND), |new| {
        new.kind = String::new();
        new.account_label = "x".repeat(129);
    });
    let made = world.create_connector(&bad).await;
    assert_eq!(
        problem(made),
        "kind too_small, account_label too_large, sync_interval_seconds invalid_value"
    );
    let longest = new_connector(31 * DAY + MILLISECOND);
    let made = world.create_connector(&longest).await;
    assert_eq!(problem(made), "sync_interval_seconds invalid_value");
}

#[tokio::test]
async fn connectors_per_workspace_are_limited() {
    let world = World::with(|options| options.limits.connectors_per_workspace_max = 2).await;
    world.connector(HOUR).await;
    world.connector(HOUR).await;
    let new = new_connector(HOUR);
    let third = world.create_connector(&new).await;
    assert_eq!(problem(third), "body limit_reached");
    let sales = world.workspace("sales").await;
    world.within(sales).create_connector(&new).await.unwrap();
}

#[tokio::test]
async fn connectors_are_reported_by_members_and_managed_by_admins() {
    let world = World::new().await;
    let id = world.connector(HOUR).await;
    let (member, viewer) = (world.caller(MEMBER).await, world.caller(VIEWER).await);
    world.by(&member).report_sync(id, &SUCCESS).await.unwrap();
    assert_eq!(
        code(world.by(&viewer).report_sync(id, &SUCCESS).await),
        "forbidden"
    );
    assert_eq!(
        code(
            world
                .by(&member)
                .update_connector(id, &ConnectorUpdate::paused(true))
                .await
        ),
        "forbidden"
    );
    let made = world
        .by(&member)
        .create_connector(&new_connector(HOUR))
        .await;
    assert_eq!(code(made), "forbidden");
    let sales = world.workspace("sales").await;
    let elsewhere = world
        .by(&member)
        .within(sales)
        .report_sync(id, &SUCCESS)
        .await;
    assert_eq!(
        code(elsewhere),
        "not_found",
        "a connector is of its workspace"
    );
}

#[tokio::test]
async fn connector_has_one_scheduled_check_whatever_it_reports() {
    let world = World::new().await;
    let id = world.connector(HOUR).await;
    world.time.pass(MINUTE);
    let other = world.connector(DAY).await;
    report(&world, other, SUCCESS.clone()).await;
    for number in 0..1_000 {
        let outcome = match number % 3 {
            0 => failure("no answer"),
            _ => SUCCESS.clone(),
        };
        report(&world, id, outcome).await;
        // Some reports are of the same time.
        world.time.pass((number % 2) * MINUTE);
    }
    assert_eq!(world.planned().await, 2);
    assert_eq!(world.service.verify().await.unwrap().differences, []);

    // The check happens, and continues.
    world.time.pass(3 * HOUR);
    world.maintain().await;
    assert_eq!(status(&world).await, ConnectorStatus::Stale);
    assert_eq!(world.planned().await, 2);
    world.delete_connector(id).await.unwrap();
    assert_eq!(world.planned().await, 1);
}

#[tokio::test]
async fn scheduled_checks_of_earlier_versions_end() {
    let world = World::with_endpoint().await;
    let id = world.connector(HOUR).await;
    report(&world, id, SUCCESS.clone()).await;
    let org = world.org.id;
    let task = serde_json::json!({
        "connector": { "org": org, "workspace": world.workspace.id, "connector": id },
    });
    let mut planted = knowledge_core::store::Commit::builder();
    for number in 1..=10 {
        let at = world.time.now().plus(number * 10 * MINUTE);
        let key = keys::due(at, uuid::Uuid::from_u128(u128::from(number)));
        planted = planted.put(key, task.to_string());
    }
    let store = world.service.store();
    store.commit(planted.build().unwrap()).await.unwrap();
    assert_eq!(world.planned().await, 11);
    world.time.pass(DAY);
    world.maintain().await;
    assert_eq!(status(&world).await, ConnectorStatus::Stale);
    assert_eq!(world.planned().await, 0);
    let stale = announced(&world).await;
    assert_eq!(stale.iter().filter(|(_, to)| to == "stale").count(), 1);
    assert_eq!(world.service.verify().await.unwrap().differences, []);
}
