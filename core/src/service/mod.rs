//! The service: one module per capability, all over one store.

pub(crate) mod access;
pub(crate) mod audit;
mod connectors;
mod deliveries;
mod endpoints;
mod erasures;
pub(crate) mod etag;
pub(crate) mod generations;
mod inbound;
mod maintain;
mod members;
mod memories;
mod meta;
pub(crate) mod operation;
pub(crate) mod outbox;
pub(crate) mod page;
mod provision;
pub(crate) mod quota;
mod rekey;
mod removal;
pub(crate) mod secrets;
mod sign_in;
pub(crate) mod tasks;
mod upgrade;
mod verify;
mod workspace;
mod write_fence;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};

pub use self::access::principal::{Denial, Principal};
pub use self::audit::denied::Refusal;
use self::audit::denied::WrittenInHour;
pub use self::audit::entry::{AuditEntry, AuditOutcome, AuditResource, ClientInfo};
pub use self::audit::log::AuditFilter;
pub use self::connectors::types::{Connector, ConnectorDetails, ConnectorUpdate, NewConnector};
pub use self::connectors::types::{SyncOutcome, SyncOutcomeKind, SyncReport};
#[doc(hidden)]
pub use self::deliveries::FanOutLimits;
pub use self::deliveries::{
    Attempt, AttemptOutcome, ClaimBatch, ClaimedDelivery, DELIVERY_LEASE, DELIVERY_TIMEOUT,
    DeliveryLease, DeliveryRequest, DeliveryResponse, DeliverySender, DispatchLimits,
    DispatchReport, Endpoint, FanOutReport, IN_FLIGHT_PER_ENDPOINT_MAX,
    IN_FLIGHT_PER_QUICK_ENDPOINT_MAX, InFlight, OutboxStatus, QUICK_RESPONSE_MAX,
    RESPONSE_BYTES_MAX, RedeliveryReport,
};
use self::deliveries::{CorruptEvents, NextTurn, NotifyingStore, Signal};
pub use self::erasures::ErasureResult;
pub use self::etag::{IfMatch, WithEtag};
pub use self::inbound::post::{InboundBatch, VerifiedMessage};
pub use self::maintain::MaintenanceReport;
use self::maintain::TaskTurns;
pub use self::members::assign::MemberAssignment;
pub use self::members::change::{MemberDetails, MemberUpdate, WorkspaceRole};
pub use self::members::roles::DeleteRole;
pub use self::memories::change::CreateMemory;
pub use self::memories::counts::MemoryCounts;
use self::memories::fair_queue::FairQueue;
pub use self::memories::ingest::{
    IngestBatch, IngestOutcome, IngestResult, IngestedMemory, NewMemory,
};
pub use self::memories::recalls::NewRecall;
pub use self::memories::sources::NewSource;
use self::meta::{Meta, known_meta};
use self::operation::KnownLogins;
use self::operation::idempotency::KeyedRequest;
pub use self::operation::idempotency::{IdempotencyKey, InvalidIdempotencyKey};
pub use self::outbox::Event;
pub use self::page::{Cursor, InvalidCursor, Page, PageRequest};
pub use self::provision::{
    EndpointKind, EndpointSummary, Issued, NewMember, NewOrganization, NewOwner, NewToken,
    NewWorkspace, Provisioning,
};
pub use self::rekey::{Rekey, RekeyReport, SealingKeys};
use self::secrets::sealing::Sealer;
pub use self::secrets::sealing::{RotatedSecret, SealingKey};
pub use self::secrets::signing::{InvalidSigningSecret, SignedMessage, SigningSecret};
pub use self::sign_in::{ACCESS_TOKEN_LIFETIME_MAX, OwnCredential, SessionTimeouts, SignedIn};
pub use self::verify::{DIFFERENCES_KEPT_MAX, Difference, DifferenceCode, Verification, Verify};
pub use self::workspace::chats::{Chat, ChatMessage, NewChat, SNIPPET_CHARS_MAX};
pub(crate) use self::workspace::dashboard_cache::Dashboard;
use self::workspace::dashboard_cache::DashboardCache;
pub use self::workspace::mcp_key_types::{IssuedMcpKey, NewMcpKey};
pub use self::workspace::retention::{MemoryDays, NewRetention, Retention};
use crate::access::{Credential, CredentialKind};
use crate::env::Env;
use crate::error::Error;
pub use crate::format::SCHEMA;
use crate::keys;
use crate::limits::{InvalidLimit, Limits};
use crate::model::{AddressPolicy, AuditReads};
pub use crate::model::{AuditAction, ResourceKind};
use crate::request::Checks;
use crate::store::{
    MaybeSend, Prepared, Store, StoreError, StoreExt, Transaction, TransactionError, transact,
};

