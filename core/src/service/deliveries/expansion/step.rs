//! One commit of the expansion of events.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use super::super::history::AnnouncedEvent;
use super::super::queue::EndpointQueue;
use super::super::record::StoredDelivery;
use super::derived::{self, change_of, memories_of};
use super::hearers::{self, Hearer};
use super::{Citations, Expansion, ExpansionLimits};
use crate::error::Error;
use crate::model::{
    EndpointId, EventId, EventType, MemberId, MemoryId, OrgId, Recall, RecallId, Timestamp,
    WorkspaceId,
};
use crate::service::{Event, KnowledgeService};
use crate::keys;
use crate::store::{Decided, Direction, KeyEntry, StoreErrorKind, StoreExt, Transaction, decode_value};

/// How many marks of recalls one reading looks at.
const LOOKS_PER_SCAN: usize = 100;

/// Whether everything was told, or where to go on with the rest.
type Told<At> = ControlFlow<At>;

/// What one commit did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stepped {
    /// How many of the events, from the first on, need no further step: they are done with, gone or damaged.
    pub(super) passed: usize,
    /// How many are done with.
    pub(super) events: u64,
    pub(super) deliveries: u64,
    /// How many of the deliveries are dead letters from the beginning.
    pub(super) given_up: u64,
}

/// A commit that is being decided.
pub(super) struct Step<'s> {
    service: &'s KnowledgeService,
    transaction: Transaction,
    now: Timestamp,
    /// What this commit may still do.
    room: ExpansionLimits,
    /// The queues that deliveries were added to. A commit writes the state of each once, however many events it hears of.
    queues: BTreeMap<(OrgId, EndpointId), EndpointQueue>,
    webhooks: HashMap<(OrgId, WorkspaceId), Arc<Vec<Hearer>>>,
    subscribers: HashMap<(OrgId, WorkspaceId, MemberId), bool>,
    stepped: Stepped,
}

/// A cause with its memories, in its order and by their places in it.
struct Cause<'e> {
    event: &'e Event,
    memories: Vec<MemoryId>,
    places: HashMap<MemoryId, usize>,
}

impl<'s> Step<'s> {
    pub(super) fn new(
        service: &'s KnowledgeService,
        transaction: Transaction,
        now: Timestamp,
        room: ExpansionLimits,
    ) -> Self {
        Self {
            service,
            transaction,
            now,
            room,
            queues: BTreeMap::new(),
            webhooks: HashMap::new(),
            subscribers: HashMap::new(),
            stepped: Stepped::default(),
        }
    }

    /// Expands events in their order as far as there is room.
    pub(super) async fn take(mut self, events: &[EventId]) -> Result<Decided<Stepped>, Error> {
        for event in events {
            if !self.expand(*event).await? {
                break;
            }
            self.stepped.passed += 1;
        }
        for (_, queue) in self.queues {
            queue.settle(&mut self.transaction);
        }
        self.transaction.done(self.stepped)
    }

    /// Expands one event; `false` where there is more of it than there is room.
    async fn expand(&mut self, id: EventId) -> Result<bool, Error> {
        let (outbox, expansion) = (keys::outbox(id), keys::expansion(id));
        let both = [outbox.clone(), expansion.clone()];
        let found = self.transaction.unchecked().get(&both).await?;
        for (key, entry) in both.iter().zip(&found) {
            let version = entry.as_ref().map(|entry| entry.version);
            self.transaction.check(key.clone(), version);
        }
        let mut found = both.into_iter().zip(found);
        let mut next = || {
            let (key, entry) = found.next()?;
            Some(KeyEntry { key, entry: entry? })
        };
        let (event, cursor) = (next(), next());
        // Somebody else was faster.
        let Some(event) = event else { return Ok(true) };
        let event = decode_value::<Event>(&event);
        let at = cursor.as_ref().map(decode_value::<Expansion>).transpose();
        let (event, at) = match (event, at) {
            (Ok(event), Ok(at)) => (event, at),
            (Err(error), _) | (_, Err(error)) => {
                // It stays for whoever repairs it, and does not hinder the rest.
                if self.service.inner.damage.is_new(&outbox) {
                    tracing::error!(event = %id, %error, "an event of the outbox cannot be read");
                }
                return Ok(true);
            }
        };
        let rest = self.advance(&event, at.unwrap_or(Expansion::BEGIN)).await?;
        match rest {
            Break(rest) => {
                if rest != at.unwrap_or(Expansion::BEGIN) {
                    self.transaction.put(expansion, &rest);
                }
                Ok(false)
            }
            Continue(()) => {
                self.transaction.delete(outbox);
                if at.is_some() {
                    self.transaction.delete(expansion);
                }
                self.stepped.events += 1;
                Ok(true)
            }
        }
    }

