//! Writing of the audit log: every change and every rejected change, with its actor and its time.
//!
//! The entries of one operation have consecutive identifiers and share pages. Each page is stored
//! under the identifier of its first entry, so that an entry is found by one step backwards from
//! its identifier, and the log is ordered by time.

use serde::Serialize;
use serde_json::Value;

use crate::env::Env;
use crate::keys;
use crate::model::{AuditAction, ResourceKind};
use crate::model::{
    AuditLogId, CredentialId, InboundWebhookId, MemberId, MemoryChange, OperationId, OrgId,
    Timestamp, WorkspaceId,
};
use crate::service::access::principal::Principal;
use crate::service::audit::entry::{AuditResource, ClientInfo, first_of_operation};
use crate::service::audit::pages::{AuditPage, PAGE_ENTRIES, PageBody};
use crate::service::audit::runs::{MemoryAudit, MemoryEntries};
use crate::service::quota::audit_counter;
use crate::store::Transaction;

/// The actor of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Actor {
    pub(crate) org: OrgId,
    pub(crate) member: Option<MemberId>,
    pub(crate) credential: Option<CredentialId>,
    /// Service account that acts for the member.
    pub(crate) via: Option<MemberId>,
    /// Inbound webhook that acts on behalf of the member.
    pub(crate) webhook: Option<InboundWebhookId>,
    /// Workspace in which it acts, if it is one only.
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) client: ClientInfo,
}

impl Actor {
    /// Returns the actor for a caller whose request came from this client.
    pub(crate) fn new(principal: &Principal, client: ClientInfo) -> Self {
        Self {
            org: principal.org_id(),
            member: Some(principal.member_id()),
            credential: principal.credential,
            via: principal.via(),
            webhook: None,
            workspace: None,
            client,
        }
    }

    /// Returns the actor for the operator of the service, who acts through provisioning.
    pub(crate) fn operator(org: OrgId) -> Self {
        Self {
            org,
            member: None,
            credential: None,
            via: None,
            webhook: None,
            workspace: None,
            client: ClientInfo::default(),
        }
    }

    /// Returns the actor for the service itself, which acts in a workspace.
    pub(crate) fn service(org: OrgId, workspace: WorkspaceId) -> Self {
        Self {
            workspace: Some(workspace),
            ..Self::operator(org)
        }
    }
}

/// One execution of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditedOperation {
    pub(crate) id: OperationId,
    pub(crate) first_audit_id: AuditLogId,
    pub(crate) at: Timestamp,
}

impl AuditedOperation {
    pub(crate) fn begin(transaction: &Transaction, env: &Env, at: Timestamp) -> Self {
        Self {
            id: OperationId(env.uuid_at(at)),
            first_audit_id: first_of_operation(AuditLogId(transaction.unique())),
            at,
        }
    }

    /// Returns the operation for its further entries, after so many.
    pub(crate) fn after(self, entries: usize) -> Self {
        let first_audit_id = self.first_audit_id.plus(entries as u128);
        Self {
            first_audit_id,
            ..self
        }
    }

    /// Records the creation of a resource.
    pub(crate) fn created<T: Serialize>(
        self,
        transaction: &mut Transaction,
        actor: Actor,
        action: AuditAction,
        resource: (ResourceKind, uuid::Uuid),
        after: &T,
    ) {
        let after = Some(state(after));
        self.record(transaction, actor, action, resource, None, after);
    }

    /// Records the change of a resource.
    pub(crate) fn changed<T: Serialize>(
        self,
        transaction: &mut Transaction,
        actor: Actor,
        action: AuditAction,
        resource: (ResourceKind, uuid::Uuid),
        before: &T,
        after: &T,
    ) {
        let (before, after) = (Some(state(before)), Some(state(after)));
        self.record(transaction, actor, action, resource, before, after);
    }

    /// Records the states of a resource before and after; `None` if it did not exist.
    pub(crate) fn record(
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
        self.record_pages(transaction, actor, action, vec![body]);
    }

    /// Records that a change was refused.
    pub(crate) fn refused(
        self,
        transaction: &mut Transaction,
        actor: Actor,
        action: AuditAction,
        (kind, id): (ResourceKind, uuid::Uuid),
        reason: &str,
    ) {
        let body = PageBody::Rejected {
            resource: AuditResource { kind, id },
            reason: reason.to_owned(),
        };
        self.record_pages(transaction, actor, action, vec![body]);
    }

    /// Records the outcomes for memories.
    ///
    /// `change` is the change of the successful entries that have a state before.
    pub(crate) fn record_memories(
        self,
        transaction: &mut Transaction,
        actor: Actor,
        action: AuditAction,
        change: Option<&MemoryChange>,
        entries: Vec<MemoryAudit>,
    ) {
        let pages = memory_pages(change, entries);
        self.record_pages(transaction, actor, action, pages);
    }

    /// Writes pages of entries, which follow each other.
    pub(crate) fn record_pages(
        self,
        transaction: &mut Transaction,
        actor: Actor,
        action: AuditAction,
        pages: Vec<PageBody>,
    ) {
        let (mut first, mut bytes) = (self.first_audit_id, 0);
        for body in pages {
            let page = AuditPage {
                operation_id: self.id,
                at: self.at,
                actor_id: actor.member,
                credential_id: actor.credential,
                via_id: actor.via,
                inbound_webhook_id: actor.webhook,
                client_address: actor.client.address,
                request_id: actor.client.request_id,
                workspace_id: actor.workspace,
                action,
                body,
            };
            bytes += transaction.create_unique(keys::audit(actor.org, first), &page);
            first = first.plus(page.len() as u128);
        }
        let is_first = first_of_operation(self.first_audit_id) == self.first_audit_id;
        if let Some(member) = actor.member.filter(|_| is_first) {
            let mark = keys::audit_actor(actor.org, member, self.first_audit_id);
            bytes += mark.as_bytes().len();
            transaction.put(mark, &());
        }
        // Reads must not use up what others need for changes.
        if action != AuditAction::MemoryRead {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            transaction.add(audit_counter(actor.org, self.at), bytes);
        }
    }
}

/// Returns the pages of the outcomes for memories.
pub(crate) fn memory_pages(
    change: Option<&MemoryChange>,
    entries: Vec<MemoryAudit>,
) -> Vec<PageBody> {
    let mut entries = entries.into_iter();
    let mut pages = Vec::new();
    loop {
        let page: Vec<_> = entries.by_ref().take(PAGE_ENTRIES).collect();
        if page.is_empty() {
            return pages;
        }
        pages.push(PageBody::Memories(MemoryEntries {
            change: change.cloned(),
            entries: page,
        }));
    }
}

/// Returns the form of a record in an audit entry.
///
/// It has identifiers, labels and configuration, but neither titles nor queries, and of a URL only
/// the origin: an erasure could not remove them from the audit log.
pub(crate) fn state<T: Serialize>(record: &T) -> Value {
    let mut state = serde_json::to_value(record)
        .expect("records serialise: string keys, no fallible implementations");
    if let Some(fields) = state.as_object_mut() {
        for text in ["title", "query"] {
            fields.remove(text);
        }
        for url in ["url", "webhook_url"] {
            if let Some(Value::String(text)) = fields.get_mut(url) {
                // What precedes the path, or nothing of a path.
                let host = text.find("://").map_or(0, |scheme| scheme + 3);
                let end = text[host..]
                    .find(['/', '?'])
                    .map_or(text.len(), |end| host + end);
                text.truncate(end);
            }
        }
    }
    state
}
