//! Commits that wait for a committer.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::channel::oneshot;
use knowledge_store::{Commit, CommitOutcome, Mutation, StoreError, StoreErrorKind};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::error::unavailable;
use crate::lane::LaneSet;

/// Number of waiting commits above which others are rejected.
const WAITING_MAX: usize = 8_192;
/// Size of a group, unless it is a single commit.
const GROUP_MUTATIONS_MAX: usize = 4_096;
const GROUP_BYTES_MAX: usize = 2 * 1024 * 1024;

pub(crate) type Outcome = Result<CommitOutcome, StoreError>;

/// Commit with the caller that waits for its outcome.
pub(crate) struct Request {
    pub(crate) commit: Commit,
    pub(crate) reply: oneshot::Sender<Outcome>,
    number: u64,
    lanes: LaneSet,
    bytes: usize,
}

/// Queue of commits, in the order of their arrival.
///
/// Two groups under way never share a lane, so that a committer never waits for another one of this
/// process, and commits of one lane gather until its group has ended.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Request>,
    /// Lanes of the groups under way.
    busy: LaneSet,
    /// Number of committers with a connection.
    connected: usize,
    next_number: u64,
    is_closed: bool,
}

impl Queue {
    /// Waits until a committer has handled the commit.
    ///
    /// Once a committer has taken it, it is handled even if this future is dropped.
    ///
    /// # Errors
    /// `Unavailable` if no committer takes it within `wait_max`; errors of the committer.
    pub(crate) async fn submit(&self, commit: Commit, wait_max: Duration) -> Outcome {
        let (number, mut outcome) = self.push(commit)?;
        let answer = match timeout(wait_max, &mut outcome).await {
            Ok(answer) => answer,
            Err(_) if self.withdraw(number) => {
                return Err(unavailable("a commit waited too long for others"));
            }
            Err(_) => outcome.await,
        };
        answer.unwrap_or_else(|_| {
            let message = "the committer ended before it answered";
            Err(StoreError::new(StoreErrorKind::Unknown, message))
        })
    }

    fn push(&self, commit: Commit) -> Result<(u64, oneshot::Receiver<Outcome>), StoreError> {
        let (lanes, bytes) = (LaneSet::of(&commit), size(&commit));
        let (reply, outcome) = oneshot::channel();
        let mut state = self.state();
        if state.is_closed {
            return Err(unavailable("the store is closed"));
        }
        if state.waiting.len() >= WAITING_MAX {
            return Err(unavailable("too many commits are waiting; try again later"));
        }
        let number = state.next_number;
        state.next_number += 1;
        state.waiting.push_back(Request {
            commit,
            reply,
            number,
            lanes,
            bytes,
        });
        drop(state);
        self.changed.notify_one();
        Ok((number, outcome))
    }

    /// Removes a commit, and returns false if a committer has taken it.
    fn withdraw(&self, number: u64) -> bool {
        let mut state = self.state();
        let before = state.waiting.len();
        state.waiting.retain(|request| request.number != number);
        state.waiting.len() < before
    }

    /// Waits for commits and takes a group of them; `None` after the last one of a closed queue.
    ///
    /// Dropping the future loses no commit.
    pub(crate) async fn next(self: &Arc<Self>) -> Option<Group> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.state();
                if let Some(group) = self.take(&mut state) {
                    return Some(group);
                }
                if state.is_closed && state.waiting.is_empty() {
                    // The next committer that waits ends too.
                    self.changed.notify_one();
                    return None;
                }
            }
            changed.await;
        }
    }

    /// Takes the commits that have no lane in common with a group under way.
    fn take(self: &Arc<Self>, state: &mut State) -> Option<Group> {
        // A commit that has to wait blocks its lanes for the commits behind it.
        let mut blocked = state.busy;
        let (mut lanes, mut mutations, mut bytes) = (LaneSet::default(), 0, 0);
        let (mut requests, mut left) = (Vec::new(), VecDeque::new());
        let mut is_full = false;
        for request in state.waiting.drain(..) {
            if request.reply.is_canceled() {
                continue;
            }
            let count = mutations + request.commit.mutations().len();
            let size = bytes + request.bytes;
            let fits = count <= GROUP_MUTATIONS_MAX && size <= GROUP_BYTES_MAX;
            let is_blocked = request.lanes.intersects(&blocked);
            if is_blocked || !(fits || requests.is_empty()) {
                is_full |= !is_blocked;
                blocked.add_all(&request.lanes);
                left.push_back(request);
                continue;
            }
            lanes.add_all(&request.lanes);
            (mutations, bytes) = (count, size);
            requests.push(request);
        }
        state.waiting = left;
        state.busy.add_all(&lanes);
        if is_full {
            // Another committer may take what is left.
            self.changed.notify_one();
        }
        (!requests.is_empty()).then(|| Group {
            requests,
            lanes: HeldLanes {
                queue: Arc::clone(self),
                lanes,
            },
        })
    }

    /// Counts a committer with a connection until the result is dropped.
    pub(crate) fn connect(self: &Arc<Self>) -> Connected {
        self.state().connected += 1;
        Connected(Arc::clone(self))
    }

    /// Rejects all waiting commits unless some committer has a connection.
    ///
    /// Returns true if the queue is closed, so that there is nothing left to connect for.
    pub(crate) fn reject_unless_connected(&self, error: &StoreError) -> bool {
        let mut state = self.state();
        if state.connected == 0 {
            for request in state.waiting.drain(..) {
                let _ = request.reply.send(Err(error.clone()));
            }
        }
        state.is_closed && state.waiting.is_empty()
    }

    /// Rejects commits from now on; those that wait are still handled.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Commits to be handled together, and their lanes, which no other group has.
