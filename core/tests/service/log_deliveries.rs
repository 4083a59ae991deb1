//! Tests of the delivery log, and of redelivery.

use std::collections::BTreeSet;

use knowledge_core::Error;
use knowledge_core::access::{Action, BuiltInRole, RoleRef};
use knowledge_core::internals::keys;
use knowledge_core::model::{Delivery, DeliveryId, DeliveryStatus, EventId, Webhook};
use knowledge_core::service::{
    AttemptOutcome, AuditAction, AuditEntry, AuditFilter, Caller, Endpoint, OutboxStatus, Page,
    PageRequest,
};
use knowledge_core::store::StoreExt;
use uuid::Uuid;

use crate::delegation::token;
use crate::dispatching::{answer, endpoint, webhook};
use crate::make::{
    ADMIN, HOUR, MILLISECOND, MINUTE, actions, code, new_webhook, problem, set_active,
};
use crate::world::World;

async fn list(
    world: &World,
    of: &Webhook,
    status: Option<DeliveryStatus>,
    page: &PageRequest,
) -> Result<Page<Delivery>, Error> {
    let endpoint = endpoint(of);
    world.list_deliveries(endpoint, status, page).await
}

async fn ids(world: &World, of: &Webhook, status: Option<DeliveryStatus>) -> Vec<DeliveryId> {
    let listed = list(world, of, status, &PageRequest::default()).await;
    let listed = listed.unwrap().data;
    listed.iter().map(|delivery| delivery.id).collect()
}

async fn redeliver(world: &World, of: &Webhook, id: DeliveryId) -> Result<Delivery, Error> {
    let endpoint = endpoint(of);
    world.redeliver(endpoint, id).await
}

/// Returns the newest audit entry of this action.
async fn last_entry(world: &World, action: AuditAction) -> AuditEntry {
    let filter = AuditFilter::builder().action(action).build();
    let page = PageRequest::default();
    let listed = world.list_audit_log(&filter, &page).await;
    listed.unwrap().data.remove(0)
}

/// Creates three deliveries, the oldest first: delivered, dead, pending.
async fn three(world: &World, webhook: &Webhook) -> [Delivery; 3] {
    let delivered = world.announce(webhook, 1).await.remove(0);
    let claimed = world.claim_one().await;
    world.finish(&claimed, &answer(200)).await;
    world.time.pass(MINUTE);
    let dead = world.ping(webhook).await;
    let claimed = world.claim_one().await;
    assert_eq!(
        world.finish(&claimed, &answer(500)).await,
        AttemptOutcome::Dead(None)
    );
    world.time.pass(MINUTE);
    let pending = world.announce(webhook, 1).await.remove(0);
    [delivered, dead, pending]
}

#[tokio::test]
async fn delivery_log_lists_newest_first_over_pages() {
    let world = World::new().await;
    let (webhook, other) = (webhook(&world).await, webhook(&world).await);
    world.announce(&other, 1).await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.extend(world.announce(&webhook, 1).await);
        world.time.pass(MILLISECOND);
    }
    made.reverse();
    let wanted: Vec<_> = made.iter().map(|delivery| delivery.id).collect();
    assert_eq!(ids(&world, &webhook, None).await, wanted);
    let mut page = PageRequest::builder().limit(2).build();
    let mut found = Vec::new();
    loop {
        let listed = list(&world, &webhook, None, &page).await.unwrap();
        found.extend(listed.data.iter().map(|delivery| delivery.id));
        page.cursor = listed.next_cursor;
        if page.cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, wanted);
    let first = PageRequest::builder().limit(2).build();
    let cursor = list(&world, &webhook, None, &first).await.unwrap();
    let elsewhere = PageRequest::builder()
        .maybe_cursor(cursor.next_cursor)
        .build();
    let refused = list(&world, &other, None, &elsewhere).await;
    assert_eq!(problem(refused), "cursor invalid_value");
}

