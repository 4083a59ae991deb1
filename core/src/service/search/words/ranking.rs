//! Search for the texts with the best scores.
//!
//! The scores of sparse words are added for all texts that have one. Dense words are only looked at
//! where they can still lift a text among the best: each contributes less than its weight.

use std::cmp::Reverse;

use super::bm25::{Collection, SCALE, Weight};
use super::postings::{Dense, Postings, Sparse};
use super::texts::BLOCK;
use super::top::Top;

/// Number of ordinals whose scores are added at a time.
const WINDOW: usize = if cfg!(test) { 64 } else { 4_096 };

/// Number of sparse postings that are read at a time.
const READ_AT_ONCE: usize = 64;

/// Share of a threshold that is all of it.
const ENOUGH: u8 = u8::MAX;

/// Text that is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hit {
    /// Identifier of the text.
    pub(crate) id: u128,
    /// Score, above zero.
    pub(crate) score: f64,
}

/// Search for the best texts.
pub(super) struct Ranking<'i> {
    collection: Collection<'i>,
    sparse: Vec<SparseWord>,
    dense: Vec<DenseWord<'i>>,
}

/// Word with the visible texts that have it.
struct SparseWord {
    weight: Weight,
    ordinals: Vec<u32>,
    /// Saturations, by place of the ordinal.
    saturations: Vec<f64>,
    /// Place of the first one that was not added yet.
    next: usize,
}

/// Word that many texts have.
struct DenseWord<'i> {
    weight: Weight,
    /// What the word cannot exceed in any text.
    bound: u64,
    texts: &'i Dense,
}

/// Text with a sparse word, and the score of its sparse words.
#[derive(Clone, Copy)]
struct Candidate {
    ordinal: u32,
    score: u64,
}

impl<'i> Ranking<'i> {
    pub(super) fn new(collection: Collection<'i>) -> Self {
        Self {
            collection,
            sparse: Vec::new(),
            dense: Vec::new(),
        }
    }

    /// Adds a word that the query has a number of times.
    pub(super) fn add_word(&mut self, postings: &'i Postings, repeats: u64) {
        match postings {
            Postings::Sparse(texts) => self.add_sparse(texts, repeats),
            Postings::Dense(texts) => {
                let count = texts.visible(&self.collection.visible.classes);
                if count > 0 {
                    let weight = self.collection.weight(count, repeats);
                    let bound = weight.score(1.0);
                    self.dense.push(DenseWord {
                        weight,
                        bound,
                        texts,
                    });
                }
            }
        }
    }

    fn add_sparse(&mut self, texts: &Sparse, repeats: u64) {
        let mut ordinals = Vec::with_capacity(texts.len());
        let mut saturations = Vec::with_capacity(texts.len());
        let (mut reader, mut block) = (texts.read(), [(0, 0); READ_AT_ONCE]);
        loop {
            let length = reader.fill(&mut block);
            let block = &block[..length];
            if block.is_empty() {
                break;
            }
            // Loads all of them at once, and then decides without a branch: the processor would
            // wait for one after another.
            let lengths = block
                .iter()
                .map(|(ordinal, _)| self.collection.texts.length(*ordinal));
            std::hint::black_box(lengths.fold(0, u16::wrapping_add));
            let mut found = ([0; READ_AT_ONCE], [0.0; READ_AT_ONCE]);
            let mut count_found = 0;
            for (ordinal, count) in block {
                let (is_visible, length) = self.collection.text(*ordinal);
                found.0[count_found % READ_AT_ONCE] = *ordinal;
                found.1[count_found % READ_AT_ONCE] = self.collection.saturation(*count, length);
                count_found += usize::from(is_visible);
            }
            ordinals.extend_from_slice(&found.0[..count_found]);
            saturations.extend_from_slice(&found.1[..count_found]);
        }
        if !ordinals.is_empty() {
            let weight = self.collection.weight(ordinals.len() as u64, repeats);
            self.sparse.push(SparseWord {
                weight,
                ordinals,
                saturations,
                next: 0,
            });
        }
    }

