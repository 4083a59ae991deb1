//! Quotas of organisations.

crate::model::names::string_enum! {
    /// Quota of an organisation: a maximum of what it stores.
    #[non_exhaustive]
    Quota {
        /// Memories.
        Memories = "memories",
        /// Recalls.
        Recalls = "recalls",
        /// Chats.
        Chats = "chats",
        /// Messages of chats.
        ChatMessages = "chat_messages",
        /// Sources.
        Sources = "sources",
        /// Members.
        Members = "members",
        /// Webhooks, inbound webhooks and citation subscriptions.
        Endpoints = "endpoints",
        /// Bytes added to the audit log on one day (UTC).
        AuditBytes = "audit_bytes_per_day",
    }
}
