//! Comparison of the state after a power cut with the acknowledged calls.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use serde_json::Value;

use crate::calls::{Added, Change, Labels, Owner, Relabel, text};
use knowledge_http_suite::client::Answer;

/// Maximum number of concurrent calls during a comparison.
const CHECKS_AT_ONCE: usize = 8;
/// Number of memories of earlier rounds whose content is read again after each cut.
///
/// Opening compares each entry with its checksum anyway.
const EARLIER_READ: usize = 100;

/// A memory that must exist.
struct Known {
    added: Added,
    labels: Labels,
}

/// The calls that were acknowledged since the store was created.
#[derive(Default)]
pub(crate) struct Ledger {
    memories: BTreeMap<String, Known>,
    /// All acknowledged bulk updates, with their responses.
    relabels: Vec<(Relabel, Value)>,
    /// Memories whose content has not been read since they were acknowledged.
    unread: Vec<String>,
    /// Calls of unknown outcome.
    unanswered: Vec<Change>,
}

impl Ledger {
    /// Splits the memories with their labels into disjoint parts of the same size, one per client.
    pub(crate) fn parts(&self, clients: usize) -> Vec<Vec<(String, Labels)>> {
        let labels: Vec<_> = self
            .memories
            .iter()
            .map(|(id, known)| (id.clone(), known.labels))
            .collect();
        let size = labels.len() / clients;
        labels
            .chunks_exact(size.max(1))
            .take(clients)
            .map(<[_]>::to_vec)
            .collect()
    }

    /// Records a call with its response.
    pub(crate) fn note_answered(&mut self, change: Change, answer: &Answer) {
        let body = answer.json();
        match change {
            Change::Relabel(relabel) => self.note_relabelled(relabel, body),
            Change::Create(added) => self.note_added(text(&body["id"]), added),
            Change::Ingest(batch) => {
                let memories = body["memories"].as_array().expect("a list");
                assert_eq!(memories.len(), batch.len(), "{body}");
                for (memory, added) in memories.iter().zip(batch) {
                    self.note_added(text(&memory["id"]), added);
                }
            }
        }
    }

    /// Records a call without a response.
    pub(crate) fn note_unanswered(&mut self, change: Change) {
        self.unanswered.push(change);
    }

    fn note_relabelled(&mut self, relabel: Relabel, answer: Value) {
        for id in &relabel.memories {
            self.known(id).labels = relabel.labels;
        }
        self.relabels.push((relabel, answer));
    }

    fn note_added(&mut self, id: String, added: Added) {
        self.unread.push(id.clone());
        let labels = Labels::NEW;
        let known = Known { added, labels };
        let earlier = self.memories.insert(id, known);
        assert!(earlier.is_none(), "an identifier was given twice");
    }

    /// Compares a server with the acknowledged calls, and resolves those of unknown outcome.
    ///
    /// Returns the findings, for the report.
    ///
    /// # Panics
    /// Something is missing, stored in part, or stored without a call.
    pub(crate) async fn compare(
        &mut self,
        owner: &Owner,
        base_url: &str,
        rng: &mut fastrand::Rng,
    ) -> String {
        let found = owner.memories(base_url).await;
        let unanswered = std::mem::take(&mut self.unanswered);
        let (lost, mut carried_out) = (unanswered.len(), 0);
        let mut again = Vec::new();
        for change in unanswered {
            let is_there = match change {
                Change::Relabel(relabel) => {
                    let is_there = self.settle_relabel(&relabel, &found);
                    again.push((relabel, is_there));
                    is_there
                }
                Change::Create(added) => self.settle_added(vec![added], &found),
                Change::Ingest(batch) => self.settle_added(batch, &found),
            };
            carried_out += usize::from(is_there);
        }
        self.compare_lists(&found);
        for (relabel, is_there) in again {
            let answer = owner.relabel(base_url, &relabel).await;
            assert_eq!(is_replay(&answer), is_there, "{relabel:?}");
            self.note_relabelled(relabel, answer.json());
        }
        self.replay(owner, base_url).await;
        self.read_contents(owner, base_url, rng).await;
        format!(
            "{carried_out} of {lost} unanswered calls carried out, {} memories, {} replays",
            self.memories.len(),
            self.relabels.len()
        )
    }