    /// Goes on with an event as far as there is room, or says where it has to go on then.
    async fn advance(&mut self, event: &Event, at: Expansion) -> Result<Told<Expansion>, Error> {
        let memories = memories_of(event);
        let at = match at {
            Expansion::Webhooks { part, after } => {
                let told = self.tell_webhooks(event, &memories, part, after).await?;
                if told.is_break() {
                    return Ok(told);
                }
                Citations::default()
            }
            Expansion::Citations(at) => at,
        };
        if change_of(event.event_type).is_none() {
            return Ok(Continue(()));
        }
        let places = memories.iter().enumerate();
        let cause = Cause {
            event,
            places: places.map(|(place, memory)| (*memory, place)).collect(),
            memories,
        };
        let told = self.tell_citations(&cause, at).await?;
        Ok(told.map_break(Expansion::Citations))
    }

    /// The webhooks of the event's workspace that were there at its commit, want to hear of this type, and are told.
    async fn webhooks_for(
        &mut self,
        event: &Event,
        event_type: EventType,
    ) -> Result<Vec<Hearer>, Error> {
        let place = (event.org_id, event.workspace_id);
        let known = if let Some(known) = self.webhooks.get(&place) {
            Arc::clone(known)
        } else {
            let range = keys::webhooks(place.0, place.1);
            let read = Arc::new(hearers::read(&self.transaction, place.0, &range).await?);
            self.webhooks.insert(place, Arc::clone(&read));
            read
        };
        let hears = |hearer: &&Hearer| hearer.hears(event_type, event.endpoints);
        Ok(known.iter().filter(hears).cloned().collect())
    }

    async fn tell_webhooks(
        &mut self,
        event: &Event,
        memories: &[MemoryId],
        mut part: usize,
        mut after: Option<EndpointId>,
    ) -> Result<Told<Expansion>, Error> {
        let hearers = self.webhooks_for(event, event.event_type).await?;
        while part < derived::parts(memories.len()) && !hearers.is_empty() {
            let told = |after| derived::part(event, memories, part, after);
            if let Break(after) = self.tell(&hearers, after, told) {
                return Ok(Break(Expansion::Webhooks { part, after }));
            }
            (part, after) = (part + 1, None);
        }
        Ok(Continue(()))
    }

    /// Makes deliveries to the endpoints behind `after`, or says behind which there was no room.
    fn tell(
        &mut self,
        hearers: &[Hearer],
        mut after: Option<EndpointId>,
        told: impl Fn(Option<EndpointId>) -> Event,
    ) -> Told<Option<EndpointId>> {
        let done = hearers.partition_point(|hearer| Some(hearer.endpoint) <= after);
        let left = &hearers[done..];
        let (now, later) = left.split_at(left.len().min(self.room.deliveries));
        if let Some(last) = now.last() {
            self.room.deliveries -= now.len();
            self.deliver(told(after), now);
            after = Some(last.endpoint);
        }
        if later.is_empty() {
            Continue(())
        } else {
            Break(after)
        }
    }

    fn deliver(&mut self, event: Event, hearers: &[Hearer]) {
        let (org, at) = (event.org_id, self.now);
        for hearer in hearers {
            hearer.check(&mut self.transaction);
            let delivery = StoredDelivery::new(&event, hearer.endpoint);
            let place = (org, hearer.endpoint);
            if hearer.recipient.disabled().is_some() {
                let queue = EndpointQueue::of(org, hearer.endpoint, hearer.state.clone());
                delivery.create_dead(&mut self.transaction, &queue);
                self.stepped.given_up += 1;
            } else {
                let queue = self.queues.entry(place);
                let queue = queue.or_insert_with(|| {
                    EndpointQueue::of(org, hearer.endpoint, hearer.state.clone())
                });
                delivery.create_pending(&mut self.transaction, queue, at);
            }
            self.stepped.deliveries += 1;
        }
        let endpoints = hearers.iter().map(|hearer| hearer.endpoint).collect();
        AnnouncedEvent::new(event, endpoints, self.service.limits())
            .create(&mut self.transaction, self.service.env());
    }

