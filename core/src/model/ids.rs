//! Identifiers: UUIDs, each of a type of its own.

super::names::identifiers! {
    /// An organisation: the tenant that nothing reaches across.
    OrgId
    /// A workspace of an organisation.
    WorkspaceId
    /// A member of an organisation: a user or a service account.
    MemberId
    /// A custom role of an organisation.
    RoleId
    /// An access token, a session or an MCP key: what is presented to be recognised by.
    CredentialId
    /// A memory: one stored item of knowledge.
    MemoryId
    /// A source of memories.
    SourceId
    /// A connector that brings memories from a source.
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
    /// An event in the outbox.
    EventId
    /// One run of an operation that changed something.
    OperationId
    /// One entry of the audit log. The entries of one operation have consecutive identifiers.
    AuditLogId
}

impl AuditLogId {
    /// The identifier `offset` entries behind this one.
    #[must_use]
    pub fn plus(self, offset: u128) -> Self {
        Self(uuid::Uuid::from_u128(self.0.as_u128().wrapping_add(offset)))
    }
}
