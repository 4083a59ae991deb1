//! Tests of the bound of pings per host: whatever organisations register, change and spell, a host
//! that has not agreed receives no more of them.

use std::time::Duration;

use knowledge_core::limits::PINGS_PER_HOST_MAX;
use knowledge_core::model::{DisabledReason, EndpointId, EventType, Timestamp, Webhook};
use knowledge_core::service::InFlight;
use knowledge_store::faults::FaultPlan;
use knowledge_testing::seed::Seed;

use crate::dispatching::{ROOM, answer};
use crate::endpoint_confirmation::{URL, send, shown, unconfirmed};
use crate::make::{HOUR, MINUTE, new_webhook, new_workspace, set_active, set_url};
use crate::world::World;

/// Asserts that this bound was kept in every hour.
fn assert_bounded(times: &[Timestamp], max: u64) {
    let max = usize::try_from(max).unwrap();
    for window in times.windows(max + 1) {
        assert!(window[max].since(window[0]) >= HOUR, "{times:?}");
    }
}

async fn default_world() -> World {
    World::with(|options| options.limits.pings_per_host_max = PINGS_PER_HOST_MAX).await
}

#[tokio::test]
async fn pings_to_host_are_bounded_over_organizations() {
    let world = default_world().await;
    let hosts = [
        "https://example.com/hook",
        "https://EXAMPLE.com:8443/other",
        "https://example.com./",
    ];
    for number in 0..5 {
        let seed: Seed = world.stranger(&format!("tenant-{number}")).await;
        let workspace = seed.workspace(&new_workspace("main")).await.unwrap().id;
        for (number, url) in hosts.iter().cycle().take(10).enumerate() {
            let (owner, new) = (&seed.owner, new_webhook(&format!("{url}{number}")));
            let created = world.by(owner).within(workspace).create_webhook(&new);
            created.await.unwrap();
        }
    }
    let other = unconfirmed_at(&world, "https://example.org/hook").await;
    let (mut times, mut others) = (Vec::new(), 0);
    for _ in 0..(6 * 60) {
        let now = world.time.now();
        loop {
            let nothing = InFlight::default();
            let claimed = world.service.dispatcher().claim(now, ROOM, &nothing).await;
            let claimed = claimed.unwrap().deliveries;
            if claimed.is_empty() {
                break;
            }
            for claimed in claimed {
                if claimed.lease.endpoint() == EndpointId::from(other.id) {
                    others += 1;
                } else {
                    times.push(now);
                }
                world.finish(&claimed, &answer(500)).await;
            }
        }
        world.time.pass(MINUTE);
    }
    assert_eq!(times.len(), 120);
    assert_bounded(&times, PINGS_PER_HOST_MAX);
    // Another host is not affected.
    assert_eq!(others, 5);
    world.assert_whole().await;
    // The record of the host expires.
    world.time.pass(24 * HOUR);
    world.maintain().await;
    assert_eq!(world.family("host_pings").await, []);
}

async fn unconfirmed_at(world: &World, url: &str) -> Webhook {
    let new = new_webhook(url);
    world.create_webhook(&new).await.unwrap()
}

/// Creates a webhook with a URL of its own at the host.
async fn numbered(world: &World, number: usize) -> Webhook {
    unconfirmed_at(world, &format!("{URL}/{number}")).await
}

#[tokio::test]
async fn requested_pings_count_toward_bound_of_host() {
    let world = default_world().await;
    let to = unconfirmed(&world).await;
    let mut times = Vec::new();
    for _ in 0..240 {
        // It may have been disabled, but its owner did not deactivate it.
        world.ping(&to).await;
        let now = world.time.now();
        let sent = send(&world, 500).await;
        times.extend(sent.iter().map(|_| now));
        world.time.pass(MINUTE);
    }
    // One organisation has half of the pings.
    assert_bounded(&times, PINGS_PER_HOST_MAX / 2);
    assert!(times.len() >= 30, "{}", times.len());
    world.assert_whole().await;
}