#[tokio::test]
async fn delivery_log_filters_by_status() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let [delivered, dead, pending] = three(&world, &webhook).await;
    for (status, wanted) in [
        (DeliveryStatus::Delivered, &delivered),
        (DeliveryStatus::Dead, &dead),
        (DeliveryStatus::Pending, &pending),
    ] {
        assert_eq!(ids(&world, &webhook, Some(status)).await, [wanted.id]);
        let read = world.delivery(&webhook, wanted.id).await;
        assert_eq!((read.status, read.created_at), (status, wanted.created_at));
    }
    // Dead letters are found by their index, without further reads.
    world.probe.take_reads();
    ids(&world, &webhook, Some(DeliveryStatus::Dead)).await;
    let reads = world.probe.take_reads();
    let found: BTreeSet<_> = reads.ranges.iter().flat_map(|(_, found)| found).collect();
    let mark = keys::dead_letter(world.org.id, webhook.id.into(), dead.event_id);
    assert_eq!(found, BTreeSet::from([&mark]));
}

#[tokio::test]
async fn delivery_is_found_only_at_its_own_endpoint() {
    let world = World::new().await;
    let (webhook, other) = (webhook(&world).await, webhook(&world).await);
    let delivery = world.announce(&webhook, 1).await.remove(0);
    for (of, id) in [(&other, delivery.id), (&webhook, DeliveryId(Uuid::nil()))] {
        let endpoint = endpoint(of);
        assert_eq!(code(world.get_delivery(endpoint, id).await), "not_found");
        assert_eq!(code(redeliver(&world, of, id).await), "not_found");
    }
    let sales = world.workspace("sales").await;
    let elsewhere = Endpoint::Webhook(sales, webhook.id);
    let read = world.get_delivery(elsewhere, delivery.id);
    assert_eq!(code(read.await), "not_found");
}

#[tokio::test]
async fn delivery_log_requires_action_of_its_endpoint_kind() {
    let world = World::new().await;
    let webhook = endpoint(&webhook(&world).await);
    let of_owner = Endpoint::Subscription(world.subscription().await);
    let may = async |caller: &Caller, endpoint| {
        let page = PageRequest::default();
        let listed = world
            .by(caller)
            .list_deliveries(endpoint, None, &page)
            .await;
        listed.is_ok()
    };
    let hooks = world
        .caller_who_may(actions(&[Action::WebhookManage]))
        .await;
    assert!(may(&hooks, webhook).await && !may(&hooks, of_owner).await);
    let citations = world
        .caller_who_may(actions(&[
            Action::CitationSubscriptionManage,
            Action::MemoryRead,
        ]))
        .await;
    let recall = world.recall().await;
    let own = Endpoint::Subscription(world.subscribe(&citations, recall).await.id);
    assert!(!may(&citations, webhook).await && may(&citations, own).await);
}

fn error_code<T: std::fmt::Debug>(result: Result<T, Error>) -> Option<&'static str> {
    result.is_err().then(|| code(result))
}

#[tokio::test]
async fn delivery_log_of_foreign_subscription_requires_both_actions() {
    let world = World::new().await;
    let of_owner = Endpoint::Subscription(world.subscription().await);
    let delivery = world.announce_to(of_owner, 1).await.remove(0).id;
    // The subscription exists only for readers of its recall.
    let one = actions(&[Action::CitationSubscriptionManage, Action::MemoryRead]);
    let both = one | actions(&[Action::WebhookManage]);
    let outcomes = async |caller: &Caller| {
        let page = PageRequest::default();
        [
            error_code(
                world
                    .by(caller)
                    .list_deliveries(of_owner, None, &page)
                    .await,
            ),
            error_code(world.by(caller).get_delivery(of_owner, delivery).await),
            error_code(world.by(caller).redeliver(of_owner, delivery).await),
            error_code(world.by(caller).redeliver_dead(of_owner).await),
            error_code(world.by(caller).ping_endpoint(of_owner).await),
        ]
    };
    let one = world.caller_who_may(one).await;
    assert_eq!(outcomes(&one).await, [Some("forbidden"); 5]);
    let both = world.caller_who_may(both).await;
    assert_eq!(outcomes(&both).await, [None; 5]);
}

