//! Endpoints of an organisation: its outbound webhooks and citation subscriptions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Provisioning;
use crate::error::Error;
use crate::keys;
use crate::model::{
    Confirmation, ConfirmationState, DisabledReason, EndpointId, EventType, OrgId, ResourceStatus,
    Timestamp, Webhook, WebhookUrl, WorkspaceId,
};
use crate::service::access::created::{Ending, Endings, endpoint_state};
use crate::service::deliveries::{EndpointParent, EndpointState};
use crate::service::endpoints::EndpointRecord;
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::store::{Direction, KeyEntry, KeyRange, StoreExt, decode_value};

/// Maximum to which the deliveries of an endpoint are counted.
const DELIVERIES_COUNTED_MAX: usize = 1_000;

crate::model::names::string_enum! {
    /// Kind of an endpoint.
    EndpointKind {
        /// An outbound webhook.
        Webhook = "webhook",
        /// A citation subscription.
        Subscription = "citation_subscription",
    }
}

/// An endpoint as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EndpointSummary {
    /// Identifier of the webhook or subscription.
    pub id: EndpointId,
    /// Kind of the endpoint.
    pub kind: EndpointKind,
    /// Workspace of the endpoint.
    pub workspace_id: WorkspaceId,
    /// Type of the events that it receives.
    pub event_type: EventType,
    /// URL that receives the deliveries.
    pub url: WebhookUrl,
    /// True if the endpoint is switched on and has not ended.
    pub is_active: bool,
    /// Reason for which the service disabled it, if it did.
    pub disabled_reason: Option<DisabledReason>,
    /// True if the URL has answered a `webhook.ping` with 2xx. Until then, nothing else is sent.
    pub is_confirmed: bool,
    /// How far the confirmation is.
    pub confirmation: Confirmation,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Number of pending deliveries, at most 1,000.
    pub pending: usize,
    /// Number of dead letters, at most 1,000.
    pub dead: usize,
    /// State of the endpoint.
    #[serde(flatten)]
    pub status: ResourceStatus,
}

impl Provisioning<'_> {
    /// Lists the endpoints of an organisation, or of one of its workspaces, in order of creation.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; those of the store.
    pub async fn list_endpoints(
        &self,
        org: OrgId,
        workspace: Option<WorkspaceId>,
        page: &PageRequest,
    ) -> Result<Page<EndpointSummary>, Error> {
        let range = keys::endpoints(org);
        let listing = Listing::new("endpoints", &workspace, range, Direction::Forward);
        let show = |found: Arc<[KeyEntry]>| async move {
            let mut shown = Vec::with_capacity(found.len());
            for found in found.iter() {
                let id = keys::last_id(&found.key).map(EndpointId);
                let id = id.ok_or_else(|| {
                    Error::internal(format!("{} is not the key of an endpoint", found.key))
                })?;
                let state: EndpointState = decode_value(found)?;
                let record = self.record_at(org, id, state.parent).await?;
                let is_elsewhere = |record: &EndpointRecord| {
                    workspace.is_some_and(|workspace| record.workspace() != workspace)
                };
                shown.push(match record {
                    None => PageRecord::Hidden,
                    Some(record) if is_elsewhere(&record) => PageRecord::Excluded,
                    Some(record) => PageRecord::Shown(self.summary(record).await?),
                });
            }
            Ok(shown)
        };
        listing
            .page_of(&mut self.service.reading(), page, self.service.env(), show)
            .await
    }

    /// Reads one endpoint.
    ///
    /// # Errors
    /// [`Error::NotFound`]; those of the store.
    pub async fn endpoint(
        &self,
        org: OrgId,
        endpoint: EndpointId,
    ) -> Result<EndpointSummary, Error> {
        let mut reading = self.service.reading();
        let record = EndpointRecord::find(&mut reading, org, endpoint).await?;
        self.summary(record).await
    }

    /// Reads the record of an endpoint in a list, unless it was deleted in the meantime.
    async fn record_at(
        &self,
        org: OrgId,
        endpoint: EndpointId,
        parent: EndpointParent,
    ) -> Result<Option<EndpointRecord>, Error> {
        let key = EndpointRecord::key(org, endpoint, parent);
        let found = self.service.store().get(std::slice::from_ref(&key)).await?;
        let entry = found.first().and_then(Option::as_ref);
        let record = entry.map(|entry| EndpointRecord::decode(parent, &key, entry));
        Ok(record.transpose()?)
    }

    async fn summary(&self, record: EndpointRecord) -> Result<EndpointSummary, Error> {
        let (org, id) = (record.org(), record.endpoint());
        let (delegator, needed) = record.requirement();
        let (place, now) = ((org, record.workspace()), self.service.env().now());
        let reading = &mut self.service.reading();
        let endings = Endings::read(reading, place, Some(needed), vec![delegator], now).await?;
        let ending = endings.of(&delegator);
        let confirmation = record.confirmation(reading, ending.is_some(), now).await?;
        let is_confirmed = confirmation.state == ConfirmationState::Confirmed;
        let state = endpoint_state(record.is_active(), is_confirmed);
        let pending = self.count(&keys::deliveries_due(org, id)).await?;
        let dead = self.count(&keys::dead_letters(org, id)).await?;
        let (kind, event_type, created_at) = match &record {
            EndpointRecord::Webhook(stored) => {
                let Webhook {
                    event_type,
                    created_at,
                    ..
                } = &stored.record;
                (EndpointKind::Webhook, *event_type, *created_at)
            }
            EndpointRecord::Subscription(stored) => (
                EndpointKind::Subscription,
                EventType::CitationChanged,
                stored.record.created_at,
            ),
        };
        Ok(EndpointSummary {
            id,
            kind,
            workspace_id: record.workspace(),
            event_type,
            url: record.url().clone(),
            is_active: record.is_active() && ending.is_none(),
            disabled_reason: record.disabled(),
            is_confirmed,
            confirmation,
            created_at,
            pending,
            dead,
            status: Ending::status(ending, state),
        })
    }

    /// Counts the keys in a range, up to a maximum.
    async fn count(&self, range: &KeyRange) -> Result<usize, Error> {
        let store = self.service.store();
        Ok(store
            .scan(range, DELIVERIES_COUNTED_MAX, Direction::Forward)
            .await?
            .len())
    }
}
