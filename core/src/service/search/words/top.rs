//! The best of many scores.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The best items by score, and of equal scores those with the smaller items.
pub(super) struct Top<T> {
    limit: usize,
    /// Score that the last of the best has at least.
    floor: u64,
    /// The worst one is the greatest.
    items: BinaryHeap<Reverse<(u64, Reverse<T>)>>,
}

impl<T: Copy + Ord> Top<T> {
    /// Creates the best of nothing, for a limit above zero.
    pub(super) fn new(limit: usize, floor: u64) -> Self {
        Self {
            limit,
            floor,
            items: BinaryHeap::new(),
        }
    }

    /// Returns the score that an item needs to be among the best. It never falls.
    pub(super) fn threshold(&self) -> u64 {
        match self.items.peek() {
            Some(Reverse((worst, _))) if self.items.len() >= self.limit => self.floor.max(*worst),
            _ => self.floor,
        }
    }

    pub(super) fn offer(&mut self, score: u64, item: T) {
        if score < self.floor {
            return;
        }
        let item = Reverse((score, Reverse(item)));
        if self.items.len() < self.limit {
            self.items.push(item);
        } else if let Some(mut worst) = self.items.peek_mut()
            && item < *worst
        {
            *worst = item;
        }
    }

    /// Returns the best, in order.
    pub(super) fn into_sorted(self) -> impl Iterator<Item = (u64, T)> {
        let items = self.items.into_sorted_vec().into_iter();
        items.map(|Reverse((score, Reverse(item)))| (score, item))
    }
}
