//! Fixtures for deliveries: endpoints, their events and responses.

use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    Delivery, DeliveryFailure, DeliveryFailureCode, DeliveryId, DeliveryStatus, DisabledReason,
    EndpointId, EventId, EventType, Webhook, WebhookUpdate,
};
use knowledge_core::service::{
    Attempt, AttemptOutcome, ClaimBatch, ClaimedDelivery, DeliveryLease, DeliveryRequest,
    DeliveryResponse, Endpoint, InFlight,
};
use knowledge_core::store::{Commit, Key, Store};
use serde_json::{Value, json};
use standardwebhooks::Webhook as Signer;
use uuid::Uuid;

use crate::make::MILLISECOND;
use crate::world::World;

/// A capacity beyond what any test claims at once.
pub(crate) const ROOM: usize = 256;

/// Creates a webhook of the workspace, and returns it with its secret.
pub(crate) async fn webhook(world: &World) -> Webhook {
    world.webhook(EventType::ChunkCreated).await
}

/// Returns the webhook as an endpoint.
pub(crate) fn endpoint(webhook: &Webhook) -> Endpoint {
    Endpoint::Webhook(webhook.workspace_id, webhook.id)
}

/// Returns an attempt with this status.
pub(crate) fn answer(status: u16) -> Attempt {
    Attempt {
        duration: Duration::from_millis(20),
        outcome: Ok(DeliveryResponse {
            status,
            retry_after: None,
        }),
    }
}

/// Returns an attempt with this status and a `Retry-After`.
pub(crate) fn answer_later(status: u16, retry_after: Duration) -> Attempt {
    Attempt {
        duration: Duration::from_millis(20),
        outcome: Ok(DeliveryResponse {
            status,
            retry_after: Some(retry_after),
        }),
    }
}

/// Returns an attempt without a response.
pub(crate) fn silence() -> Attempt {
    Attempt {
        duration: Duration::from_secs(15),
        outcome: Err(DeliveryFailure {
            code: DeliveryFailureCode::TimedOut,
            message: "the exchange took longer than 15 s".to_owned(),
        }),
    }
}

/// Returns these deliveries as those in flight.
pub(crate) fn under_way(claimed: &[ClaimedDelivery]) -> InFlight {
    claimed.iter().map(|one| &one.lease).collect()
}

/// Returns, for each secret, true if the request is signed with it.
///
/// The reference library verifies against the clock of the machine, which no test can stop, so that
/// its signatures are compared instead.
pub(crate) fn signed_with(request: &DeliveryRequest, secrets: &[&str]) -> Vec<bool> {
    let headers = request.headers();
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let (id, signatures) = (header("webhook-id"), header("webhook-signature"));
    let seconds = header("webhook-timestamp").parse().unwrap();
    let is_signed = |secret: &&str| {
        let signer = Signer::new(secret).unwrap();
        let wanted = signer.sign(&id, seconds, &request.body).unwrap();
        signatures.split(' ').any(|found| found == wanted)
    };
    secrets.iter().map(is_signed).collect()
}

impl World {
    /// Claims due deliveries, with none in flight.
    pub(crate) async fn claim(&self) -> ClaimBatch {
        self.claim_beside(&InFlight::default()).await
    }

    /// Claims due deliveries, with these in flight.
    pub(crate) async fn claim_beside(&self, in_flight: &InFlight) -> ClaimBatch {
        let now = self.time.now();
        let claimed = self.service.dispatcher().claim(now, ROOM, in_flight).await;
        claimed.unwrap()
    }

    /// Claims the one due delivery.
    pub(crate) async fn claim_one(&self) -> ClaimedDelivery {
        let mut claimed = self.claim().await.deliveries;
        assert_eq!(claimed.len(), 1, "{claimed:?}");
        claimed.remove(0)
    }

    pub(crate) async fn finish(
        &self,
        claimed: &ClaimedDelivery,
        attempt: &Attempt,
    ) -> AttemptOutcome {
        let now = self.time.now();
        let finished = self
            .service
            .dispatcher()
            .finish(now, &claimed.lease, attempt);
        finished.await.unwrap()
    }

    /// Renews leases now.
    pub(crate) async fn renew(
        &self,
        leases: &[DeliveryLease],
    ) -> Result<Vec<DeliveryLease>, Error> {
        let now = self.time.now();
        self.service.dispatcher().renew_leases(now, leases).await
    }

    /// Updates a webhook by the owner, in its own workspace, and returns it.
    pub(crate) async fn change_webhook(&self, of: &Webhook, update: WebhookUpdate) -> Webhook {
        let calls = self.within(of.workspace_id);
        let updated = calls.update_webhook(of.id, &update, None).await;
        updated.unwrap().value
    }

    /// Returns the number of disabled endpoints, as it is counted.
    pub(crate) async fn disabled_endpoints(&self) -> i64 {
        self.counter(keys::disabled_endpoint_count(self.org.id))
            .await
    }

