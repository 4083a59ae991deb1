//! Comparison of the stored deliveries with the announced events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use serde::Deserialize;

use super::compare::announcement;
use super::{Announcement, Asked, ErrorResponse, LabelChanges, Model, Org, Who};
use knowledge_core::api::Operation;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    CitationChange, Delivery, DeliveryId, DeliveryStatus, EndpointId, EventData, EventId,
    EventType, MemoryId, MemoryLabels, OrgId, Recall, RecallId, Timestamp, WorkspaceId,
};
use knowledge_core::service::{Endpoint, Event, ResourceKind};
use knowledge_core::store::{Key, KeyRange, Store, StoreError, StoreErrorKind, StoreExt};

/// Test event that awaits its only attempt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PendingPing {
    pub(crate) created_at: Timestamp,
    pub(crate) next_attempt_at: Timestamp,
}

impl PendingPing {
    /// Returns the delivery of this event to an endpoint.
    pub(crate) fn delivery(&self, event: EventId, endpoint: EndpointId) -> Delivery {
        Delivery {
            id: DeliveryId::of(event, endpoint),
            event_id: event,
            event_type: EventType::WebhookPing,
            status: DeliveryStatus::Pending,
            created_at: self.created_at,
            next_attempt_at: Some(self.next_attempt_at),
            attempts: Vec::new(),
        }
    }
}

/// Notification of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Notification {
    Event(Announcement),
    Citation(RecallId, CitationChange, BTreeSet<MemoryId>),
    Ping,
}

/// Memories that existed for a receiver before or after a change.
type Known = BTreeMap<MemoryId, (bool, bool)>;

/// Number of deliveries per endpoint and notification.
type Deliveries = BTreeMap<(EndpointId, Notification), usize>;

/// Part of the record of an event that is compared.
#[derive(Deserialize)]
struct Announced {
    event: Event,
}

impl Model {
    /// Returns the differences after a complete fan-out at `now`.
    ///
    /// Each event must have been delivered exactly once to each endpoint that existed at its time
    /// and whose owner may have it.
    ///
    /// Statuses of connectors are not compared if the announced ones are unknown.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn delivery_differences(
        &self,
        store: &dyn Store,
        now: Timestamp,
    ) -> Result<Vec<String>, StoreError> {
        let mut differences = Vec::new();
        let left = store.scan_all(&keys::outbox_events()).await?;
        if !left.is_empty() {
            differences.push(format!("{} events are not fanned out", left.len()));
        }
        for (id, org) in &self.orgs {
            let mut found = found(store, *id).await?;
            let mut wanted = self.wanted(org, now);
            if self.lost_announcements {
                let is_known = |(_, notification): &(EndpointId, Notification), _: &mut usize| {
                    !matches!(notification, Notification::Event(Announcement::Status(..)))
                };
                found.retain(is_known);
                wanted.retain(is_known);
            }
            for delivery in found.keys().chain(wanted.keys()).collect::<BTreeSet<_>>() {
                let count = |of: &Deliveries| of.get(delivery).copied().unwrap_or(0);
                let (found, wanted) = (count(&found), count(&wanted));
                if found != wanted {
                    let (endpoint, notification) = delivery;
                    differences.push(format!(
                        "{endpoint} receives {notification:?} {found} times, expected {wanted} \
                         times"
                    ));
                }
            }
        }
        Ok(differences)
    }
}

async fn found(store: &dyn Store, org: OrgId) -> Result<Deliveries, StoreError> {
    let prefix = Key::new(format!("delivery/{}/", org.0.simple()));
    let range = KeyRange::prefix(&prefix.expect("the prefix is a valid key"));
    let mut found = Deliveries::new();
    for delivery in store.scan_all(&range).await? {
        let ids = keys::second_last_id(&delivery.key).zip(keys::last_id(&delivery.key));
        let (endpoint, event) = ids.expect("the key of a delivery");
        let key = keys::event(org, EventId(event));
        let record = store.get_as::<Announced>(&key).await?.ok_or_else(|| {
            let message = format!("{} has no event", delivery.key);
            StoreError::new(StoreErrorKind::Corrupt, message)
        })?;
        let notification = notification(&record.value.event);
        *found
            .entry((EndpointId(endpoint), notification))
            .or_default() += 1;
    }
    Ok(found)
}

fn notification(event: &Event) -> Notification {
    if let EventData::WebhookPing(_) = &event.data {
        return Notification::Ping;
    }
    let EventData::CitationChanged(citations) = &event.data else {
        return Notification::Event(announcement(event));
    };
    let memories = citations.memory_ids.iter().copied().collect();
    Notification::Citation(citations.recall_id, citations.change, memories)
}