#[tokio::test]
async fn corrupt_dead_letter_does_not_block_other_redeliveries() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 505).await;
    let gone = world.claim().await.deliveries;
    for one in gone {
        world.finish(&one, &answer(410)).await;
    }
    while world.undelivered().await > 0 {
        world.time.pass(MILLISECOND);
        world.claim().await;
    }
    let ping = world.ping(&webhook).await;
    let on = world.claim_one().await;
    assert_eq!(on.request.id, ping.id);
    world.finish(&on, &answer(200)).await;
    let range = keys::dead_letters(world.org.id, webhook.id.into());
    let marks = world.faults.inner().scan_all(&range).await.unwrap();
    assert_eq!(marks.len(), 505);
    for mark in marks.iter().take(3) {
        let event = EventId(keys::last_id(&mark.key).unwrap());
        let key = keys::delivery(world.org.id, webhook.id.into(), event);
        world.overwrite(key, "\"corrupt\"".to_owned()).await;
    }
    for (redelivered, has_more) in [(500, true), (2, false), (0, false)] {
        let endpoint = endpoint(&webhook);
        let done = world.redeliver_dead(endpoint).await;
        let done = done.unwrap();
        assert_eq!((done.redelivered, done.has_more), (redelivered, has_more));
    }
    assert_eq!(world.undelivered().await, 502);
    let left = world.faults.inner().scan_all(&range).await.unwrap();
    assert_eq!(left.len(), 3);
}

#[tokio::test]
async fn redelivery_keeps_the_delivery_identifier() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let [delivered, dead, pending] = three(&world, &webhook).await;
    // The pending delivery is claimed first, so that it does not interfere.
    let claimed = world.claim_one().await;
    assert_eq!(claimed.request.id, pending.id);
    world.finish(&claimed, &answer(500)).await;
    for again in [&delivered, &dead, &pending] {
        world.time.pass(MILLISECOND);
        let shown = redeliver(&world, &webhook, again.id).await.unwrap();
        assert_eq!(shown.status, DeliveryStatus::Pending);
        assert_eq!(shown.next_attempt_at, Some(world.time.now()));
        world.assert_whole().await;
        let claimed = world.claim_one().await;
        assert_eq!(claimed.request.id, again.id);
        assert_eq!(
            world.finish(&claimed, &answer(200)).await,
            AttemptOutcome::Delivered
        );
        let entry = last_entry(&world, AuditAction::WebhookRedeliver).await;
        assert_eq!(entry.actor_id, Some(world.owner_id));
        assert_eq!(entry.resource.id, webhook.id.0);
        let after = entry.after.unwrap();
        assert_eq!(after["delivery_id"], again.id.to_string());
    }
    let attempts = world.delivery(&webhook, delivered.id).await.attempts.len();
    assert_eq!(attempts, 2);
    world.assert_whole().await;
}

#[tokio::test]
async fn redelivery_restarts_the_whole_schedule() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let delivery = world.announce(&webhook, 1).await.remove(0);
    let exhaust = async || {
        let mut attempts = 0;
        loop {
            let claimed = world.claim_one().await;
            attempts += 1;
            match world.finish(&claimed, &answer(500)).await {
                AttemptOutcome::Retry(at) => world.time.set(at),
                AttemptOutcome::Dead(None) => break attempts,
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(exhaust().await, 10);
    redeliver(&world, &webhook, delivery.id).await.unwrap();
    // The endpoint has failed for less than five days.
    assert_eq!(world.claim_one().await.request.id, delivery.id);
}

#[tokio::test]
async fn redelivery_does_not_interrupt_delivery_in_flight() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let delivery = world.announce(&webhook, 1).await.remove(0);
    let claimed = world.claim_one().await;
    let shown = redeliver(&world, &webhook, delivery.id).await.unwrap();
    assert_eq!(shown.status, DeliveryStatus::Pending);
    assert_eq!(world.claim().await.deliveries, []);
    assert_eq!(
        world.finish(&claimed, &answer(200)).await,
        AttemptOutcome::Delivered
    );
    world.assert_whole().await;
}

#[tokio::test]
async fn dead_letters_are_redelivered_in_pages() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1_100).await;
    let switch = async |is_active: bool| {
        world.change_webhook(&webhook, set_active(is_active)).await;
    };
    switch(false).await;
    let again = async || {
        let endpoint = endpoint(&webhook);
        world.redeliver_dead(endpoint).await
    };
    while world.undelivered().await > 0 {
        world.claim().await;
        world.time.pass(MILLISECOND);
    }
    assert_eq!(code(again().await), "endpoint_off");
    let dead = ids(&world, &webhook, Some(DeliveryStatus::Dead)).await;
    assert_eq!(
        code(redeliver(&world, &webhook, dead[0]).await),
        "endpoint_off"
    );
    switch(true).await;
    world.assert_whole().await;
    for (redelivered, has_more) in [(500, true), (500, true), (100, false), (0, false)] {
        let done = again().await.unwrap();
        assert_eq!((done.redelivered, done.has_more), (redelivered, has_more));
        world.assert_whole().await;
        if redelivered > 0 {
            let entry = last_entry(&world, AuditAction::WebhookRedeliver).await;
            assert_eq!(entry.after.unwrap()["redelivered"], redelivered);
        }
        world.time.pass(MILLISECOND);
    }
    assert_eq!(world.undelivered().await, 1_100);
}

