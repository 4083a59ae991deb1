//! Copies of stores inside the module, which answer reads without a call of JavaScript.
//!
//! A store in JavaScript that is only changed by its own commits, and numbers them, can be
//! mirrored: the number of its last commit, the *revision*, shows that a copy is current. The store
//! stays the owner of the data, because a panic ends the module's memory. Every commit goes to the
//! store first and is then repeated in the copy; after a commit by anyone else the copy is read
//! again. While a copy is current, the store has marks, so that the service can use a kept result
//! again without a read.
//!
//! Without a copy, a third of a dashboard call was the boundary: keys turned into text, and results
//! encoded, copied and decoded.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use knowledge_core::store::{
    Commit, CommitOutcome, KeyEntry, Mark, Marks, MemoryStore, Mutation, Store, Version,
};

use crate::wire;

thread_local! {
    /// The copies by the numbers of their stores. The services of one store share a copy.
    static MIRRORS: RefCell<HashMap<u32, Weak<Mirror>>> = RefCell::default();
}

/// Copy of a store, with the revision that it is a copy of.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    state: RefCell<Option<MirrorState>>,
    /// Marks of the store, which outlive a copy.
    marks: Marks,
}

#[derive(Clone, Debug)]
struct MirrorState {
    revision: f64,
    copy: Rc<MemoryStore>,
}

impl Mirror {
    /// Returns the copy of the store with this number.
    pub(crate) fn of(store: u32) -> Rc<Self> {
        MIRRORS.with_borrow_mut(|mirrors| {
            mirrors.retain(|_, mirror| mirror.strong_count() > 0);
            if let Some(mirror) = mirrors.get(&store).and_then(Weak::upgrade) {
                return mirror;
            }
            let mirror = Rc::default();
            mirrors.insert(store, Rc::downgrade(&mirror));
            mirror
        })
    }

    /// Returns the copy, if it is of this revision.
    pub(crate) fn current(&self, revision: f64) -> Option<Rc<MemoryStore>> {
        let state = self.state.borrow();
        let state = state.as_ref().filter(|state| state.revision == revision);
        state.map(|state| state.copy.clone())
    }

    /// Returns the mark of an area, if the copy is of this revision.
    pub(crate) fn mark(&self, revision: f64, area: &[u8]) -> Option<Mark> {
        self.current(revision).and_then(|_| self.marks.get(area))
    }

    /// Replaces the copy by one of all entries at this revision.
    pub(crate) fn replace(&self, revision: f64, entries: Vec<KeyEntry>) -> Rc<MemoryStore> {
        let copy = MemoryStore::with_entries(entries, wire::version(revision));
        let copy = Rc::new(copy);
        let state = MirrorState {
            revision,
            copy: copy.clone(),
        };
        self.marks.change_all(|| self.state.replace(Some(state)));
        copy
    }

    /// Repeats a commit that the store has applied as this version.
    pub(crate) async fn follow(&self, commit: Commit, version: Version) {
        let Some(state) = self.state.take() else {
            return;
        };
        // Nobody gets a mark while there is no state, so they may change before the copy does.
        self.marks
            .change(commit.mutations().iter().map(Mutation::key), || {});
        let outcome = state.copy.commit(commit).await;
        // Any other outcome means that the copy was not current: the next read replaces it.
        if matches!(outcome, Ok(CommitOutcome::Committed(repeated)) if repeated == version) {
            // Exact: versions from JavaScript are below 2^53.
            let revision = version.get() as f64;
            self.state.replace(Some(MirrorState { revision, ..state }));
        }
    }
}
