//! A service as the clones of its handle share it, with what this process remembers.

use std::sync::{Arc, OnceLock};

use crate::env::Env;
use crate::limits::Limits;
use crate::model::{AddressPolicy, AuditReads};
use crate::service::access::acted_for::ActedFor;
use crate::service::audit::written_in_hour::WrittenInHour;
use crate::service::deliveries::{CorruptEvents, NextTurn, NotifyingStore, Signal};
use crate::service::maintain::TaskTurns;
use crate::service::memories::fair_queue::FairQueue;
use crate::service::meta::Meta;
use crate::service::operation::KnownLogins;
use crate::service::search::SearchIndexes;
use crate::service::secrets::sealing::Sealer;
use crate::service::workspace::dashboard_cache::DashboardCache;
use crate::service::{Options, SessionTimeouts};
use crate::store::Store;

/// Store, options and caches of a service.
pub(super) struct Inner {
    pub(super) store: Arc<dyn Store>,
    /// Contents of `meta` while the service can serve the store.
    pub(super) meta: Meta,
    pub(super) env: Env,
    pub(super) sealer: Sealer,
    pub(super) limits: Limits,
    pub(super) public_url: String,
    pub(super) base_url: OnceLock<String>,
    pub(super) webhook_addresses: AddressPolicy,
    pub(super) audit_reads: AuditReads,
    pub(super) session_timeouts: SessionTimeouts,
    pub(super) corrupt_events: CorruptEvents,
    pub(super) written_in_hour: WrittenInHour,
    pub(super) next_turn: NextTurn,
    pub(super) bulk_queue: FairQueue,
    pub(super) logins: KnownLogins,
    pub(super) acted_for: ActedFor,
    pub(super) dashboards: DashboardCache,
    pub(super) search_indexes: SearchIndexes,
    pub(super) task_turns: TaskTurns,
    pub(super) pending: Arc<Signal>,
}

impl Inner {
    pub(super) fn new(store: Arc<dyn Store>, meta: Meta, env: Env, options: Options) -> Self {
        let pending = Signal::new();
        Self {
            store: Arc::new(NotifyingStore::new(store, Arc::clone(&pending))),
            meta,
            env,
            sealer: Sealer::new(&options.sealing_key),
            limits: options.limits,
            public_url: options.public_url.unwrap_or_default(),
            base_url: OnceLock::new(),
            webhook_addresses: options.webhook_addresses,
            audit_reads: options.audit_reads,
            session_timeouts: options.session_timeouts,
            corrupt_events: CorruptEvents::default(),
            written_in_hour: WrittenInHour::default(),
            next_turn: NextTurn::default(),
            bulk_queue: FairQueue::default(),
            logins: KnownLogins::default(),
            acted_for: ActedFor::default(),
            dashboards: DashboardCache::default(),
            search_indexes: SearchIndexes::default(),
            task_turns: TaskTurns::default(),
            pending,
        }
    }
}
