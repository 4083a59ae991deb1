//! Fair queue of bulk updates that conflict.
//!
//! Of bulk updates that change the same memories at the same time, one commits, and the others
//! repeat all of their work. Left to chance, some of them do so many times. From the first conflict
//! on, the bulk updates of an organisation therefore take turns in this process, in the order of
//! their arrival, until none waits.
//!
//! Four clients that each update 1,000 of the same 2,000 memories then make 1.25 times the calls of
//! one, and none ends in `409`, as some do after random delays (`benches/RESULTS.md`, `contention`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::channel::oneshot;

use crate::access::Credential;
use crate::model::OrgId;

/// Calls that wait for the turn of an organisation. It has a queue while a call has its turn; few
/// have one at a time.
type Queues = Vec<(OrgId, VecDeque<oneshot::Sender<Turn>>)>;

/// The queues of all organisations.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairQueue(Arc<Mutex<Queues>>);

/// The turn of an organisation, which no other call has until this is dropped.
#[derive(Debug)]
struct Turn {
    queue: FairQueue,
    org: OrgId,
}

/// A call that takes a turn if it has to.
#[derive(Debug)]
pub(crate) struct QueuedCall<'q> {
    queue: &'q FairQueue,
    org: OrgId,
    is_retry: AtomicBool,
    turn: Mutex<Option<Turn>>,
}

impl FairQueue {
    /// Begins a call with a credential.
    pub(crate) fn begin(&self, credential: &Credential) -> QueuedCall<'_> {
        QueuedCall {
            queue: self,
            org: credential.org(),
            is_retry: AtomicBool::new(false),
            turn: Mutex::new(None),
        }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of an organisation.
    ///
    /// If no call takes turns there, a retry takes the first one, and any other call goes without.
    async fn take(&self, org: OrgId, is_retry: bool) -> Option<Turn> {
        let waiting = {
            let mut queues = self.queues();
            let calls = queues.iter_mut().find(|(id, _)| *id == org);
            let Some((_, calls)) = calls else {
                if is_retry {
                    queues.push((org, VecDeque::new()));
                }
                let queue = self.clone();
                return is_retry.then(|| Turn { queue, org });
            };
            let (sender, receiver) = oneshot::channel();
            calls.push_back(sender);
            receiver
        };
        waiting.await.ok()
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
            let turn = self.queue.take(self.org, is_retry).await;
            *has_turn() = turn;
        }
    }
}

impl Drop for Turn {
    /// Passes the turn on to the call that waits longest.
    fn drop(&mut self) {
        loop {
            let mut queues = self.queue.queues();
            let calls = queues.iter_mut().find(|(id, _)| *id == self.org);
            let Some(next) = calls.and_then(|(_, waiting)| waiting.pop_front()) else {
                queues.retain(|(id, _)| *id != self.org);
                return;
            };
            drop(queues);
            // A call whose client has left waits no longer.
            if !next.is_canceled() {
                let (queue, org) = (self.queue.clone(), self.org);
                // What cannot be sent is dropped, and so passed on.
                let _ = next.send(Self { queue, org });
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use uuid::Uuid;

    use super::*;
    use crate::model::MemberId;

    fn credential(org: u128) -> Credential {
        Credential::Trusted {
            org: OrgId(Uuid::from_u128(org)),
            member: MemberId(Uuid::nil()),
        }
    }

    fn is_ready(attempt: impl Future<Output = ()>) -> bool {
        attempt.now_or_never().is_some()
    }

    #[test]
    fn turns_begin_with_a_retry_and_end_with_the_last_call() {
        let queue = FairQueue::default();
        let [first, second] = [(); 2].map(|()| queue.begin(&credential(1)));
        assert!(is_ready(first.attempt()) && is_ready(second.attempt()));
        assert!(
            queue.queues().is_empty(),
            "no call waits without a conflict"
        );
        assert!(is_ready(second.attempt()), "the retry takes a turn");
        assert!(is_ready(second.attempt()), "and keeps it");
        let third = queue.begin(&credential(1));
        let mut waiting = Box::pin(third.attempt());
        assert!((&mut waiting).now_or_never().is_none());
        assert!(
            is_ready(queue.begin(&credential(2)).attempt()),
            "others do not wait"
        );
        drop(second);
        assert!(is_ready(waiting));
        drop(third);
        assert!(queue.queues().is_empty());
        drop(first);
    }

    #[test]
    fn turns_pass_in_order_and_skip_calls_that_left() {
        let queue = FairQueue::default();
        let calls = [(); 4].map(|()| queue.begin(&credential(1)));
        let [holder, left, next, last] = &calls;
        assert!(is_ready(holder.attempt()) && is_ready(holder.attempt()));
        let left = Box::pin(left.attempt());
        let mut waiting = [next, last].map(|call| Box::pin(call.attempt()));
        let mut left = left;
        assert!((&mut left).now_or_never().is_none());
        for attempt in &mut waiting {
            assert!(attempt.now_or_never().is_none());
        }
        drop(left);
        *holder.turn.lock().unwrap() = None;
        let [next, last] = &mut waiting;
        assert!(
            last.now_or_never().is_none(),
            "the order is that of arrival"
        );
        assert!(next.now_or_never().is_some());
    }
}
