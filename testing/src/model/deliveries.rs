//! Whether the endpoints hear of what happened, and of nothing else: deliveries beside what the model announces.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use serde::Deserialize;

use super::access::Who;
use super::compare::announcement;
use super::{Announcement, Model, Org};
use knowledge_core::access::{Action, Narrowing};
use knowledge_core::model::{
    CitationSubscription, EndpointId, EventId, EventType, MemoryId, OrgId, RecallId,
};
use knowledge_core::service::Event;
use knowledge_core::internals::keys;
use knowledge_core::store::{Key, KeyRange, Store, StoreError, StoreErrorKind, StoreExt};

/// What an endpoint hears.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Heard {
    Event(Announcement),
    Citation(RecallId, String, BTreeSet<MemoryId>),
}

/// How often an endpoint hears what.
type Deliveries = BTreeMap<(EndpointId, Heard), usize>;

/// The one thing in the record of an event that matters here.
#[derive(Deserialize)]
struct Announced {
    event: Event,
}

impl Model {
    /// After everything that happened was expanded, and nothing else was announced but the statuses of connectors where
    /// those are not known: each change stands before each endpoint that was there, once, and nothing else does.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn delivery_differences(&self, store: &dyn Store) -> Result<Vec<String>, StoreError> {
        let mut differences = Vec::new();
        let left = store.scan_all(&keys::outbox_events()).await?;
        if !left.is_empty() {
            differences.push(format!("{} events are not expanded", left.len()));
        }
        for (id, org) in &self.orgs {
            let mut found = found(store, *id).await?;
            let mut wanted = org.wanted(*id);
            if self.lost_announcements {
                let is_known = |(_, heard): &(EndpointId, Heard), _: &mut usize| {
                    !matches!(heard, Heard::Event(Announcement::Status(..)))
                };
                found.retain(is_known);
                wanted.retain(is_known);
            }
            for delivery in found.keys().chain(wanted.keys()).collect::<BTreeSet<_>>() {
                let count = |of: &Deliveries| of.get(delivery).copied().unwrap_or(0);
                let (found, wanted) = (count(&found), count(&wanted));
                if found != wanted {
                    let (endpoint, heard) = delivery;
                    differences.push(format!(
                        "{endpoint} hears {heard:?} {found} times, should {wanted} times"
                    ));
                }
            }
        }
        Ok(differences)
    }
}

async fn found(store: &dyn Store, org: OrgId) -> Result<Deliveries, StoreError> {
    let prefix = Key::new(format!("delivery/{}/", org.0.simple()));
    let range = KeyRange::prefix(&prefix.expect("a prefix of a key"));
    let mut found = Deliveries::new();
    for delivery in store.scan_all(&range).await? {
        let ids = keys::second_last_id(&delivery.key).zip(keys::last_id(&delivery.key));
        let (endpoint, event) = ids.expect("the key of a delivery");
        let key = keys::event(org, EventId(event));
        let record = store.get_as::<Announced>(&key).await?.ok_or_else(|| {
            let message = format!("{} is of no event", delivery.key);
            StoreError::new(StoreErrorKind::Corrupt, message)
        })?;
        let heard = heard(&record.value.event);
        *found.entry((EndpointId(endpoint), heard)).or_default() += 1;
    }
    Ok(found)
}

fn heard(event: &Event) -> Heard {
    if event.event_type != EventType::CitationChanged {
        return Heard::Event(announcement(event));
    }
    let field = |name: &str| event.data.get(name).cloned().unwrap_or_default();
    let recall = serde_json::from_value(field("recall_id"));
    Heard::Citation(
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
        let mut hear = |endpoint, heard| *wanted.entry((endpoint, heard)).or_default() += 1;
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
                hear(webhook, Heard::Event(event.clone()));
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
                    .filter(|to| to.recall_id == recall.id && self.may_hear(id, to))
                    .map(|to| EndpointId::from(to.id))
                    .filter(|to| was_there(*to));
                for endpoint in subscriptions.chain(webhooks(EventType::CitationChanged)) {
                    let heard = Heard::Citation(recall.id, change.to_owned(), cited.clone());
                    hear(endpoint, heard);
                }
            }
        }
        wanted
    }

    /// What its subscriber may do now decides.
    fn may_hear(&self, org: OrgId, subscription: &CitationSubscription) -> bool {
        let member = subscription.subscriber_user_id;
        let who = Who {
            org,
            member,
            credential: None,
            narrowing: Narrowing::default(),
        };
        self.members.contains_key(&member)
            && self
                .actions_in(&who, subscription.workspace_id)
                .contains(&Action::CitationSubscriptionManage)
    }
}