/// Options of [`KnowledgeService::open`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Key that seals the stored signing secrets.
    pub sealing_key: SealingKey,
    /// Limits in force.
    pub limits: Limits,
    /// Public base URL of the service, without a trailing slash.
    ///
    /// The URLs of inbound webhooks begin with it; without it they are paths.
    pub public_url: Option<String>,
    /// Addresses that webhooks and citation subscriptions may be registered for.
    pub webhook_addresses: AddressPolicy,
    /// Reads that the audit log records. Their answers wait for the commit of the entries.
    pub audit_reads: AuditReads,
    /// Time-outs of the sessions that sign-ins create.
    pub session_timeouts: SessionTimeouts,
}

impl Options {
    /// Creates options with this sealing key and defaults for everything else.
    #[must_use]
    pub fn new(sealing_key: SealingKey) -> Self {
        Self {
            sealing_key,
            limits: Limits::default(),
            public_url: None,
            webhook_addresses: AddressPolicy::default(),
            audit_reads: AuditReads::default(),
            session_timeouts: SessionTimeouts::default(),
        }
    }
}

/// The workspace knowledge service over one store. Clones are cheap and share one service.
///
/// Every operation takes the [`Credential`] of its caller, decides on what is stored and commits at
/// most once. An operation that returns an error has changed nothing, except that with
/// [`Error::Unavailable`] the outcome of its commit may be indeterminate.
///
/// The [crate](crate#embedding-the-service) shows how to open one. Each group of methods has an
/// example at one of them.
///
/// | group | methods |
/// | --- | --- |
/// | Opening and state | [`open`](Self::open), [`is_new`](Self::is_new), [`ready`](Self::ready), [`authenticate`](Self::authenticate), [`limits`](Self::limits), [`env`](Self::env), [`store`](Self::store), [`for_client`](Self::for_client), [`webhook_addresses`](Self::webhook_addresses), [`public_url`](Self::public_url) |
/// | Memories | [`list_memories`](Self::list_memories), [`get_memory`](Self::get_memory), [`create_memory`](Self::create_memory), [`update_memory`](Self::update_memory), [`delete_memory`](Self::delete_memory), [`ingest_memories`](Self::ingest_memories), [`bulk_update_memories`](Self::bulk_update_memories), [`check_memory_access`](Self::check_memory_access) |
/// | Sources | [`create_source`](Self::create_source), [`list_sources`](Self::list_sources), [`get_source`](Self::get_source) |
/// | Recalls | [`create_recall`](Self::create_recall), [`list_recalls`](Self::list_recalls), [`get_recall`](Self::get_recall), [`delete_recall`](Self::delete_recall) |
/// | Workspaces | [`list_workspaces`](Self::list_workspaces), [`get_workspace`](Self::get_workspace), [`get_retention`](Self::get_retention), [`set_retention`](Self::set_retention), [`get_dashboard_summary`](Self::get_dashboard_summary) |
/// | Connectors | [`create_connector`](Self::create_connector), [`list_connectors`](Self::list_connectors), [`get_connector`](Self::get_connector), [`update_connector`](Self::update_connector), [`delete_connector`](Self::delete_connector), [`report_sync`](Self::report_sync) |
/// | MCP keys | [`create_mcp_key`](Self::create_mcp_key), [`list_mcp_keys`](Self::list_mcp_keys), [`get_mcp_key`](Self::get_mcp_key), [`rotate_mcp_key`](Self::rotate_mcp_key), [`revoke_mcp_key`](Self::revoke_mcp_key), [`note_mcp_key_use`](Self::note_mcp_key_use) |
/// | Chats | [`create_chat`](Self::create_chat), [`list_chats`](Self::list_chats), [`get_chat`](Self::get_chat), [`post_chat_message`](Self::post_chat_message), [`list_chat_messages`](Self::list_chat_messages), [`delete_chat`](Self::delete_chat) |
/// | Custom roles | [`list_custom_roles`](Self::list_custom_roles), [`get_custom_role`](Self::get_custom_role), [`create_custom_role`](Self::create_custom_role), [`update_custom_role`](Self::update_custom_role), [`delete_custom_role`](Self::delete_custom_role) |
/// | Members | [`list_members`](Self::list_members), [`get_member`](Self::get_member), [`add_member`](Self::add_member), [`update_member`](Self::update_member), [`remove_member`](Self::remove_member), [`assign_role`](Self::assign_role), [`end_workspace_role`](Self::end_workspace_role) |
/// | Audit log | [`list_audit_entries`](Self::list_audit_entries), [`get_audit_entry`](Self::get_audit_entry), [`record_refusal`](Self::record_refusal) |
/// | Erasures | [`create_erasure`](Self::create_erasure), [`list_erasures`](Self::list_erasures), [`get_erasure`](Self::get_erasure) |
/// | Webhooks | [`create_webhook`](Self::create_webhook), [`list_webhooks`](Self::list_webhooks), [`get_webhook`](Self::get_webhook), [`update_webhook`](Self::update_webhook), [`delete_webhook`](Self::delete_webhook), [`rotate_webhook_secret`](Self::rotate_webhook_secret) |
/// | Citation subscriptions | [`create_citation_subscription`](Self::create_citation_subscription), [`list_citation_subscriptions`](Self::list_citation_subscriptions), [`get_citation_subscription`](Self::get_citation_subscription), [`delete_citation_subscription`](Self::delete_citation_subscription), [`rotate_citation_subscription_secret`](Self::rotate_citation_subscription_secret) |
/// | Deliveries of both | [`list_deliveries`](Self::list_deliveries), [`get_delivery`](Self::get_delivery), [`redeliver`](Self::redeliver), [`redeliver_dead`](Self::redeliver_dead), [`ping`](Self::ping) |
/// | Inbound webhooks | [`create_inbound_webhook`](Self::create_inbound_webhook), [`list_inbound_webhooks`](Self::list_inbound_webhooks), [`get_inbound_webhook`](Self::get_inbound_webhook), [`update_inbound_webhook`](Self::update_inbound_webhook), [`delete_inbound_webhook`](Self::delete_inbound_webhook), [`rotate_inbound_webhook_secret`](Self::rotate_inbound_webhook_secret), [`verify_message`](Self::verify_message), [`ingest_message`](Self::ingest_message), [`reject_message`](Self::reject_message) |
/// | Dispatching, in one call | [`dispatch`](Self::dispatch), [`deliveries_pending`](Self::deliveries_pending), [`outbox_status`](Self::outbox_status) |
/// | Dispatching, step by step | [`fan_out`](Self::fan_out), [`outbox_additions`](Self::outbox_additions), [`claim_deliveries`](Self::claim_deliveries), [`renew_leases`](Self::renew_leases), [`finish_delivery`](Self::finish_delivery), [`finish_deliveries`](Self::finish_deliveries) |
/// | Signing in | [`sign_in`](Self::sign_in), [`session`](Self::session), [`access_token`](Self::access_token), [`sign_out`](Self::sign_out), [`own_credentials`](Self::own_credentials), [`end_own_credential`](Self::end_own_credential), [`seal_text`](Self::seal_text), [`open_text`](Self::open_text) |
/// | Operator | [`provisioning`](Self::provisioning), [`maintain`](Self::maintain), [`verify`](Self::verify), [`memory_counts`](Self::memory_counts) |
#[derive(Clone)]
pub struct KnowledgeService {
    inner: Arc<Inner>,
    /// Client of the calls made through this clone.
    client: ClientInfo,
    /// Request with an idempotency key that this clone carries out.
    keyed: Option<Arc<KeyedRequest>>,
}

