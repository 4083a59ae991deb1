//! The audit log: who, when, what, before and after, for everything that was changed and every change refused.
//!
//! The entries of one operation have consecutive identifiers and share pages, each stored under the identifier of its
//! first entry. So the entry of an identifier is found by one step back from it, and the log is in the order of time.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::KnowledgeService;
use super::audit_pages::{AuditPage, MemoryAudit, MemoryEntries, PAGE_ENTRIES, PageBody};
use super::sealing::RotatedSecret;
use crate::access::{Credential, CredentialKind, Denial, Principal, needs};
use crate::env::Env;
use crate::error::Error;
use crate::model::{
    AuditLogId, CredentialId, MemberId, MemoryChange, OperationId, OrgId, Timestamp,
};
use crate::keys;
use crate::store::{Direction, KeyRange, StoreExt, Transaction};

/// The low bits of an operation's first identifier are zero, so that the identifiers behind it stay its own.
pub(super) const ENTRY_BITS: u32 = 16;

crate::model::names::string_enum! {
    /// What was done.
    #[non_exhaustive]
    AuditAction {
        /// Memories came in.
        MemoryIngest = "memory.ingest",
        /// A memory was added.
        MemoryCreate = "memory.create",
        /// A memory was changed.
        MemoryUpdate = "memory.update",
        /// A memory was deleted.
        MemoryDelete = "memory.delete",
        /// Attributes of memories were changed.
        MemoryBulkUpdate = "memory.bulk_update",
        /// A source was made.
        SourceCreate = "source.create",
        /// A custom role was made.
        RoleCreate = "role.create",
        /// A custom role was changed.
        RoleUpdate = "role.update",
        /// A custom role was deleted.
        RoleDelete = "role.delete",
        /// A member got another role.
        RoleAssign = "role.assign",
        /// A citation subscription was made.
        SubscriptionCreate = "citation_subscription.create",
        /// A citation subscription was ended.
        SubscriptionDelete = "citation_subscription.delete",
        /// The signing secret of a citation subscription was replaced.
        SubscriptionRotateSecret = "citation_subscription.rotate_secret",
        /// The service switched a citation subscription off.
        SubscriptionDisable = "citation_subscription.disable",
        /// A citation subscription was tried out with success: the service switched it on again.
        SubscriptionEnable = "citation_subscription.enable",
        /// A citation subscription was tried out.
        SubscriptionPing = "citation_subscription.ping",
        /// Deliveries to a citation subscription were put back to be made again.
        SubscriptionRedeliver = "citation_subscription.redeliver",
        /// An outbound webhook was registered.
        WebhookCreate = "webhook.create",
        /// An outbound webhook was changed.
        WebhookUpdate = "webhook.update",
        /// An outbound webhook was deleted.
        WebhookDelete = "webhook.delete",
        /// The signing secret of an outbound webhook was replaced.
        WebhookRotateSecret = "webhook.rotate_secret",
        /// The service switched an outbound webhook off.
        WebhookDisable = "webhook.disable",
        /// An outbound webhook was tried out with success: the service switched it on again.
        WebhookEnable = "webhook.enable",
        /// An outbound webhook was tried out.
        WebhookPing = "webhook.ping",
        /// Deliveries to an outbound webhook were put back to be made again.
        WebhookRedeliver = "webhook.redeliver",
        /// An inbound webhook was registered.
        InboundWebhookCreate = "inbound_webhook.create",
        /// An inbound webhook was changed.
        InboundWebhookUpdate = "inbound_webhook.update",
        /// An inbound webhook was deleted.
        InboundWebhookDelete = "inbound_webhook.delete",
        /// The signing secret of an inbound webhook was replaced.
        InboundWebhookRotateSecret = "inbound_webhook.rotate_secret",
        /// A connector was made.
        ConnectorCreate = "connector.create",
        /// A connector was paused or resumed.
        ConnectorPause = "connector.pause",
        /// The configuration of a connector was changed.
        ConnectorUpdate = "connector.update",
        /// A connector was deleted.
        ConnectorDelete = "connector.delete",
        /// An MCP key was made.
        McpKeyCreate = "mcp_key.create",
        /// The secret of an MCP key was replaced.
        McpKeyRotate = "mcp_key.rotate",
        /// An MCP key was revoked.
        McpKeyRevoke = "mcp_key.revoke",
        /// A chat was opened.
        ChatCreate = "chat.create",
        /// A recall was registered.
        RecallCreate = "recall.create",
        /// An organisation was made.
        OrganizationCreate = "organization.create",
        /// A workspace was made.
        WorkspaceCreate = "workspace.create",
        /// A member was added.
        MemberCreate = "member.create",
        /// The name or the teams of a member were changed.
        MemberUpdate = "member.update",
        /// A member was removed.
        MemberRemove = "member.remove",
        /// A token or a session was made.
        CredentialCreate = "credential.create",
        /// A token or a session was revoked.
        CredentialRevoke = "credential.revoke",
    }
}

