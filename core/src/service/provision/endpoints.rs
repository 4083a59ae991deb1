//! Endpoints: the outbound webhooks and the citation subscriptions of an organisation.

use serde::{Deserialize, Serialize};

use super::Provisioning;
use crate::error::Error;
use crate::model::{
    CitationSubscription, DisabledReason, EndpointId, EventType, OrgId, SubscriptionId, Timestamp,
    Webhook, WebhookId, WebhookUrl, WorkspaceId,
};
use crate::service::deliveries::{EndpointPlace, EndpointState};
use crate::service::page::{Listing, Page, PageRequest};
use crate::service::sealing::SealedRecord;
use crate::store::{Direction, KeyRange, StoreExt, decode_value, keys};

/// Up to where the deliveries of an endpoint are counted.
const DELIVERIES_COUNTED_MAX: usize = 1_000;

crate::model::names::string_enum! {
    /// What kind of endpoint.
    EndpointKind {
        /// An outbound webhook.
        Webhook = "webhook",
        /// A citation subscription.
        Subscription = "citation_subscription",
    }
}

/// An endpoint as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointSummary {
    /// The identifier of the webhook or the subscription.
    pub id: EndpointId,
    /// Which of the two.
    pub kind: EndpointKind,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// What it is told of.
    pub event_type: EventType,
    /// Where deliveries go.
    pub url: WebhookUrl,
    /// Whether it is told anything at present.
    pub is_active: bool,
    /// Why the service switched it off, where it did.
    pub disabled_reason: Option<DisabledReason>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Deliveries that are pending, counted up to 1,000.
    pub pending: usize,
    /// Deliveries that are dead letters, counted up to 1,000.
    pub dead: usize,
}

impl Provisioning<'_> {
    /// A page of the endpoints of an organisation, or of one of its workspaces, in the order of their identifiers.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; those of the store.
    pub async fn list_endpoints(
        &self,
        org: OrgId,
        workspace: Option<WorkspaceId>,
        page: &PageRequest,
    ) -> Result<Page<EndpointSummary>, Error> {
        let range = keys::endpoints(org);
        let listing = Listing::new("endpoints", &workspace, range, Direction::Forward);
        listing
            .page_of(self.service.store(), page, |found| async move {
                let mut shown = Vec::with_capacity(found.len());
                for found in found.iter() {
                    let id = keys::last_id(&found.key).map(EndpointId);
                    let id = id.ok_or_else(|| Error::internal("an endpoint without a name"))?;
                    let state: EndpointState = decode_value(found)?;
                    let is_elsewhere = matches!(
                        (workspace, state.place),
                        (Some(workspace), EndpointPlace::Webhook(place)) if place != workspace
                    );
                    let summary = match is_elsewhere {
                        true => None,
                        false => self.summary(org, id, state.place).await?,
                    };
                    shown.push(summary.filter(|summary| {
                        workspace.is_none_or(|workspace| summary.workspace_id == workspace)
                    }));
                }
                Ok(shown)
            })
            .await
    }

    /// One endpoint.
    ///
    /// # Errors
    /// [`Error::NotFound`]; those of the store.
    pub async fn endpoint(
        &self,
        org: OrgId,
        endpoint: EndpointId,
    ) -> Result<EndpointSummary, Error> {
        let key = keys::endpoint(org, endpoint);
        let state = self.service.store().read::<EndpointState>(&key).await?;
        let summary = match state {
            Some(state) => self.summary(org, endpoint, state.value.place).await?,
            None => None,
        };
        summary.ok_or(Error::NotFound { what: "endpoint" })
    }

    /// What is shown of the endpoint whose record stands there, unless it was deleted meanwhile.
    async fn summary(
        &self,
        org: OrgId,
        id: EndpointId,
        place: EndpointPlace,
    ) -> Result<Option<EndpointSummary>, Error> {
        let store = self.service.store();
        let (pending, dead) = (0, 0);
        let summary = match place {
            EndpointPlace::Webhook(workspace) => {
                let key = keys::webhook(org, workspace, WebhookId(id.0));
                let found = store.read::<SealedRecord<Webhook>>(&key).await?;
                found.map(|found| {
                    let Webhook {
                        event_type,
                        url,
                        is_active,
                        created_at,
                        ..
                    } = found.value.record;
                    EndpointSummary {
                        id,
                        kind: EndpointKind::Webhook,
                        workspace_id: workspace,
                        event_type,
                        url,
                        is_active,
                        disabled_reason: found.value.disabled,
                        created_at,
                        pending,
                        dead,
                    }
                })
            }
            EndpointPlace::Subscription(recall) => {
                let key = keys::subscription(org, recall, SubscriptionId(id.0));
                let found = store
                    .read::<SealedRecord<CitationSubscription>>(&key)
                    .await?;
                found.map(|found| EndpointSummary {
                    id,
                    kind: EndpointKind::Subscription,
                    workspace_id: found.value.record.workspace_id,
                    event_type: EventType::CitationChanged,
                    url: found.value.record.webhook_url,
                    is_active: found.value.disabled.is_none(),
                    disabled_reason: found.value.disabled,
                    created_at: found.value.record.created_at,
                    pending,
                    dead,
                })
            }
        };
        let Some(mut summary) = summary else {
            return Ok(None);
        };
        summary.pending = self.count(&keys::deliveries_due(org, id)).await?;
        summary.dead = self.count(&keys::dead_letters(org, id)).await?;
        Ok(Some(summary))
    }

    /// How many keys there are in a range, as far as they are counted.
    async fn count(&self, range: &KeyRange) -> Result<usize, Error> {
        let store = self.service.store();
        let found = store.scan(range, DELIVERIES_COUNTED_MAX, Direction::Forward);
        Ok(found.await?.len())
    }
}
