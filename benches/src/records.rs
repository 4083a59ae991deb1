//! Records in a store.

use bytes::Bytes;
use knowledge_core::store::{Commit, CommitOutcome, Entry, Key, KeyRange, Store};

/// The size of a stored record's value, in bytes.
const VALUE_BYTES: usize = 300;
/// How many records one commit of [`Records::fill`] writes.
const FILL_RECORDS: usize = 1_000;
/// Every run chooses the same records.
const SEED: u64 = 1;

/// A record: its place and how often it was changed, in a value of 300 bytes under a key of 36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place among the records.
    pub index: usize,
    /// How often it was changed.
    pub changes: u64,
}

impl Record {
    /// Where the record is stored: keys are ordered as their records.
    ///
    /// # Panics
    /// Never: the key has a fixed length.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(format!("record/{:029}", self.index)).expect("36 bytes are a key")
    }

    /// The value that is stored.
    #[must_use]
    pub fn value(&self) -> Bytes {
        let Self { index, changes } = self;
        format!("{:VALUE_BYTES$}", format!("{index} {changes}")).into()
    }

    /// Reads a stored value.
    ///
    /// # Panics
    /// Where the value is not one of [`Record::value`].
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        assert_eq!(entry.value.len(), VALUE_BYTES);
        let text = std::str::from_utf8(&entry.value).expect("a record is text");
        let mut numbers = text.split_ascii_whitespace();
        let mut next = || numbers.next().expect("a record has two numbers");
        Self {
            index: next().parse().expect("the first is an index"),
            changes: next().parse().expect("the second is a count"),
        }
    }

    /// The same record, changed once more.
    #[must_use]
    pub fn changed(self) -> Self {
        Self {
            changes: self.changes + 1,
            ..self
        }
    }
}

/// The records of one store.
#[derive(Debug)]
pub struct Records {
    count: usize,
    rng: fastrand::Rng,
}

impl Records {
    /// Stores this many records, none of them changed yet.
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

    /// The range that holds all records.
    ///
    /// # Panics
    /// Never: the prefix is a key.
    #[must_use]
    pub fn range() -> KeyRange {
        KeyRange::prefix(&Key::new("record/").expect("a key"))
    }

    /// Chooses records at random, no record twice, in random order.
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