crate::model::names::string_enum! {
    /// What kind of thing an audit entry is about.
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
        /// An organisation.
        Organization = "organization",
        /// A workspace.
        Workspace = "workspace",
    }
}

/// What an audit entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AuditResource {
    /// The kind.
    pub kind: ResourceKind,
    /// The identifier.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Identifier"))]
    pub id: uuid::Uuid,
}

/// Whether what was asked for was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// Done.
    Ok,
    /// Refused: there is no such thing.
    NotFound,
    /// Refused: the caller may not.
    Denied(Denial),
}

impl AuditOutcome {
    /// The name outside.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotFound => "not_found",
            Self::Denied(_) => "forbidden",
        }
    }
}

fn outcome_name<S: Serializer>(outcome: &AuditOutcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.as_str())
}

/// One entry of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AuditEntry {
    /// The identifier.
    pub id: AuditLogId,
    /// The operation that it is part of.
    pub operation_id: OperationId,
    /// When it was done.
    pub at: Timestamp,
    /// Who did it; `null` for the operator of the service, and for the service itself.
    pub actor_id: Option<MemberId>,
    /// The token or session it was done with.
    pub credential_id: Option<CredentialId>,
    /// What was done.
    pub action: AuditAction,
    /// What it was done to.
    pub resource: AuditResource,
    /// Whether it was done: `ok`, `not_found` or `forbidden`.
    #[serde(serialize_with = "outcome_name")]
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::OutcomeName"))]
    pub outcome: AuditOutcome,
    /// Why it was refused; `null` where it was not, or where there is no such thing.
    pub reason: Option<String>,
    /// What it was before; `null` for something new.
    pub before: Option<Value>,
    /// What it was after; `null` for something gone or refused.
    pub after: Option<Value>,
}

/// Who acts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor {
    pub(super) org: OrgId,
    pub(super) member: Option<MemberId>,
    pub(super) credential: Option<CredentialId>,
}

impl From<&Principal> for Actor {
    fn from(principal: &Principal) -> Self {
        Self {
            org: principal.org_id(),
            member: Some(principal.member_id()),
            credential: principal.credential,
        }
    }
}

impl Actor {
    /// The operator of the service, who acts through provisioning.
    pub(super) fn operator(org: OrgId) -> Self {
        Self {
            org,
            member: None,
            credential: None,
        }
    }

    /// The service itself.
    pub(super) fn service(org: OrgId) -> Self {
        Self::operator(org)
    }
}

/// One run of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) id: OperationId,
    pub(super) first_audit_id: AuditLogId,
    pub(super) at: Timestamp,
}

impl Operation {
    pub(super) fn begin(transaction: &Transaction, env: &Env, at: Timestamp) -> Self {
        let first = transaction.unique().as_u128() >> ENTRY_BITS << ENTRY_BITS;
        Self {
            id: OperationId(env.uuid_at(at)),
            first_audit_id: AuditLogId(uuid::Uuid::from_u128(first)),
            at,
        }
    }

    /// Records that something new was made.
    pub(super) fn created<T: Serialize>(
        self,
        transaction: &mut Transaction,
        actor: Actor,
        action: AuditAction,
        resource: (ResourceKind, uuid::Uuid),
        after: &T,
    ) {
        self.record(
            transaction,
            actor,
            action,
            resource,
            None,
            Some(state(after)),
        );
    }

