//! The published state: that after the last synced group, while sled already holds the next one.
//!
//! sled has no snapshots, and what is in it may not be on the disk yet. So before a group is applied, the entries that it
//! will change are kept aside, as they stand. A reader takes the present [`Moment`], reads sled without a lock, and then
//! puts back what every group begun since that moment has changed. Once a group is synced, its moment becomes the present
//! one. Readers wait neither for a sync nor for each other, and no writer waits for a reader.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use knowledge_store::{Entry, Key, KeyRange};

use crate::capture::Capture;

/// The entries that a group changes, as they stood before it.
pub(crate) type Before = BTreeMap<Key, Option<Entry>>;

/// A past state of the store: entries that were read in sled later are put back to it.
pub trait Past: Send + Sync + 'static {
    /// True if nothing was begun since, so that sled was read as it is.
    fn is_untouched(&self) -> bool;

    /// The entry of `key` then, if it was touched since.
    fn restore(&self, key: &Key) -> Option<Option<Entry>>;

    /// The entries of `range` then, as far as they were touched since.
    fn restore_range(&self, range: &KeyRange) -> Before;

    /// True once the state could not be kept.
    fn is_lost(&self) -> bool {
        false
    }
}

/// A state of the store between two groups. Moments form a chain that is kept alive by its readers: the last one to let
/// go of a moment frees it, and with it what was kept aside for its sake.
#[derive(Debug, Default)]
pub struct Moment {
    next: OnceLock<Step>,
}

/// A group, and the moment it leads to.
#[derive(Debug)]
struct Step {
    before: Before,
    moment: Arc<Moment>,
}

impl Moment {
    /// What the groups begun since this moment changed, the oldest first. Asked after sled was read: whoever finds a
    /// group's writes in sled finds the group here.
    fn since(&self) -> impl Iterator<Item = &Before> {
        std::iter::successors(self.next.get(), |step| step.moment.next.get())
            .map(|step| &step.before)
    }
}

impl Past for Moment {
    fn is_untouched(&self) -> bool {
        self.next.get().is_none()
    }

    fn restore(&self, key: &Key) -> Option<Option<Entry>> {
        self.since().find_map(|before| before.get(key)).cloned()
    }

    fn restore_range(&self, range: &KeyRange) -> Before {
        let mut restored = Before::new();
        if range.is_empty() {
            return restored;
        }
        for before in self.since() {
            for (key, entry) in touched(before, range) {
                // The oldest change tells what stood there.
                if !restored.contains_key(key) {
                    restored.insert(key.clone(), entry.clone());
                }
            }
        }
        restored
    }
}

/// The part of `before` that is in `range`, which is not empty.
pub(crate) fn touched<'b>(
    before: &'b Before,
    range: &'b KeyRange,
) -> impl Iterator<Item = (&'b Key, &'b Option<Entry>)> {
    before
        .range(&range.start..)
        .take_while(|(key, _)| range.contains(key))
}

impl Drop for Moment {
    fn drop(&mut self) {
        // One by one: a reader that slept through many groups must not free their chain by recursion.
        let mut next = self.next.take();
        while let Some(step) = next {
            next = Arc::into_inner(step.moment).and_then(|mut moment| moment.next.take());
        }
    }
}

/// The present moment and the one in the making. There is one writer.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    present: RwLock<Arc<Moment>>,
    /// The snapshots to which the changes of groups are reported. No group begins while it is held.
    captures: Mutex<Vec<Weak<Capture>>>,
}

impl Timeline {
    /// The published state.
    pub(crate) fn present(&self) -> Arc<Moment> {
        // Nothing panics while it is held; a moment is replaced as a whole anyway.
        Arc::clone(&self.present.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins to keep the present state, for as long as the answer is held and no more than `bytes_max` are needed for it.
    pub(crate) fn capture(&self, bytes_max: usize) -> Arc<Capture> {
        let mut captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        let capture = Arc::new(Capture::new(bytes_max));
        // A group may be on its way: begun, and not yet published.
        self.present().since().for_each(|before| {
            capture.absorb(before);
        });
        captures.push(Arc::downgrade(&capture));
        capture
    }

    /// Announces a group, before anything of it is applied.
    pub(crate) fn begin(&self, before: Before) -> Arc<Moment> {
        let mut captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        captures.retain(|capture| {
            let capture = capture.upgrade();
            capture.is_some_and(|capture| capture.absorb(&before))
        });
        let moment = Arc::new(Moment::default());
        let step = Step {
            before,
            moment: Arc::clone(&moment),
        };
        let announced = self.present().next.set(step);
        assert!(
            announced.is_ok(),
            "a group begins after the one before it was published"
        );
        moment
    }

    /// Makes a group visible, after it was synced.
    pub(crate) fn publish(&self, moment: Arc<Moment>) {
        *self.present.write().unwrap_or_else(PoisonError::into_inner) = moment;
    }
}

#[cfg(test)]
mod tests {
    use knowledge_store::Version;

    use super::*;

    fn key(name: &str) -> Key {
        Key::new(name.as_bytes().to_vec()).unwrap()
    }

    fn entry(value: &'static str) -> Option<Entry> {
        Some(Entry {
            value: value.into(),
            version: Version::FIRST,
        })
    }

    #[test]
    fn a_reader_is_given_back_its_own_moment() {
        let timeline = Timeline::default();
        let first = timeline.present();
        let group = timeline.begin(Before::from([(key("a"), entry("1")), (key("b"), None)]));
        assert_eq!(first.restore(&key("a")), Some(entry("1")));
        assert_eq!(first.restore(&key("b")), Some(None));
        assert_eq!(first.restore(&key("c")), None);
        timeline.publish(group);

        let second = timeline.present();
        assert!(second.is_untouched());
        timeline.begin(Before::from([
            (key("a"), entry("2")),
            (key("c"), entry("3")),
        ]));
        // The oldest change since a moment tells what stood at it.
        assert_eq!(first.restore(&key("a")), Some(entry("1")));
        assert_eq!(second.restore(&key("a")), Some(entry("2")));
        let range = KeyRange::new(key("a"), key("c"));
        let restored: Vec<_> = first.restore_range(&range).into_keys().collect();
        assert_eq!(restored, [key("a"), key("b")]);
    }

    #[test]
    fn a_long_chain_is_freed_without_recursion() {
        let timeline = Timeline::default();
        let first = timeline.present();
        for _ in 0..200_000 {
            let moment = timeline.begin(Before::new());
            timeline.publish(moment);
        }
        drop(first);
        assert!(timeline.present().is_untouched());
    }
}
