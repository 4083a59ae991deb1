//! One commit of the fan-out of events.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use super::super::history::RetainedEvent;
use super::super::queue::EndpointQueue;
use super::super::record::StoredDelivery;
use super::derived::{self, change_of, memories_of};
use super::targets::{self, Target};
use super::{Citations, FanOutCursor, FanOutLimits};
use crate::access::Action;
use crate::error::Error;
use crate::keys;
use crate::model::{
    ChangedCitations, ChangedMemories, CitationChange, EndpointId, EventId, EventType, MemoryId,
    OrgId, Recall, RecallId, Timestamp, WorkspaceId,
};
use crate::service::kit::act::Wants;
use crate::service::kit::principal::Delegator;
use crate::service::{Event, KnowledgeService};
use crate::store::{
    Direction, KeyEntry, Prepared, StoreErrorKind, StoreExt, Transaction, decode_value,
};

/// Maximum number of citation entries that one scan reads.
const LOOKS_PER_SCAN: usize = 100;

/// Progress: complete, or the cursor to resume from.
type Progress<At> = ControlFlow<At>;

/// Result of one commit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepReport {
    /// Number of events, from the first, that need no further step: complete, deleted or corrupt.
    pub(super) passed: usize,
    /// Number of completed events.
    pub(super) events: u64,
    pub(super) deliveries: u64,
    /// Number of the deliveries that were dead-lettered immediately.
    pub(super) dead_lettered: u64,
}

/// A commit that is being prepared.
pub(super) struct FanOutStep<'s> {
    service: &'s KnowledgeService,
    transaction: Transaction,
    now: Timestamp,
    /// Remaining budget of this commit.
    budget: FanOutLimits,
    /// Queues that deliveries were added to.
    ///
    /// The commit writes the state of each once, however many events its endpoint receives.
    queues: BTreeMap<(OrgId, EndpointId), EndpointQueue>,
    webhooks: HashMap<(OrgId, WorkspaceId), Arc<Vec<Target>>>,
    /// Decisions of [`Self::is_authorized`].
    authorized: HashMap<(OrgId, WorkspaceId, Delegator, Action), bool>,
    report: StepReport,
}

/// A source event with its memories, in their order and by position.
struct SourceEvent<'e> {
    event: &'e Event,
    change: CitationChange,
    changed: &'e ChangedMemories,
    places: HashMap<MemoryId, usize>,
}

impl<'s> FanOutStep<'s> {
    pub(super) fn new(
        service: &'s KnowledgeService,
        transaction: Transaction,
        now: Timestamp,
        budget: FanOutLimits,
    ) -> Self {
        Self {
            service,
            transaction,
            now,
            budget,
            queues: BTreeMap::new(),
            webhooks: HashMap::new(),
            authorized: HashMap::new(),
            report: StepReport::default(),
        }
    }

    /// Fans out events in their order, as far as the budget allows.
    pub(super) async fn run(mut self, events: &[EventId]) -> Result<Prepared<StepReport>, Error> {
        for event in events {
            if !self.fan_out_event(*event).await? {
                break;
            }
            self.report.passed += 1;
        }
        for (_, queue) in self.queues {
            queue.save(&mut self.transaction);
        }
        self.transaction.done(self.report)
    }

    /// Fans out one event; returns `false` if the budget does not suffice.
    async fn fan_out_event(&mut self, id: EventId) -> Result<bool, Error> {
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
        // Another dispatcher has completed it.
        let Some(event) = event else { return Ok(true) };
        let event = decode_value::<Event>(&event);
        let at = cursor
            .as_ref()
            .map(decode_value::<FanOutCursor>)
            .transpose();
        let (event, at) = match (event, at) {
            (Ok(event), Ok(at)) => (event, at),
            (Err(error), _) | (_, Err(error)) => {
                // It is kept for repair and does not hold up the rest.
                if self.service.inner.corrupt_events.is_new(&outbox) {
                    tracing::error!(event = %id, %error, "unreadable outbox event; skipping it");
                }
                return Ok(true);
            }
        };
        let rest = self
            .advance(&event, at.unwrap_or(FanOutCursor::BEGIN))
            .await?;
        match rest {
            Break(rest) => {
                if rest != at.unwrap_or(FanOutCursor::BEGIN) {
                    self.transaction.put(expansion, &rest);
                }
                Ok(false)
            }
            Continue(()) => {
                self.transaction.delete(outbox);
                if at.is_some() {
                    self.transaction.delete(expansion);
                }
                self.report.events += 1;
                Ok(true)
            }
        }
    }

