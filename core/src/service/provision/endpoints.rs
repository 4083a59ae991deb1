//! Endpoints: the outbound webhooks and the citation subscriptions of an organisation.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Provisioning;
use crate::error::Error;
use crate::model::{
    DisabledReason, EndpointId, EventType, OrgId, Timestamp, Webhook, WebhookUrl, WorkspaceId,
};
use crate::service::deliveries::{EndpointPlace, EndpointState, Recipient};
use crate::service::page::{Listing, Page, PageRequest};
use crate::keys;
use crate::store::{Direction, KeyEntry, KeyRange, StoreExt, decode_value};

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
        let show = |found: Arc<[KeyEntry]>| async move {
            let mut shown = Vec::with_capacity(found.len());
            for found in found.iter() {
                let id = keys::last_id(&found.key).map(EndpointId);
                let id = id.ok_or_else(|| Error::internal(format!("{} is nobody", found.key)))?;
                let state: EndpointState = decode_value(found)?;
                let recipient = self.recipient_at(org, id, state.place).await?;
                let is_meant = |recipient: &Recipient| {
                    workspace.is_none_or(|workspace| recipient.workspace() == workspace)
                };
                shown.push(match recipient.filter(is_meant) {
                    Some(recipient) => Some(self.summary(recipient).await?),
                    None => None,
                });
            }
            Ok(shown)
        };
        listing.page_of(self.service.store(), page, show).await
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
        let mut reading = self.service.reading();
        let recipient = Recipient::find(&mut reading, org, endpoint).await?;
        self.summary(recipient).await
    }

    /// The record of an endpoint that a list found, unless it was deleted meanwhile.
    async fn recipient_at(
        &self,
        org: OrgId,
        endpoint: EndpointId,
        place: EndpointPlace,
    ) -> Result<Option<Recipient>, Error> {
        let key = Recipient::key(org, endpoint, place);
        let found = self.service.store().get(std::slice::from_ref(&key)).await?;
        let entry = found.first().and_then(Option::as_ref);
        let recipient = entry.map(|entry| Recipient::decode(place, &key, entry));
        Ok(recipient.transpose()?)
    }

    async fn summary(&self, recipient: Recipient) -> Result<EndpointSummary, Error> {
        let (org, id) = (recipient.org(), recipient.endpoint());
        let pending = self.count(&keys::deliveries_due(org, id)).await?;
        let dead = self.count(&keys::dead_letters(org, id)).await?;
        let (kind, event_type, created_at) = match &recipient {
            Recipient::Webhook(stored) => {
                let Webhook {
                    event_type,
                    created_at,
                    ..
                } = &stored.record;
                (EndpointKind::Webhook, *event_type, *created_at)
            }
            Recipient::Subscription(stored) => (
                EndpointKind::Subscription,
                EventType::CitationChanged,
                stored.record.created_at,
            ),
        };
        Ok(EndpointSummary {
            id,
            kind,
            workspace_id: recipient.workspace(),
            event_type,
            url: recipient.url().clone(),
            is_active: recipient.is_on(),
            disabled_reason: recipient.disabled(),
            created_at,
            pending,
            dead,
        })
    }

    /// How many keys there are in a range, as far as they are counted.
    async fn count(&self, range: &KeyRange) -> Result<usize, Error> {
        let store = self.service.store();
        let found = store.scan(range, DELIVERIES_COUNTED_MAX, Direction::Forward);
        Ok(found.await?.len())
    }
}
