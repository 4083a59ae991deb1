//! Fair queue of bulk updates that conflict, for each memory.
//!
//! Of bulk updates that change the same memories at the same time, one commits, and the others
//! repeat all of their work. Left to chance, some of them do so many times. An update that met a
//! conflict therefore takes its turn in this process, for all of its memories at once, and so does
//! each that names a memory for which another has its turn or waits. Of those that share a memory,
//! one decides at a time, in the order of their arrival; those that share none never wait for each
//! other. Calls queue for all of their memories in one step, so none of them can wait for one that
//! came later, and there is no deadlock.
//!
//! Before, an organisation had one queue. Four clients that each updated 1,000 of the same 2,000
//! memories made 1.25 times the calls of one, and none ended in `409`, as some did after random
//! delays (`benches/RESULTS.md`, `contention`). But 64 connections that updated one memory each,
//! all different, fell from 9,577 to about 1,500 updates a second once 80 calls had named the same
//! memory, and stayed there as long as the load lasted. The row `conflicts` measures this now.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::channel::oneshot;

use crate::model::{MemoryId, OrgId};

/// The queues of all memories, of which an idle process has none.
#[derive(Debug, Default)]
pub(crate) struct FairQueue(Mutex<Queues>);

/// A call that takes a turn if it has to.
#[derive(Debug)]
pub(crate) struct QueuedCall<'q> {
    queue: &'q FairQueue,
    named: Named<'q>,
    is_retry: AtomicBool,
    turn: Mutex<Option<Turn<'q>>>,
}

/// Memories that a call names, which need not exist.
///
/// With the organisation, so that nobody waits for a call that names memories of another one.
#[derive(Clone, Copy, Debug)]
struct Named<'q> {
    org: OrgId,
    memories: &'q [MemoryId],
}

/// Place of a call in the queues of its memories, which it leaves when this is dropped.
#[derive(Debug)]
struct Turn<'q> {
    queue: &'q FairQueue,
    named: Named<'q>,
    number: u64,
}

/// Calls with their turn, and those that wait.
#[derive(Debug, Default)]
struct Queues {
    /// Number of the latest call.
    latest: u64,
    /// Numbers of the calls that name a memory, in the order of arrival: the first one has it.
    /// Bounded by what the requests in progress name.
    by_memory: BTreeMap<(OrgId, MemoryId), VecDeque<u64>>,
    /// Calls that do not have all of their memories yet, by number.
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// Number of its memories for which others are first.
    missing: usize,
    start: oneshot::Sender<()>,
}

impl FairQueue {
    /// Begins a call that names memories of an organisation.
    pub(crate) fn begin<'q>(&'q self, org: OrgId, memories: &'q [MemoryId]) -> QueuedCall<'q> {
        QueuedCall {
            queue: self,
            named: Named { org, memories },
            is_retry: AtomicBool::new(false),
            turn: Mutex::new(None),
        }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of a call.
    ///
    /// A retry takes one in any case, any other call only if others queue for its memories.
    async fn take<'q>(&'q self, named: Named<'q>, is_retry: bool) -> Option<Turn<'q>> {
        let (turn, started) = {
            let mut queues = self.queues();
            if !is_retry && !queues.concern(named) {
                return None;
            }
            let (number, started) = queues.enter(named);
            let turn = Turn {
                queue: self,
                named,
                number,
            };
            (turn, started)
        };
        if let Some(started) = started {
            // Never cancelled, because the place of this call is kept.
            let _ = started.await;
        }
        Some(turn)
    }
}

impl QueuedCall<'_> {
    /// Waits before an attempt, unless the call has its turn or needs none.
    ///
    /// A turn that was taken is kept for all further attempts.
    pub(crate) async fn attempt(&self) {
        let is_retry = self.is_retry.swap(true, Ordering::Relaxed);
        let has_turn = || self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if has_turn().is_none() {
            let turn = self.queue.take(self.named, is_retry).await;
            *has_turn() = turn;
        }
    }
}

impl Named<'_> {
    fn memories(&self) -> impl Iterator<Item = (OrgId, MemoryId)> {
        let org = self.org;
        self.memories.iter().map(move |memory| (org, *memory))
    }
}

impl Queues {
    /// Returns true if a call queues for one of these memories.
    fn concern(&self, named: Named<'_>) -> bool {
        let mut memories = named.memories();
        !self.by_memory.is_empty() && memories.any(|memory| self.by_memory.contains_key(&memory))
    }

    /// Adds a call at the end of the queues of its memories.
    ///
    /// Returns its number, and what it has to wait for unless it has all of them.
    fn enter(&mut self, named: Named<'_>) -> (u64, Option<oneshot::Receiver<()>>) {
        self.latest += 1;
        let number = self.latest;
        let mut missing = 0;
        for memory in named.memories() {
            let calls = self.by_memory.entry(memory).or_default();
            // A memory that a call names twice must not make it wait for itself.
            if calls.back() != Some(&number) {
                missing += usize::from(!calls.is_empty());
                calls.push_back(number);
            }
        }
        let started = (missing > 0).then(|| {
            let (start, started) = oneshot::channel();
            self.waiting.insert(number, Waiting { missing, start });
            started
        });
        (number, started)
    }

    /// Removes a call from the queues of its memories, and returns what starts those whose turn it
    /// now is.
    fn leave(&mut self, number: u64, named: Named<'_>) -> Vec<oneshot::Sender<()>> {
        self.waiting.remove(&number);
        let mut starts = Vec::new();
        for memory in named.memories() {
            let Some(calls) = self.by_memory.get_mut(&memory) else {
                continue;
            };
            let Ok(place) = calls.binary_search(&number) else {
                continue;
            };
            calls.remove(place);
            match calls.front().copied() {
                None => drop(self.by_memory.remove(&memory)),
                Some(next) if place == 0 => starts.extend(self.pass_memory(next)),
                Some(_) => {}
            }
        }
        starts
    }

    /// Gives a memory to the call that waits for it, and returns what starts the call if it has all
    /// of them.
    fn pass_memory(&mut self, number: u64) -> Option<oneshot::Sender<()>> {
        let waiting = self.waiting.get_mut(&number)?;
        waiting.missing -= 1;
        if waiting.missing > 0 {
            return None;
        }
        self.waiting.remove(&number).map(|waiting| waiting.start)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let starts = self.queue.queues().leave(self.number, self.named);
        for start in starts {
            // A call whose client has left drops its turn itself.
            let _ = start.send(());
        }
    }
}

#[cfg(test)]
mod tests;