#[tokio::test]
async fn waiting_pings_of_many_endpoints_are_all_sent() {
    let world = default_world().await;
    for number in 0..25 {
        numbered(&world, number).await;
    }
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.push(send(&world, 200).await.len());
        world.time.pass(HOUR);
    }
    assert_eq!(sent, [10, 10, 5]);
    assert_eq!(send(&world, 200).await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn organization_leaves_half_of_pings_to_others() {
    let world = default_world().await;
    for number in 0..25 {
        numbered(&world, number).await;
    }
    assert_eq!(send(&world, 500).await.len(), 10);
    let other = world.stranger("other").await;
    let new = new_webhook(URL);
    let workspace = other.workspace(&new_workspace("main")).await.unwrap().id;
    let created = world
        .by(&other.owner)
        .within(workspace)
        .create_webhook(&new);
    let theirs = created.await.unwrap().id;
    for _ in 0..2 {
        // Theirs is sent at once, and so is its retry.
        let ping = world.claim_one().await;
        assert_eq!(ping.lease.endpoint(), EndpointId::from(theirs));
        world.finish(&ping, &answer(500)).await;
        world.time.pass(MINUTE);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn bound_of_one_ping_permits_one() {
    let world = World::with(|options| options.limits.pings_per_host_max = 1).await;
    for number in 0..2 {
        numbered(&world, number).await;
    }
    for _ in 0..2 {
        assert_eq!(send(&world, 200).await, [EventType::WebhookPing]);
        world.time.pass(HOUR);
    }
    assert_eq!(send(&world, 200).await, []);
}

/// Spellings of one host each; none of them is another host.
const SPELLINGS: [&[&str]; 3] = [
    &[
        "https://example.com/hook",
        "https://EXAMPLE.com/",
        "https://example.com./",
        "https://example.com:8443/",
        "https://ex%61mple.com/",
        "https://ｅxample.com/",
    ],
    &[
        "https://93.184.216.34/",
        "https://1572395042/",
        "https://0x5db8d822:444/",
        "https://93.184.216.34./",
        "https://[::ffff:5db8:d822]/",
        "https://[0:0:0:0:0:ffff:5db8:d822]:8443/",
        "https://[64:ff9b::93.184.216.34]/",
    ],
    &[
        "https://[2606:2800:220:1::1]/",
        "https://[2606:2800:0220:0001:0000:0000:0000:0001]:444/",
        "https://[2606:2800:220:1::0.0.0.1]/",
    ],
];

#[tokio::test]
async fn every_spelling_of_host_counts_toward_its_bound() {
    for spellings in SPELLINGS {
        let world = default_world().await;
        let all = spellings.iter().cycle().take(3 * spellings.len() + 11);
        for (number, spelling) in all.enumerate() {
            unconfirmed_at(&world, &format!("{spelling}{number}")).await;
        }
        assert_eq!(send(&world, 500).await.len(), 10, "{spellings:?}");
    }
}

#[tokio::test]
async fn bound_outlives_endpoints_and_their_changes() {
    let world = default_world().await;
    let lasting = unconfirmed(&world).await;
    let mut times = Vec::new();
    for round in 0..300_u32 {
        let other = unconfirmed(&world).await;
        let path = format!("https://example.com:{}/{round}", 1 + round);
        world.change_webhook(&lasting, set_url(&path)).await;
        world.change_webhook(&lasting, set_active(false)).await;
        world.change_webhook(&lasting, set_active(true)).await;
        world.rotate_webhook(lasting.id).await.unwrap();
        world.ping(&other).await;
        let now = world.time.now();
        times.extend(
            send(&world, [500, 404][round as usize % 2])
                .await
                .iter()
                .map(|_| now),
        );
        world.delete_webhook(other.id).await.unwrap();
        world.time.pass(MINUTE);
    }
    assert_bounded(&times, PINGS_PER_HOST_MAX / 2);
    assert!(times.len() >= 40, "{}", times.len());
    world.assert_whole().await;
}

#[tokio::test]
async fn lost_attempts_count_toward_bound() {
    let world = default_world().await;
    unconfirmed(&world).await;
    let mut pings = 0;
    for _ in 0..60 {
        // The process that claims them ends before it records the result.
        pings += world.claim().await.deliveries.len();
        world.time.pass(Duration::from_secs(30));
    }
    assert_eq!(pings, 10);
    world.assert_whole().await;
}

#[tokio::test]
async fn endpoint_that_waits_for_days_is_disabled() {
    let world = World::with(|options| options.limits.pings_per_host_max = 1).await;
    let mut waiting = Vec::new();
    for number in 0..40 {
        waiting.push(numbered(&world, number).await);
    }
    world.memories(1).await;
    let mut sent = 0;
    for _ in 0..(5 * 24) {
        sent += send(&world, 500).await.len();
        world.time.pass(HOUR);
    }
    assert_eq!(sent, 5 * 24);
    assert!(world.undelivered().await > 10);
    world.assert_whole().await;
    for _ in 0..3 {
        send(&world, 500).await;
        world.time.pass(HOUR);
    }
    assert_eq!(world.undelivered().await, 0);
    for webhook in &waiting {
        let reason = shown(&world, webhook).await.disabled_reason;
        assert_eq!(reason, Some(DisabledReason::Failing));
    }
    // Nothing more is sent.
    world.time.pass(24 * HOUR);
    world.memories(1).await;
    assert_eq!(send(&world, 500).await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn bound_survives_restart() {
    let world = default_world().await;
    for number in 0..12 {
        numbered(&world, number).await;
    }
    assert_eq!(send(&world, 500).await.len(), 10);
    let world = world.served_with(FaultPlan::none()).await;
    world.time.pass(MINUTE);
    assert_eq!(send(&world, 500).await, []);
}
