//! Tests of deliveries over commits that fail or have unknown outcomes.
//!
//! Each delivery is completed and counted once.

use std::collections::BTreeMap;

use knowledge_core::Error;
use knowledge_core::model::{DeliveryId, DeliveryStatus, EndpointId, Webhook};
use knowledge_core::service::{Attempt, AttemptOutcome, ClaimedDelivery, InFlight};
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::dispatching::{ROOM, answer, endpoint, webhook};
use crate::make::{MILLISECOND, MINUTE};
use crate::world::World;

const FAULTS: [CommitFault; 6] = [
    CommitFault::Conflict,
    CommitFault::Unavailable,
    CommitFault::Full,
    CommitFault::LostApplied,
    CommitFault::LostNotApplied,
    CommitFault::LostAppliedLater,
];

/// Records an attempt, repeatedly until that succeeds.
async fn finish(world: &World, claimed: &ClaimedDelivery, attempt: &Attempt) -> AttemptOutcome {
    for _ in 0..5 {
        let now = world.time.now();
        let finished = world
            .service
            .dispatcher()
            .finish(now, &claimed.lease, attempt);
        match finished.await {
            Ok(finished) => return finished,
            Err(Error::Unavailable { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("one fault was planned");
}

/// Delivers until the queue is empty.
///
/// Returns the final outcome of each delivery, and how often it was sent.
async fn run(
    world: &World,
    answers: &BTreeMap<EndpointId, u16>,
) -> BTreeMap<DeliveryId, (AttemptOutcome, u32)> {
    let mut ended = BTreeMap::new();
    for _ in 0..100 {
        let (now, nobody) = (world.time.now(), InFlight::default());
        let claimed = world.service.dispatcher().claim(now, ROOM, &nobody).await;
        let claimed = match claimed {
            Ok(claimed) => claimed,
            Err(Error::Unavailable { .. }) => continue,
            Err(error) => panic!("{error:?}"),
        };
        for one in &claimed.deliveries {
            let attempt = answer(answers[&one.lease.endpoint()]);
            let finished = finish(world, one, &attempt).await;
            let (last, sent) = ended.entry(one.request.id).or_insert((finished, 0));
            (*last, *sent) = (finished, *sent + 1);
        }
        if claimed.deliveries.is_empty() {
            match claimed.next_due {
                Some(next) => world.time.set(next),
                None if claimed.has_more => {}
                None => return ended,
            }
        }
    }
    panic!("it comes to no end");
}

#[tokio::test]
async fn deliveries_complete_despite_failed_commits() {
    let world = World::new().await;
    let (well, gone) = (webhook(&world).await, webhook(&world).await);
    world.announce(&well, 3).await;
    world.announce(&gone, 3).await;
    let answers = BTreeMap::from([(well.id.into(), 200), (gone.id.into(), 410)]);
    for fault in FAULTS {
        let mut number = 1;
        loop {
            let twin = world.copy(FaultPlan::none().at_commit(number, fault)).await;
            let ended = run(&twin, &answers).await;
            let context = format!("{fault:?} at commit {number}");
            let delivered = count(&ended, |ended| *ended == AttemptOutcome::Delivered);
            let dead = count(&ended, |ended| matches!(ended, AttemptOutcome::Dead(_)));
            assert_eq!((delivered, dead), (3, 3), "{context}");
            assert_eq!(twin.undelivered().await, 0, "{context}");
            let disabled = twin.disabled_endpoints().await;
            assert_eq!(disabled, 1, "{context}");
            for (webhook, status) in [
                (&well, DeliveryStatus::Delivered),
                (&gone, DeliveryStatus::Dead),
            ] {
                assert_eq!(statuses(&twin, webhook).await, [status; 3], "{context}");
            }
            twin.assert_whole().await;
            if twin.faults.counts().faults == 0 {
                break;
            }
            number += 1;
        }
        // Two claims and six recorded attempts.
        assert!(number > 8, "{number}");
    }
}

fn count(
    ended: &BTreeMap<DeliveryId, (AttemptOutcome, u32)>,
    is_counted: impl Fn(&AttemptOutcome) -> bool,
) -> usize {
    let ended = ended.values().filter(|(last, _)| is_counted(last));
    ended.count()
}

async fn statuses(world: &World, of: &Webhook) -> Vec<DeliveryStatus> {
    let page = Default::default();
    let endpoint = endpoint(of);
    let listed = world.list_deliveries(endpoint, None, &page);
    let listed = listed.await.unwrap().data;
    listed.iter().map(|delivery| delivery.status).collect()
}

#[tokio::test]
async fn attempt_with_indeterminate_commit_is_recorded_again() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    for (status, fault) in [200, 500, 410]
        .into_iter()
        .flat_map(|status| FAULTS.map(|fault| (status, fault)))
    {
        let plan = FaultPlan::none().at_commit(2, fault);
        let twin = world.copy(plan).await;
        let claimed = twin.claim_one().await;
        let finished = finish(&twin, &claimed, &answer(status)).await;
        let context = format!("{status}, {fault:?}");
        match status {
            200 => assert_eq!(finished, AttemptOutcome::Delivered, "{context}"),
            500 => assert!(matches!(finished, AttemptOutcome::Retry(_)), "{context}"),
            _ => assert!(
                matches!(finished, AttemptOutcome::Dead(Some(_))),
                "{context}"
            ),
        }
        let attempts = twin.delivery(&webhook, claimed.request.id).await.attempts;
        assert_eq!(attempts.len(), 1, "{context}");
        twin.assert_whole().await;
    }
}

#[tokio::test]
async fn leases_with_indeterminate_renewal_lapse_or_hold() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 3).await;
    for fault in FAULTS {
        let twin = world.copy(FaultPlan::none().at_commit(2, fault)).await;
        let claimed = twin.claim().await.deliveries;
        twin.time.pass(MILLISECOND);
        let leases: Vec<_> = claimed.iter().map(|one| one.lease).collect();
        let renewed = twin.renew(&leases).await;
        assert_eq!(renewed.is_ok(), fault == CommitFault::Conflict, "{fault:?}");
        twin.assert_whole().await;
        twin.time.pass(MINUTE);
        assert_eq!(twin.claim().await.deliveries.len(), 3, "{fault:?}");
        twin.assert_whole().await;
    }
}

#[tokio::test]
async fn ping_and_redelivery_with_indeterminate_commit_are_made_once() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let dead = world.ping(&webhook).await;
    let claimed = world.claim_one().await;
    world.finish(&claimed, &answer(500)).await;
    for fault in [
        CommitFault::LostApplied,
        CommitFault::LostNotApplied,
        CommitFault::LostAppliedLater,
    ] {
        let twin = world.copy(FaultPlan::none().at_commit(1, fault)).await;
        let ping = twin.ping(&webhook).await;
        assert_eq!(twin.claim_one().await.request.id, ping.id, "{fault:?}");
        twin.assert_whole().await;
        let twin = world.copy(FaultPlan::none().at_commit(1, fault)).await;
        let again = twin.redeliver(endpoint(&webhook), dead.id);
        assert_eq!(again.await.unwrap().status, DeliveryStatus::Pending);
        assert_eq!(twin.claim_one().await.request.id, dead.id, "{fault:?}");
        twin.assert_whole().await;
    }
}
