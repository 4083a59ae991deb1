//! Handle of the service.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::access::CredentialKind;
use crate::env::Env;
use crate::error::Error;
use crate::format::SCHEMA;
use crate::keys;
use crate::limits::Limits;
use crate::model::{AddressPolicy, AuditReads};
use crate::request::Checks;
use crate::service::audit::written_in_hour::WrittenInHour;
use crate::service::meta::{Meta, known_meta};
use crate::service::process::Inner;
use crate::service::search::SearchIndexes;
use crate::service::{Caller, OpenError, Options, Principal, SealingKeys};
use crate::store::{MaybeSend, Prepared, Store, StoreError, StoreExt, Transaction, transact};

/// The workspace knowledge service over one store. Clones are cheap and share one service.
///
/// Every operation takes its [`Caller`], decides on what is stored and commits at
/// most once. An operation that returns an error has changed nothing, except that with
/// [`Error::Unavailable`] the outcome of its commit may be indeterminate.
///
/// Its operations are functions of views, each of one subject:
/// `service.webhooks().create(&owner, workspace, &new)`. A view borrows the service and can be
/// copied. The [crate](crate#embedding-the-service) shows how to open a service, and each view
/// has an example.
///
/// | group | functions |
/// | --- | --- |
/// | Opening and state | [`open`](Self::open), [`is_new`](Self::is_new), [`ready`](Self::ready), [`authenticate`](Self::authenticate), [`limits`](Self::limits), [`env`](Self::env), [`store`](Self::store), [`webhook_addresses`](Self::webhook_addresses), [`public_url`](Self::public_url) |
/// | Views | [`memories`](Self::memories), [`sources`](Self::sources), [`recalls`](Self::recalls), [`workspaces`](Self::workspaces), [`connectors`](Self::connectors), [`mcp_keys`](Self::mcp_keys), [`chats`](Self::chats), [`roles`](Self::roles), [`members`](Self::members), [`audit_log`](Self::audit_log), [`erasures`](Self::erasures), [`webhooks`](Self::webhooks), [`citation_subscriptions`](Self::citation_subscriptions), [`deliveries`](Self::deliveries), [`inbound_webhooks`](Self::inbound_webhooks), [`dispatcher`](Self::dispatcher), [`sessions`](Self::sessions) |
/// | Sealed texts | [`seal_text`](Self::seal_text), [`open_text`](Self::open_text) |
/// | Operator | [`provisioning`](Self::provisioning), [`maintain`](Self::maintain), [`verify`](Self::verify), [`memory_counts`](Self::memory_counts) |
#[derive(Clone)]
pub struct KnowledgeService {
    pub(super) inner: Arc<Inner>,
}

impl fmt::Debug for KnowledgeService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnowledgeService")
            .field("limits", &self.inner.limits)
            .finish_non_exhaustive()
    }
}

/// # Opening and state
impl KnowledgeService {
    /// Opens a service over a store.
    ///
    /// An empty store is initialised.
    ///
    /// # Errors
    /// [`OpenError`] if a limit is invalid, or if the store fails, is of another schema, has an
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
        transact(&store, &env, |mut transaction| async move {
            match known_meta(&mut transaction).await? {
                None => transaction.put(keys::meta(), wanted),
                Some(found) if found.sealing_key != wanted.sealing_key => {
                    return Err(SealingKeys::parse(&found.sealing_key).reject(&wanted.sealing_key));
                }
                Some(_) => {}
            }
            Ok(transaction.done(()))
        })
        .await?;
        Ok(Self {
            inner: Arc::new(Inner::new(store, given, env, options)),
        })
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

    /// Returns the indexes of the workspaces that were searched.
    pub(super) fn search_indexes(&self) -> &SearchIndexes {
        &self.inner.search_indexes
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

    /// Authenticates a caller, by its credential: a service account as itself, whoever it acts for.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for a credential that is unknown, expired, revoked or not of the
    /// kind `wanted`, and those of the store.
    pub async fn authenticate(
        &self,
        caller: &Caller,
        wanted: CredentialKind,
    ) -> Result<Principal, Error> {
        let credential = caller.credential();
        let authenticated = self
            .transact(|mut reading| async move {
                let now = self.env().now();
                let found = Principal::authenticate(&mut reading, credential, wanted, now).await?;
                Ok(reading.done(found))
            })
            .await;
        self.end_rejected(credential, authenticated.as_ref().err());
        authenticated
    }

    // Not `async`, as [`KnowledgeService::perform`] is not.
    pub(super) fn transact<T, F, D>(&self, decide: F) -> impl Future<Output = Result<T, Error>>
    where
        T: MaybeSend,
        F: FnMut(Transaction) -> D + MaybeSend,
        D: Future<Output = Result<Prepared<T>, Error>> + MaybeSend,
    {
        transact(&self.inner.store, &self.inner.env, decide)
    }

    /// Begins a transaction for reads without a commit.
    pub(crate) fn reading(&self) -> Transaction {
        Transaction::begin(Arc::clone(&self.inner.store))
    }
}
