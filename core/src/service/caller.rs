//! Callers of operations.

use std::sync::Arc;

use crate::access::{Credential, MemberRef, Secret};
use crate::service::operation::idempotency::Creation;
use crate::service::{ClientInfo, IdempotencyKey};

/// A caller of an operation: its credential, the facts about its client, and the idempotency key of
/// what it creates.
///
/// An operation that creates something, and does not take a key itself, does so at most once for
/// each key of a member. The same call with the same key returns what the first one created, as it
/// is now, to whoever may still create it: a secret is absent then, and the result of
/// [`ingest`](crate::service::Memories::ingest) is repeated unchanged. It is
/// [`Error::CreatedResourceGone`](crate::Error::CreatedResourceGone) if that was deleted, or the
/// caller may not know of it. Another call with the same key is
/// [`Error::IdempotencyKeyReused`](crate::Error::IdempotencyKeyReused), as is a request over HTTP.
/// A key is kept for [24 hours](crate::limits::IDEMPOTENCY_RETENTION), and belongs to the
/// operation; those that create nothing ignore it.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// let mut client = ClientInfo::default();
/// client.address = Some("192.0.2.7".parse()?);
/// let caller = Caller::from(Credential::Trusted { org: org.id, member: ada.id });
/// let caller = caller.with_client(client);
/// service.memories().delete(&caller, memories[0]).await?;
///
/// // The audit log names the client.
/// let filter = AuditFilter::builder().action(AuditAction::MemoryDelete).build();
/// let page = PageRequest::default();
/// let entries = service.audit_log().list(&caller, &filter, &page).await?.data;
/// assert_eq!(entries[0].client_address, client.address);
///
/// // A call whose result was lost is repeated.
/// let caller = caller.with_idempotency_key("tickets-1".parse()?);
/// let new = NewSource::builder().name("Tickets").kind("help_desk").build();
/// let source = service.sources().create(&caller, &new).await?;
/// assert_eq!(service.sources().create(&caller, &new).await?, source);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    credential: Credential,
    client: ClientInfo,
    idempotency_key: Option<IdempotencyKey>,
    /// Request with an idempotency key that the caller makes or repeats.
    creation: Option<Arc<Creation>>,
    acting_for: Option<MemberRef>,
}

impl Caller {
    /// Creates a caller whose client is unknown.
    #[must_use]
    pub fn new(credential: impl Into<Credential>) -> Self {
        Self {
            credential: credential.into(),
            client: ClientInfo::default(),
            idempotency_key: None,
            creation: None,
            acting_for: None,
        }
    }

    /// Lets a service account act for another member of its organisation.
    ///
    /// The caller then knows of what exists for the member, within the scope of the credential. It
    /// may do what the roles of both permit, without managing anything
    /// ([`ActionSet::FOR_MEMBERS`](crate::access::ActionSet::FOR_MEMBERS)). The service account
    /// has to hold [`Action::MemberActFor`](crate::access::Action::MemberActFor) in its
    /// organisation. It acts neither for owners nor for other service accounts, and only for
    /// members of the teams that its role names, if it names some; otherwise every operation is
    /// [`Error::Forbidden`](crate::Error::Forbidden), as for a member that does not exist. The
    /// audit log names both.
    #[must_use]
    pub fn act_for(mut self, member: impl Into<MemberRef>) -> Self {
        self.acting_for = Some(member.into());
        self
    }

    /// Sets the facts about the client, which the audit log records.
    #[must_use]
    pub fn with_client(mut self, client: ClientInfo) -> Self {
        self.client = client;
        self
    }

    /// Sets the idempotency key of creations by this caller. Use it for one creation and its
    /// repetitions.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: IdempotencyKey) -> Self {
        self.idempotency_key = Some(key);
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

    /// Returns the idempotency key, if there is one.
    #[must_use]
    pub fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        self.idempotency_key.as_ref()
    }

    /// Returns the member that the caller acts for, if it is another one.
    #[must_use]
    pub fn acting_for(&self) -> Option<&MemberRef> {
        self.acting_for.as_ref()
    }

    /// Returns the caller as it makes, or repeats, a request with an idempotency key.
    pub(crate) fn with_creation(mut self, creation: Creation) -> Self {
        self.creation = Some(Arc::new(creation));
        self
    }

    /// Returns how the caller makes a request with an idempotency key, once that is decided.
    pub(in crate::service) fn creation(&self) -> Option<&Arc<Creation>> {
        self.creation.as_ref()
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
