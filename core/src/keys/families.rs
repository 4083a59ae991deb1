//! Declarations of the key families.

/// Passes the declaration of every key family to the macro `$then`.
///
/// A row has the description, the name, the parts of the key and the type of the value, then:
///
/// - `part: Type as Form`: the key has another form of the argument, such as its SHA-256.
/// - `part: Type = field`: this field of the value repeats the part.
/// - `range name(parts)`: the range of the keys with these leading parts.
/// - `parser name(parts)`: a function that parses these last parts of a key.
/// - `with family(parts)`: that entry exists too.
/// - `counted by family(parts)`: each entry adds 1 to this counter, of which there may be several.
/// - `checked by module::function(parts)`: the rest of what verification checks.
///
/// Types and functions are resolved where the rows are expanded: the value and the checks only by
/// verification.
macro_rules! families {
    ($then:ident) => { $then! {
        /// Schema number and fingerprint of the sealing key, or of the old and the new one.
        meta() => Schema, checked by operations::meta();

        /// Counter of what an organisation has of a quota; guards the limit when it is near.
        usage(org: OrgId, quota: Quota) => Count,
            range usages(org), with org(org), checked by operations::counter();
        /// Counter of the bytes added to the audit log on the day (UTC) that begins then.
        audit_bytes(org: OrgId, day: Timestamp) => Count,
            range audit_days(org), with org(org);

        /// Organisation.
        org(org: OrgId = id) => Organization,
            range orgs(), checked by tenants::org();
        /// Identifier of the organisation with this slug.
        org_slug(slug: &str) => OrgId, checked by tenants::org_slug(slug);
        /// Workspace.
        workspace(org: OrgId, workspace: WorkspaceId = id) => Workspace,
            range workspaces(org), with org(org), checked by tenants::workspace(org);
        /// Retention of what a workspace keeps.
        retention(org: OrgId, workspace: WorkspaceId) => StoredRetention,
            with workspace(org, workspace), checked by workspaces::retention(org, workspace);
        /// Progress of the sweeps of a workspace in which things expire, and the time of the next
        /// one.
        retention_sweep(org: OrgId, workspace: WorkspaceId) => RetentionSweep,
            with workspace(org, workspace), checked by workspaces::retention_sweep(org, workspace);
        /// Identifier of the workspace with this slug.
        workspace_slug(org: OrgId, slug: &str) => WorkspaceId,
            range workspace_slugs(org), checked by tenants::workspace_slug(org, slug);

        /// Identifier of the removed workspace that had this slug, which stays taken.
        former_workspace(org: OrgId, slug: &str) => WorkspaceId,
            range all_former_workspaces(),
            with org(org), checked by tenants::former_workspace(org, slug);
        /// Time of the removal of an organisation, until nothing of it is left.
        former_org(org: OrgId) => Timestamp,
            range all_former_orgs(), checked by tenants::former_org(org);

        /// Member with its role in the organisation.
        member(org: OrgId, member: MemberId = id) => Member,
            range members(org), with org(org), counted by usage(org, Quota::Members),
            checked by tenants::member(org);
        /// Identifier of the member or former member with this handle.
        member_handle(org: OrgId, handle: &str) => MemberId,
            checked by tenants::member_handle(org, handle);
        /// Mark of a person that a member added and that has no session or token yet: the hash of
        /// its login link, if it has one.
        invitation(org: OrgId, member: MemberId) => Option<String>, with member(org, member);
        /// Counter of users.
        member_count(org: OrgId) => Count, checked by operations::counter();
        /// Counter of the members of a team.
        team_member_count(org: OrgId, team: &str) => Count,
            range team_member_counts(org), checked by operations::counter();
        /// Time of the removal of a member.
        former_member(org: OrgId, member: MemberId) => Timestamp,
            with org(org), checked by tenants::former_member(org, member);
        /// Role in the workspace, which replaces the role in the organisation there.
        workspace_role(org: OrgId, member: MemberId, workspace: WorkspaceId) => RoleRef,
            range org_workspace_roles(org), range workspace_roles(org, member),
            with workspace(org, workspace),
            checked by tenants::workspace_role(org, member, workspace);

        /// Custom role.
        role(org: OrgId = org_id, role: RoleId = id) => CustomRole,
            range all_roles(), range roles(org),
            with org(org), counted by role_count(org), checked by tenants::role(org);
        /// Identifier of the custom role with this slug.
        role_slug(org: OrgId, slug: &str) => RoleId, checked by tenants::role_slug(org, slug);
        /// Counter of custom roles; guards the limit.
        role_count(org: OrgId) => Count, checked by operations::counter();
        /// Role that replaces a deleted role.
        role_redirect(org: OrgId, role: RoleId) => RoleRef,
            range all_role_redirects(), range role_redirects(org),
            checked by tenants::role_redirect(org, role);
        /// Mark of a holder of a custom role in a workspace, or in the organisation (`-`).
        holder(org: OrgId, role: RoleId, member: MemberId, workspace: Option<WorkspaceId>) => (),
            range holders(org, role),
            parser parse_holder(member: MemberId, workspace: Option<WorkspaceId>),
            checked by tenants::holder(org, role, member, workspace);
        /// Counter of holders, also of built-in roles; guards deletion and the last owner.
        holder_count(org: OrgId, role: RoleRef) => Count, checked by operations::counter();

        /// Token, session or MCP key.
        credential(hash: SecretHash) => CredentialRecord, checked by tenants::credential(hash);
        /// Hash of the credential's secret.
        credential_id(org: OrgId, credential: CredentialId) => String,
            range credential_ids(org), checked by tenants::credential_id(org, credential);
        /// Time of the last use of a credential, to within an hour.
        credential_use(org: OrgId, credential: CredentialId) => Timestamp,
            with org(org), with credential_id(org, credential);
        /// API token of a member, apart from its credential.
        token(org: OrgId, member: MemberId = member_id, token: CredentialId = id) => ApiToken,
            range tokens(org, member),
            with org(org), counted by token_count(org, member),
            checked by tenants::token(org, member);
        /// Counter of the API tokens of a member; guards the limit.
        token_count(org: OrgId, member: MemberId) => Count, checked by operations::counter();
        /// Place of something that a credential created or last took over.
        created_with(org: OrgId, credential: CredentialId, resource: Uuid) => CreatedRecord,
            range all_created_with(org, credential),
            with org(org), checked by tenants::created_with(org, credential, resource);
        /// End of a credential on which something that it created depends. It outlives the record
        /// of the credential, and stays as long as the organisation: endpoints have no end of
        /// their own, and they would be in force again without it.
        ended_credential(org: OrgId, credential: CredentialId) => EndedCredential, with org(org);

        /// Source.
        source(org: OrgId, source: SourceId = id) => Source,
            range sources(org), with org(org), counted by usage(org, Quota::Sources);
        /// Labels of a memory.
        memory(org: OrgId, memory: MemoryId) => MemoryLabels,
            range memories(org),
            with content(org, memory), counted by usage(org, Quota::Memories),
            checked by memories::memory(org, memory);
        /// Title, content and origin of a memory.
        content(org: OrgId, memory: MemoryId) => MemoryContent,
            with memory(org, memory), checked by memories::content(org);
        /// Mark of a memory of a workspace.
        workspace_memory(org: OrgId, workspace: WorkspaceId, memory: MemoryId) => (),
            range workspace_memories(org, workspace),
            checked by memories::workspace_memory(org, workspace, memory);
        /// Mark of a memory of a workspace by its review status.
        reviewed_memory(
            org: OrgId, workspace: WorkspaceId, review: ReviewStatus, memory: MemoryId
        ) => (),
            range reviewed_memories(org, workspace, review),
            checked by memories::reviewed_memory(org, workspace, review, memory);
        /// Mark of a memory of a workspace by the source that it is filed under.
        sourced_memory(
            org: OrgId, workspace: WorkspaceId, source: SourceId, memory: MemoryId
        ) => (),
            range sourced_memories(org, workspace, source),
            checked by memories::sourced_memory(org, workspace, source, memory);
        /// Identifier of the memory with this key at its source.
        source_key(
            org: OrgId, workspace: WorkspaceId, source: SourceId, name: &str as Sha256
        ) => MemoryId,
            with source(org, source),
            checked by memories::source_key(org, workspace, source, name);
        /// Key of the hashes of an organisation's erased source keys, sealed.
        erasure_key(org: OrgId) => SealedRecord<()>,
            range all_erasure_keys(), with org(org), checked by operations::erasure_key(org);
        /// Mark of an erased source key, by its keyed hash.
        erased_key(org: OrgId, workspace: WorkspaceId, source: SourceId, hash: SecretHash) => (),
            with workspace(org, workspace), with source(org, source), with erasure_key(org);
        /// Counter of memories.
        memory_count(org: OrgId, workspace: WorkspaceId) => Count,
            range memory_counts(), checked by operations::counter();
        /// Counter of memories that await review.
        pending_count(org: OrgId, workspace: WorkspaceId) => Count,
            range pending_counts(), checked by operations::counter();
        /// Memories of a workspace that a commit changed, under its first audit entry.
        memory_change(org: OrgId, workspace: WorkspaceId, first: AuditLogId) => LoggedChange,
            range memory_changes(org, workspace), with workspace(org, workspace);
        /// Number of changes that were ever logged. There is no other record of them.
        memory_change_number(org: OrgId, workspace: WorkspaceId) => Count,
            with workspace(org, workspace);
        /// Counter of what happened to the memories of a workspace on the day (UTC) that begins
        /// then.
        activity(org: OrgId, workspace: WorkspaceId, day: Timestamp, kind: ActivityKind) => Count,
            range activities(org, workspace),
            parser parse_activity(day: Timestamp, kind: ActivityKind),
            with workspace(org, workspace), checked by memories::activity(day);
        /// Counter of memories with an audience label.
        label_count(org: OrgId, workspace: WorkspaceId, label: &str) => Count,
            range org_label_counts(org), range label_counts(org, workspace),
            checked by operations::counter();
        /// Counter of approved memories with an audience label.
        approved_label_count(org: OrgId, workspace: WorkspaceId, label: &str) => Count,
            range org_approved_label_counts(org), range approved_label_counts(org, workspace),
            checked by operations::counter();
        /// Time of the last ingest.
        last_ingest(org: OrgId, workspace: WorkspaceId) => Timestamp,
            with workspace(org, workspace);

        /// Configuration of a connector.
        connector(
            org: OrgId, workspace: WorkspaceId = workspace_id, connector: ConnectorId = id
        ) => Connector,
            range connectors(org, workspace),
            with workspace(org, workspace), with connector_state(org, workspace, connector),
            counted by connector_count(org, workspace);
        /// State of a connector, from its sync reports.
        connector_state(org: OrgId, workspace: WorkspaceId, connector: ConnectorId) => Value,
            range connector_states(org, workspace),
            with connector(org, workspace, connector),
            checked by workspaces::connector_state(org, workspace, connector);
        /// Counter of connectors; guards the limit.
        connector_count(org: OrgId, workspace: WorkspaceId) => Count,
            checked by operations::counter();

        /// MCP key.
        mcp_key(org: OrgId, workspace: WorkspaceId, credential: CredentialId = id) => McpKey,
            range mcp_keys(org, workspace),
            with workspace(org, workspace), counted by mcp_key_count(org, workspace),
            checked by workspaces::mcp_key(org, workspace);
        /// Time of the last use of an MCP key.
        mcp_key_use(org: OrgId, workspace: WorkspaceId, credential: CredentialId) => Timestamp,
            range mcp_key_uses(org, workspace), with mcp_key(org, workspace, credential);
        /// Counter of MCP keys; guards the limit.
        mcp_key_count(org: OrgId, workspace: WorkspaceId) => Count,
            checked by operations::counter();

        /// Chat session.
        chat(org: OrgId, workspace: WorkspaceId = workspace_id, chat: ChatId = id) => Chat,
            range org_chats(org), range chats(org, workspace),
            parser parse_chat(org: OrgId, workspace: WorkspaceId, chat: ChatId),
            with workspace(org, workspace), counted by usage(org, Quota::Chats),
            checked by workspaces::chat(org);
        /// Message of a chat.
        chat_message(org: OrgId, chat: ChatId = chat_id, message: ChatMessageId = id)
            => ChatMessage,
            range chat_messages(org, chat), counted by usage(org, Quota::ChatMessages),
            checked by workspaces::chat_message(org);
        /// Summary of a chat for the dashboard, ordered by its newest message.
        chat_recent(
            org: OrgId, workspace: WorkspaceId, last_message_at: Timestamp, chat: ChatId
        ) => Value,
            range recent_chats(org, workspace),
            checked by workspaces::chat_recent(org, workspace, chat);

        /// Mark of a recall of a workspace.
        workspace_recall(org: OrgId, workspace: WorkspaceId, recall: RecallId) => (),
            range workspace_recalls(org, workspace),
            checked by memories::workspace_recall(org, workspace, recall);
        /// Recall with the memories that it cites.
        recall(org: OrgId, recall: RecallId = id) => Recall,
            range recalls(org), counted by usage(org, Quota::Recalls),
            checked by memories::recall(org);
        /// Mark of a recall that cites a memory; it outlives the memory.
        cited_by(org: OrgId, memory: MemoryId, recall: RecallId) => (),
            range citing_recalls(org, memory), with recall(org, recall);

        /// Citation subscription, its secret sealed.
        subscription(
            org: OrgId = record.org_id,
            recall: RecallId = record.recall_id,
            subscription: SubscriptionId = record.id
        ) => SealedRecord<CitationSubscription>,
            range all_subscriptions(), range subscriptions(org, recall),
            with recall(org, recall), counted by subscription_count(org, recall),
            counted by usage(org, Quota::Endpoints),
            checked by workspaces::subscription();
        /// Identifier of the recall of a subscription.
        subscription_id(org: OrgId, subscription: SubscriptionId) => RecallId,
            checked by workspaces::subscription_id(org, subscription);
        /// Counter of subscriptions; guards the limit.
        subscription_count(org: OrgId, recall: RecallId) => Count, checked by operations::counter();

        /// Outbound webhook, its secret sealed.
        webhook(
            org: OrgId = record.org_id,
            workspace: WorkspaceId = record.workspace_id,
            webhook: WebhookId = record.id
        ) => SealedRecord<Webhook>,
            range all_webhooks(), range webhooks(org, workspace),
            with workspace(org, workspace), counted by webhook_count(org, workspace),
            counted by usage(org, Quota::Endpoints),
            checked by workspaces::webhook();
        /// Counter of outbound webhooks; guards the limit.
        webhook_count(org: OrgId, workspace: WorkspaceId) => Count,
            checked by operations::counter();

        /// Inbound webhook, its secret sealed.
        inbound_webhook(
            org: OrgId = record.org_id,
            workspace: WorkspaceId = record.workspace_id,
            webhook: InboundWebhookId = record.id
        ) => SealedRecord<InboundWebhook>,
            range all_inbound_webhooks(), range inbound_webhooks(org, workspace),
            with workspace(org, workspace), counted by inbound_webhook_count(org, workspace),
            counted by usage(org, Quota::Endpoints),
            checked by workspaces::inbound_webhook();
        /// Workspace of an inbound webhook, also of a deleted one, whose source stays closed.
        inbound_webhook_id(org: OrgId, webhook: InboundWebhookId) => WorkspaceId,
            range inbound_webhook_ids(org),
            checked by workspaces::inbound_webhook_id(org, webhook);
        /// Counter of inbound webhooks; guards the limit.
        inbound_webhook_count(org: OrgId, workspace: WorkspaceId) => Count,
            checked by operations::counter();
        /// Deduplication record of an inbound message.
        inbound_message(org: OrgId, webhook: InboundWebhookId, message: &str as Sha256)
            => ProcessedMessage, checked by workspaces::inbound_message();

        /// Page of audit entries with consecutive identifiers.
        audit(org: OrgId, first: AuditLogId) => AuditPage,
            range audits(org), with org(org), checked by operations::audit(org, first);
        /// Mark of the audit pages of an operation by its actor.
        audit_actor(org: OrgId, actor: MemberId, first: AuditLogId) => (),
            range audits_of(org, actor), checked by operations::audit_actor(org, actor, first);
        /// Refused changes of a member in the current hour, so that equal ones are audited once.
        member_refusals(org: OrgId, member: MemberId) => MemberRefusals,
            with member(org, member);
        /// Idempotency record, from which a replay is rebuilt.
        idempotency(org: OrgId, member: MemberId, operation: &str, key: &str as Sha256)
            => IdempotencyRecord,
            checked by operations::idempotency(org, member, operation);

        /// Receipt of an erasure, with its progress while it is running.
        erasure(org: OrgId, erasure: ErasureId = receipt.id) => StoredErasure,
            range erasures(org), with org(org), checked by operations::erasure(org);

        /// Event that has not been fanned out.
        outbox(event: EventId = id) => Event,
            range outbox_events(), checked by deliveries::outbox();
        /// Mark of an event in the outbox, ordered by organisation, so that they take turns.
        outbox_queue(org: OrgId, event: EventId) => (),
            range outbox_queues(), range outbox_queue_of(org),
            parser parse_outbox_queue(org: OrgId, event: EventId),
            checked by deliveries::outbox_queue(org, event);
        /// Fan-out cursor of an event.
        fan_out(event: EventId) => FanOutCursor, with outbox(event);
        /// Event with deliveries, and its endpoints.
        event(org: OrgId = event.org_id, event: EventId = event.id) => RetainedEvent,
            checked by deliveries::event();
        /// Delivery state of a webhook or citation subscription.
        endpoint(org: OrgId, endpoint: EndpointId) => EndpointState,
            range endpoints(org), checked by deliveries::endpoint(org, endpoint);
        /// Mark of an endpoint in the ready queue.
        endpoint_due(at: Timestamp, org: OrgId, endpoint: EndpointId) => (),
            range endpoints_due(),
            parser parse_endpoint_due(at: Timestamp, org: OrgId, endpoint: EndpointId),
            checked by deliveries::endpoint_due(at, org, endpoint);
        /// Counter of endpoints ever created in the workspace; guards the selection of an event's
        /// endpoints.
        endpoint_sequence(org: OrgId, workspace: WorkspaceId) => Count,
            range endpoint_sequences(org),
            with workspace(org, workspace);
        /// Delivery with its attempts.
        delivery(org: OrgId, endpoint: EndpointId, event: EventId = delivery.event_id)
            => StoredDelivery,
            range deliveries(org, endpoint), checked by deliveries::delivery(org, endpoint);
        /// Endpoint and event of a delivery.
        delivery_id(org: OrgId, delivery: DeliveryId) => DeliveryRef,
            checked by deliveries::delivery_id(org, delivery);
        /// Mark of a pending delivery in the queue of its endpoint.
        delivery_due(org: OrgId, endpoint: EndpointId, at: Timestamp, event: EventId) => (),
            range deliveries_due(org, endpoint),
            parser parse_delivery_due(at: Timestamp, event: EventId),
            checked by deliveries::delivery_due(org, endpoint, at, event);
        /// Organisation of a pending delivery that is attempted again, ordered by event, oldest first.
        undelivered(event: EventId, endpoint: EndpointId) => OrgId,
            range all_undelivered(), checked by deliveries::undelivered(event, endpoint);
        /// Counter of pending deliveries.
        undelivered_count(org: OrgId) => Count,
            range undelivered_counts(), checked by operations::counter();
        /// Mark of a dead letter.
        dead_letter(org: OrgId, endpoint: EndpointId, event: EventId) => (),
            range dead_letters(org, endpoint),
            checked by deliveries::dead_letter(org, endpoint, event);
        /// Counter of endpoints that the service disabled.
        disabled_endpoint_count(org: OrgId) => Count,
            range disabled_endpoint_counts(), checked by operations::counter();

        /// Confirmation of a URL by the organisation, or the next ping that asks for it.
        url_confirmation(org: OrgId, url: &str as Sha256) => UrlConfirmation,
            with org(org), checked by deliveries::url_confirmation();
        /// Recent pings to the unconfirmed endpoints of a host, over all organisations.
        host_pings(host: &str as Sha256) => HostPings, checked by deliveries::host_pings();

        /// Scheduled task: a purge of what expires, the status check of a connector, the settlement
        /// of deleted roles, a step of an erasure, the sweep of a workspace in which things expire.
        due(at: Timestamp, id: Uuid) => ScheduledTask,
            parser parse_due(at: Timestamp, id: Uuid), checked by operations::due();

        /// Name of the store as a partition; at home also those of the others.
        partition_identity() => Identity;
        /// Partition of an organisation that is elsewhere or is being moved; only in the directory.
        placement(org: OrgId) => Placement,
            range placements(), checked by tenants::placement(org);
        /// Hold on the writes of an organisation that is being moved.
        hold(org: OrgId) => Hold,
            range holds();
    } };
}
pub(crate) use families;
