//! A store that records the keys that are read and the changes that are committed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use knowledge_core::store::{
    Commit, CommitOutcome, Found, Key, Mutation, Read, Store, StoreError, StoreExt,
};
use knowledge_storage_embedded::record::entry_key;

use crate::spec::{Binary, Write};

pub(crate) struct Recorder {
    store: Arc<dyn Store>,
    /// Keys read so far, each once; of ranges those of the found entries.
    keys: Mutex<BTreeSet<Key>>,
    /// Mutations of the commits so far.
    commits: Mutex<Vec<Vec<Mutation>>>,
}

impl Recorder {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            keys: Mutex::default(),
            commits: Mutex::default(),
        })
    }

    /// Forgets everything so far.
    pub(crate) fn clear(&self) {
        self.keys.lock().expect("no panic").clear();
        self.commits.lock().expect("no panic").clear();
    }

    /// Returns the keys read since the last call of [`Recorder::clear`].
    pub(crate) fn keys(&self) -> Vec<Binary> {
        let keys = self.keys.lock().expect("no panic");
        keys.iter().map(|key| Binary(entry_key(key))).collect()
    }

    /// Returns the commits since then, as an engine writes them: counters with their sums.
    pub(crate) async fn commits(&self) -> Vec<Vec<Write>> {
        let commits = std::mem::take(&mut *self.commits.lock().expect("no panic"));
        let mut recorded = Vec::with_capacity(commits.len());
        for commit in commits {
            let mut writes = Vec::with_capacity(commit.len());
            for mutation in commit {
                let key = Binary(entry_key(mutation.key()));
                let value = match mutation {
                    Mutation::Put { value, .. } => Some(Binary(value.to_vec())),
                    Mutation::Delete { .. } => None,
                    Mutation::Add { key, .. } => {
                        let found = self.store.get(&[key]).await.expect("the store works");
                        let entry = found.into_iter().next().flatten();
                        entry.map(|entry| Binary(entry.value.to_vec()))
                    }
                };
                writes.push(Write { key, value });
            }
            // Engines write sorted keys faster.
            writes.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            recorded.push(writes);
        }
        recorded
    }
}

#[async_trait]
impl Store for Recorder {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let found = self.store.read(reads).await?;
        let mut keys = self.keys.lock().expect("no panic");
        for (read, found) in reads.iter().zip(&found) {
            match (read, found) {
                (Read::Keys(read), _) => keys.extend(read.iter().cloned()),
                (_, Found::Range(found)) => keys.extend(found.iter().map(|one| one.key.clone())),
                (_, Found::Keys(_)) => unreachable!("a range was read"),
            }
        }
        Ok(found)
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let mutations = commit.mutations().to_vec();
        let outcome = self.store.commit(commit).await?;
        if matches!(outcome, CommitOutcome::Committed(_)) {
            self.commits.lock().expect("no panic").push(mutations);
        }
        Ok(outcome)
    }
}
