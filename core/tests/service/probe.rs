//! A store that records reads, and runs an event right before a chosen call.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use knowledge_core::store::{
    Commit, CommitOutcome, Found, Key, KeyRange, Mark, Read, Store, StoreError,
};

type Event = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The recorded reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// Keys read by `get`.
    pub(crate) keys: Vec<Key>,
    /// Ranges read by `scan`, with the keys found.
    pub(crate) ranges: Vec<(KeyRange, Vec<Key>)>,
}

impl Reads {
    /// Returns the number of keys read, found or not.
    pub(crate) fn count(&self) -> usize {
        self.keys.len()
            + self
                .ranges
                .iter()
                .map(|(_, found)| found.len())
                .sum::<usize>()
    }

    /// Returns true if a read concerns this key family.
    pub(crate) fn touch(&self, family: &str) -> bool {
        let is_of = |key: &Key| {
            let (family, key) = (family.as_bytes(), key.as_bytes());
            key.starts_with(family) && key.get(family.len()).is_none_or(|next| *next == b'/')
        };
        self.keys.iter().any(is_of)
            || self
                .ranges
                .iter()
                .any(|(range, found)| is_of(&range.start) || found.iter().any(is_of))
    }
}

pub(crate) struct Probe {
    inner: Arc<dyn Store>,
    reads: Mutex<Reads>,
    before_commit: Mutex<Option<Event>>,
    before_read: Mutex<Option<(Key, Event)>>,
    before_scan: Mutex<Option<(KeyRange, Event)>>,
    before_call: Mutex<Option<(usize, Event)>>,
    shows_marks: AtomicBool,
}

impl Probe {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            reads: Mutex::default(),
            before_commit: Mutex::default(),
            before_read: Mutex::default(),
            before_scan: Mutex::default(),
            before_call: Mutex::default(),
            shows_marks: AtomicBool::new(false),
        }
    }

    /// Shows the marks of the inner store from now on; without them every operation reads.
    pub(crate) fn show_marks(&self) {
        self.shows_marks.store(true, Ordering::Relaxed);
    }

    /// Returns the reads since the last call.
    pub(crate) fn take_reads(&self) -> Reads {
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    /// Runs an event between the reads of the next commit and the commit itself.
    pub(crate) fn before_commit(&self, event: impl Future<Output = ()> + Send + 'static) {
        *self.before_commit.lock().unwrap() = Some(Box::pin(event));
    }

    /// Runs an event right before the next read of a key.
    pub(crate) fn before_read(&self, key: Key, event: impl Future<Output = ()> + Send + 'static) {
        *self.before_read.lock().unwrap() = Some((key, Box::pin(event)));
    }

    /// Runs an event right before the next scan of a range.
    pub(crate) fn before_scan(
        &self,
        range: KeyRange,
        event: impl Future<Output = ()> + Send + 'static,
    ) {
        *self.before_scan.lock().unwrap() = Some((range, Box::pin(event)));
    }

    /// Runs an event right before a later call of any kind, after this many others.
    pub(crate) fn before_call(
        &self,
        others: usize,
        event: impl Future<Output = ()> + Send + 'static,
    ) {
        *self.before_call.lock().unwrap() = Some((others, Box::pin(event)));
    }

    /// Cancels an event that was to run before a call.
    pub(crate) fn expect_no_call(&self) {
        *self.before_call.lock().unwrap() = None;
    }

    async fn called(&self) {
        let event = {
            let mut planned = self.before_call.lock().unwrap();
            match planned.as_mut() {
                Some((others, _)) if *others > 0 => {
                    *others -= 1;
                    None
                }
                _ => planned.take(),
            }
        };
        if let Some((_, event)) = event {
            event.await;
        }
    }

    async fn before(&self, read: Read<'_>) {
        let event = match read {
            Read::Keys(keys) => {
                let mut planned = self.before_read.lock().unwrap();
                let planned = planned.take_if(|(key, _)| keys.contains(key));
                planned.map(|(_, event)| event)
            }
            Read::Range { range, .. } => {
                let mut planned = self.before_scan.lock().unwrap();
                let planned = planned.take_if(|(planned, _)| planned == range);
                planned.map(|(_, event)| event)
            }
        };
        if let Some(event) = event {
            event.await;
        }
    }

    /// Returns true if the event has run.
    pub(crate) fn has_happened(&self) -> bool {
        self.before_commit.lock().unwrap().is_none()
            && self.before_read.lock().unwrap().is_none()
            && self.before_scan.lock().unwrap().is_none()
    }
}

#[async_trait]
impl Store for Probe {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.called().await;
        for read in reads {
            self.before(*read).await;
        }
        let found = self.inner.read(reads).await?;
        let mut noted = self.reads.lock().unwrap();
        for (read, found) in reads.iter().zip(&found) {
            match (*read, found) {
                (Read::Range { range, .. }, Found::Range(entries)) => {
                    let keys = entries.iter().map(|found| found.key.clone()).collect();
                    noted.ranges.push((range.clone(), keys));
                }
                (Read::Keys(keys), _) => noted.keys.extend_from_slice(keys),
                _ => unreachable!("a store answers a range by a range"),
            }
        }
        drop(noted);
        Ok(found)
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.called().await;
        let event = self.before_commit.lock().unwrap().take();
        if let Some(event) = event {
            event.await;
        }
        self.inner.commit(commit).await
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        let shown = self.shows_marks.load(Ordering::Relaxed);
        shown.then(|| self.inner.mark(area)).flatten()
    }
}
