//! Comparison of the stored deliveries with the announced events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use serde::Deserialize;

use super::access::Who;
use super::compare::announcement;
use super::{Announcement, Model, Org};
use knowledge_core::access::{Action, TokenScope};
use knowledge_core::internals::keys;
use knowledge_core::model::{
    CitationSubscription, EndpointId, EventId, EventType, MemoryId, OrgId, RecallId,
};
use knowledge_core::service::Event;
use knowledge_core::store::{Key, KeyRange, Store, StoreError, StoreErrorKind, StoreExt};

/// Notification of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Notification {
    Event(Announcement),
    Citation(RecallId, String, BTreeSet<MemoryId>),
}

/// Number of deliveries per endpoint and notification.
type Deliveries = BTreeMap<(EndpointId, Notification), usize>;

/// Part of the record of an event that is compared.
#[derive(Deserialize)]
struct Announced {
    event: Event,
}

impl Model {
    /// Returns the differences after a complete fan-out.
    ///
    /// Each event must have been delivered exactly once to each endpoint that existed at its time.
    ///
    /// Statuses of connectors are not compared if the announced ones are unknown.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn delivery_differences(&self, store: &dyn Store) -> Result<Vec<String>, StoreError> {
        let mut differences = Vec::new();
        let left = store.scan_all(&keys::outbox_events()).await?;
        if !left.is_empty() {
            differences.push(format!("{} events are not fanned out", left.len()));
        }
        for (id, org) in &self.orgs {
            let mut found = found(store, *id).await?;
            let mut wanted = org.wanted(*id);
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
                        "{endpoint} receives {notification:?} {found} times, expected {wanted} times"
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
    if event.event_type != EventType::CitationChanged {
        return Notification::Event(announcement(event));
    }
    let field = |name: &str| event.data.get(name).cloned().unwrap_or_default();
    let recall = serde_json::from_value(field("recall_id"));
    Notification::Citation(
        recall.expect("a recall"),
        field("change").as_str().unwrap_or_default().to_owned(),
        serde_json::from_value(field("memory_ids")).unwrap_or_default(),
    )
}

impl Announcement {
    fn event_type(&self) -> EventType {
        match self {
            Self::Memories(event_type, ..) => *event_type,
            Self::Ingest(..) => EventType::IngestCompleted,
            Self::Status(..) => EventType::ConnectorStatusChanged,
        }
    }
}

impl Org {
    fn wanted(&self, id: OrgId) -> Deliveries {
        let mut wanted = Deliveries::new();
        let mut notify =
            |endpoint, notification| *wanted.entry((endpoint, notification)).or_default() += 1;
        for (event, endpoints) in &self.events {
            let was_there = |endpoint: EndpointId| self.endpoints[&endpoint] <= *endpoints;
            let webhooks = |event_type| {
                let webhooks = self.webhooks.values().filter(move |webhook| {
                    webhook.workspace_id == event.workspace() && webhook.event_type == event_type
                });
                let webhooks = webhooks.map(|webhook| EndpointId::from(webhook.id));
                webhooks.filter(|webhook| was_there(*webhook))
            };
            for webhook in webhooks(event.event_type()) {
                notify(webhook, Notification::Event(event.clone()));
            }
            let Announcement::Memories(event_type, _, memories) = event else {
                continue;
            };
            let change = match event_type {
                EventType::MemoryUpdated => "updated",
                EventType::ChunkDeleted => "deleted",
                _ => continue,
            };
            for recall in self.recalls.values() {
                let cited = recall.memory_ids.iter().copied();
                let cited: BTreeSet<_> = cited.filter(|id| memories.contains(id)).collect();
                if cited.is_empty() {
                    continue;
                }
                let subscriptions = self.subscriptions.values();
                let subscriptions = subscriptions
                    .filter(|to| to.recall_id == recall.id && self.is_authorized(id, to))
                    .map(|to| EndpointId::from(to.id))
                    .filter(|to| was_there(*to));
                for endpoint in subscriptions.chain(webhooks(EventType::CitationChanged)) {
                    let notification =
                        Notification::Citation(recall.id, change.to_owned(), cited.clone());
                    notify(endpoint, notification);
                }
            }
        }
        wanted
    }

    /// Returns true if the subscriber currently has the permission.
    fn is_authorized(&self, org: OrgId, subscription: &CitationSubscription) -> bool {
        let member = subscription.subscriber_user_id;
        let who = Who {
            org,
            member,
            credential: None,
            scope: TokenScope::default(),
        };
        self.members.contains_key(&member)
            && self
                .actions_in(&who, subscription.workspace_id)
                .contains(&Action::CitationSubscriptionManage)
    }
}