struct Inner {
    store: Arc<dyn Store>,
    /// Contents of `meta` while the service can serve the store.
    meta: Meta,
    env: Env,
    sealer: Sealer,
    limits: Limits,
    public_url: String,
    base_url: OnceLock<String>,
    webhook_addresses: AddressPolicy,
    audit_reads: AuditReads,
    session_timeouts: SessionTimeouts,
    corrupt_events: CorruptEvents,
    written_in_hour: WrittenInHour,
    next_turn: NextTurn,
    bulk_queue: FairQueue,
    logins: KnownLogins,
    dashboards: DashboardCache,
    task_turns: TaskTurns,
    pending: Arc<Signal>,
}

impl fmt::Debug for KnowledgeService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnowledgeService")
            .field("limits", &self.inner.limits)
            .finish_non_exhaustive()
    }
}

/// Reason for which a store cannot be served.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Failure of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Store written by a later version.
    #[error(
        "the store has schema {found}, but this program supports schemas up to {SCHEMA}; \
         use a later version"
    )]
    LaterSchema {
        /// Schema of the store.
        found: u32,
    },
    /// Interrupted restore into the store.
    #[error(
        "the store contains an unfinished restore; restore the same dump again to complete it, or restore into a new \
         store"
    )]
    Unfinished,
    /// Secrets in the store that were sealed with another key.
    #[error(
        "the sealing key (fingerprint {given}) is not the one that sealed this store's secrets \
         (fingerprint {stored}); use that key"
    )]
    OtherSealingKey {
        /// Fingerprint of the given key.
        given: String,
        /// Fingerprint in the store.
        stored: String,
    },
    /// Unfinished replacement of the sealing key.
    #[error(
        "the sealing key {old} of this store is being replaced by {new}; complete that with both \
         keys (knowledge rekey)"
    )]
    Rekeying {
        /// Fingerprint of the key that is being replaced.
        old: String,
        /// Fingerprint of the new key.
        new: String,
    },
    /// Invalid limit.
    #[error(transparent)]
    Limit(#[from] InvalidLimit),
    /// Failure of a transaction during opening.
    #[error(transparent)]
    Transaction(TransactionError),
}

