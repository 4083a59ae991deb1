//! Callers of operations.

use crate::access::{Credential, Secret};
use crate::service::ClientInfo;

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
}

impl Caller {
    /// Creates a caller whose client is unknown.
    #[must_use]
    pub fn new(credential: impl Into<Credential>) -> Self {
        Self {
            credential: credential.into(),
            client: ClientInfo::default(),
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
