//! List of what a credential created, each with its status.

use std::sync::Arc;

use uuid::Uuid;

use crate::access::Action;
use crate::error::Error;
use crate::keys;
use crate::model::{
    CitationSubscription, CreatedKind, CreatedResource, CredentialId, InboundWebhook, OrgId,
    ResourceState, Timestamp, Webhook, WorkspaceId,
};
use crate::service::KnowledgeService;
use crate::service::access::created::{CreatedRecord, Ending, endpoint_state, inbound_state};
use crate::service::access::principal::Delegator;
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::secrets::sealing::SealedRecord;
use crate::service::tokens::types::ApiToken;
use crate::service::workspace::mcp_key_types::McpKey;
use crate::store::{Direction, Key, KeyEntry, Transaction, decode_value};

/// Facts about a created record, from which its status follows.
struct Facts {
    kind: CreatedKind,
    /// Workspace of the record; a token has none.
    workspace: Option<WorkspaceId>,
    name: String,
    delegator: Delegator,
    /// Action without which it is suspended; `None` if the workspace only has to exist.
    needed: Option<Action>,
    /// State unless it has ended.
    state: ResourceState,
}

impl Facts {
    fn of_webhook(stored: SealedRecord<Webhook>) -> Self {
        let webhook = stored.record;
        Self {
            kind: CreatedKind::Webhook,
            workspace: Some(webhook.workspace_id),
            name: webhook.url.as_str().to_owned(),
            delegator: stored.delegator,
            needed: Some(Action::WebhookManage),
            state: endpoint_state(webhook.is_active, webhook.is_confirmed),
        }
    }

    fn of_subscription(stored: SealedRecord<CitationSubscription>) -> Self {
        let subscription = stored.record;
        Self {
            kind: CreatedKind::CitationSubscription,
            workspace: Some(subscription.workspace_id),
            name: subscription.webhook_url.as_str().to_owned(),
            delegator: stored.delegator,
            needed: Some(Action::CitationSubscriptionManage),
            state: endpoint_state(stored.disabled.is_none(), subscription.is_confirmed),
        }
    }

    fn of_inbound_webhook(stored: SealedRecord<InboundWebhook>) -> Self {
        Self {
            kind: CreatedKind::InboundWebhook,
            workspace: Some(stored.record.workspace_id),
            state: inbound_state(&stored),
            name: stored.record.name,
            delegator: stored.delegator,
            needed: Some(Action::MemoryCreate),
        }
    }

    fn of_mcp_key(workspace: WorkspaceId, key: McpKey) -> Self {
        Self {
            kind: CreatedKind::McpKey,
            workspace: Some(workspace),
            delegator: key.delegator(),
            name: key.name,
            needed: None,
            state: ResourceState::Active,
        }
    }

    fn of_token(token: ApiToken) -> Self {
        Self {
            kind: CreatedKind::Token,
            workspace: None,
            delegator: token.delegator(),
            name: token.name,
            needed: None,
            state: ResourceState::Active,
        }
    }

    /// Reads the facts about a record; `None` if it is not stored any more.
    async fn read(
        transaction: &mut Transaction,
        record: CreatedRecord,
        key: &Key,
        now: Timestamp,
    ) -> Result<Option<Self>, Error> {
        Ok(match record {
            CreatedRecord::McpKey(workspace) => {
                let found = transaction.get::<McpKey>(key).await?;
                let valid = found.filter(|key| now < key.expires_at);
                valid.map(|key| Self::of_mcp_key(workspace, key))
            }
            CreatedRecord::Token(_) => {
                let found = transaction.get::<ApiToken>(key).await?;
                let valid = found.filter(|token| now < token.expires_at);
                valid.map(Self::of_token)
            }
            CreatedRecord::Webhook(_) => {
                let found = transaction.get::<SealedRecord<Webhook>>(key).await?;
                found.map(Self::of_webhook)
            }
            CreatedRecord::InboundWebhook(_) => {
                let found = transaction.get::<SealedRecord<InboundWebhook>>(key).await?;
                found.map(Self::of_inbound_webhook)
            }
            CreatedRecord::CitationSubscription(_) => {
                let found = transaction.get::<SealedRecord<CitationSubscription>>(key);
                found.await?.map(Self::of_subscription)
            }
        })
    }
}

impl KnowledgeService {
    /// Lists what a credential created or last took over, without authorising anybody.
    ///
    /// What is in the workspaces `hidden` is left out.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; those of the store.
    pub(in crate::service) async fn created_with(
        &self,
        org: OrgId,
        credential: CredentialId,
        hidden: &[WorkspaceId],
        page: &PageRequest,
    ) -> Result<Page<CreatedResource>, Error> {
        let now = self.env().now();
        let show = |found: Arc<[KeyEntry]>| async move {
            let mut reading = self.reading();
            let mut shown = Vec::with_capacity(found.len());
            for found in found.iter() {
                let resource = created_resource(&mut reading, org, found, now).await?;
                let is_known = |resource: &CreatedResource| {
                    let mut place = resource.workspace_id.iter();
                    place.all(|place| !hidden.contains(place))
                };
                shown.push(PageRecord::visible(resource.filter(is_known)));
            }
            Ok(shown)
        };
        let range = keys::all_created_with(org, credential);
        Listing::new("created_with", &credential, range, Direction::Forward)
            .page_of(&mut self.reading(), page, self.env(), show)
            .await
    }
}

/// Returns the resource of an entry of the index, if it is still stored.
async fn created_resource(
    transaction: &mut Transaction,
    org: OrgId,
    found: &KeyEntry,
    now: Timestamp,
) -> Result<Option<CreatedResource>, Error> {
    let record: CreatedRecord = decode_value(found)?;
    let Some(id) = keys::last_id(&found.key) else {
        return Ok(None);
    };
    let key = record.key(org, id);
    let Some(facts) = Facts::read(transaction, record, &key, now).await? else {
        return Ok(None);
    };
    let nowhere = WorkspaceId(Uuid::nil());
    let place = (org, facts.workspace.unwrap_or(nowhere));
    let ending = Ending::find(transaction, place, facts.needed, facts.delegator, now).await?;
    Ok(Some(CreatedResource {
        kind: facts.kind,
        id,
        workspace_id: facts.workspace,
        name: facts.name,
        status: Ending::status(ending, facts.state),
    }))
}
