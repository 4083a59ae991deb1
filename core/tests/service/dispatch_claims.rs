//! Claims: who gets what, in which order, for how long.

use knowledge_core::model::{DeliveryStatus, EventType};
use knowledge_core::service::{DELIVERY_LEASE, Finished};

use crate::dispatching::{answer, signed_with, webhook};
use crate::make::MILLISECOND;
use crate::world::World;

#[tokio::test]
async fn what_is_due_is_claimed_signed_and_delivered() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let delivery = world.announce(&webhook, 1).await.remove(0);
    assert_eq!(delivery.status, DeliveryStatus::Pending);
    let claimed = world.claim_one().await;
    assert_eq!(claimed.event_type, EventType::WebhookPing);
    let request = &claimed.request;
    assert_eq!(request.id, delivery.id);
    assert_eq!(request.url, webhook.url);
    assert_eq!(request.timestamp, world.time.now());
    assert!(signed_with(request, &[webhook.signing_secret.as_ref().unwrap()]) == [true]);
    world.assert_whole().await;

    // Nobody else gets it before the lease lapses.
    let again = world.claim().await;
    assert_eq!(again.deliveries, []);
    assert_eq!(again.next_due, Some(world.time.now().plus(DELIVERY_LEASE)));
    assert_eq!(
        world.finish(&claimed, &answer(204)).await,
        Finished::Delivered
    );
    let delivered = world.delivery(&webhook, delivery.id).await;
    assert_eq!(delivered.status, DeliveryStatus::Delivered);
    assert_eq!(delivered.next_attempt_at, None);
    assert_eq!(delivered.attempts.len(), 1);
    assert_eq!(delivered.attempts[0].status, Some(204));
    assert_eq!(delivered.attempts[0].duration_ms, 20);
    assert_eq!(world.undelivered().await, 0);
    world.time.pass(MILLISECOND);
    assert_eq!(world.claim().await, Default::default());
    world.assert_whole().await;
}
