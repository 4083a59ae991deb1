//! Options of a service.

use crate::limits::Limits;
use crate::model::{AddressPolicy, AuditReads};
use crate::service::{SealingKey, SessionTimeouts};

/// Options of [`KnowledgeService::open`](crate::service::KnowledgeService::open).
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