    /// Returns the best texts, in order.
    pub(super) fn best(mut self, limit: usize) -> Vec<Hit> {
        // Every text that has a word has a score of at least one.
        let mut top = Top::new(limit, 1);
        if self.dense.is_empty() {
            let mut sparse = std::mem::take(&mut self.sparse);
            add_sparse_scores(&mut sparse, |candidate| {
                if candidate.score >= top.threshold() {
                    self.offer(candidate, &mut top);
                }
            });
        } else {
            let mut candidates = Vec::new();
            add_sparse_scores(&mut self.sparse, |candidate| candidates.push(candidate));
            self.dense.sort_by_key(|word| Reverse(word.bound));
            top = Top::new(limit, self.floor(&candidates, limit).max(1));
            self.add_dense_scores(&candidates, &mut top);
        }
        let hit = |(score, id)| Hit {
            id,
            score: score as f64 / SCALE,
        };
        top.into_sorted().map(hit).collect()
    }

    /// Returns a score that the last of the best texts has at least.
    ///
    /// As many texts have it as there can be hits: those with the best sparse words.
    fn floor(&self, candidates: &[Candidate], limit: usize) -> u64 {
        if candidates.len() < limit {
            return 0;
        }
        let mut top = Top::new(limit, 0);
        for Candidate { ordinal, score } in candidates {
            top.offer(*score, *ordinal);
        }
        let best = top
            .into_sorted()
            .map(|(score, ordinal)| Candidate { ordinal, score });
        best.filter_map(|candidate| self.score(candidate, 0))
            .min()
            .unwrap_or(0)
    }

    /// Offers the candidates, and the texts that are none because they have dense words only.
    fn add_dense_scores(&self, candidates: &[Candidate], top: &mut Top<u128>) {
        let total: u64 = self.dense.iter().map(|word| word.bound).sum();
        let mut candidates = candidates.iter().copied().peekable();
        let mut estimate = Estimate::default();
        let mut scores = [0; BLOCK];
        for start in (0..self.collection.texts.len() as u32).step_by(BLOCK) {
            let is_inside = |candidate: &Candidate| candidate.ordinal < start + BLOCK as u32;
            if total < top.threshold() && !candidates.peek().is_some_and(is_inside) {
                continue;
            }
            estimate.set(
                self,
                self.collection.texts.length_min(start),
                top.threshold(),
            );
            let mut shares = [0; BLOCK];
            while let Some(Candidate { ordinal, score }) = candidates.next_if(is_inside) {
                let place = (ordinal - start) as usize % BLOCK;
                scores[place] = score;
                shares[place] = estimate.share(score);
            }
            for (word, steps) in self.dense.iter().zip(&estimate.steps) {
                word.add_shares(start, steps, &mut shares);
            }
            for place in 0..BLOCK {
                let score = std::mem::take(&mut scores[place]);
                if shares[place] == ENOUGH {
                    self.offer(
                        Candidate {
                            ordinal: start + place as u32,
                            score,
                        },
                        top,
                    );
                }
            }
        }
    }

    /// Returns the score of a text, or nothing if it is below a threshold.
    fn score(&self, candidate: Candidate, threshold: u64) -> Option<u64> {
        let Candidate { ordinal, mut score } = candidate;
        let mut bound = score + self.dense.iter().map(|word| word.bound).sum::<u64>();
        let (is_visible, length) = self.collection.text(ordinal);
        if !is_visible {
            return None;
        }
        for word in &self.dense {
            if bound < threshold {
                return None;
            }
            let mut addition = 0;
            let count = word.texts.count(ordinal);
            if count > 0 {
                addition = word.weight.score(self.collection.saturation(count, length));
                score += addition;
            }
            bound = bound - word.bound + addition;
        }
        (score >= threshold).then_some(score)
    }

    fn offer(&self, candidate: Candidate, top: &mut Top<u128>) {
        if let Some(score) = self.score(candidate, top.threshold())
            && let Some(id) = self.collection.ids.get(candidate.ordinal as usize)
        {
            top.offer(score, *id);
        }
    }
}

