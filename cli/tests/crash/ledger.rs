//! Comparison of the clients' knowledge with the stored data.

use std::collections::{BTreeMap, HashSet};

use knowledge_core::internals::{audited_memories, keys};
use knowledge_core::model::{MemoryId, MemoryLabels, ReviewStatus};
use knowledge_core::service::KnowledgeService;
use knowledge_core::store::{KeyRange, StoreExt};
use serde_json::{Value, json};

use crate::World;
use crate::lane::{Labels, Lane, Request};

/// The responses since the last comparison, and the requests known to be stored.
pub(crate) struct Ledger {
    /// Acknowledged, and not yet found in the store.
    acknowledged: Vec<(Request, Value)>,
    /// Acknowledged and found, and not yet sent again.
    compared: Vec<(Request, Value)>,
    /// The unique audience of each stored request.
    stored: HashSet<String>,
    /// The part of the audit log that has not been read.
    unread: KeyRange,
}

/// A bulk update, as the audit log records it.
struct Audited {
    operation_id: Value,
    memory_ids: Vec<Value>,
}

impl Ledger {
    /// Starts after the present end of the audit log.
    pub(crate) async fn begin(service: &KnowledgeService, world: &World) -> Self {
        let mut ledger = Self {
            acknowledged: Vec::new(),
            compared: Vec::new(),
            stored: HashSet::new(),
            unread: keys::audits(world.org),
        };
        ledger.read_audit(service).await;
        ledger
    }

    pub(crate) fn note_acknowledged(&mut self, answers: Vec<(Request, Value)>) {
        self.acknowledged.extend(answers);
    }

    /// Returns the requests found since the last call.
    pub(crate) fn take_compared(&mut self) -> Vec<(Request, Value)> {
        std::mem::take(&mut self.compared)
    }

    /// Returns true if the store contained the request at the last comparison.
    pub(crate) fn was_applied(&self, request: &Request) -> bool {
        self.stored.contains(&request.labels.audience.to_string())
    }

    /// Compares the store with the clients' knowledge.
    ///
    /// Each acknowledged request is stored completely, each other one completely or not at all, and
    /// the counter is right. Updates the lanes of requests that were executed without a response,
    /// and returns their number.
    pub(crate) async fn compare(
        &mut self,
        service: &KnowledgeService,
        world: &World,
        lanes: &mut [Lane],
        unanswered: &[Request],
    ) -> usize {
        let stored = labels(service, world, lanes).await;
        let mut audited = self.read_audit(service).await;
        for (request, answer) in self.acknowledged.drain(..) {
            let audience = request.labels.audience.to_string();
            if self.stored.insert(audience.clone()) {
                let entry = audited.remove(&audience);
                let entry = entry.unwrap_or_else(|| panic!("no audit of {request:?}"));
                assert_eq!(entry.operation_id, answer["operationId"], "{request:?}");
                assert_is_whole(&entry, &request);
            }
            self.compared.push((request, answer));
        }
        let mut applied = 0;
        for (index, lane) in lanes.iter_mut().enumerate() {
            let own = |ids: &BTreeMap<MemoryId, Labels>| -> BTreeMap<MemoryId, Labels> {
                ids.keys().map(|id| (*id, stored[id].clone())).collect()
            };
            let found = own(lane.labels());
            if found == *lane.labels() {
                continue;
            }
            let request = unanswered.get(index).expect("nothing was under way");
            assert_eq!(
                found,
                lane.labels_after(request),
                "half of {request:?}, or nothing of another"
            );
            lane.apply(request);
            applied += 1;
            let audience = request.labels.audience.to_string();
            let entry = audited
                .remove(&audience)
                .expect("what was changed is in the audit log");
            assert_is_whole(&entry, request);
            self.stored.insert(audience);
        }
        assert!(
            audited.is_empty(),
            "in the audit log, and not done: {:?}",
            audited.keys()
        );
        let waiting = stored
            .values()
            .filter(|labels| labels.review == ReviewStatus::Pending);
        let counter = keys::pending_count(world.org, world.workspace);
        let counted = service
            .store()
            .counter(&counter)
            .await
            .expect("the counter");
        assert_eq!(
            usize::try_from(counted),
            Ok(waiting.count()),
            "the review backlog"
        );
        applied
    }

    /// Returns the bulk updates audited since the last call, by their unique audience.
    async fn read_audit(&mut self, service: &KnowledgeService) -> BTreeMap<String, Audited> {
        let pages = service
            .store()
            .scan_all(&self.unread)
            .await
            .expect("the audit log");
        let mut audited = BTreeMap::new();
        for page in &pages {
            let stored: Value = serde_json::from_slice(&page.entry.value).expect("JSON");
            self.unread = self.unread.after(&page.key);
            if stored["action"] != "memory.bulk_update" {
                continue;
            }
            let memories = &stored["body"]["memories"];
            // The fixture's own update sets no audience.
            let Some(audience) = memories["change"]["audienceTag"].as_str() else {
                continue;
            };
            let entry = Audited {
                operation_id: stored["operation_id"].clone(),
                memory_ids: audited_memories(&stored)
                    .into_iter()
                    .map(|(id, _)| json!(id))
                    .collect(),
            };
            let earlier = audited.insert(audience.to_owned(), entry);
            assert!(
                earlier.is_none() && !self.stored.contains(audience),
                "twice: {audience}"
            );
        }
        audited
    }
}

fn assert_is_whole(entry: &Audited, request: &Request) {
    let expected: Vec<_> = request.memories.iter().map(|id| json!(id)).collect();
    assert_eq!(entry.memory_ids, expected, "{request:?}");
}

/// Returns the stored labels of all memories.
async fn labels(
    service: &KnowledgeService,
    world: &World,
    lanes: &[Lane],
) -> BTreeMap<MemoryId, Labels> {
    let ids: Vec<_> = lanes
        .iter()
        .flat_map(|lane| lane.labels().keys().copied())
        .collect();
    let keys: Vec<_> = ids.iter().map(|id| keys::memory(world.org, *id)).collect();
    let found = service
        .store()
        .get_many_as::<MemoryLabels>(&keys)
        .await
        .expect("the labels");
    let labels = |found: MemoryLabels| Labels {
        audience: found.audience,
        review: found.review,
    };
    ids.into_iter()
        .zip(found)
        .map(|(id, found)| (id, labels(found.expect("every memory is there").value)))
        .collect()
}