    /// Records a change of one thing.
    pub(super) fn changed<T: Serialize>(
        self,
        transaction: &mut Transaction,
        actor: Actor,
        action: AuditAction,
        resource: (ResourceKind, uuid::Uuid),
        before: &T,
        after: &T,
    ) {
        self.record(
            transaction,
            actor,
            action,
            resource,
            Some(state(before)),
            Some(state(after)),
        );
    }

    /// Records that the signing secret of an endpoint was replaced.
    pub(super) fn rotated(
        self,
        transaction: &mut Transaction,
        actor: Actor,
        action: AuditAction,
        resource: (ResourceKind, uuid::Uuid),
        rotated: &RotatedSecret,
    ) {
        let until = rotated.previous_secret_expires_at;
        let after = serde_json::json!({ "previous_secret_expires_at": until });
        self.record(transaction, actor, action, resource, None, Some(after));
    }

    /// Records what one thing was before and is after; `None` for nothing.
    pub(super) fn record(
        self,
        transaction: &mut Transaction,
        actor: Actor,
        action: AuditAction,
        (kind, id): (ResourceKind, uuid::Uuid),
        before: Option<Value>,
        after: Option<Value>,
    ) {
        let body = PageBody::Single {
            resource: AuditResource { kind, id },
            before,
            after,
        };
        self.write(transaction, actor, action, vec![body]);
    }

    /// Records what became of memories. `change` is what successful entries with a state before were set to.
    pub(super) fn record_memories(
        self,
        transaction: &mut Transaction,
        actor: Actor,
        action: AuditAction,
        change: Option<&MemoryChange>,
        entries: Vec<MemoryAudit>,
    ) {
        let mut entries = entries.into_iter();
        let mut pages = Vec::new();
        loop {
            let page: Vec<_> = entries.by_ref().take(PAGE_ENTRIES).collect();
            if page.is_empty() {
                break;
            }
            pages.push(PageBody::Memories(MemoryEntries {
                change: change.cloned(),
                entries: page,
            }));
        }
        self.write(transaction, actor, action, pages);
    }

    fn write(
        self,
        transaction: &mut Transaction,
        actor: Actor,
        action: AuditAction,
        pages: Vec<PageBody>,
    ) {
        for (index, body) in pages.into_iter().enumerate() {
            let page = AuditPage {
                operation_id: self.id,
                at: self.at,
                actor_id: actor.member,
                credential_id: actor.credential,
                action,
                body,
            };
            let first = self.first_audit_id.plus((index * PAGE_ENTRIES) as u128);
            transaction.create_unique(keys::audit(actor.org, first), &page);
        }
        if let Some(member) = actor.member {
            transaction.put(
                keys::audit_actor(actor.org, member, self.first_audit_id),
                &(),
            );
        }
    }
}

/// How an audit entry shows a record.
pub(super) fn state<T: Serialize>(record: &T) -> Value {
    serde_json::to_value(record)
        .expect("records serialise: string keys, no fallible implementations")
}

impl KnowledgeService {
    /// The entry of the audit log with this identifier.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::Forbidden`] without `audit:read`; [`Error::NotFound`].
    pub async fn audit_entry(
        &self,
        credential: &Credential,
        id: AuditLogId,
    ) -> Result<AuditEntry, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut reading, credential, CredentialKind::Bearer, now).await?;
            caller.require(needs::READ_AUDIT)?;
            let found = self.find_audit_entry(caller.org_id(), id).await?;
            let found = found.filter(|entry| !self.is_audit_expired(entry.at, now));
            let missing = Error::NotFound {
                what: "audit entry",
            };
            reading.done(found.ok_or(missing)?)
        })
        .await
    }

    async fn find_audit_entry(
        &self,
        org: OrgId,
        id: AuditLogId,
    ) -> Result<Option<AuditEntry>, Error> {
        let up_to_id = KeyRange::new(keys::audits(org).start, keys::audit(org, id).successor());
        let found = self
            .store()
            .scan_as::<AuditPage>(&up_to_id, 1, Direction::Reverse)
            .await?;
        let Some((key, page)) = found.into_iter().next() else {
            return Ok(None);
        };
        let first = keys::last_id(&key)
            .ok_or_else(|| Error::internal(format!("{key} is no audit page")))?;
        let offset = id.0.as_u128() - first.as_u128();
        let index = usize::try_from(offset).ok();
        Ok(index.and_then(|index| page.value.entry(id, index)))
    }
}