/// Calls `each` with the texts that have sparse words, by ordinal.
fn add_sparse_scores(words: &mut [SparseWord], mut each: impl FnMut(Candidate)) {
    let mut scores = vec![0_u64; WINDOW];
    let mut touched = [0_u64; WINDOW / 64];
    while let Some(first) = words.iter().filter_map(SparseWord::next_ordinal).min() {
        let start = first - first % WINDOW as u32;
        for word in &mut *words {
            word.add_window(start, &mut scores, &mut touched);
        }
        for (block, touched) in touched.iter_mut().enumerate() {
            while *touched != 0 {
                let place = block * 64 + touched.trailing_zeros() as usize;
                *touched &= *touched - 1;
                let score = std::mem::take(&mut scores[place]);
                each(Candidate {
                    ordinal: start + place as u32,
                    score,
                });
            }
        }
    }
}

/// Maximum contributions of words to texts of a minimum length, as shares of a threshold.
///
/// Shares are bytes that are rounded up, so they find out quickly, many texts at a time, those that
/// cannot reach the threshold.
#[derive(Default)]
struct Estimate {
    length_min: u16,
    threshold: u64,
    /// By dense word: the shares of its first, second, and all further occurrences.
    steps: Vec<[u8; 3]>,
}

impl Estimate {
    fn set(&mut self, ranking: &Ranking<'_>, length_min: u16, threshold: u64) {
        if (self.length_min, self.threshold) == (length_min, threshold) && !self.steps.is_empty() {
            return;
        }
        (self.length_min, self.threshold) = (length_min, threshold);
        let steps = ranking.dense.iter().map(|word| {
            let saturation = |count| ranking.collection.saturation(count, length_min);
            let first = self.share(word.weight.score(saturation(1)));
            let second = self.share(word.weight.score(saturation(2)));
            [first, second - first, self.share(word.bound) - second]
        });
        self.steps = steps.collect();
    }

    fn share(&self, score: u64) -> u8 {
        // Greater by more than what may have been rounded.
        let share = score as f64 / self.threshold as f64 * (f64::from(ENOUGH) * (1.0 + 1e-9));
        share.ceil() as u8
    }
}

impl DenseWord<'_> {
    /// Adds what the word contributes at most to the texts of a block.
    fn add_shares(&self, start: u32, steps: &[u8; 3], shares: &mut [u8; BLOCK]) {
        let [first, second, further] = *steps;
        let counts = self
            .texts
            .counts()
            .get(start as usize..)
            .unwrap_or_default();
        for (share, count) in shares.iter_mut().zip(counts) {
            let mut sum = if *count > 0 { first } else { 0 };
            sum += if *count > 1 { second } else { 0 };
            sum += if *count > 2 { further } else { 0 };
            *share = share.saturating_add(sum);
        }
    }
}

impl SparseWord {
    fn next_ordinal(&self) -> Option<u32> {
        self.ordinals.get(self.next).copied()
    }

    /// Adds the scores of the texts of a window.
    fn add_window(&mut self, start: u32, scores: &mut [u64], touched: &mut [u64; WINDOW / 64]) {
        let left = self.ordinals[self.next..]
            .iter()
            .zip(&self.saturations[self.next..]);
        for (ordinal, saturation) in left {
            let place = (ordinal - start) as usize;
            let Some(score) = scores.get_mut(place) else {
                break;
            };
            *score += self.weight.score(*saturation);
            touched[place / 64] |= 1 << (place % 64);
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn shares_of_a_threshold_are_never_too_small(
            scores in proptest::collection::vec(0..(1_u64 << 56), 1..8),
            less in 0..3_u64,
        ) {
            let total: u64 = scores.iter().sum();
            let threshold = total.saturating_sub(less).max(1);
            let estimate = Estimate { threshold, ..Estimate::default() };
            let shares = scores.iter().map(|score| estimate.share(*score));
            let sum = shares.fold(0, u8::saturating_add);
            assert!(sum == ENOUGH || total < threshold);
        }
    }
}