    /// Continues an event as far as the budget allows, and returns its progress.
    async fn advance(
        &mut self,
        event: &Event,
        at: FanOutCursor,
    ) -> Result<Progress<FanOutCursor>, Error> {
        let memories = memories_of(event);
        let at = match at {
            FanOutCursor::Webhooks { part, after } => {
                let progress = self.notify_webhooks(event, memories, part, after).await?;
                if progress.is_break() {
                    return Ok(progress);
                }
                Citations::default()
            }
            FanOutCursor::Citations(at) => at,
        };
        let Some((change, changed)) = change_of(&event.data) else {
            return Ok(Continue(()));
        };
        let places = memories.iter().enumerate();
        let source = SourceEvent {
            event,
            change,
            changed,
            places: places.map(|(place, memory)| (*memory, place)).collect(),
        };
        let progress = self.notify_citations(&source, at).await?;
        Ok(progress.map_break(FanOutCursor::Citations))
    }

    /// Returns the webhooks of the event's workspace that receive this type of event.
    ///
    /// They existed at the commit of the event, their owners have not deactivated them, and they may
    /// still be notified.
    async fn webhooks_for(
        &mut self,
        event: &Event,
        event_type: EventType,
    ) -> Result<Vec<Target>, Error> {
        let workspace = (event.org_id, event.workspace_id);
        let known = if let Some(known) = self.webhooks.get(&workspace) {
            Arc::clone(known)
        } else {
            let range = keys::webhooks(workspace.0, workspace.1);
            let read = Arc::new(targets::read(&self.transaction, workspace.0, &range).await?);
            self.webhooks.insert(workspace, Arc::clone(&read));
            read
        };
        let mut targets = Vec::new();
        for target in known.iter() {
            if target.matches(event_type, event.endpoints) && self.is_authorized(target).await? {
                targets.push(target.clone());
            }
        }
        Ok(targets)
    }

    async fn notify_webhooks(
        &mut self,
        event: &Event,
        memories: &[MemoryId],
        mut part: usize,
        mut after: Option<EndpointId>,
    ) -> Result<Progress<FanOutCursor>, Error> {
        let targets = self.webhooks_for(event, event.event_type()).await?;
        while part < derived::parts(memories.len()) && !targets.is_empty() {
            let event_for = |after| derived::part(event, memories, part, after);
            if let Break(after) = self.notify_targets(&targets, after, event_for) {
                return Ok(Break(FanOutCursor::Webhooks { part, after }));
            }
            (part, after) = (part + 1, None);
        }
        Ok(Continue(()))
    }

    /// Creates deliveries to the endpoints after `after`, as far as the budget allows.
    ///
    /// If it does not suffice, returns the last endpoint that has its delivery.
    fn notify_targets(
        &mut self,
        targets: &[Target],
        mut after: Option<EndpointId>,
        event_for: impl Fn(Option<EndpointId>) -> Event,
    ) -> Progress<Option<EndpointId>> {
        let done = targets.partition_point(|target| Some(target.endpoint) <= after);
        let left = &targets[done..];
        let (now, later) = left.split_at(left.len().min(self.budget.deliveries));
        if let Some(last) = now.last() {
            self.budget.deliveries -= now.len();
            self.deliver(event_for(after), now);
            after = Some(last.endpoint);
        }
        if later.is_empty() {
            Continue(())
        } else {
            Break(after)
        }
    }

    fn deliver(&mut self, event: Event, targets: &[Target]) {
        let (org, at) = (event.org_id, self.now);
        for target in targets {
            target.check(&mut self.transaction);
            let delivery = StoredDelivery::new(&event, target.endpoint);
            let endpoint = (org, target.endpoint);
            if target.record.disabled().is_some() {
                let queue = EndpointQueue::of(org, target.endpoint, target.state.clone());
                delivery.create_dead(&mut self.transaction, &queue);
                self.report.dead_lettered += 1;
            } else {
                let queue = self.queues.entry(endpoint);
                let queue = queue.or_insert_with(|| {
                    EndpointQueue::of(org, target.endpoint, target.state.clone())
                });
                delivery.create_pending(&mut self.transaction, queue, at);
            }
            self.report.deliveries += 1;
        }
        let endpoints = targets.iter().map(|target| target.endpoint).collect();
        RetainedEvent::new(event, endpoints, self.service.limits())
            .create(&mut self.transaction, self.service.env());
    }