impl Announcement {
    /// Returns the event without the memories that a receiver does not know, if any are left.
    fn reduced(&self, known: &Known) -> Option<Self> {
        match self {
            Self::Memories(..) | Self::Ingest(..) if known.is_empty() => None,
            Self::Memories(event_type, workspace, _) => {
                let memories = known.keys().copied().collect();
                Some(Self::Memories(*event_type, *workspace, memories))
            }
            Self::Ingest(workspace, ..) => {
                let created = known.values().filter(|(before, _)| !before).count();
                Some(Self::Ingest(*workspace, created, known.len() - created))
            }
            Self::Rejected(..) | Self::Status(..) | Self::Unexpected(..) => Some(self.clone()),
        }
    }

    fn event_type(&self) -> EventType {
        match self {
            Self::Memories(event_type, ..) | Self::Unexpected(event_type, _) => *event_type,
            Self::Ingest(..) => EventType::IngestCompleted,
            Self::Rejected(..) => EventType::IngestFailed,
            Self::Status(..) => EventType::ConnectorStatusChanged,
        }
    }
}

/// Announced event, with the number of endpoints created before and the changes of its memories.
type Happened = (Announcement, i64, LabelChanges);

impl Model {
    /// Returns the deliveries that must be stored.
    fn wanted(&self, org: &Org, now: Timestamp) -> Deliveries {
        let pings = org.pings.iter();
        let pings = pings.flat_map(|(endpoint, pings)| {
            pings.iter().map(move |_| (*endpoint, Notification::Ping))
        });
        let events = org.events.iter().flat_map(|event| {
            let (announcement, _, changes) = event;
            let webhooks = self.webhooks_for(org, event, announcement.event_type(), now);
            let known = webhooks.into_iter().filter_map(move |(webhook, who)| {
                let known = announcement.reduced(&org.known(&who, changes))?;
                Some((webhook, Notification::Event(known)))
            });
            known.chain(self.citations(org, event, now))
        });
        let mut wanted = Deliveries::new();
        for delivery in pings.chain(events) {
            *wanted.entry(delivery).or_default() += 1;
        }
        wanted
    }

    /// Returns an endpoint with its owner, while the owner may create such an endpoint.
    fn receiver(
        &self,
        org: &Org,
        (endpoint, workspace): (EndpointId, WorkspaceId),
        created_by: Operation,
        now: Timestamp,
    ) -> Option<(EndpointId, Who)> {
        let who = self.acting_for(org.id, org.owners[&endpoint], now)?;
        let permitted = org.rules(&who).operation(created_by, Some(workspace));
        permitted.ok().map(|()| (endpoint, who))
    }

    /// Returns the webhooks that receive events of a type when one has happened.
    fn webhooks_for(
        &self,
        org: &Org,
        (event, endpoints, _): &Happened,
        event_type: EventType,
        now: Timestamp,
    ) -> Vec<(EndpointId, Who)> {
        let workspace = event.workspace();
        let webhooks = org.webhooks.values().filter(|webhook| {
            webhook.workspace_id == workspace
                && webhook.event_type == event_type
                && webhook.is_active
                && org.endpoints[&EndpointId::from(webhook.id)] <= *endpoints
        });
        let receivers = webhooks.filter_map(|webhook| {
            let endpoint = (webhook.id.into(), workspace);
            self.receiver(org, endpoint, Operation::CreateWebhook, now)
        });
        receivers.collect()
    }

    /// Returns the notifications that recalls cite what an event has changed.
    fn citations(
        &self,
        org: &Org,
        event: &Happened,
        now: Timestamp,
    ) -> Vec<(EndpointId, Notification)> {
        let (announcement, endpoints, changes) = event;
        let Announcement::Memories(event_type, _, memories) = announcement else {
            return Vec::new();
        };
        if ![EventType::MemoryUpdated, EventType::ChunkDeleted].contains(event_type) {
            return Vec::new();
        }
        let mut citations = Vec::new();
        for recall in org.recalls.values() {
            let cited = recall.memory_ids.iter().copied();
            let cited: BTreeSet<_> = cited.filter(|id| memories.contains(id)).collect();
            if cited.is_empty() {
                continue;
            }
            let subscriptions = org.subscriptions.values().filter(|to| {
                to.recall_id == recall.id && org.endpoints[&EndpointId::from(to.id)] <= *endpoints
            });
            let subscriptions = subscriptions.filter_map(|to| {
                let endpoint = (to.id.into(), to.workspace_id);
                self.receiver(org, endpoint, Operation::CreateCitationSubscription, now)
            });
            let webhooks = self.webhooks_for(org, event, EventType::CitationChanged, now);
            let receivers = subscriptions.chain(webhooks);
            for (endpoint, who) in
                receivers.filter(|(_, who)| org.recall_is_known(who, recall, changes))
            {
                let known = org.known(&who, changes);
                let known = known.into_iter().filter(|(id, _)| cited.contains(id));
                let (updated, deleted): (Known, Known) =
                    known.partition(|(_, (_, remains))| *remains);
                for (change, known) in [
                    (CitationChange::Updated, updated),
                    (CitationChange::Deleted, deleted),
                ] {
                    if !known.is_empty() {
                        let cited = known.into_keys().collect();
                        let citation = Notification::Citation(recall.id, change, cited);
                        citations.push((endpoint, citation));
                    }
                }
            }
        }
        citations
    }
}

