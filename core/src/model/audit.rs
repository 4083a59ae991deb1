//! Actions and kinds of resources in the audit log.

crate::model::names::string_enum! {
    /// Action of an audit entry.
    #[non_exhaustive]
    AuditAction {
        /// Ingest of memories.
        MemoryIngest = "memory.ingest",
        /// Creation of a memory.
        MemoryCreate = "memory.create",
        /// Change of a memory.
        MemoryUpdate = "memory.update",
        /// Deletion of a memory.
        MemoryDelete = "memory.delete",
        /// Bulk update of memories.
        MemoryBulkUpdate = "memory.bulk_update",
        /// Read of confidential or restricted memories, if the service audits reads.
        MemoryRead = "memory.read",
        /// Creation of a source.
        SourceCreate = "source.create",
        /// Creation of a custom role.
        RoleCreate = "role.create",
        /// Change of a custom role.
        RoleUpdate = "role.update",
        /// Deletion of a custom role.
        RoleDelete = "role.delete",
        /// Assignment of a role to a member.
        RoleAssign = "role.assign",
        /// Creation of a citation subscription.
        SubscriptionCreate = "citation_subscription.create",
        /// Deletion of a citation subscription.
        SubscriptionDelete = "citation_subscription.delete",
        /// Rotation of the signing secret of a citation subscription.
        SubscriptionRotateSecret = "citation_subscription.rotate_secret",
        /// Disabling of a citation subscription by the service.
        SubscriptionDisable = "citation_subscription.disable",
        /// Enabling or confirmation of a citation subscription by the service, after a successful
        /// ping.
        SubscriptionEnable = "citation_subscription.enable",
        /// Test event to a citation subscription.
        SubscriptionPing = "citation_subscription.ping",
        /// Redelivery to a citation subscription.
        SubscriptionRedeliver = "citation_subscription.redeliver",
        /// Registration of an outbound webhook.
        WebhookCreate = "webhook.create",
        /// Change of an outbound webhook.
        WebhookUpdate = "webhook.update",
        /// Deletion of an outbound webhook.
        WebhookDelete = "webhook.delete",
        /// Rotation of the signing secret of an outbound webhook.
        WebhookRotateSecret = "webhook.rotate_secret",
        /// Disabling of an outbound webhook by the service.
        WebhookDisable = "webhook.disable",
        /// Enabling or confirmation of an outbound webhook by the service, after a successful ping.
        WebhookEnable = "webhook.enable",
        /// Test event to an outbound webhook.
        WebhookPing = "webhook.ping",
        /// Redelivery to an outbound webhook.
        WebhookRedeliver = "webhook.redeliver",
        /// Registration of an inbound webhook.
        InboundWebhookCreate = "inbound_webhook.create",
        /// Change of an inbound webhook.
        InboundWebhookUpdate = "inbound_webhook.update",
        /// Deletion of an inbound webhook.
        InboundWebhookDelete = "inbound_webhook.delete",
        /// Rotation of the signing secret of an inbound webhook.
        InboundWebhookRotateSecret = "inbound_webhook.rotate_secret",
        /// Creation of a connector.
        ConnectorCreate = "connector.create",
        /// Pausing or resuming of a connector.
        ConnectorPause = "connector.pause",
        /// Change of the configuration of a connector.
        ConnectorUpdate = "connector.update",
        /// Deletion of a connector.
        ConnectorDelete = "connector.delete",
        /// Creation of an MCP key.
        McpKeyCreate = "mcp_key.create",
        /// Rotation of the secret of an MCP key.
        McpKeyRotate = "mcp_key.rotate",
        /// Revocation of an MCP key.
        McpKeyRevoke = "mcp_key.revoke",
        /// Creation of a chat.
        ChatCreate = "chat.create",
        /// Deletion of a chat.
        ChatDelete = "chat.delete",
        /// Change of the retention of a workspace.
        RetentionUpdate = "retention.update",
        /// Erasure of what the retention of a workspace no longer keeps.
        RetentionErase = "retention.erase",
        /// Registration of a recall.
        RecallCreate = "recall.create",
        /// Narrowing of a recall to what its answer cites.
        RecallUpdate = "recall.update",
        /// Deletion of a recall.
        RecallDelete = "recall.delete",
        /// Erasure: each step of it, with everything that it removes.
        ErasureCreate = "erasure.create",
        /// Creation of an organisation.
        OrganizationCreate = "organization.create",
        /// Creation of a workspace.
        WorkspaceCreate = "workspace.create",
        /// Opening or closing of a workspace.
        WorkspaceUpdate = "workspace.update",
        /// Removal of a workspace with everything in it.
        WorkspaceDelete = "workspace.delete",
        /// Addition of a member.
        MemberCreate = "member.create",
        /// Change of the name or the teams of a member.
        MemberUpdate = "member.update",
        /// Removal of a member.
        MemberRemove = "member.remove",
        /// Creation of a token or session.
        CredentialCreate = "credential.create",
        /// Revocation of a token or session.
        CredentialRevoke = "credential.revoke",
    }
}

impl AuditAction {
    /// Returns true if the quota of the audit log limits the action.
    ///
    /// Whatever takes something away is not limited: deletion, revocation, and the changes that can
    /// restrict a member, a role, a credential or an endpoint.
    pub(crate) const fn is_metered(self) -> bool {
        matches!(
            self,
            Self::MemoryIngest
                | Self::MemoryCreate
                | Self::MemoryUpdate
                | Self::MemoryBulkUpdate
                | Self::SourceCreate
                | Self::RoleCreate
                | Self::MemberCreate
                | Self::CredentialCreate
                | Self::ConnectorCreate
                | Self::ConnectorUpdate
                | Self::McpKeyCreate
                | Self::ChatCreate
                | Self::RecallCreate
                | Self::RecallUpdate
                | Self::SubscriptionCreate
                | Self::SubscriptionRedeliver
                | Self::SubscriptionPing
                | Self::WebhookCreate
                | Self::WebhookRedeliver
                | Self::WebhookPing
                | Self::InboundWebhookCreate
        )
    }
}

crate::model::names::string_enum! {
    /// Reads that the audit log records.
    #[derive(Default)]
    AuditReads {
        /// None.
        #[default]
        None = "none",
        /// Those that return the title or the content of a confidential or restricted memory.
        Confidential = "confidential",
    }
}

crate::model::names::string_enum! {
    /// Kind of the outcome in an audit entry.
    OutcomeKind {
        /// Success.
        Ok = "ok",
        /// Rejected: the resource does not exist for the caller.
        NotFound = "not_found",
        /// Rejected: the caller lacks the permission.
        Forbidden = "forbidden",
    }
}

crate::model::names::string_enum! {
    /// Kind of the resource of an audit entry.
    #[non_exhaustive]
    ResourceKind {
        /// A memory.
        Memory = "memory",
        /// A source.
        Source = "source",
        /// A custom role.
        Role = "role",
        /// A member.
        Member = "member",
        /// A citation subscription.
        Subscription = "citation_subscription",
        /// An outbound webhook.
        Webhook = "webhook",
        /// An inbound webhook.
        InboundWebhook = "inbound_webhook",
        /// A connector.
        Connector = "connector",
        /// A token, a session or an MCP key.
        Credential = "credential",
        /// A chat.
        Chat = "chat",
        /// A recall.
        Recall = "recall",
        /// An erasure.
        Erasure = "erasure",
        /// An organisation.
        Organization = "organization",
        /// A workspace.
        Workspace = "workspace",
    }
}