    async fn notify_citations(
        &mut self,
        source: &SourceEvent<'_>,
        mut at: Citations,
    ) -> Result<Progress<Citations>, Error> {
        let org = source.event.org_id;
        let webhooks = self.webhooks_for(source.event, EventType::CitationChanged);
        let webhooks = webhooks.await?;
        while let Some(memory) = source.changed.memory_ids.get(at.memory) {
            if self.budget.looks == 0 {
                return Ok(Break(at));
            }
            let limit = self.budget.looks.min(LOOKS_PER_SCAN);
            let page = self.citing(org, *memory, at.after, limit).await?;
            // An empty scan uses up the budget too.
            self.budget.looks -= page.len().max(1);
            let is_last = page.len() < limit;
            let subscribed = self.subscribed(org, &page).await?;
            for (recall, is_subscribed) in page.into_iter().zip(subscribed) {
                if is_subscribed || !webhooks.is_empty() {
                    if self.budget.recalls == 0 {
                        return Ok(Break(at));
                    }
                    self.budget.recalls -= 1;
                    let progress = self.notify_recall(source, &at, recall, &webhooks);
                    if let Break(within) = progress.await? {
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

    /// Returns some of the recalls that cite a memory, beginning after `after`.
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
        let recalls = page.iter().filter_map(|entry| keys::last_id(&entry.key));
        Ok(recalls.map(RecallId).collect())
    }

    /// Returns true for each recall that ever had a subscription.
    ///
    /// A subscription that existed at the commit of the event is thus included.
    async fn subscribed(&self, org: OrgId, recalls: &[RecallId]) -> Result<Vec<bool>, Error> {
        let counters = recalls.iter();
        let counters: Vec<_> = counters
            .map(|recall| keys::subscription_count(org, *recall))
            .collect();
        let found = self.transaction.unchecked().get(&counters).await?;
        Ok(found.iter().map(Option::is_some).collect())
    }

    /// Notifies the endpoints of a recall that memories which it cites have changed.
    ///
    /// It does so only at the first memory of the event that the recall cites. If the budget does
    /// not suffice, returns the last endpoint that has its delivery.
    async fn notify_recall(
        &mut self,
        source: &SourceEvent<'_>,
        at: &Citations,
        recall: RecallId,
        webhooks: &[Target],
    ) -> Result<Progress<Option<EndpointId>>, Error> {
        let (org, endpoints) = (source.event.org_id, source.event.endpoints);
        let key = keys::recall(org, recall);
        let recall = match self.transaction.read_unchecked::<Recall>(&key).await {
            Ok(Some(recall)) => recall,
            Ok(None) => return Ok(Continue(())),
            // Later recalls do not wait for its repair.
            Err(error) if error.kind() == StoreErrorKind::Corrupt => {
                tracing::error!(%key, %error, "corrupt recall; skipping its notifications");
                return Ok(Continue(()));
            }
            Err(error) => return Err(error.into()),
        };
        let mut cited = recall.memory_ids.clone();
        cited.retain(|memory| source.places.contains_key(memory));
        let first = cited.iter().map(|memory| source.places[memory]).min();
        if first != Some(at.memory) {
            return Ok(Continue(()));
        }
        let mut targets = webhooks.to_vec();
        let subscribed = keys::subscriptions(org, recall.id);
        for target in targets::read(&self.transaction, org, &subscribed).await? {
            let matches = target.matches(EventType::CitationChanged, endpoints);
            if matches && self.is_authorized(&target).await? {
                targets.push(target);
            }
        }
        targets.sort_by_key(|target| target.endpoint);
        let citations = ChangedCitations {
            change: source.change,
            memory_ids: cited,
            operation_id: source.changed.operation_id,
            recall_id: recall.id,
            workspace_id: source.event.workspace_id,
        };
        let event_for = |after| derived::citation(source.event, citations.clone(), after);
        Ok(self.notify_targets(&targets, at.within, event_for))
    }

    /// Returns true if the endpoint may still be notified.
    ///
    /// It is not notified if the records that it depends on are corrupt, so that the others need not
    /// wait for the repair.
    async fn is_authorized(&mut self, target: &Target) -> Result<bool, Error> {
        let record = &target.record;
        let (delegator, action) = record.requirement();
        let place = (record.org(), record.workspace(), delegator, action);
        if let Some(known) = self.authorized.get(&place) {
            return Ok(*known);
        }
        let (service, now) = (self.service, self.now);
        let may = service.is_authorized(&mut self.transaction, record, Wants::nothing(), now);
        let may = match may.await {
            Err(Error::Internal { detail }) => {
                tracing::error!(
                    member = %delegator.member,
                    %detail,
                    "corrupt owner of an endpoint; skipping its notifications"
                );
                false
            }
            may => may?,
        };
        self.authorized.insert(place, may);
        Ok(may)
    }
}
