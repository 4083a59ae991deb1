//! Identifiers: a distinct type over a UUID for each kind of record.

use super::Timestamp;

super::names::identifiers! {
    /// An organisation: the tenant, isolated from all others.
    OrgId
    /// A workspace of an organisation.
    WorkspaceId
    /// A member of an organisation: a user or a service account.
    MemberId
    /// A custom role of an organisation.
    RoleId
    /// A credential: an access token, a session or an MCP key.
    CredentialId
    /// A memory: one stored item of knowledge.
    MemoryId
    /// A source of memories.
    SourceId
    /// A connector that imports memories from a source.
    ConnectorId
    /// A chat session.
    ChatId
    /// A message of a chat.
    ChatMessageId
    /// A recall: one answer of an assistant, with the memories that it cites.
    RecallId
    /// A citation subscription.
    SubscriptionId
    /// An outbound webhook.
    WebhookId
    /// An inbound webhook.
    InboundWebhookId
    /// An event.
    EventId
    /// An endpoint that receives deliveries: an outbound webhook or a citation subscription.
    EndpointId
    /// The delivery of one event to one endpoint, sent as `webhook-id` with every attempt.
    DeliveryId
    /// An erasure.
    ErasureId
    /// One run of an operation that changes data.
    OperationId
    /// One entry of the audit log. The entries of one operation have consecutive identifiers.
    AuditLogId
}

/// Returns the time of a time-ordered identifier.
///
/// Its first 48 bits are milliseconds since the Unix epoch.
pub(crate) fn time_of(id: uuid::Uuid) -> Timestamp {
    let millis = id.as_u128() >> 80;
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

impl AuditLogId {
    /// Returns the identifier `offset` entries after this one.
    #[must_use]
    pub fn plus(self, offset: u128) -> Self {
        Self(uuid::Uuid::from_u128(self.0.as_u128().wrapping_add(offset)))
    }
}

impl From<WebhookId> for EndpointId {
    fn from(webhook: WebhookId) -> Self {
        Self(webhook.0)
    }
}

impl From<SubscriptionId> for EndpointId {
    fn from(subscription: SubscriptionId) -> Self {
        Self(subscription.0)
    }
}

impl DeliveryId {
    /// Derives the identifier of the delivery of this event to this endpoint.
    ///
    /// It is the UUID version 5 (RFC 9562) of the endpoint in the namespace of the event, so that a
    /// delivery that is created twice is stored once.
    #[must_use]
    pub fn of(event: EventId, endpoint: EndpointId) -> Self {
        Self(uuid::Uuid::new_v5(&event.0, endpoint.0.as_bytes()))
    }
}
