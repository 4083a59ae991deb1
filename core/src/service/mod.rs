//! The service: one file per capability, all over one store.

mod audit;
mod audit_log;
mod audit_pages;
mod audit_runs;
mod bulk;
mod chats;
mod citations;
mod connector_health;
mod connectors;
mod dashboard;
mod deliveries;
mod events;
mod idempotency;
mod inbound;
mod inbound_posts;
mod ingest;
mod maintain;
mod mcp_keys;
mod member_changes;
mod member_removal;
mod members;
mod memories;
mod memory_changes;
mod memory_view;
mod page;
mod provision;
mod recalls;
mod role_deletion;
mod roles;
mod sealing;
mod signing;
mod sources;
mod syncs;
mod tagged;
mod upgrade;
mod validate;
mod verify;
mod webhooks;
mod workspaces;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::audit::{AuditAction, AuditEntry, AuditOutcome, AuditResource, ResourceKind};
pub use self::audit_log::AuditFilter;
pub(crate) use self::bulk::{CHANGE_RULE, check_memory_ids};
pub use self::chats::{Chat, ChatMessage, SNIPPET_CHARS_MAX};
pub use self::connectors::{Connector, ConnectorDetails, ConnectorUpdate, NewConnector};
#[cfg(feature = "openapi")]
pub(crate) use self::connectors::{SYNC_INTERVAL_MAX, SYNC_INTERVAL_MIN};
use self::deliveries::Damage;
#[doc(hidden)]
pub use self::deliveries::ExpansionLimits;
pub use self::deliveries::{
    ANSWER_BYTES_MAX, Attempt, Claimed, ClaimedDelivery, DELIVERY_LEASE, DELIVERY_TIMEOUT,
    DeliveryAnswer, DeliveryLease, DeliveryRequest, DeliverySender, DispatchLimits, Dispatched,
    Endpoint, Expanded, Finished, IN_FLIGHT_PER_ENDPOINT_MAX, InFlight, OutboxStatus, Redelivered,
};
pub use self::events::Event;
pub use self::idempotency::{IdempotencyKey, InvalidIdempotencyKey};
pub use self::inbound_posts::{InboundBatch, VerifiedMessage};
#[cfg(feature = "openapi")]
pub(crate) use self::ingest::SOURCE_KEY_CHARS_MAX;
pub(crate) use self::ingest::check_together;
pub use self::ingest::{IngestBatch, IngestOutcome, IngestResult, IngestedMemory, NewMemory};
pub use self::maintain::Maintained;
#[cfg(feature = "openapi")]
pub(crate) use self::mcp_keys::ROTATION_MAX;
pub(crate) use self::mcp_keys::{AUDIENCE_MAX, check_rotation};
pub use self::mcp_keys::{IssuedMcpKey, NewMcpKey, ROTATION_DEFAULT};
pub use self::member_changes::{MemberDetails, MemberUpdate, WorkspaceRole};
pub use self::members::MemberAssignment;
pub use self::memory_changes::CreateMemory;
pub use self::page::{Cursor, InvalidCursor, Page, PageRequest};
pub(crate) use self::provision::check_teams;
pub use self::provision::{
    EndpointKind, EndpointSummary, Issued, NewMember, NewToken, NewWorkspace, Provisioning,
};
pub use self::recalls::NewRecall;
pub use self::roles::DeleteRole;
pub(crate) use self::roles::check_actions;
use self::sealing::Sealer;
pub use self::sealing::{RotatedSecret, SealingKey};
pub use self::signing::{InvalidSigningSecret, SignedMessage, SigningSecret};
pub use self::sources::NewSource;
pub use self::syncs::{SyncOutcome, SyncOutcomeKind, SyncReport};
pub use self::tagged::{IfMatch, Tagged};
pub(crate) use self::validate::Problems;
pub use self::validate::{SLUG_RULE, name_problem};
pub use self::verify::{DIFFERENCES_KEPT_MAX, Difference, DifferenceCode, Verification, Verify};
use crate::access::{Credential, CredentialKind, CredentialRecord, Need, Principal};
use crate::dump::UNFINISHED_SCHEMA;
use crate::env::Env;
use crate::error::Error;
use crate::limits::{InvalidLimit, Limits};
use crate::model::{AddressPolicy, MemberId, Workspace, WorkspaceId};
use crate::keys;
use crate::store::{Decided, MaybeSend, Store, StoreError, StoreExt, Transaction, TransactionError, transact};

/// The version of the stored form. A store of a higher one is not opened, one of a lower one is
/// upgraded.
pub const SCHEMA: u32 = 2;

/// What a service is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seals the signing secrets that are stored.
    pub sealing_key: SealingKey,
    /// The limits in force.
    pub limits: Limits,
    /// Where this service is reached from outside, without a slash at the end: the beginning of the URLs of inbound
    /// webhooks. Without it they are given as paths.
    pub public_url: Option<String>,
    /// Where deliveries may go: what webhooks and citation subscriptions may be registered for.
    pub webhook_addresses: AddressPolicy,
}

impl Options {
    /// Options with this key and everything else at its default.
    #[must_use]
    pub fn new(sealing_key: SealingKey) -> Self {
        Self {
            sealing_key,
            limits: Limits::default(),
            public_url: None,
            webhook_addresses: AddressPolicy::default(),
        }
    }
}

/// The workspace knowledge service over one store. Cheap to clone; all clones are one service.
///
/// Every operation takes the [`Credential`] of its caller, decides on what is stored and
/// commits at most once. An operation that returns an error has changed nothing, except that with
/// [`Error::Unavailable`] the answer to its commit may have been lost.
#[derive(Clone)]
pub struct KnowledgeService {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    env: Env,
    sealer: Sealer,
    limits: Limits,
    public_url: String,
    webhook_addresses: AddressPolicy,
    damage: Damage,
}

