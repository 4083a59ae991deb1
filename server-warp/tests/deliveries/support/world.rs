//! A store with one organisation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use knowledge_core::env::{Clock, Env, OsRandomness};
use knowledge_core::model::{
    AddressPolicy, Delivery, EventType, MemoryId, NewWebhook, SourceId, Timestamp, Webhook,
    WebhookId, WorkspaceId,
};
use knowledge_core::service::{
    Caller, Endpoint, KnowledgeService, Options, OutboxStatus, PageRequest, SealingKey,
};
use knowledge_core::store::{MemoryStore, Store};
use knowledge_testing::fixture;
use knowledge_testing::requests::{new_memory, with};
use knowledge_testing::seed::confirm;
use tokio::time::Instant;

use super::until;

/// Number of events of an ingest: `chunk.created` and `ingest.completed`.
pub(crate) const EVENTS_PER_INGEST: u32 = 2;

/// A clock that follows tokio's, which a test can pause, and that can be set forward.
#[derive(Clone, Debug)]
pub(crate) struct VirtualClock {
    began: Instant,
    base: Timestamp,
    ahead: Arc<Mutex<Duration>>,
}

impl VirtualClock {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            base: Env::system().now(),
            ahead: Arc::default(),
        }
    }

    pub(crate) fn set_forward(&self, by: Duration) {
        *self.ahead.lock().expect("no panic") += by;
    }
}

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let ahead = *self.ahead.lock().expect("no panic");
        self.base.plus(self.began.elapsed() + ahead)
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Returns a policy that permits public addresses and this machine, also without TLS.
pub(crate) fn addresses() -> AddressPolicy {
    AddressPolicy {
        allow: vec!["127.0.0.0/8".parse().expect("a range")],
        allow_http: true,
    }
}

/// Opens the service over a store, with the sealing key of these tests.
pub(crate) async fn open(store: Arc<dyn Store>, env: Env) -> KnowledgeService {
    let options = with(Options::new(SealingKey::new([7; 32])), |options| {
        options.webhook_addresses = addresses();
        // All endpoints of these tests are at a few hosts.
        options.limits.pings_per_host_max = 900;
    });
    let opened = KnowledgeService::open(store, env, options).await;
    opened.expect("open the service")
}

/// An organisation with one workspace.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) service: KnowledgeService,
    pub(crate) owner: Caller,
    pub(crate) workspace: WorkspaceId,
    source: SourceId,
}

impl World {
    /// Creates a world in memory, by tokio's clock.
    pub(crate) async fn virtual_time() -> (Arc<dyn Store>, Env, Self) {
        Self::by_clock(VirtualClock::new()).await
    }

    /// Creates a world in memory, by a clock that the test sets.
    pub(crate) async fn by_clock(clock: VirtualClock) -> (Arc<dyn Store>, Env, Self) {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let env = Env::new(clock, OsRandomness);
        let world = Self::seeded(open(Arc::clone(&store), env.clone()).await).await;
        (store, env, world)
    }

    /// Returns the same world, through another service over its store.
    pub(crate) fn through(&self, service: KnowledgeService) -> Self {
        Self {
            service,
            ..self.clone()
        }
    }

    /// Creates the organisation in an empty store.
    pub(crate) async fn seeded(service: KnowledgeService) -> Self {
        let seeded = fixture::seed_orgs(&service, 1).await;
        let org = seeded.expect("seed the store").orgs.remove(0);
        Self {
            owner: org.trusted_owner(),
            workspace: org.empty.id,
            source: org.sources[0],
            service,
        }
    }

    /// Creates a confirmed webhook of the workspace, and returns it with its secret.
    pub(crate) async fn webhook(&self, event_type: EventType, url: &str) -> Webhook {
        let new = NewWebhook::builder()
            .event_type(event_type)
            .url(url.parse().expect("a URL"))
            .build();
        let created = self
            .service
            .webhooks()
            .create(&self.owner, self.workspace, &new);
        let created = created.await.expect("a webhook");
        let confirmed = confirm(&self.service, created.id.into()).await;
        confirmed.expect("confirmed");
        created
    }

    /// Creates a webhook for new memories.
    pub(crate) async fn chunk_webhook(&self, url: &str) -> Webhook {
        self.webhook(EventType::ChunkCreated, url).await
    }

    /// Adds a memory, which is announced as `chunk.created`.
    pub(crate) async fn ingest(&self) -> MemoryId {
        let batch = [new_memory("Note")];
        let ingested = self
            .service
            .memories()
            .ingest(&self.owner, self.workspace, self.source, &batch)
            .await;
        ingested.expect("ingested")[0].id.expect("a new memory")
    }

    /// Returns the deliveries of events to a webhook, without its pings, the newest event first.
    pub(crate) async fn deliveries(&self, webhook: WebhookId) -> Vec<Delivery> {
        let endpoint = Endpoint::Webhook(self.workspace, webhook);
        let mut request = PageRequest::default();
        let mut deliveries = Vec::new();
        loop {
            let page = self
                .service
                .deliveries()
                .list(&self.owner, endpoint, None, &request)
                .await
                .expect("the deliveries");
            deliveries.extend(page.data);
            request.cursor = page.next_cursor;
            if request.cursor.is_none() {
                deliveries.retain(|delivery| delivery.event_type != EventType::WebhookPing);
                return deliveries;
            }
        }
    }

    pub(crate) async fn outbox(&self) -> OutboxStatus {
        self.service
            .dispatcher()
            .outbox_status()
            .await
            .expect("the outbox")
    }

    /// Waits until each delivery has succeeded or is a dead letter.
    pub(crate) async fn is_idle(&self) {
        until("everything to be delivered", async || {
            let status = self.outbox().await;
            status.pending_events == 0 && status.undelivered == 0
        })
        .await;
    }
}
