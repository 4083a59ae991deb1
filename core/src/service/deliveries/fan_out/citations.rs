//! Fan-out to the recalls that cite memories of an event.
//!
//! They are visited in the order of their identifiers, each once per event.

use std::collections::BTreeSet;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

use super::cited_event::{Recalls, SourceEvent};
use super::derived;
use super::known::{CitingRecall, Receiver};
use super::step::{FanOutStep, Notified, Progress, WholeEvent};
use super::targets::{self, Target};
use crate::error::Error;
use crate::keys;
use crate::model::{
    ChangedCitations, CitationChange, EndpointId, EventData, EventType, MemoryId, OrgId, Recall,
    RecallId,
};
use crate::service::Event;
use crate::store::{Direction, KeyRange, Read, StoreErrorKind, StoreExt};

/// Maximum number of citation entries of a memory that one read returns.
const LOOKS_PER_MEMORY: usize = 100;

impl FanOutStep<'_> {
    /// Notifies the recalls of an event as far as the budget allows, and returns the progress.
    pub(super) async fn notify_citations(
        &mut self,
        source: &SourceEvent<'_>,
        mut at: Recalls,
    ) -> Result<Progress<Recalls>, Error> {
        let org = source.event.org_id;
        let webhooks = self
            .webhooks_for(source.event, EventType::CitationChanged)
            .await?;
        loop {
            if self.budget.looks == 0 {
                return Ok(Break(at));
            }
            let (recalls, is_last) = self.citing(source, at.after).await?;
            for recalls in recalls.chunks(LOOKS_PER_MEMORY) {
                let subscribed = self.subscribed(org, recalls).await?;
                for (recall, is_subscribed) in recalls.iter().zip(subscribed) {
                    if is_subscribed || !webhooks.is_empty() {
                        if self.budget.recalls == 0 {
                            return Ok(Break(at));
                        }
                        self.budget.recalls -= 1;
                        let progress = self.notify_recall(source, at.within, *recall, &webhooks);
                        if let Break(within) = progress.await? {
                            return Ok(Break(Recalls { within, ..at }));
                        }
                    }
                    (at.after, at.within) = (Some(*recall), None);
                }
            }
            if is_last {
                return Ok(Continue(()));
            }
        }
    }

    /// Returns the next recalls that cite memories of the event, and true if there are no more.
    async fn citing(
        &mut self,
        source: &SourceEvent<'_>,
        after: Option<RecallId>,
    ) -> Result<(Vec<RecallId>, bool), Error> {
        let (org, memories) = (source.event.org_id, &source.changed.memory_ids);
        let limit = self.budget.looks / memories.len().max(1);
        let limit = limit.clamp(1, LOOKS_PER_MEMORY);
        let range = |memory: &MemoryId| {
            let range = keys::citing_recalls(org, *memory);
            match after {
                Some(after) => range.after(&keys::cited_by(org, *memory, after)),
                None => range,
            }
        };
        let ranges: Vec<KeyRange> = memories.iter().map(range).collect();
        let reads = ranges.iter().map(|range| Read::Range {
            range,
            limit,
            direction: Direction::Forward,
        });
        let reads: Vec<Read<'_>> = reads.collect();
        let found = self.transaction.unchecked().store().read(&reads).await?;
        let (mut recalls, mut looks) = (BTreeSet::new(), memories.len());
        // Last recall up to which the citations of every memory were read.
        let mut until: Option<RecallId> = None;
        for found in found {
            let found = found.into_range()?;
            let listed = found.iter().filter_map(|found| keys::last_id(&found.key));
            let listed: Vec<_> = listed.map(RecallId).collect();
            if found.len() == limit {
                let last = listed.last().copied();
                until = until.into_iter().chain(last).min();
            }
            looks += found.len();
            recalls.extend(listed);
        }
        // Empty ranges use up the budget too.
        self.budget.looks = self.budget.looks.saturating_sub(looks);
        recalls.retain(|recall| until.is_none_or(|until| *recall <= until));
        Ok((recalls.into_iter().collect(), until.is_none()))
    }

    /// Returns true for each recall that ever had a subscription.
    ///
    /// A subscription that existed at the commit of the event is thus included.
    async fn subscribed(&mut self, org: OrgId, recalls: &[RecallId]) -> Result<Vec<bool>, Error> {
        let counters = recalls.iter();
        let counters: Vec<_> = counters
            .map(|recall| keys::subscription_count(org, *recall))
            .collect();
        let found = self.transaction.unchecked().store().get(&counters).await?;
        Ok(found.iter().map(Option::is_some).collect())
    }

    /// Notifies the endpoints of a recall that memories which it cites have changed.
    ///
    /// If the budget does not suffice, returns the last endpoint that has its delivery.
    async fn notify_recall(
        &mut self,
        source: &SourceEvent<'_>,
        within: Option<EndpointId>,
        recall: RecallId,
        webhooks: &[(Target, Arc<Receiver>)],
    ) -> Result<Progress<Option<EndpointId>>, Error> {
        let key = keys::recall(source.event.org_id, recall);
        let recall = match self.transaction.unchecked().get::<Recall>(&key).await {
            Ok(Some(recall)) => recall,
            Ok(None) => return Ok(Continue(())),
            // Later recalls do not wait for its repair.
            Err(error) if error.kind() == StoreErrorKind::Corrupt => {
                tracing::error!(%key, %error, "corrupt recall; skipping its notifications");
                return Ok(Continue(()));
            }
            Err(error) => return Err(error.into()),
        };
        // Decisions about a recall may read the labels of all memories that it cites.
        let reads = recall.memory_ids.len() / LOOKS_PER_MEMORY;
        self.budget.recalls = self.budget.recalls.saturating_sub(reads);
        let mut cited = recall.memory_ids.clone();
        cited.retain(|memory| source.memories.contains(memory));
        if cited.is_empty() {
            return Ok(Continue(()));
        }
        let event = source.event;
        let targets = self.targets_of(event, recall.id, webhooks).await?;
        let data_of = |change, memory_ids| {
            EventData::CitationChanged(ChangedCitations {
                change,
                memory_ids,
                operation_id: source.changed.operation_id,
                recall_id: recall.id,
                workspace_id: event.workspace_id,
            })
        };
        let whole_data = data_of(source.change, cited.clone());
        let whole = WholeEvent {
            data: &whole_data,
            id_for: |after| derived::citation_id(event.id, recall.id, after),
        };
        let mut citing = CitingRecall::new(&recall);
        let mut notified: Vec<Notified<'_>> = Vec::with_capacity(targets.len());
        for (target, receiver) in &targets {
            let mut events = Vec::new();
            if self.recall_exists(event, &mut citing, receiver).await? {
                let known = self.known(event, receiver).await?;
                for change in [CitationChange::Updated, CitationChange::Deleted] {
                    let mut memories = cited.clone();
                    memories.retain(|id| known.citation(*id, source.change) == Some(change));
                    if !memories.is_empty() {
                        events.push(data_of(change, memories));
                    }
                }
            }
            notified.push((target, events));
        }
        Ok(self.notify_targets(event, &notified, within, whole))
    }

    /// Returns the webhooks, and the subscriptions of a recall, in the order of their identifiers.
    async fn targets_of(
        &mut self,
        event: &Event,
        recall: RecallId,
        webhooks: &[(Target, Arc<Receiver>)],
    ) -> Result<Vec<(Target, Arc<Receiver>)>, Error> {
        let mut targets = webhooks.to_vec();
        let subscribed = keys::subscriptions(event.org_id, recall);
        for target in targets::read(&mut self.transaction, event.org_id, &subscribed).await? {
            if target.matches(EventType::CitationChanged, event.endpoints)
                && let Some(receiver) = self.receiver(&target.record).await?
            {
                targets.push((target, receiver));
            }
        }
        targets.sort_by_key(|(target, _)| target.endpoint);
        Ok(targets)
    }
}
