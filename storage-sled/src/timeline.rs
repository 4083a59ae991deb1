//! The published state of the store, after the last synced group.
//!
//! sled has no snapshots, and its contents may not be durable yet. Before a group is applied, the
//! previous entries of its keys are therefore recorded in an undo map. A reader takes the current
//! [`ReadPoint`], reads sled without a lock, and then undoes all groups that began since. Once a
//! group is synced, its read point becomes the current one. Readers wait neither for a sync nor for
//! each other, and writers never wait for readers.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use knowledge_store::{Entry, Key, KeyRange};

use crate::capture::Capture;
use crate::undo::{PastState, UndoMap, undo_in};

/// A state of the store between two groups.
///
/// Read points form a chain that its readers keep alive. Dropping the last reference to a read
/// point frees it and its undo map.
#[derive(Debug, Default)]
pub struct ReadPoint {
    next: OnceLock<Transition>,
}

/// A group, and the read point after it.
#[derive(Debug)]
struct Transition {
    undo: UndoMap,
    target: Arc<ReadPoint>,
}

impl ReadPoint {
    /// Iterates over the undo maps of all groups begun since this read point, oldest first.
    ///
    /// Call it after reading sled: the group of every write found there is then in the chain.
    fn undo_maps(&self) -> impl Iterator<Item = &UndoMap> {
        std::iter::successors(self.next.get(), |transition| transition.target.next.get())
            .map(|transition| &transition.undo)
    }
}

impl PastState for ReadPoint {
    fn is_current(&self) -> bool {
        self.next.get().is_none()
    }

    fn restore(&self, key: &Key) -> Option<Option<Entry>> {
        self.undo_maps().find_map(|undo| undo.get(key)).cloned()
    }

    fn restore_range(&self, range: &KeyRange) -> UndoMap {
        let mut restored = UndoMap::new();
        if range.is_empty() {
            return restored;
        }
        for undo in self.undo_maps() {
            for (key, entry) in undo_in(undo, range) {
                // The oldest change has the entry of this state.
                if !restored.contains_key(key) {
                    restored.insert(key.clone(), entry.clone());
                }
            }
        }
        restored
    }
}

impl Drop for ReadPoint {
    fn drop(&mut self) {
        // Free the chain iteratively: for a slow reader it may be too long for recursion.
        let mut next = self.next.take();
        while let Some(transition) = next {
            next = Arc::into_inner(transition.target).and_then(|mut target| target.next.take());
        }
    }
}

/// The chain of read points, with one writer.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    current: RwLock<Arc<ReadPoint>>,
    /// Snapshots that record the changes of groups. No group begins while it is locked.
    captures: Mutex<Vec<Weak<Capture>>>,
}

impl Timeline {
    /// Returns the read point of the published state.
    pub(crate) fn current(&self) -> Arc<ReadPoint> {
        // No code panics while holding the lock, and read points are replaced as a whole.
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Captures the current state until the result is dropped or `bytes_max` is exceeded.
    pub(crate) fn capture(&self, bytes_max: usize) -> Arc<Capture> {
        let mut captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        let capture = Arc::new(Capture::new(bytes_max));
        // A group may have begun without being published yet.
        self.current().undo_maps().for_each(|undo| {
            capture.record(undo);
        });
        captures.push(Arc::downgrade(&capture));
        capture
    }

    /// Begins a group, before any of its changes is applied.
    pub(crate) fn begin_group(&self, undo: UndoMap) -> Arc<ReadPoint> {
        let mut captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        captures.retain(|capture| {
            let capture = capture.upgrade();
            capture.is_some_and(|capture| capture.record(&undo))
        });
        let target = Arc::new(ReadPoint::default());
        let transition = Transition {
            undo,
            target: Arc::clone(&target),
        };
        let linked = self.current().next.set(transition);
        assert!(linked.is_ok(), "the previous group was published");
        target
    }

    /// Publishes a group after its sync.
    pub(crate) fn publish(&self, read_point: Arc<ReadPoint>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = read_point;
    }
}

#[cfg(test)]
mod tests {
    use knowledge_store::Version;

    use super::*;

    fn key(name: &str) -> Key {
        Key::new(name.as_bytes()).unwrap()
    }

    fn entry(value: &'static str) -> Option<Entry> {
        Some(Entry {
            value: value.into(),
            version: Version::FIRST,
        })
    }

    #[test]
    fn read_point_restores_its_own_state() {
        let timeline = Timeline::default();
        let first = timeline.current();
        let group = timeline.begin_group(UndoMap::from([(key("a"), entry("1")), (key("b"), None)]));
        assert_eq!(first.restore(&key("a")), Some(entry("1")));
        assert_eq!(first.restore(&key("b")), Some(None));
        assert_eq!(first.restore(&key("c")), None);
        timeline.publish(group);

        let second = timeline.current();
        assert!(second.is_current());
        timeline.begin_group(UndoMap::from([
            (key("a"), entry("2")),
            (key("c"), entry("3")),
        ]));
        // The oldest change since a read point has its entry.
        assert_eq!(first.restore(&key("a")), Some(entry("1")));
        assert_eq!(second.restore(&key("a")), Some(entry("2")));
        let range = KeyRange::new(key("a"), key("c"));
        let restored: Vec<_> = first.restore_range(&range).into_keys().collect();
        assert_eq!(restored, [key("a"), key("b")]);
    }

    #[test]
    fn long_chain_is_freed_without_recursion() {
        let timeline = Timeline::default();
        let first = timeline.current();
        for _ in 0..200_000 {
            let read_point = timeline.begin_group(UndoMap::new());
            timeline.publish(read_point);
        }
        drop(first);
        assert!(timeline.current().is_current());
    }
}
