//! Removal of workspaces.

use std::collections::{BTreeMap, BTreeSet};

use super::{AuditFacts, ErrorResponse, Model, Org};
use knowledge_core::access::RoleRef;
use knowledge_core::model::{
    CredentialId, EndpointId, MemoryId, OrgId, Quota, RecallId, SubscriptionId, Timestamp,
    WorkspaceId,
};
use knowledge_core::service::AuditAction;

/// Quotas of records that belong to a workspace.
const QUOTAS: [Quota; 5] = [
    Quota::Memories,
    Quota::Recalls,
    Quota::Chats,
    Quota::ChatMessages,
    Quota::Endpoints,
];

/// Remains of removed workspaces, which maintenance deletes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Removing {
    pub(crate) workspaces: BTreeSet<WorkspaceId>,
    /// Memories of open workspaces, which the audit log takes for hidden ones.
    pub(crate) memories: BTreeSet<MemoryId>,
    /// Records that quotas still count.
    pub(crate) units: BTreeMap<Quota, usize>,
    /// Roles that members held there, which still have these holders.
    pub(crate) held: Vec<RoleRef>,
    /// MCP keys, which still are credentials.
    pub(crate) keys: BTreeSet<CredentialId>,
}

impl Removing {
    pub(crate) fn includes(&self, workspace: WorkspaceId) -> bool {
        self.workspaces.contains(&workspace)
    }
}

impl Org {
    /// Removes a workspace with all its visible contents.
    ///
    /// Its custom roles remain until maintenance, as does what quotas count.
    fn remove_workspace(&mut self, id: WorkspaceId) {
        let before = QUOTAS.map(|quota| self.usage(quota));
        self.workspaces.remove(&id);
        let memories = self.memories.iter();
        let memories = memories.filter(|(_, memory)| memory.labels.workspace_id == id);
        if !self.private.contains(&id) {
            self.removing.memories.extend(memories.map(|(id, _)| *id));
        }
        self.memories
            .retain(|_, memory| memory.labels.workspace_id != id);
        self.names.retain(|(workspace, ..), _| *workspace != id);
        self.erased_names.retain(|(workspace, ..)| *workspace != id);
        self.last_ingest.remove(&id);
        self.activity.retain(|(workspace, _), _| *workspace != id);
        self.connectors
            .retain(|_, facts| facts.connector.workspace_id != id);
        let keys = self.mcp_keys.iter();
        let keys = keys.filter(|(_, key)| key.workspace_id == id);
        self.removing.keys.extend(keys.map(|(id, _)| *id));
        self.mcp_keys.retain(|_, key| key.workspace_id != id);
        self.chats.retain(|_, facts| facts.chat.workspace_id != id);
        let recalls = self.recalls.values();
        let recalls = recalls.filter(|recall| recall.workspace_id == id);
        let recalls: BTreeSet<RecallId> = recalls.map(|recall| recall.id).collect();
        let subscriptions = self.subscriptions.values();
        let subscriptions = subscriptions.filter(|to| recalls.contains(&to.recall_id));
        let subscriptions: BTreeSet<SubscriptionId> = subscriptions.map(|to| to.id).collect();
        let webhooks = self.webhooks.values();
        let webhooks = webhooks.filter(|webhook| webhook.workspace_id == id);
        let webhooks: Vec<EndpointId> = webhooks.map(|webhook| webhook.id.into()).collect();
        let endpoints = subscriptions.iter().map(|id| EndpointId::from(*id));
        for endpoint in endpoints.chain(webhooks) {
            self.delete_endpoint(endpoint);
        }
        self.recalls.retain(|id, _| !recalls.contains(id));
        self.subscriptions
            .retain(|id, _| !subscriptions.contains(id));
        self.webhooks
            .retain(|_, webhook| webhook.workspace_id != id);
        self.inbound_webhooks
            .retain(|_, facts| facts.record.workspace_id != id);
        let held = self.overrides.iter();
        let held = held.filter(|((_, workspace), _)| *workspace == id);
        self.removing.held.extend(held.map(|(_, role)| *role));
        self.overrides.retain(|(_, workspace), _| *workspace != id);
        for (quota, before) in QUOTAS.into_iter().zip(before) {
            let units = before - self.shown(quota);
            self.removing.units.insert(quota, units);
        }
        self.removing.workspaces.insert(id);
    }

    /// Completes the removal of workspaces.
    pub(crate) fn clear_removed(&mut self) {
        let removed = std::mem::take(&mut self.removing).workspaces;
        let is_gone = |workspace: Option<WorkspaceId>| {
            workspace.is_some_and(|workspace| removed.contains(&workspace))
        };
        self.roles.retain(|_, role| !is_gone(role.workspace_id));
        self.private.retain(|id| !removed.contains(id));
    }
}

impl Model {
    /// Deletes the secrets of the MCP keys of removed workspaces, which opened nothing any more.
    pub(crate) fn forget_removed_keys(&mut self) {
        let removed = self.orgs.values().map(|org| &org.removing.keys);
        let removed: BTreeSet<CredentialId> = removed.flatten().copied().collect();
        self.tokens_mut().retain(|id, _| !removed.contains(id));
    }

    /// Removes a workspace as the operator does.
    ///
    /// # Errors
    /// [`ErrorResponse::NotFound`].
    pub(crate) fn remove_workspace(
        &mut self,
        org: OrgId,
        id: WorkspaceId,
        now: Timestamp,
    ) -> Result<(), ErrorResponse> {
        let found = self.org(org).workspaces.get(&id).cloned();
        let before = found.ok_or(ErrorResponse::NotFound)?;
        let org = self.org_mut(org);
        org.remove_workspace(id);
        let entry = AuditFacts::ok(id, before, ());
        org.audit_by_operator(AuditAction::WorkspaceDelete, entry, now);
        Ok(())
    }
}