    /// Resolves a bulk update of unknown outcome: all of its memories have its labels, or none.
    fn settle_relabel(&mut self, relabel: &Relabel, found: &BTreeMap<String, Value>) -> bool {
        let labels = |id: &String| found.get(id).map(Labels::read);
        let is_there = relabel
            .memories
            .iter()
            .all(|id| labels(id) == Some(relabel.labels));
        if is_there {
            for id in &relabel.memories {
                self.known(id).labels = relabel.labels;
            }
        }
        // If none has them, the comparison of the lists detects any other difference.
        is_there
    }

    fn known(&mut self, id: &str) -> &mut Known {
        let known = self.memories.get_mut(id);
        known.expect("only what is known is relabelled")
    }

    /// Resolves added memories of unknown outcome: all of them exist, or none.
    fn settle_added(&mut self, batch: Vec<Added>, found: &BTreeMap<String, Value>) -> bool {
        let title = |memory: &Value| memory["title"].as_str().map(str::to_owned);
        let by_title: BTreeMap<_, _> = found
            .iter()
            .filter(|(id, _)| !self.memories.contains_key(*id))
            .filter_map(|(id, memory)| Some((title(memory)?, id.clone())))
            .collect();
        let present: Vec<_> = batch
            .iter()
            .filter_map(|added| by_title.get(&added.title))
            .collect();
        assert!(
            present.is_empty() || present.len() == batch.len(),
            "{} of {} memories of one call are there",
            present.len(),
            batch.len()
        );
        let is_there = !present.is_empty();
        let identifiers: Vec<_> = present.into_iter().cloned().collect();
        for (id, added) in identifiers.into_iter().zip(batch) {
            self.note_added(id, added);
        }
        is_there
    }

    fn compare_lists(&self, found: &BTreeMap<String, Value>) {
        for (id, known) in &self.memories {
            let memory = found.get(id);
            let memory =
                memory.unwrap_or_else(|| panic!("an acknowledged memory is missing: {id}"));
            assert_eq!(memory["title"], known.added.title, "{memory}");
            assert_eq!(Labels::read(memory), known.labels, "{memory}");
        }
        for (id, memory) in found {
            assert!(self.memories.contains_key(id), "never added: {memory}");
        }
    }

    /// Sends each acknowledged bulk update again.
    async fn replay(&self, owner: &Owner, base_url: &str) {
        let replays = self.relabels.iter().map(async |(relabel, answer)| {
            let replay = owner.relabel(base_url, relabel).await;
            assert!(is_replay(&replay), "acknowledged and lost: {relabel:?}");
            let replay = replay.json();
            assert_eq!(replay["operationId"], answer["operationId"], "{relabel:?}");
            assert_eq!(replay["results"], answer["results"], "{relabel:?}");
        });
        let () = stream::iter(replays)
            .buffer_unordered(CHECKS_AT_ONCE)
            .collect()
            .await;
    }

    /// Reads the memories added since the last time, and some earlier ones.
    async fn read_contents(&mut self, owner: &Owner, base_url: &str, rng: &mut fastrand::Rng) {
        let mut wanted = std::mem::take(&mut self.unread);
        let earlier = rng.choose_multiple(self.memories.keys(), EARLIER_READ);
        wanted.extend(earlier.into_iter().cloned());
        let reads = wanted.iter().map(async |id| {
            let known = &self.memories[id];
            let memory = owner.memory(base_url, id).await;
            assert!(
                memory["content"] == known.added.content(),
                "{id} has another content"
            );
            assert_eq!(Labels::read(&memory), known.labels, "{memory}");
        });
        let () = stream::iter(reads)
            .buffer_unordered(CHECKS_AT_ONCE)
            .collect()
            .await;
    }
}

/// Returns true if the response is a replay, by its header and its body.
fn is_replay(answer: &Answer) -> bool {
    let is_replay = answer.headers.contains_key("idempotent-replayed");
    if is_replay {
        assert_eq!(answer.header("idempotent-replayed"), "true");
    }
    assert_eq!(answer.json()["replayed"], is_replay, "{answer:?}");
    is_replay
}