impl fmt::Debug for KnowledgeService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnowledgeService")
            .field("limits", &self.inner.limits)
            .finish_non_exhaustive()
    }
}

/// Why a store cannot be served.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store is of a later program.
    #[error(
        "the store has schema {found}, this program knows up to {SCHEMA}: use a later version of it"
    )]
    LaterSchema {
        /// The schema of the store.
        found: u32,
    },
    /// A restore into the store was interrupted.
    #[error(
        "a restore into this store was not finished: restore the same dump again to finish it, or restore into a new \
         store"
    )]
    Unfinished,
    /// The secrets in the store were sealed with another key.
    #[error(
        "the sealing key (fingerprint {given}) is not the one that this store's secrets are sealed with \
         (fingerprint {stored}): give that key"
    )]
    OtherSealingKey {
        /// The fingerprint of the key that was given.
        given: String,
        /// The fingerprint in the store.
        stored: String,
    },
    /// A limit cannot be in force.
    #[error(transparent)]
    Limit(#[from] InvalidLimit),
    /// The transaction that writes the first record came to no end.
    #[error(transparent)]
    Transaction(TransactionError),
}

impl From<TransactionError> for OpenError {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Store(error) => Self::Store(error),
            error => Self::Transaction(error),
        }
    }
}

/// The field of [`Meta`] that every program writes.
#[derive(Deserialize)]
struct Schema {
    schema: u32,
}

/// The one record about the store as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Meta {
    schema: u32,
    sealing_key: String,
}

impl KnowledgeService {
    /// Serves a store; an empty one is made ready, and one of an earlier schema is upgraded.
    ///
    /// # Errors
    /// [`OpenError`] where a limit cannot be in force, or the store fails, is of a later program or is sealed with
    /// another key.
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
            // The number alone first: what else a later program writes here is not known.
            let schema = transaction.read::<Schema>(&keys::meta()).await?;
            match schema {
                Some(Schema { schema }) if schema == UNFINISHED_SCHEMA => {
                    return Err(OpenError::Unfinished);
                }
                Some(Schema { schema: found }) if found > SCHEMA => {
                    return Err(OpenError::LaterSchema { found });
                }
                _ => {}
            }
            match transaction.read::<Meta>(&keys::meta()).await? {
                None => {
                    transaction.put(keys::meta(), wanted);
                    transaction.done(false)
                }
                Some(found) if found.sealing_key != wanted.sealing_key => {
                    let (given, stored) = (wanted.sealing_key.clone(), found.sealing_key);
                    Err(OpenError::OtherSealingKey { given, stored })
                }
                Some(found) => transaction.done(found.schema < SCHEMA),
            }
        })
        .await?;
        if is_earlier {
            upgrade::upgrade(&store, &env).await?;
        }
        let inner = Inner {
            store,
            env,
            sealer: Sealer::new(&options.sealing_key),
            limits: options.limits,
            public_url: options.public_url.unwrap_or_default(),
            webhook_addresses: options.webhook_addresses,
            damage: Damage::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Where deliveries may go. Who sends them asks it again: of the URL before each attempt, and of each address that a
    /// name resolves to.
    #[must_use]
    pub fn webhook_addresses(&self) -> &AddressPolicy {
        &self.inner.webhook_addresses
    }

    /// The clock and the randomness of the service.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// The store under the service.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Whether the store answers.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn ready(&self) -> Result<(), Error> {
        self.inner.store.get(&[keys::meta()]).await?;
        Ok(())
    }

    /// Recognises a caller and does nothing else.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a credential that is unknown, expired, revoked or of the wrong kind.
    pub async fn authenticate(
        &self,
        credential: &Credential,
        wanted: CredentialKind,
    ) -> Result<Principal, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller = Principal::recognise(&mut reading, credential, wanted, now).await?;
            reading.done(caller)
        })
        .await
    }

    /// Recognises the holder of a token, and refuses one that may not do in the workspace what is needed.
    async fn enter_workspace(
        &self,
        transaction: &mut Transaction,
        credential: &Credential,
        workspace: WorkspaceId,
        need: Need,
    ) -> Result<(Principal, Workspace), Error> {
        let now = self.env().now();
        let caller =
            Principal::recognise(transaction, credential, CredentialKind::Bearer, now).await?;
        let workspace = caller.enter(transaction, workspace, need).await?;
        Ok((caller, workspace))
    }

    /// The member that a credential of this kind belongs to, while it is valid; `None` also where the store does not
    /// answer. One read, which nothing is decided by.
    pub(crate) async fn holder(
        &self,
        credential: &Credential,
        wanted: CredentialKind,
    ) -> Option<MemberId> {
        let Credential::Secret(secret) = credential else {
            return None;
        };
        let key = keys::credential(secret.hash());
        let record = self
            .inner
            .store
            .get_as::<CredentialRecord>(&key)
            .await
            .ok()??
            .value;
        let is_valid = record.kind == wanted && record.is_valid_at(self.env().now());
        is_valid.then_some(record.member_id)
    }

    // Not `async`: that would wrap one future into another, for each of a hundred decisions.
    fn transact<T, F, D>(&self, decide: F) -> impl Future<Output = Result<T, Error>>
    where
        T: MaybeSend,
        F: FnMut(Transaction) -> D + MaybeSend,
        D: Future<Output = Result<Decided<T>, Error>> + MaybeSend,
    {
        transact(&self.inner.store, &self.inner.env, decide)
    }

    /// Reads that no commit follows.
    fn reading(&self) -> Transaction {
        Transaction::begin(Arc::clone(&self.inner.store))
    }
}