pub(crate) struct Group {
    pub(crate) requests: Vec<Request>,
    pub(crate) lanes: HeldLanes,
}

/// Lanes of a group, released on drop.
pub(crate) struct HeldLanes {
    queue: Arc<Queue>,
    lanes: LaneSet,
}

impl Drop for HeldLanes {
    fn drop(&mut self) {
        self.queue.state().busy.remove_all(&self.lanes);
        self.queue.changed.notify_one();
    }
}

/// Count of one connected committer.
pub(crate) struct Connected(Arc<Queue>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.state().connected -= 1;
    }
}

fn size(commit: &Commit) -> usize {
    let checks = commit.checks().iter();
    let mutations = commit.mutations().iter().map(|mutation| match mutation {
        Mutation::Put { key, value } => key.as_bytes().len() + value.len(),
        Mutation::Delete { key } | Mutation::Add { key, .. } => key.as_bytes().len(),
    });
    checks
        .map(|check| check.key.as_bytes().len())
        .chain(mutations)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use knowledge_store::Key;

    const WAIT_MAX: Duration = Duration::from_secs(60);

    fn commit(names: &[&str]) -> Commit {
        let keys = names.iter().map(|name| Key::new(name.as_bytes()));
        let builder = keys.fold(Commit::builder(), |builder, key| {
            builder.add(key.unwrap(), 1)
        });
        builder.build().unwrap()
    }

    fn take(queue: &Arc<Queue>) -> Option<Group> {
        queue.take(&mut queue.state())
    }

    #[test]
    fn groups_under_way_share_no_lane() {
        let queue = Arc::new(Queue::default());
        let _first = queue.push(commit(&["x/a"])).unwrap();
        let first = take(&queue).unwrap();
        let _waiting = queue.push(commit(&["x/a", "x/b"])).unwrap();
        let _behind = queue.push(commit(&["y/b"])).unwrap();
        let _free = queue.push(commit(&["x/c"])).unwrap();
        // `y/b` does not overtake the commit that waits with its lane.
        let free = take(&queue).unwrap();
        assert_eq!(free.requests.len(), 1);
        assert_eq!(free.requests[0].commit, commit(&["x/c"]));
        assert!(take(&queue).is_none());
        drop(first);
        assert_eq!(take(&queue).unwrap().requests.len(), 2);
    }

    #[tokio::test]
    async fn commit_of_a_committer_that_panicked_is_unknown() {
        let queue = Arc::new(Queue::default());
        let submitted = queue.submit(commit(&["a"]), WAIT_MAX);
        let panicking = async { drop(queue.next().await.unwrap()) };
        let (outcome, ()) = futures::join!(submitted, panicking);
        assert_eq!(outcome.unwrap_err().kind(), StoreErrorKind::Unknown);
        // Its lanes are free again.
        let _next = queue.push(commit(&["a"])).unwrap();
        assert!(take(&queue).is_some());
    }

    #[tokio::test]
    async fn commit_that_waits_too_long_is_withdrawn() {
        let queue = Arc::new(Queue::default());
        let outcome = queue.submit(commit(&["a"]), Duration::from_millis(1)).await;
        assert_eq!(outcome.unwrap_err().kind(), StoreErrorKind::Unavailable);
        assert!(take(&queue).is_none());
    }

    #[test]
    fn abandoned_commit_is_not_taken() {
        let queue = Arc::new(Queue::default());
        drop(queue.push(commit(&["a"])).unwrap());
        assert!(take(&queue).is_none());
    }

    #[tokio::test]
    async fn closed_queue_hands_out_what_is_left_to_every_committer() {
        let queue = Arc::new(Queue::default());
        let _left = queue.push(commit(&["a"])).unwrap();
        let group = take(&queue).unwrap();
        let _blocked = queue.push(commit(&["a"])).unwrap();
        let committers = futures::future::join_all((0..3).map(|_| async {
            let mut groups = 0;
            while queue.next().await.is_some() {
                groups += 1;
            }
            groups
        }));
        let closing = async {
            queue.close();
            drop(group);
        };
        let (groups, ()) = futures::join!(committers, closing);
        assert_eq!(groups.iter().sum::<usize>(), 1);
        assert!(queue.push(commit(&["a"])).is_err());
    }
}
