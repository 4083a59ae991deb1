use std::pin::Pin;

use futures::FutureExt as _;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use uuid::Uuid;

use super::*;

const ORG: OrgId = OrgId(Uuid::from_u128(1));

fn memories(numbers: impl IntoIterator<Item = u128>) -> Vec<MemoryId> {
    let numbers = numbers.into_iter();
    numbers.map(|id| MemoryId(Uuid::from_u128(id))).collect()
}

/// A call in the queue. It leaves when this is dropped.
struct Entered<'q> {
    memories: &'q [MemoryId],
    taking: Pin<Box<dyn Future<Output = Option<Turn<'q>>> + 'q>>,
    turn: Option<Turn<'q>>,
}

impl<'q> Entered<'q> {
    /// Adds a call that met a conflict.
    fn retry(queue: &'q FairQueue, memories: &'q [MemoryId]) -> Self {
        let named = Named { org: ORG, memories };
        let mut entered = Self {
            memories,
            taking: Box::pin(queue.take(named, true)),
            turn: None,
        };
        entered.has_turn();
        entered
    }

    fn has_turn(&mut self) -> bool {
        if self.turn.is_none() {
            self.turn = self.taking.as_mut().now_or_never().flatten();
        }
        self.turn.is_some()
    }

    fn shares_with(&self, other: &Self) -> bool {
        let mut memories = self.memories.iter();
        memories.any(|memory| other.memories.contains(memory))
    }
}

fn assert_empty(queue: &FairQueue) {
    let queues = queue.queues();
    assert!(queues.by_memory.is_empty() && queues.waiting.is_empty());
}

fn is_ready(attempt: impl Future<Output = ()>) -> bool {
    attempt.now_or_never().is_some()
}

#[test]
fn turns_begin_with_a_retry_and_end_with_the_last_call() {
    let (queue, shared, apart) = (FairQueue::default(), memories([1, 2]), memories([3]));
    let [first, second] = [(); 2].map(|()| queue.begin(ORG, &shared));
    assert!(is_ready(first.attempt()) && is_ready(second.attempt()));
    // No call waits without a conflict.
    assert_empty(&queue);
    assert!(is_ready(second.attempt()), "the retry takes a turn");
    assert!(is_ready(second.attempt()), "and keeps it");
    let third = queue.begin(ORG, &shared[1..]);
    let mut waiting = Box::pin(third.attempt());
    assert!((&mut waiting).now_or_never().is_none());
    let fourth = queue.begin(ORG, &apart);
    assert!(is_ready(fourth.attempt()), "other memories do not wait");
    let other = queue.begin(OrgId(Uuid::from_u128(2)), &shared);
    assert!(is_ready(other.attempt()), "nor do other organisations");
    drop(second);
    assert!(is_ready(waiting));
    drop(third);
    assert_empty(&queue);
    drop((first, fourth, other));
}

#[test]
fn turns_pass_in_order_and_skip_calls_that_left() {
    let (queue, shared) = (FairQueue::default(), memories([1]));
    let calls = [(); 4].map(|()| queue.begin(ORG, &shared));
    let [holder, left, next, last] = &calls;
    assert!(is_ready(holder.attempt()) && is_ready(holder.attempt()));
    let mut left = Box::pin(left.attempt());
    let mut waiting = [next, last].map(|call| Box::pin(call.attempt()));
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

#[test]
fn call_waits_behind_one_that_waits_for_others() {
    let sets = [vec![1], vec![1, 2], vec![2], vec![3]].map(memories);
    let queue = FairQueue::default();
    let [first, second, third, fourth] = &sets;
    let first = Entered::retry(&queue, first);
    let mut second = Entered::retry(&queue, second);
    let third = queue.begin(ORG, third);
    let mut third = Box::pin(third.attempt());
    assert!((&mut third).now_or_never().is_none());
    assert!(is_ready(queue.begin(ORG, fourth).attempt()));
    drop(first);
    assert!(second.has_turn());
    assert!((&mut third).now_or_never().is_none());
    drop(second);
    assert!((&mut third).now_or_never().is_some());
}

#[test]
fn calls_of_a_thousand_memories_take_turns() {
    // Each shares half of its memories with the one before it.
    let sets: Vec<Vec<MemoryId>> = (0..64_u128)
        .map(|call| memories(500 * call..500 * call + 1_000))
        .collect();
    let queue = FairQueue::default();
    let mut calls: VecDeque<Entered<'_>> = sets
        .iter()
        .map(|memories| Entered::retry(&queue, memories))
        .collect();
    while let Some(mut first) = calls.pop_front() {
        assert!(first.has_turn());
        assert!(calls.iter_mut().all(|call| !call.has_turn()));
    }
    assert_empty(&queue);
}

proptest! {
    /// Calls enter with some of six memories, one of which they may name twice, and leave, whether
    /// they have their turn or not.
    #[test]
    fn call_has_its_turn_unless_an_earlier_one_shares_a_memory(
        steps in vec((any::<bool>(), vec(0..6_u8, 1..4), any::<Index>()), 1..60),
    ) {
        let sets: Vec<Vec<MemoryId>> = steps
            .iter()
            .map(|(_, numbers, _)| memories(numbers.iter().copied().map(u128::from)))
            .collect();
        let queue = FairQueue::default();
        let mut calls: Vec<Entered<'_>> = Vec::new();
        for ((leaves, _, chosen), memories) in steps.iter().zip(&sets) {
            if *leaves && !calls.is_empty() {
                drop(calls.remove(chosen.index(calls.len())));
            } else {
                calls.push(Entered::retry(&queue, memories));
            }
            for index in 0..calls.len() {
                let (earlier, rest) = calls.split_at_mut(index);
                let waits = earlier.iter().any(|call| call.shares_with(&rest[0]));
                prop_assert_eq!(rest[0].has_turn(), !waits);
            }
        }
        calls.clear();
        assert_empty(&queue);
    }
}