impl OpenError {
    /// Returns the error for a key that is not the one in `meta`.
    fn other_key(given: &str, stored: &str) -> Self {
        let SealingKeys { present, next } = SealingKeys::parse(stored);
        match next {
            Some(new) => Self::Rekeying { old: present, new },
            None => Self::OtherSealingKey {
                given: given.to_owned(),
                stored: present,
            },
        }
    }
}

impl From<TransactionError> for OpenError {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Store(error) => Self::Store(error),
            error => Self::Transaction(error),
        }
    }
}

/// # Opening and state
impl KnowledgeService {
    /// Opens a service over a store.
    ///
    /// An empty store is initialised, and one of an earlier schema is upgraded.
    ///
    /// # Errors
    /// [`OpenError`] if a limit is invalid, or if the store fails, is of a later version, has an
    /// unfinished restore or replacement of its key, or is sealed with another key.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    ///
    /// use knowledge_core::env::Env;
    /// use knowledge_core::service::{KnowledgeService, OpenError, Options, SealingKey};
    /// use knowledge_core::store::MemoryStore;
    ///
    /// let (store, env) = (Arc::new(MemoryStore::new()), Env::system());
    /// let mut options = Options::new(SealingKey::generate(&env));
    /// options.public_url = Some("https://knowledge.example.com".to_owned());
    /// options.limits.webhooks_per_workspace_max = 5;
    /// let service = KnowledgeService::open(store.clone(), env.clone(), options).await?;
    /// service.ready().await?;
    ///
    /// // From now on, only the same key opens the store.
    /// let options = Options::new(SealingKey::generate(&env));
    /// let rejected = KnowledgeService::open(store, env, options).await;
    /// assert!(matches!(rejected, Err(OpenError::OtherSealingKey { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(
        store: Arc<dyn Store>,
        env: Env,
        options: Options,
    ) -> Result<Self, OpenError> {
        options.limits.validate()?;
        let given = Meta {
            schema: SCHEMA,
            sealing_key: options.sealing_key.fingerprint(),
        };
        let wanted = &given;
        let is_earlier = transact(&store, &env, |mut transaction| async move {
            match known_meta(&mut transaction).await? {
                None => {
                    transaction.put(keys::meta(), wanted);
                    Ok(transaction.done(false))
                }
                Some(found) if found.sealing_key != wanted.sealing_key => Err(
                    OpenError::other_key(&wanted.sealing_key, &found.sealing_key),
                ),
                Some(found) => Ok(transaction.done(found.schema < SCHEMA)),
            }
        })
        .await?;
        if is_earlier {
            upgrade::upgrade(&store, &env).await?;
        }
        let pending = Signal::new();
        let inner = Inner {
            store: Arc::new(NotifyingStore::new(store, Arc::clone(&pending))),
            meta: given,
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
            dashboards: DashboardCache::default(),
            task_turns: TaskTurns::default(),
            pending,
        };
        Ok(Self {
            inner: Arc::new(inner),
            client: ClientInfo::default(),
            keyed: None,
        })
    }

    /// Returns a clone whose calls are recorded in the audit log with these facts about the client.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use knowledge_core::service::{AuditAction, AuditFilter, ClientInfo, PageRequest};
    ///
    /// let mut client = ClientInfo::default();
    /// client.address = Some("192.0.2.7".parse()?);
    /// service.for_client(client).delete_memory(&owner, memories[0]).await?;
    /// let filter = AuditFilter::builder().action(AuditAction::MemoryDelete).build();
    /// let page = PageRequest::default();
    /// let entries = service.list_audit_entries(&owner, &filter, &page).await?.data;
    /// assert_eq!(entries[0].client_address, client.address);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn for_client(&self, client: ClientInfo) -> Self {
        Self {
            client,
            ..self.clone()
        }
    }

    /// Returns true if no service has opened the store yet.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn is_new(store: &dyn Store) -> Result<bool, StoreError> {
        Ok(store.get(&[keys::meta()]).await?[0].is_none())
    }

    /// Returns the limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Returns the policy for the addresses of deliveries.
    ///
    /// A sender applies it again: to the URL before each attempt, and to each address that a name
    /// resolves to.
    #[must_use]
    pub fn webhook_addresses(&self) -> &AddressPolicy {
        &self.inner.webhook_addresses
    }

    /// Returns true if the audit log records reads of confidential and restricted memories.
    pub(crate) fn audits_reads(&self) -> bool {
        self.inner.audit_reads == AuditReads::Confidential
    }

    /// Returns what requests are checked against.
    pub(crate) fn checks(&self) -> Checks<'_> {
        Checks {
            limits: self.limits(),
            addresses: Some(self.webhook_addresses()),
        }
    }

    /// Returns the refusals and the uses of credentials that this process need not write any more.
    pub(crate) fn written_in_hour(&self) -> &WrittenInHour {
        &self.inner.written_in_hour
    }

    /// Returns the clock and the source of randomness of the service.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// Returns the store of the service.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Checks that the store responds and can still be served.
    ///
    /// # Errors
    /// [`Error::Unavailable`]. It persists once another process has upgraded the store or replaced its
    /// sealing key: then a service has to be opened as such a store requires.
    pub async fn ready(&self) -> Result<(), Error> {
        self.inner.meta.require_unchanged(&*self.inner.store).await
    }

    /// Authenticates a caller.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a credential that is unknown, expired, revoked or not of the
    /// kind `wanted`, and those of the store.
    pub async fn authenticate(
        &self,
        credential: &Credential,
        wanted: CredentialKind,
    ) -> Result<Principal, Error> {
        let authenticated = self
            .transact(|mut reading| async move {
                let now = self.env().now();
                let caller = Principal::authenticate(&mut reading, credential, wanted, now).await?;
                Ok(reading.done(caller))
            })
            .await;
        self.end_rejected(credential, authenticated.as_ref().err());
        authenticated
    }

    // Not `async`: that would wrap one future in another for each of a hundred operations.
    fn transact<T, F, D>(&self, decide: F) -> impl Future<Output = Result<T, Error>>
    where
        T: MaybeSend,
        F: FnMut(Transaction) -> D + MaybeSend,
        D: Future<Output = Result<Prepared<T>, Error>> + MaybeSend,
    {
        transact(&self.inner.store, &self.inner.env, decide)
    }

    /// Begins a transaction for reads without a commit.
    fn reading(&self) -> Transaction {
        Transaction::begin(Arc::clone(&self.inner.store))
    }
}
