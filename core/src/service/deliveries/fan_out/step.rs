//! One commit of the fan-out of events.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use super::cited_event::{Recalls, SourceEvent};
use super::derived::{self, change_of};
use super::fair_queue::QueuedEvent;
use super::fan_out_cursor::FanOutCursor;
use super::fan_out_limits::FanOutLimits;
use super::known::{Decisions, Receiver};
use super::targets::{self, Target};
use crate::access::Action;
use crate::error::Error;
use crate::keys;
use crate::model::{EndpointId, EventData, EventId, EventType, OrgId, Timestamp, WorkspaceId};
use crate::service::access::principal::Delegator;
use crate::service::deliveries::history::RetainedEvent;
use crate::service::deliveries::queue::{EndpointQueue, StoredDelivery};
use crate::service::{Event, KnowledgeService};
use crate::store::{Key, KeyEntry, Prepared, StoreExt, Transaction, decode_value};

/// Progress: complete, or the cursor to resume from.
pub(super) type Progress<At> = ControlFlow<At>;

/// An endpoint with the data of the events that it receives.
pub(super) type Notified<'t> = (&'t Target, Vec<EventData>);

/// An event for the receivers that know all its data.
pub(super) struct WholeEvent<'d, I> {
    pub(super) data: &'d EventData,
    /// Identifier for the page of endpoints after this one.
    pub(super) id_for: I,
}

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
    pub(super) service: &'s KnowledgeService,
    pub(super) transaction: Transaction,
    pub(super) now: Timestamp,
    /// Remaining budget of this commit.
    pub(super) budget: FanOutLimits,
    /// Queues that deliveries were added to.
    ///
    /// The commit writes the state of each once, however many events its endpoint receives.
    queues: BTreeMap<(OrgId, EndpointId), EndpointQueue>,
    webhooks: HashMap<(OrgId, WorkspaceId), Arc<Vec<Target>>>,
    /// Decisions of [`Self::receiver`].
    pub(super) receivers: HashMap<(OrgId, WorkspaceId, Delegator, Action), Option<Arc<Receiver>>>,
    /// Decisions about the memories of the event in hand.
    pub(super) decisions: Decisions,
    report: StepReport,
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
            receivers: HashMap::new(),
            decisions: Decisions::default(),
            report: StepReport::default(),
        }
    }

    /// Fans out events in their order, as far as the budget allows.
    pub(super) async fn run(
        mut self,
        events: &[QueuedEvent],
    ) -> Result<Prepared<StepReport>, Error> {
        for event in events {
            if !self.fan_out_event(*event).await? {
                break;
            }
            self.report.passed += 1;
        }
        for (_, queue) in self.queues {
            queue.save(&mut self.transaction);
        }
        Ok(self.transaction.done(self.report))
    }

    /// Fans out one event; returns `false` if the budget does not suffice.
    async fn fan_out_event(&mut self, (org, id): QueuedEvent) -> Result<bool, Error> {
        let (outbox, progress) = (keys::outbox(id), keys::fan_out(id));
        let read = [outbox, progress, keys::outbox_queue(org, id)];
        let found = self.transaction.unchecked().store().get(&read).await?;
        for (key, entry) in read.iter().zip(&found) {
            let version = entry.as_ref().map(|entry| entry.version);
            self.transaction.check(key.clone(), version);
        }
        let [outbox, progress, mark] = read;
        let mut found = found.into_iter();
        let mut next = |key: &Key| {
            let (key, entry) = (key.clone(), found.next().flatten()?);
            Some(KeyEntry { key, entry })
        };
        let (event, cursor, is_marked) = (next(&outbox), next(&progress), next(&mark).is_some());
        let Some(event) = event else {
            // Another dispatcher has completed it.
            if is_marked {
                self.transaction.delete(mark);
            }
            return Ok(true);
        };
        let event = decode_value::<Event>(&event);
        let at = cursor
            .as_ref()
            .map(decode_value::<FanOutCursor>)
            .transpose();
        let (event, at) = match (event, at) {
            (Ok(event), Ok(at)) => (event, at),
            (Err(error), _) | (_, Err(error)) => {
                self.service.log_unreadable(&outbox, &error.to_string());
                return Ok(true);
            }
        };
        let rest = self
            .advance(&event, at.unwrap_or(FanOutCursor::BEGIN))
            .await?;
        match rest {
            Break(rest) => {
                if rest != at.unwrap_or(FanOutCursor::BEGIN) {
                    self.transaction.put(progress, &rest);
                }
                Ok(false)
            }
            Continue(()) => {
                self.transaction.delete(outbox);
                self.transaction.delete(mark);
                if at.is_some() {
                    self.transaction.delete(progress);
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
        let at = match at {
            FanOutCursor::Webhooks { part, after } => {
                let progress = self.notify_webhooks(event, part, after).await?;
                if progress.is_break() {
                    return Ok(progress);
                }
                Recalls::default()
            }
            FanOutCursor::Recalls(at) => at,
        };
        let Some((change, changed)) = change_of(&event.data) else {
            return Ok(Continue(()));
        };
        let source = SourceEvent::new(event, change, changed);
        let progress = self.notify_citations(&source, at).await?;
        Ok(progress.map_break(FanOutCursor::Recalls))
    }

    /// Returns the webhooks of the event's workspace that receive this type of event.
    ///
    /// They existed at the commit of the event, their owners have not deactivated them, and they may
    /// still be notified.
    pub(super) async fn webhooks_for(
        &mut self,
        event: &Event,
        event_type: EventType,
    ) -> Result<Vec<(Target, Arc<Receiver>)>, Error> {
        let workspace = (event.org_id, event.workspace_id);
        let webhooks = if let Some(known) = self.webhooks.get(&workspace) {
            Arc::clone(known)
        } else {
            let range = keys::webhooks(workspace.0, workspace.1);
            let read = Arc::new(targets::read(&mut self.transaction, workspace.0, &range).await?);
            self.webhooks.insert(workspace, Arc::clone(&read));
            read
        };
        let mut targets = Vec::new();
        for target in webhooks.iter() {
            if target.matches(event_type, event.endpoints)
                && let Some(receiver) = self.receiver(&target.record).await?
            {
                targets.push((target.clone(), receiver));
            }
        }
        Ok(targets)
    }

    async fn notify_webhooks(
        &mut self,
        event: &Event,
        mut part: usize,
        mut after: Option<EndpointId>,
    ) -> Result<Progress<FanOutCursor>, Error> {
        let mut receivers = Vec::new();
        for (target, receiver) in self.webhooks_for(event, event.event_type()).await? {
            let known = self.known(event, &receiver).await?;
            let data = known.reduce(event.data.clone());
            receivers.extend(data.map(|data| (target, derived::parts(&data))));
        }
        let whole = derived::parts(&event.data);
        let parts = receivers.iter().map(|(_, parts)| parts.len()).max();
        while part < parts.unwrap_or(0) {
            let notified = receivers.iter().map(|(target, parts)| {
                let part = parts.get(part).cloned();
                (target, part.into_iter().collect())
            });
            let notified: Vec<Notified<'_>> = notified.collect();
            let whole = WholeEvent {
                data: &whole[part],
                id_for: |after| derived::part_id(event.id, part, after),
            };
            if let Break(after) = self.notify_targets(event, &notified, after, whole) {
                return Ok(Break(FanOutCursor::Webhooks { part, after }));
            }
            (part, after) = (part + 1, None);
        }
        Ok(Continue(()))
    }

    /// Creates deliveries to the endpoints after `after`, as far as the budget allows.
    ///
    /// Endpoints with the same data share an event. That with the `whole` data has the identifier
    /// that follows from the page of endpoints. If the budget does not suffice, returns the last
    /// endpoint that has its deliveries.
    pub(super) fn notify_targets(
        &mut self,
        source: &Event,
        targets: &[Notified<'_>],
        mut after: Option<EndpointId>,
        whole: WholeEvent<'_, impl Fn(Option<EndpointId>) -> EventId>,
    ) -> Progress<Option<EndpointId>> {
        let done = targets.partition_point(|(target, _)| Some(target.endpoint) <= after);
        let whole_id = (whole.id_for)(after);
        let mut shared: Vec<(&EventData, Vec<&Target>)> = Vec::new();
        let mut left = targets[done..].iter();
        let progress = loop {
            let Some((target, events)) = left.next() else {
                break Continue(());
            };
            if self.budget.deliveries == 0 && !events.is_empty() {
                break Break(after);
            }
            self.budget.deliveries = self.budget.deliveries.saturating_sub(events.len());
            for data in events {
                match shared.iter_mut().find(|(known, _)| *known == data) {
                    Some((_, targets)) => targets.push(target),
                    None => shared.push((data, vec![target])),
                }
            }
            after = Some(target.endpoint);
        };
        for (data, targets) in shared {
            let id = if data == whole.data {
                whole_id
            } else {
                derived::reduced_id(whole_id, data)
            };
            let event = Event {
                id,
                data: data.clone(),
                audit: None,
                ..*source
            };
            self.deliver(event, &targets);
        }
        progress
    }

    fn deliver(&mut self, event: Event, targets: &[&Target]) {
        let (org, at) = (event.org_id, self.now);
        for target in targets {
            target.check(&mut self.transaction);
            let delivery = StoredDelivery::new(&event, &target.record);
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
}
