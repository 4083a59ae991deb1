//! Tests of holds on the writes of an organisation that is being moved.

use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::internals::keys;
use knowledge_core::model::{EventType, MemoryId, NewWebhook, Timestamp, WebhookId};
use knowledge_core::service::{AttemptOutcome, ClaimedDelivery, InFlight, KnowledgeService};
use knowledge_core::store::{Commit, CommitOutcome, Store};
use knowledge_testing::fixture::OrgFixture;
use knowledge_testing::seed::confirm;

use crate::dispatching::answer;
use crate::make::MINUTE;
use crate::partitions::{Site, service_over, token, verify};

const URL: &str = "https://hooks.invalid/hook";
const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

impl Site {
    /// Holds the writes of the organisation, as a move that is killed right then leaves it.
    pub(crate) async fn hold(&self) {
        let value = r#"{"from":"home","to":"eu"}"#;
        let commit = Commit::builder().put(keys::hold(self.org.id), value);
        let outcome = self.home.commit(commit.build().unwrap()).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Committed(_)));
    }

    async fn release(&self) {
        let commit = Commit::builder().delete(keys::hold(self.org.id));
        let outcome = self.home.commit(commit.build().unwrap()).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Committed(_)));
    }
}

async fn delete(service: &KnowledgeService, org: &OrgFixture, memory: MemoryId) {
    service
        .memories()
        .delete(&token(org), memory)
        .await
        .unwrap();
}

async fn fan_out(service: &KnowledgeService, now: Timestamp) -> u64 {
    let mut deliveries = 0;
    loop {
        let report = service.dispatcher().fan_out(now).await.unwrap();
        deliveries += report.deliveries;
        if !report.has_more {
            return deliveries;
        }
    }
}

async fn claim(service: &KnowledgeService, now: Timestamp) -> Vec<ClaimedDelivery> {
    let mut claimed = Vec::new();
    loop {
        let in_flight = InFlight::default();
        let batch = service
            .dispatcher()
            .claim(now, 256, &in_flight)
            .await
            .unwrap();
        claimed.extend(batch.deliveries);
        if !batch.has_more {
            return claimed;
        }
    }
}

async fn maintain(service: &KnowledgeService, now: Timestamp) -> u64 {
    let mut purged = 0;
    loop {
        let report = service.maintain(now).await.unwrap();
        purged += report.purged;
        if !report.has_more {
            return purged;
        }
    }
}

/// Creates a confirmed webhook that receives deletions.
async fn webhook(service: &KnowledgeService, org: &OrgFixture) -> WebhookId {
    let new = NewWebhook::builder()
        .event_type(EventType::ChunkDeleted)
        .url(URL.parse().unwrap())
        .build();
    let created = service
        .webhooks()
        .create(&token(org), org.side.id, &new)
        .await;
    let id = created.unwrap().id;
    confirm(service, id.into()).await.unwrap();
    id
}

#[tokio::test]
async fn hold_rejects_writes_of_its_organisation_only() {
    let site = Site::new().await;
    let service = service_over(&site.home).await;
    let memory = site.org.side.memories.internal[0];
    site.hold().await;
    let rejected = service.memories().delete(&token(&site.org), memory).await;
    assert!(
        matches!(rejected, Err(Error::Unavailable { .. })),
        "{rejected:?}"
    );
    let read = service.memories().get(&token(&site.org), memory).await;
    assert!(read.is_ok(), "reads are served: {read:?}");
    let other = site.other.side.memories.internal[0];
    delete(&service, &site.other, other).await;
    site.release().await;
    delete(&service, &site.org, memory).await;
}

#[tokio::test]
async fn hold_delays_no_work_of_others() {
    let site = Site::new().await;
    let service = service_over(&site.home).await;
    // Whatever was in flight is due again.
    let now = service.env().now().plus(MINUTE);
    fan_out(&service, now).await;
    claim(&service, now).await;
    let endpoint = {
        let (theirs, other) = (&site.org.side.memories, &site.other.side.memories);
        let id = webhook(&service, &site.other).await;
        delete(&service, &site.org, theirs.internal[0]).await;
        delete(&service, &site.other, other.internal[0]).await;
        id
    };
    let is_other = |claimed: &ClaimedDelivery| claimed.lease.endpoint() == endpoint.into();
    let now = now.plus(MINUTE);
    assert!(fan_out(&service, now).await > 0);
    let in_flight = claim(&service, now).await;
    let of_other = in_flight.iter().filter(|claimed| is_other(claimed)).count();
    assert!(
        (1..in_flight.len()).contains(&of_other),
        "both have deliveries in flight"
    );
    delete(&service, &site.org, site.org.side.memories.internal[1]).await;
    delete(&service, &site.other, site.other.side.memories.internal[1]).await;
    site.hold().await;

    let now = now.plus(SECOND);
    let mut leases: Vec<_> = in_flight.iter().map(|claimed| claimed.lease).collect();
    let mut renewed = service
        .dispatcher()
        .renew_leases(now, &leases)
        .await
        .unwrap();
    leases.sort_unstable();
    renewed.sort_unstable();
    assert_eq!(renewed, leases);
    let ended = in_flight.iter().map(|one| (one.lease, answer(204)));
    let ended: Vec<_> = ended.collect();
    let outcomes = service
        .dispatcher()
        .finish_batch(now, &ended)
        .await
        .unwrap();
    let delivered = |claimed| is_other(claimed).then_some(AttemptOutcome::Delivered);
    assert_eq!(
        outcomes,
        in_flight.iter().map(delivered).collect::<Vec<_>>()
    );
    assert_eq!(fan_out(&service, now).await, 1);
    // The leases of the held organisation have expired, and cannot be claimed.
    let now = now.plus(MINUTE);
    let claimed = claim(&service, now).await;
    assert!(
        !claimed.is_empty() && claimed.iter().all(is_other),
        "{claimed:?}"
    );
    let later = now.plus(YEAR);
    assert!(maintain(&service, later).await > 0);
    assert_eq!(maintain(&service, later).await, 0);

    site.release().await;
    let claimed = claim(&service, now).await;
    assert!(
        !claimed.is_empty() && !claimed.iter().any(is_other),
        "{claimed:?}"
    );
    assert!(maintain(&service, later).await > 0);
    verify(&site.home).await;
}
