//! Simple records in a store.

use bytes::Bytes;
use knowledge_core::store::{Commit, CommitOutcome, Entry, Key, KeyRange, Store};

/// Size of a record's value, in bytes.
const VALUE_BYTES: usize = 300;
/// Number of records per commit in [`Records::fill`].
const FILL_RECORDS: usize = 1_000;
/// Seed of the selection of records, the same in every run.
const SEED: u64 = 1;

/// A record: its index and its number of changes, in a value of 300 bytes under a key of 36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Index among the records.
    pub index: usize,
    /// Number of changes.
    pub changes: u64,
}

impl Record {
    /// Returns the key of the record. Keys are ordered by index.
    ///
    /// # Panics
    /// Never: the key has a fixed length.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(format!("record/{:029}", self.index)).expect("36 bytes are a key")
    }

    /// Returns the stored value.
    #[must_use]
    pub fn value(&self) -> Bytes {
        let Self { index, changes } = self;
        format!("{:VALUE_BYTES$}", format!("{index} {changes}")).into()
    }

    /// Decodes a stored value.
    ///
    /// # Panics
    /// If [`Record::value`] cannot have written the value.
    #[must_use]
    pub fn decode(entry: &Entry) -> Self {
        assert_eq!(entry.value.len(), VALUE_BYTES);
        let text = std::str::from_utf8(&entry.value).expect("a record is text");
        let mut numbers = text.split_ascii_whitespace();
        let mut next = || numbers.next().expect("a record has two numbers");
        Self {
            index: next().parse().expect("the first is an index"),
            changes: next().parse().expect("the second is a count"),
        }
    }

    /// Returns the record after one more change.
    #[must_use]
    pub fn change(self) -> Self {
        Self {
            changes: self.changes + 1,
            ..self
        }
    }
}

/// Records of a store.
#[derive(Debug)]
pub struct Records {
    count: usize,
    rng: fastrand::Rng,
}

impl Records {
    /// Stores a number of unchanged records.
    ///
    /// # Panics
    /// If the store fails.
    pub async fn fill(store: &dyn Store, count: usize) -> Self {
        let all: Vec<usize> = (0..count).collect();
        for part in all.chunks(FILL_RECORDS) {
            let mut commit = Commit::builder();
            for &index in part {
                let record = Record { index, changes: 0 };
                commit = commit.put(record.key(), record.value());
            }
            let commit = commit.build().expect("a part fits into a commit");
            let outcome = store.commit(commit).await.expect("the store works");
            assert!(matches!(outcome, CommitOutcome::Committed(_)));
        }
        Self {
            count,
            rng: fastrand::Rng::with_seed(SEED),
        }
    }

    /// Returns the range of all records.
    ///
    /// # Panics
    /// Never: the prefix is a key.
    #[must_use]
    pub fn range() -> KeyRange {
        KeyRange::prefix(&Key::new("record/").expect("a key"))
    }

    /// Chooses different records at random, in random order.
    pub fn choose(&mut self, count: usize) -> Vec<usize> {
        let mut chosen = std::collections::HashSet::with_capacity(count);
        let mut order = Vec::with_capacity(count);
        while order.len() < count {
            let index = self.rng.usize(..self.count);
            if chosen.insert(index) {
                order.push(index);
            }
        }
        order
    }
}
