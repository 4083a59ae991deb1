//! Property of ingestion: whatever entries come in whatever order, the text and the audience of a
//! memory come from one entry, or the audience from a person.

use std::collections::HashMap;
use std::sync::Arc;

use knowledge_core::internals::keys;
use knowledge_core::model::{
    MemberId, MemoryChange, MemoryContent, MemoryId, MemoryLabels, SourceId, WorkspaceId,
};
use knowledge_core::service::{KnowledgeService, NewMemory};
use knowledge_core::store::{Store, StoreExt};
use knowledge_testing::requests::{
    MEMBER, new_member, new_memory, new_organization, new_workspace, with,
};
use knowledge_testing::seed::Seed;
use knowledge_testing::simulation::{SimulatedTime, simulated_options};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::{cases, memory};

/// Label of a workspace, which an entry without one declares.
const DEFAULT: &str = "workspace:research";
/// Labels that an entry may declare.
const LABELS: [Option<&str>; 4] = [None, Some("user:ada"), Some("user:bob"), Some("team:core")];
/// Labels that a person may set.
const SET: [&str; 3] = ["user:olga", "user:bob", "team:core"];

/// An entry: the indices of its key, its text and its label.
type Entry = (usize, usize, usize);

#[derive(Clone, Debug)]
enum Step {
    /// A batch of the owner, or of a member.
    Ingest(bool, Vec<Entry>),
    /// The owner sets the label of the memory with a key.
    Relabel(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let entry = (0..3_usize, 0..3_usize, 0..LABELS.len());
    let ingest = (any::<bool>(), vec(entry, 1..4));
    let ingest = ingest.prop_map(|(by_owner, entries)| Step::Ingest(by_owner, entries));
    let relabel = (0..3_usize, 0..SET.len());
    let relabel = relabel.prop_map(|(key, label)| Step::Relabel(key, label));
    vec(prop_oneof![4 => ingest, 1 => relabel], 1..12)
}

struct Place {
    seed: Seed,
    store: Arc<dyn Store>,
    member: MemberId,
    workspace: WorkspaceId,
    source: SourceId,
}

/// Entries and labels so far, by key.
#[derive(Default)]
struct History {
    ids: HashMap<usize, MemoryId>,
    /// Texts with the labels that their entries declared.
    declared: Vec<(usize, String, String)>,
    /// Labels that a person set.
    set: Vec<(usize, String)>,
}

impl Place {
    async fn new() -> Self {
        let store = memory().await;
        let env = SimulatedTime::new().env(1);
        let service = KnowledgeService::open(Arc::clone(&store), env, simulated_options()).await;
        let new = new_organization("acme", "olga");
        let seed = Seed::new(&service.unwrap(), &new).await.unwrap();
        let workspace = seed.workspace(&new_workspace("research")).await.unwrap();
        let new = new_member("ada", MEMBER);
        let member = seed.member(&new).await.unwrap();
        let source = seed.source("Files", "drive").await.unwrap();
        Self {
            seed,
            store,
            member: member.id,
            workspace: workspace.id,
            source,
        }
    }

    async fn ingest(&self, history: &mut History, by_owner: bool, entries: &[Entry]) {
        let mut batch: Vec<NewMemory> = Vec::new();
        let mut named = Vec::new();
        for (key, text, label) in entries.iter().copied() {
            if named.contains(&key) {
                continue;
            }
            named.push(key);
            let label = LABELS[label];
            let text = format!("text {text}");
            batch.push(with(new_memory("Page"), |new| {
                new.source_key = Some(format!("page-{key}"));
                new.content.clone_from(&text);
                new.audience_tag = label.map(|label| label.parse().unwrap());
            }));
            let label = label.unwrap_or(DEFAULT).to_owned();
            history.declared.push((key, text, label));
        }
        let caller = if by_owner {
            self.seed.owner.clone()
        } else {
            self.seed.trusted(self.member)
        };
        let memories = self.seed.service.memories();
        let ingested = memories.ingest(&caller, self.workspace, self.source, &batch);
        for (key, memory) in named.into_iter().zip(ingested.await.unwrap()) {
            if let Some(id) = memory.id {
                history.ids.insert(key, id);
            }
        }
    }

    async fn take(&self, step: &Step, history: &mut History, number: usize) {
        match step {
            Step::Ingest(by_owner, entries) => self.ingest(history, *by_owner, entries).await,
            Step::Relabel(key, label) => {
                let Some(id) = history.ids.get(key) else {
                    return;
                };
                let label = SET[*label];
                let change = MemoryChange::builder().audience_tag(label.parse().unwrap());
                let name = format!("change-{number:0>8}");
                let (ids, change) = ([*id], change.build());
                let changed = self.seed.bulk_update(&name, &ids, change);
                changed.await.unwrap();
                history.set.push((*key, label.to_owned()));
            }
        }
    }

    async fn check(&self, history: &History) {
        for (key, id) in &history.ids {
            let org = self.seed.org.id;
            let (labels, content) = (keys::memory(org, *id), keys::content(org, *id));
            let labels = self.store.get_as::<MemoryLabels>(&labels);
            let label = labels.await.unwrap().unwrap().value.audience.to_string();
            let content = self.store.get_as::<MemoryContent>(&content);
            let text = content.await.unwrap().unwrap().value.content;
            let of_one_entry = (*key, text.clone(), label.clone());
            let of_a_person = (*key, label.clone());
            assert!(
                history.declared.contains(&of_one_entry) || history.set.contains(&of_a_person),
                "page-{key} has {text:?} under {label}: {history:?}",
                history = history.declared
            );
        }
    }
}

#[test]
fn text_and_audience_come_from_one_entry_or_the_audience_from_a_person() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();
    let config = ProptestConfig::with_cases(cases(300));
    let mut runner = TestRunner::new(config);
    let checked = runner.run(&steps(), |steps| {
        runtime.block_on(async {
            let (place, mut history) = (Place::new().await, History::default());
            for (number, step) in steps.iter().enumerate() {
                place.take(step, &mut history, number).await;
                place.check(&history).await;
            }
        });
        Ok(())
    });
    checked.unwrap();
}