impl Org {
    /// Returns those changed memories that existed for a receiver before or after.
    fn known(&self, who: &Who, changes: &LabelChanges) -> Known {
        let rules = self.rules(who);
        let exists = |id, labels: &Option<MemoryLabels>| {
            let labels = labels.as_ref();
            labels.is_some_and(|labels| rules.exists(id, labels))
        };
        let known = changes.iter().map(|(id, (before, after))| {
            let existence = (exists(*id, before), exists(*id, after));
            (*id, existence)
        });
        known
            .filter(|(_, (before, after))| *before || *after)
            .collect()
    }

    /// Returns true if a recall existed for a receiver before or after these changes.
    fn recall_is_known(&self, who: &Who, recall: &Recall, changes: &LabelChanges) -> bool {
        let now = |id| Some(&self.memories.get(&id)?.labels);
        let before = |id| match changes.get(&id) {
            Some((before, _)) => before.as_ref(),
            None => now(id),
        };
        let after = |id| match changes.get(&id) {
            Some((_, after)) => after.as_ref(),
            None => now(id),
        };
        self.recall_existed(who, recall, before) || self.recall_existed(who, recall, after)
    }

    /// Returns the workspace of an endpoint; `None` if it does not exist.
    fn workspace_of(&self, endpoint: Endpoint) -> Option<WorkspaceId> {
        match endpoint {
            Endpoint::Webhook(workspace, id) => self.webhook(workspace, id).ok().map(|_| workspace),
            Endpoint::Subscription(id) => self.subscriptions.get(&id).map(|to| to.workspace_id),
        }
    }

    /// Returns true if the endpoint is active.
    pub(crate) fn is_active(&self, endpoint: Endpoint) -> bool {
        match endpoint {
            Endpoint::Webhook(_, id) => self.webhooks[&id].is_active,
            Endpoint::Subscription(_) => true,
        }
    }

    /// Returns the test events of an endpoint.
    pub(crate) fn pings_of(&self, endpoint: Endpoint) -> BTreeMap<EventId, PendingPing> {
        self.pings
            .get(&id_of(endpoint))
            .cloned()
            .unwrap_or_default()
    }

    /// Deletes an endpoint with its deliveries.
    pub(crate) fn delete_endpoint(&mut self, endpoint: EndpointId) {
        self.pings.remove(&endpoint);
        self.owners.remove(&endpoint);
    }
}

/// Returns the identifier of an endpoint.
pub(crate) fn id_of(endpoint: Endpoint) -> EndpointId {
    match endpoint {
        Endpoint::Webhook(_, id) => id.into(),
        Endpoint::Subscription(id) => id.into(),
    }
}

/// Returns the resource of an endpoint in the audit log.
pub(crate) fn resource_of(endpoint: Endpoint) -> (ResourceKind, uuid::Uuid) {
    match endpoint {
        Endpoint::Webhook(_, id) => (ResourceKind::Webhook, id.0),
        Endpoint::Subscription(id) => (ResourceKind::Subscription, id.0),
    }
}

impl Model {
    /// Authorises a caller for the deliveries of an endpoint, and returns its workspace.
    pub(crate) fn authorize_for_endpoint(
        &self,
        asked: Asked<'_>,
        endpoint: Endpoint,
        now: Timestamp,
    ) -> Result<(Who, WorkspaceId), ErrorResponse> {
        let who = match endpoint {
            Endpoint::Webhook(workspace, _) => self.authorize_in(asked, workspace, now)?,
            Endpoint::Subscription(id) => self.authorize_for_subscription(asked, id, now)?.0,
        };
        let workspace = self.org(who.org).workspace_of(endpoint);
        Ok((who, workspace.ok_or(ErrorResponse::NotFound)?))
    }
}