    async fn tell_citations(
        &mut self,
        cause: &Cause<'_>,
        mut at: Citations,
    ) -> Result<Told<Citations>, Error> {
        let org = cause.event.org_id;
        let webhooks = self.webhooks_for(cause.event, EventType::CitationChanged);
        let webhooks = webhooks.await?;
        while let Some(memory) = cause.memories.get(at.memory) {
            if self.room.looks == 0 {
                return Ok(Break(at));
            }
            let limit = self.room.looks.min(LOOKS_PER_SCAN);
            let page = self.citing(org, *memory, at.after, limit).await?;
            // To find nothing is work too.
            self.room.looks -= page.len().max(1);
            let is_last = page.len() < limit;
            let subscribed = self.subscribed(org, &page).await?;
            for (recall, is_subscribed) in page.into_iter().zip(subscribed) {
                if is_subscribed || !webhooks.is_empty() {
                    if self.room.recalls == 0 {
                        return Ok(Break(at));
                    }
                    self.room.recalls -= 1;
                    let told = self.tell_recall(cause, &at, recall, &webhooks);
                    if let Break(within) = told.await? {
                        return Ok(Break(Citations { within, ..at }));
                    }
                }
                (at.after, at.within) = (Some(recall), None);
            }
            if is_last {
                (at.memory, at.after) = (at.memory + 1, None);
            }
        }
        Ok(Continue(()))
    }

    /// Some of the recalls that cite a memory, behind this one.
    async fn citing(
        &self,
        org: OrgId,
        memory: MemoryId,
        after: Option<RecallId>,
        limit: usize,
    ) -> Result<Vec<RecallId>, Error> {
        let mut range = keys::citing_recalls(org, memory);
        if let Some(after) = after {
            range = range.after(&keys::cited_by(org, memory, after));
        }
        let store = self.transaction.unchecked();
        let page = store.scan(&range, limit, Direction::Forward).await?;
        let recalls = page.iter().filter_map(|mark| keys::last_id(&mark.key));
        Ok(recalls.map(RecallId).collect())
    }

    /// Which of these recalls anybody has subscribed to. A subscription that was there at the commit still counts.
    async fn subscribed(&self, org: OrgId, recalls: &[RecallId]) -> Result<Vec<bool>, Error> {
        let counters = recalls.iter();
        let counters: Vec<_> = counters
            .map(|recall| keys::subscription_count(org, *recall))
            .collect();
        let found = self.transaction.unchecked().get(&counters).await?;
        Ok(found.iter().map(Option::is_some).collect())
    }

    /// Tells who hears of a recall that it cites what changed, unless that is done at an earlier memory; or says behind
    /// which endpoint there was no room.
    async fn tell_recall(
        &mut self,
        cause: &Cause<'_>,
        at: &Citations,
        recall: RecallId,
        webhooks: &[Hearer],
    ) -> Result<Told<Option<EndpointId>>, Error> {
        let (org, endpoints) = (cause.event.org_id, cause.event.endpoints);
        let key = keys::recall(org, recall);
        let recall = match self.transaction.peek::<Recall>(&key).await {
            Ok(Some(recall)) => recall,
            Ok(None) => return Ok(Continue(())),
            // Those behind it do not wait for its repair.
            Err(error) if error.kind() == StoreErrorKind::Corrupt => {
                tracing::error!(%key, %error, "a recall cannot be read: nobody hears of its citations");
                return Ok(Continue(()));
            }
            Err(error) => return Err(error.into()),
        };
        let mut cited = recall.memory_ids.clone();
        cited.retain(|memory| cause.places.contains_key(memory));
        let first = cited.iter().map(|memory| cause.places[memory]).min();
        if first != Some(at.memory) {
            return Ok(Continue(()));
        }
        let mut hearers = webhooks.to_vec();
        let subscribed = keys::subscriptions(org, recall.id);
        for hearer in hearers::read(&self.transaction, org, &subscribed).await? {
            let hears = hearer.hears(EventType::CitationChanged, endpoints);
            if hears && self.may_hear(&hearer).await? {
                hearers.push(hearer);
            }
        }
        hearers.sort_by_key(|hearer| hearer.endpoint);
        let told = |after| derived::citation(cause.event, recall.id, &cited, after);
        Ok(self.tell(&hearers, at.within, told))
    }

    /// Whether the subscriber may still be told. One of whom that cannot be found out hears nothing: the others do not
    /// wait for the repair.
    async fn may_hear(&mut self, hearer: &Hearer) -> Result<bool, Error> {
        let recipient = &hearer.recipient;
        let Some(member) = recipient.subscriber() else {
            return Ok(true);
        };
        let subscriber = (recipient.org(), recipient.workspace(), member);
        if let Some(known) = self.subscribers.get(&subscriber) {
            return Ok(*known);
        }
        let (service, now) = (self.service, self.now);
        let may = service.may_hear(&mut self.transaction, recipient, now);
        let may = match may.await {
            Err(Error::Internal { detail }) => {
                tracing::error!(subscriber = %member, %detail, "a subscriber cannot be read and hears nothing");
                false
            }
            may => may?,
        };
        self.subscribers.insert(subscriber, may);
        Ok(may)
    }
}