    /// Confirms new endpoints, while nothing but their pings is due.
    pub(crate) async fn confirm_due(&self) {
        for claimed in self.claim().await.deliveries {
            assert_eq!(claimed.event_type, EventType::WebhookPing);
            let finished = self.finish(&claimed, &answer(204)).await;
            assert_eq!(finished, AttemptOutcome::Delivered);
        }
        self.time.pass(MILLISECOND);
        assert_eq!(self.claim().await, ClaimBatch::default());
    }

    pub(crate) async fn ping(&self, to: &Webhook) -> Delivery {
        let made = self.ping_endpoint(endpoint(to)).await;
        made.unwrap()
    }

    pub(crate) async fn delivery(&self, to: &Webhook, id: DeliveryId) -> Delivery {
        let read = self.get_delivery(endpoint(to), id).await;
        read.unwrap()
    }

    /// Queues this many due deliveries for a webhook: pings, but with the whole retry schedule.
    pub(crate) async fn announce(&self, to: &Webhook, count: usize) -> Vec<Delivery> {
        self.announce_to(endpoint(to), count).await
    }

    pub(crate) async fn announce_to(&self, to: Endpoint, count: usize) -> Vec<Delivery> {
        let id = match to {
            Endpoint::Webhook(_, id) => id.into(),
            Endpoint::Subscription(id) => id.into(),
        };
        let mut made = Vec::with_capacity(count);
        for _ in 0..count {
            let delivery = self.ping_endpoint(to).await.unwrap();
            let key = keys::delivery(self.org.id, id, delivery.event_id);
            let mut stored: Value = self.read(&key).await.unwrap();
            stored.as_object_mut().unwrap().remove("is_ping");
            self.overwrite(key, stored.to_string()).await;
            made.push(delivery);
        }
        made
    }

    /// Queues very many due deliveries for a webhook: copies of one, each with its own event.
    pub(crate) async fn announce_thousands(&self, to: &Webhook, count: u128) {
        let (org, endpoint) = (self.org.id, EndpointId::from(to.id));
        let made = self.announce(to, 1).await.remove(0);
        let delivery: Value = self
            .read(&keys::delivery(org, endpoint, made.event_id))
            .await
            .unwrap();
        let announced: Value = self.read(&keys::event(org, made.event_id)).await.unwrap();
        let due = delivery["due"].as_str().unwrap().parse().unwrap();
        let numbers: Vec<u128> = (1..count).collect();
        for numbers in numbers.chunks(500) {
            let mut commit = Commit::builder();
            for number in numbers {
                let event = EventId(Uuid::from_u128(made.event_id.0.as_u128() + number));
                let id = DeliveryId::of(event, endpoint);
                let mut announced = announced.clone();
                announced["event"]["id"] = json!(event);
                let mut delivery = delivery.clone();
                delivery["delivery"]["id"] = json!(id);
                delivery["delivery"]["event_id"] = json!(event);
                let place = json!({ "endpoint": endpoint, "event": event });
                commit = commit
                    .put(keys::event(org, event), announced.to_string())
                    .put(keys::delivery(org, endpoint, event), delivery.to_string())
                    .put(keys::delivery_id(org, id), place.to_string())
                    .put(keys::delivery_due(org, endpoint, due, event), "null");
            }
            commit = commit.add(
                keys::undelivered_count(org),
                i64::try_from(numbers.len()).unwrap(),
            );
            self.faults.commit(commit.build().unwrap()).await.unwrap();
        }
    }

    /// Causes each kind of audit entry about deliveries.
    ///
    /// A response disables the endpoint, a ping enables it again, and a delivery is redelivered.
    pub(crate) async fn deliver_everything(&self, to: Endpoint) {
        self.announce_to(to, 1).await;
        let gone = self.finish(&self.claim_one().await, &answer(410)).await;
        assert_eq!(gone, AttemptOutcome::Dead(Some(DisabledReason::Gone)));
        let ping = self.ping_endpoint(to).await.unwrap();
        for attempt in [answer(200), answer(204)] {
            let done = self.finish(&self.claim_one().await, &attempt).await;
            assert_eq!(done, AttemptOutcome::Delivered);
            let again = self.redeliver(to, ping.id).await;
            assert_eq!(again.unwrap().status, DeliveryStatus::Pending);
        }
        self.finish(&self.claim_one().await, &answer(200)).await;
    }

    /// Writes directly to the store, without faults.
    pub(crate) async fn overwrite(&self, key: Key, value: String) {
        let commit = Commit::builder().put(key, value).build().unwrap();
        self.faults.commit(commit).await.unwrap();
    }

    /// Returns the number of pending deliveries, which counter and queues must agree on.
    pub(crate) async fn undelivered(&self) -> usize {
        let queued = self.family("delivery_due").await.len();
        let counted = self.counter(keys::undelivered_count(self.org.id)).await;
        assert_eq!(counted, i64::try_from(queued).unwrap());
        queued
    }
}
