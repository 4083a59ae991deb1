//! Audit entries about refused changes, of which a flood leaves few.
//!
//! Of equal refusals in an hour, the first leaves an entry: the same credential, action and
//! resource. A member has one record of its refusals in the current hour, which limits their
//! number. What was recorded is also remembered in the process, so that a repetition reads nothing.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::access::{Credential, CredentialRecord, SecretHash, USE_WINDOW_MS};
use crate::digest::sha256_bytes;
use crate::error::Error;
use crate::keys;
use crate::model::{
    AuditAction, ChatId, ConnectorId, CredentialId, InboundWebhookId, MemberId, MemoryId, OrgId,
    RecallId, ResourceKind, RoleId, SubscriptionId, Timestamp, WebhookId, WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::principal::Principal;
use crate::service::audit::entry::AuditResource;
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::audit::written_in_hour::MemberRefusals;
use crate::service::{AuditLog, Caller, KnowledgeService};
use crate::store::{Entry, Key, Prepared, Transaction};

/// Time for which equal refusals leave one entry, in milliseconds. Uses have the same [`window`].
const WINDOW_MS: i64 = USE_WINDOW_MS;
/// Maximum number of entries about refusals of one member in a window.
const REFUSALS_MAX: usize = 32;
/// Maximum number of attempts to write an entry.
const ATTEMPTS_MAX: u32 = 2;

/// A refused change, as the audit log records it.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Operation that was refused.
    pub operation: Operation,
    /// Workspace that the caller named.
    pub workspace: Option<WorkspaceId>,
    /// Resource that the caller named. If there is none, the entry is about the workspace, or the
    /// organisation.
    pub resource: Option<AuditResource>,
    /// Reason that the caller was told.
    pub reason: String,
}

/// Workspace of a record, if it is in one.
#[derive(Deserialize)]
struct Placed {
    #[serde(default)]
    workspace_id: Option<WorkspaceId>,
}

/// Returns the number of the hour since the Unix epoch.
pub(crate) fn window(now: Timestamp) -> i64 {
    now.as_millis().div_euclid(WINDOW_MS)
}

impl Refusal {
    /// Returns a number that equal refusals share, and hardly any others.
    fn fingerprint(&self, caller: &Caller) -> u64 {
        let mut bytes = Vec::new();
        match caller.credential() {
            Credential::Secret(secret) => bytes.extend(secret.hash().0),
            Credential::Trusted { org, member } => {
                bytes.extend(org.0.as_bytes());
                bytes.extend(member.0.as_bytes());
            }
        }
        let resource = self.resource.map(|resource| resource.id);
        let workspace = self.workspace.map(|workspace| workspace.0);
        for id in [workspace, resource] {
            bytes.extend(id.unwrap_or_default().as_bytes());
        }
        let member = caller.acting_for().map(ToString::to_string);
        bytes.extend(member.unwrap_or_default().bytes());
        let actions = self.operation.spec().audit_actions;
        bytes.extend(actions.iter().flat_map(|action| action.as_str().bytes()));
        let [a, b, c, d, e, f, g, h, ..] = sha256_bytes(bytes);
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// Returns the key of the resource, if it is of a kind that operations name.
    fn key(&self, org: OrgId) -> Option<Key> {
        let AuditResource { kind, id } = self.resource?;
        Some(match (kind, self.workspace) {
            (ResourceKind::Memory, _) => keys::memory(org, MemoryId(id)),
            (ResourceKind::Role, _) => keys::role(org, RoleId(id)),
            (ResourceKind::Member, _) => keys::member(org, MemberId(id)),
            (ResourceKind::Recall, _) => keys::recall(org, RecallId(id)),
            (ResourceKind::Chat, Some(workspace)) => keys::chat(org, workspace, ChatId(id)),
            (ResourceKind::Subscription, _) => keys::subscription_id(org, SubscriptionId(id)),
            (ResourceKind::Webhook, Some(workspace)) => {
                keys::webhook(org, workspace, WebhookId(id))
            }
            (ResourceKind::InboundWebhook, Some(workspace)) => {
                keys::inbound_webhook(org, workspace, InboundWebhookId(id))
            }
            (ResourceKind::Connector, Some(workspace)) => {
                keys::connector(org, workspace, ConnectorId(id))
            }
            (ResourceKind::Credential, Some(workspace)) => {
                keys::mcp_key(org, workspace, CredentialId(id))
            }
            (ResourceKind::Credential, None) => keys::credential_id(org, CredentialId(id)),
            _ => return None,
        })
    }

    /// Returns the workspace of what was refused, if it has one.
    async fn place(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
    ) -> Result<Option<WorkspaceId>, Error> {
        if self.workspace.is_some() {
            return Ok(self.workspace);
        }
        let key = match self.resource.map(|named| (named.kind, named.id)) {
            Some((ResourceKind::Subscription, id)) => {
                let recall = keys::subscription_id(org, SubscriptionId(id));
                let recall: Option<RecallId> = transaction.unchecked().get(&recall).await?;
                recall.map(|recall| keys::recall(org, recall))
            }
            Some((ResourceKind::Credential, id)) => {
                return place_of_credential(transaction, org, CredentialId(id)).await;
            }
            _ => self.key(org),
        };
        let Some(key) = key else {
            return Ok(None);
        };
        let found: Option<Placed> = transaction.unchecked().get(&key).await?;
        Ok(found.and_then(|found| found.workspace_id))
    }

    /// Returns the resource of the entry: the one that the caller named if it exists, or otherwise
    /// the workspace or the organisation.
    async fn audited(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
    ) -> Result<(ResourceKind, uuid::Uuid), Error> {
        let workspace = self.workspace.map(|id| keys::workspace(org, id));
        let named = [
            (
                self.key(org),
                self.resource.map(|named| (named.kind, named.id)),
            ),
            (
                workspace,
                self.workspace.map(|id| (ResourceKind::Workspace, id.0)),
            ),
        ];
        for (key, resource) in named {
            if let (Some(key), Some(resource)) = (key, resource)
                && transaction.unchecked().get::<Entry>(&key).await?.is_some()
            {
                return Ok(resource);
            }
        }
        Ok((ResourceKind::Organization, org.0))
    }
}

/// Returns the workspace of an MCP key; `None` for any other credential, which is in none.
async fn place_of_credential(
    transaction: &mut Transaction,
    org: OrgId,
    id: CredentialId,
) -> Result<Option<WorkspaceId>, Error> {
    let hash = keys::credential_id(org, id);
    let hash: Option<String> = transaction.unchecked().get(&hash).await?;
    let Some(hash) = hash.and_then(|hash| hash.parse::<SecretHash>().ok()) else {
        return Ok(None);
    };
    let record = keys::credential(hash);
    let record: Option<CredentialRecord> = transaction.unchecked().get(&record).await?;
    let scope = record.and_then(|record| record.scope.workspaces);
    let Some([workspace]) = scope.as_deref() else {
        return Ok(None);
    };
    let key = keys::mcp_key(org, *workspace, id);
    let key: Option<Entry> = transaction.unchecked().get(&key).await?;
    Ok(key.map(|_| *workspace))
}

impl AuditLog<'_> {
    /// Records in the audit log that a change, not a read, was refused, if its caller is known.
    ///
    /// [`Api`](crate::api::Api) calls it for every [`Error::Forbidden`]; a caller of the functions of
    /// this type does so itself. Equal refusals within an hour, and all beyond a number for each
    /// member, leave no further entry. If the entry cannot be written, that is logged: the refusal
    /// does not depend on it.
    pub async fn record_refusal(self, caller: &Caller, refusal: &Refusal) {
        match refusal.operation.spec().audit_actions {
            [] | [AuditAction::MemoryRead] => return,
            _ => {}
        }
        let window = window(self.service.env().now());
        let fingerprint = refusal.fingerprint(caller);
        if self
            .service
            .written_in_hour()
            .with(window, |known| known.contains(&fingerprint))
        {
            return;
        }
        let mut attempts = 0;
        match self
            .service
            .transact(|transaction| {
                attempts += 1;
                let place = (window, fingerprint, attempts);
                self.service
                    .write_refusal(transaction, caller, refusal, place)
            })
            .await
        {
            Ok(()) => {
                self.service
                    .written_in_hour()
                    .with(window, |known| known.insert(fingerprint));
            }
            Err(Error::Unauthenticated { .. }) => {}
            Err(error) => {
                tracing::warn!(%error, "a refused change is missing in the audit log");
            }
        }
    }
}

