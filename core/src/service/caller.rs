//! Callers of operations.

use std::sync::Arc;

use crate::access::{Credential, RequiredPermission, Secret};
use crate::operation::Operation;
use crate::service::ClientInfo;
use crate::service::operation::idempotency::{Creation, KeyedRequest, Replay};

/// A caller of an operation: its credential, and the facts about its client.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// let mut client = ClientInfo::default();
/// client.address = Some("192.0.2.7".parse()?);
/// let caller = Caller::from(Credential::Trusted { org: org.id, member: ada.id });
/// let caller = caller.with_client(client);
/// service.delete_memory(&caller, memories[0]).await?;
///
/// // The audit log names the client.
/// let filter = AuditFilter::builder().action(AuditAction::MemoryDelete).build();
/// let page = PageRequest::default();
/// let entries = service.list_audit_entries(&caller, &filter, &page).await?.data;
/// assert_eq!(entries[0].client_address, client.address);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    credential: Credential,
    client: ClientInfo,
    /// Request with an idempotency key that the caller makes or repeats.
    creation: Option<Arc<Creation>>,
}

impl Caller {
    /// Creates a caller whose client is unknown.
    #[must_use]
    pub fn new(credential: impl Into<Credential>) -> Self {
        Self {
            credential: credential.into(),
            client: ClientInfo::default(),
            creation: None,
        }
    }

    /// Sets the facts about the client, which the audit log records.
    #[must_use]
    pub fn with_client(mut self, client: ClientInfo) -> Self {
        self.client = client;
        self
    }

    /// Returns the credential.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Returns the facts about the client.
    #[must_use]
    pub fn client(&self) -> ClientInfo {
        self.client
    }

    /// Returns the caller as it makes, or repeats, a request with an idempotency key.
    pub(crate) fn with_creation(mut self, creation: Creation) -> Self {
        self.creation = Some(Arc::new(creation));
        self
    }

    /// Returns the request with an idempotency key that asks for this operation.
    pub(in crate::service) fn keyed(&self, operation: Operation) -> Option<&KeyedRequest> {
        match self.creation.as_deref()? {
            Creation::Request(request) => {
                Some(request).filter(|found| found.operation == operation)
            }
            Creation::Replay(_) => None,
        }
    }

    /// Returns the creation that is being replayed, if this operation reads what it created.
    pub(in crate::service) fn replayed(&self, operation: Operation) -> Option<&Replay> {
        match self.creation.as_deref()? {
            Creation::Request(_) => None,
            Creation::Replay(replay) => {
                let reads = replay.operation.spec().replay == Some(operation);
                reads.then_some(replay)
            }
        }
    }

    /// Returns the permissions that an operation requires.
    ///
    /// A replay shows what was created to whoever may create it, so that its reading requires the
    /// permissions of the creation.
    pub(in crate::service) fn permissions_of(
        &self,
        operation: Operation,
    ) -> &'static [RequiredPermission] {
        let replayed = self.replayed(operation);
        let decisive = replayed.map_or(operation, |replay| replay.operation);
        decisive.spec().permissions
    }
}

impl From<Credential> for Caller {
    fn from(credential: Credential) -> Self {
        Self::new(credential)
    }
}

impl From<Secret> for Caller {
    fn from(secret: Secret) -> Self {
        Self::new(secret)
    }
}
