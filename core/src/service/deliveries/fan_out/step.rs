//! One commit of the fan-out of events.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use super::super::history::RetainedEvent;
use super::super::queue::EndpointQueue;
use super::super::record::StoredDelivery;
use super::cited_event::{Recalls, SourceEvent};
use super::derived::{self, change_of, memories_of};
use super::targets::{self, Target};
use super::turns::QueuedEvent;
use super::{FanOutCursor, FanOutLimits};
use crate::access::Action;
use crate::error::Error;
use crate::keys;
use crate::model::{EndpointId, EventType, MemoryId, OrgId, Timestamp, WorkspaceId};
use crate::service::kit::act::Wants;
use crate::service::kit::principal::Delegator;
use crate::service::{Event, KnowledgeService};
use crate::store::{Key, KeyEntry, Prepared, StoreExt, Transaction, decode_value};

/// Progress: complete, or the cursor to resume from.
pub(super) type Progress<At> = ControlFlow<At>;

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
    pub(super) transaction: Transaction,
    now: Timestamp,
    /// Remaining budget of this commit.
    pub(super) budget: FanOutLimits,
    /// Queues that deliveries were added to.
    ///
    /// The commit writes the state of each once, however many events its endpoint receives.
    queues: BTreeMap<(OrgId, EndpointId), EndpointQueue>,
    webhooks: HashMap<(OrgId, WorkspaceId), Arc<Vec<Target>>>,
    /// Decisions of [`Self::is_authorized`].
    authorized: HashMap<(OrgId, WorkspaceId, Delegator, Action), bool>,
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
            authorized: HashMap::new(),
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
        self.transaction.done(self.report)
    }

    /// Fans out one event; returns `false` if the budget does not suffice.
    async fn fan_out_event(&mut self, (org, id): QueuedEvent) -> Result<bool, Error> {
        let (outbox, expansion) = (keys::outbox(id), keys::expansion(id));
        let read = [outbox, expansion, keys::outbox_queue(org, id)];
        let found = self.transaction.unchecked().get(&read).await?;
        for (key, entry) in read.iter().zip(&found) {
            let version = entry.as_ref().map(|entry| entry.version);
            self.transaction.check(key.clone(), version);
        }
        let [outbox, expansion, mark] = read;
        let mut found = found.into_iter();
        let mut next = |key: &Key| {
            let (key, entry) = (key.clone(), found.next().flatten()?);
            Some(KeyEntry { key, entry })
        };
        let (event, cursor, is_marked) = (next(&outbox), next(&expansion), next(&mark).is_some());
        let Some(event) = event else {
            // Another dispatcher has completed it, or an earlier version that knew no marks.
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
                    self.transaction.put(expansion, &rest);
                }
                Ok(false)
            }
            Continue(()) => {
                self.transaction.delete(outbox);
                self.transaction.delete(mark);
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
                Recalls::default()
            }
            FanOutCursor::Citations(earlier) => earlier.into(),
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
    pub(super) fn notify_targets(
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

    /// Returns true if the endpoint may still be notified.
    ///
    /// It is not notified if the records that it depends on are corrupt, so that the others need not
    /// wait for the repair.
    pub(super) async fn is_authorized(&mut self, target: &Target) -> Result<bool, Error> {
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