impl KnowledgeService {
    async fn write_refusal(
        &self,
        mut transaction: Transaction,
        caller: &Caller,
        refusal: &Refusal,
        (window, fingerprint, attempt): (i64, u64, u32),
    ) -> Result<Prepared<()>, Error> {
        if attempt > ATTEMPTS_MAX {
            return Err(Error::Conflict);
        }
        let spec = refusal.operation.spec();
        let (Some(wanted), Some(action)) =
            (spec.authentication.credential(), spec.audit_actions.first())
        else {
            return Ok(transaction.done(()));
        };
        let now = self.env().now();
        let credential = caller.credential();
        let principal = Principal::authenticate(&mut transaction, credential, wanted, now).await?;
        let acting = principal.clone().of_caller(&mut transaction, caller, None);
        let principal = match acting.await {
            // That it may not act for the member is refused to the service account.
            Err(Error::Forbidden { .. }) => principal,
            acting => acting?,
        };
        let org = principal.org_id();
        // A service account must not use up the entries of the member that it acts for.
        let sender = principal.via().unwrap_or(principal.member_id());
        let key = keys::member_refusals(org, sender);
        let stored = transaction.get::<MemberRefusals>(&key).await?;
        let mut stored = stored.unwrap_or_default();
        if stored.window != window {
            stored = MemberRefusals {
                window,
                refused: BTreeSet::new(),
            };
        }
        if stored.refused.len() >= REFUSALS_MAX || !stored.refused.insert(fingerprint) {
            return Ok(transaction.done(()));
        }
        transaction.put(key, &stored);
        let place = refusal.place(&mut transaction, org).await?;
        let (place, resource) = if place.is_none_or(|place| principal.knows(place)) {
            (place, refusal.audited(&mut transaction, org).await?)
        } else {
            // As for an unknown identifier: an entry that is omitted would tell it from one.
            (None, (ResourceKind::Organization, org.0))
        };
        let actor = Actor {
            workspace: place,
            ..Actor::new(&principal, caller.client())
        };
        let operation = AuditedOperation::begin(&transaction, self.env(), now);
        operation.refused(&mut transaction, actor, *action, resource, &refusal.reason);
        Ok(transaction.done(()))
    }
}