/// What has ended or is suspended would only dead-letter them again.
#[tokio::test]
async fn nothing_is_redelivered_to_a_webhook_that_has_ended_or_is_suspended() {
    let world = World::new().await;
    let admin = world.member(ADMIN).await;
    let issued = token(&world, world.owner_id, &[Action::WebhookManage]).await;
    for (by, is_token) in [
        (Caller::from(issued.secret.clone()), true),
        (world.trusted(admin), false),
    ] {
        let new = new_webhook("https://example.com/hook");
        let webhook = world.by(&by).create_webhook(&new).await.unwrap();
        let made = world.ping_endpoint(endpoint(&webhook)).await.unwrap();
        redeliver(&world, &webhook, made.id).await.unwrap();
        let operator = world.service.provisioning();
        if is_token {
            let revoked = operator.revoke(world.org.id, issued.record.id).await;
            revoked.unwrap();
        } else {
            let viewer = RoleRef::BuiltIn(BuiltInRole::Viewer);
            world.assign(admin, viewer).await.unwrap();
        }
        assert!(!world.get_webhook(webhook.id).await.unwrap().value.is_active);
        let dead = world.redeliver_dead(endpoint(&webhook)).await;
        assert_eq!(code(dead), "endpoint_off");
        let one = redeliver(&world, &webhook, made.id).await;
        assert_eq!(code(one), "endpoint_off");
        let (org, id) = (world.org.id, webhook.id.into());
        assert_eq!(
            code(operator.redeliver(org, id, made.id).await),
            "endpoint_off"
        );
        assert_eq!(code(operator.redeliver_dead(org, id).await), "endpoint_off");
        world.rotate_webhook(webhook.id).await.unwrap();
        redeliver(&world, &webhook, made.id).await.unwrap();
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn ping_precedes_queued_deliveries() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 20).await;
    world.time.pass(MILLISECOND);
    let ping = world.ping(&webhook).await;
    let claimed = world.claim().await.deliveries;
    assert_eq!(claimed[0].request.id, ping.id);
    let entry = last_entry(&world, AuditAction::WebhookPing).await;
    assert_eq!(entry.actor_id, Some(world.owner_id));
    let after = entry.after.unwrap();
    assert_eq!(after["delivery_id"], ping.id.to_string());
    world.assert_whole().await;
}

#[tokio::test]
async fn outbox_status_counts_pending_deliveries() {
    let world = World::new().await;
    let status = async || world.service.dispatcher().outbox_status().await.unwrap();
    assert_eq!(status().await, OutboxStatus::default());
    let webhook = webhook(&world).await;
    let happened = world.time.now();
    world.memories(1).await;
    world.time.pass(HOUR);
    let first = status().await;
    assert!(first.pending_events > 0);
    assert_eq!((first.undelivered, first.oldest), (0, Some(happened)));
    world.fan_out().await;
    let fanned_out = world.time.now();
    world.announce(&webhook, 2).await;
    world.time.pass(HOUR);
    let wanted = OutboxStatus {
        pending_events: 0,
        undelivered: 3,
        oldest: Some(happened),
        overdue_since: Some(fanned_out),
        disabled_endpoints: 0,
    };
    assert_eq!(status().await, wanted);
    let claimed = world.claim().await.deliveries;
    // A delivery in flight is overdue only once its lease has lapsed.
    let under_way = OutboxStatus {
        overdue_since: None,
        ..wanted
    };
    assert_eq!(status().await, under_way);
    for one in &claimed {
        world.finish(one, &answer(410)).await;
    }
    let wanted = OutboxStatus {
        disabled_endpoints: 1,
        ..OutboxStatus::default()
    };
    assert_eq!(status().await, wanted);
}
