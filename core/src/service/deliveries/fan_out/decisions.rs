//! Decisions on what the receivers of an event know, made once per event and owner.

use std::sync::Arc;

use super::known::{Change, Changes, CitingRecall, Decisions, Known, Receiver};
use super::step::FanOutStep;
use crate::error::Error;
use crate::keys;
use crate::model::{MemoryId, MemoryLabels, OrgId};
use crate::service::Event;
use crate::service::access::monitor::{Monitor, Subject};
use crate::service::audit::pages::read_changed_memories;
use crate::service::endpoints::EndpointRecord;
use crate::service::memories::recalls::{Cited, is_own};
use crate::service::operation::Prefetch;
use crate::store::{Key, StoreExt, decode};

impl FanOutStep<'_> {
    /// Returns on whose behalf an endpoint receives events, if it may still be notified.
    ///
    /// It is not notified if the records that it depends on are corrupt, so that the others need not
    /// wait for the repair.
    pub(super) async fn receiver(
        &mut self,
        record: &EndpointRecord,
    ) -> Result<Option<Arc<Receiver>>, Error> {
        let (delegator, action) = record.requirement();
        let place = (record.org(), record.workspace(), delegator, action);
        if let Some(known) = self.receivers.get(&place) {
            return Ok(known.clone());
        }
        let (service, now) = (self.service, self.now);
        let found = match service
            .receiver(&mut self.transaction, record, Prefetch::none(), now)
            .await
        {
            Err(Error::Internal { detail }) => {
                tracing::error!(
                    member = %delegator.member,
                    %detail,
                    "corrupt owner of an endpoint; skipping its notifications"
                );
                None
            }
            found => found?,
        };
        let found = found.map(|(mut caller, held)| {
            // Events name what was removed, so that receivers can delete their copies.
            caller.org.erasing.clear();
            Arc::new(Receiver {
                delegator,
                caller,
                held,
            })
        });
        self.receivers.insert(place, found.clone());
        Ok(found)
    }

    /// Returns what a receiver knows of the memories of an event.
    pub(super) async fn known(
        &mut self,
        event: &Event,
        receiver: &Receiver,
    ) -> Result<Arc<Known>, Error> {
        let is_about_memories = event.audit.is_some() || !event.data.memories().is_empty();
        if !is_about_memories || Monitor::knows_all(&receiver.caller, receiver.held) {
            return Ok(Arc::new(Known::All));
        }
        let changes = self.changes(event).await?;
        if let Some(known) = self.decisions.known.get(&receiver.delegator) {
            return Ok(Arc::clone(known));
        }
        let subjects = changes.iter().flat_map(|(id, change)| {
            let labels = change.before.iter().chain(&change.after);
            labels.map(|labels| Subject::new(*id, labels))
        });
        let subjects: Vec<Subject<'_>> = subjects.collect();
        let monitor = receiver
            .monitor(&mut self.transaction, event.workspace_id, &subjects)
            .await?;
        let known = changes.iter().map(|(id, change)| {
            let exists = |labels: &Option<MemoryLabels>| {
                let labels = labels.as_ref();
                labels.is_some_and(|labels| monitor.exists(*id, labels))
            };
            (*id, change.existence(exists))
        });
        let known = known.filter(|(_, existence)| existence.contains(&true));
        let known = Arc::new(Known::Some(known.collect()));
        let decisions = &mut self.decisions.known;
        decisions.insert(receiver.delegator, Arc::clone(&known));
        Ok(known)
    }

    /// Returns the changes of the memories of an event.
    ///
    /// Without its audit entries, which expire, the present labels decide.
    async fn changes(&mut self, event: &Event) -> Result<Arc<Changes>, Error> {
        if self.decisions.event != Some(event.id) {
            self.decisions = Decisions {
                event: Some(event.id),
                ..Decisions::default()
            };
        }
        if let Some(changes) = &self.decisions.changes {
            return Ok(Arc::clone(changes));
        }
        let (org, mut changes) = (event.org_id, Changes::new());
        if let Some(first) = event.audit {
            for (entry, after) in read_changed_memories(&mut self.transaction, org, first).await? {
                let before = entry.before;
                changes.insert(entry.memory_id, Change { before, after });
            }
        }
        let listed = event.data.memories();
        if !listed.is_empty() {
            let mut audited = std::mem::take(&mut changes);
            let mut others = Vec::new();
            for memory in listed {
                match audited.remove(memory) {
                    Some(change) => drop(changes.insert(*memory, change)),
                    None => others.push(*memory),
                }
            }
            for (memory, before) in others.iter().zip(self.labels(org, &others).await?) {
                if before.is_some() {
                    let after = before.clone();
                    changes.insert(*memory, Change { before, after });
                }
            }
        }
        let changes = Arc::new(changes);
        self.decisions.changes = Some(Arc::clone(&changes));
        Ok(changes)
    }

    /// Reads the present labels of memories.
    async fn labels(
        &mut self,
        org: OrgId,
        memories: &[MemoryId],
    ) -> Result<Vec<Option<MemoryLabels>>, Error> {
        if memories.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<Key> = memories.iter().map(|id| keys::memory(org, *id)).collect();
        let found = self.transaction.unchecked().store().get(&keys).await?;
        let mut labels = Vec::with_capacity(keys.len());
        for (key, entry) in keys.iter().zip(&found) {
            let entry = entry.as_ref().map(|entry| decode(key, entry));
            labels.push(entry.transpose()?.map(|found| found.value));
        }
        Ok(labels)
    }

    /// Returns true if a recall exists for a receiver, or did before the change.
    pub(super) async fn recall_exists(
        &mut self,
        event: &Event,
        citing: &mut CitingRecall<'_>,
        receiver: &Receiver,
    ) -> Result<bool, Error> {
        let recall = citing.recall;
        if is_own(&receiver.caller, recall) {
            return Ok(true);
        }
        if let Some(exists) = citing.exists.get(&receiver.delegator) {
            return Ok(*exists);
        }
        let cited = match &citing.cited {
            Some(cited) => Arc::clone(cited),
            None => {
                let changes = self.changes(event).await?;
                let memories = &recall.memory_ids;
                let labels = self.labels(event.org_id, memories).await?;
                let at = |place: usize| {
                    let cited = memories.iter().zip(&labels).map(|(id, now)| {
                        let change = changes.get(id);
                        let then = change.map(|change| [&change.before, &change.after][place]);
                        (*id, then.unwrap_or(now).clone())
                    });
                    Cited::new(cited)
                };
                Arc::new([at(0), at(1)])
            }
        };
        let subjects: Vec<_> = cited.iter().flat_map(Cited::subjects).collect();
        let monitor = receiver
            .monitor(&mut self.transaction, event.workspace_id, &subjects)
            .await?;
        let mut times = cited.iter();
        let exists = times.any(|cited| cited.lets_exist(recall, &receiver.caller, &monitor));
        citing.exists.insert(receiver.delegator, exists);
        citing.cited = Some(cited);
        Ok(exists)
    }
}
