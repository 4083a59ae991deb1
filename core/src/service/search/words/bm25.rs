//! Statistics and weights of BM25, in the variant of Lucene.
//!
//! Scores are sums of integers. Those of the same texts are therefore equal in every bit, in
//! whatever order their words are added, and whatever else the index holds.

use super::classes::Visible;
use super::texts::Texts;

/// Parameter k1: the greater, the more further occurrences of a word in a text count.
const K1: f64 = 1.5;

/// Parameter b: the share of the length of a text in its normalisation.
const B: f64 = 0.75;

/// Scores are counted in this part of one.
pub(super) const SCALE: f64 = (1_u64 << 40) as f64;

/// Texts of an index of which a caller sees some.
pub(super) struct Collection<'i> {
    pub(super) ids: &'i [u128],
    pub(super) texts: &'i Texts,
    pub(super) visible: Visible,
    /// Factor of the length of a text in its normalisation.
    slope: f64,
}

/// Weight of a word of a query.
pub(super) struct Weight {
    /// Scaled.
    idf: f64,
    /// Number of occurrences in the query.
    repeats: u64,
}

impl<'i> Collection<'i> {
    /// Creates the collection of visible texts, some of which have words.
    pub(super) fn new(ids: &'i [u128], texts: &'i Texts, visible: Visible) -> Self {
        let average_length = visible.words as f64 / visible.texts as f64;
        let slope = K1 * B / average_length;
        Self {
            ids,
            texts,
            visible,
            slope,
        }
    }

    /// Returns true for a visible text, and the length of any.
    pub(super) fn text(&self, ordinal: u32) -> (bool, u16) {
        let (class, length) = self.texts.get(ordinal);
        let is_visible = self.visible.classes.get(class as usize).copied();
        (is_visible.unwrap_or(false), length)
    }

    /// Returns how much of its weight a word counts that a text has a number of times.
    ///
    /// It is at most one, rises with the count, and falls with the length. That no operation rounds
    /// a greater number to a smaller one makes it so for the rounded results too; for counts, they
    /// are too far from each other.
    pub(super) fn saturation(&self, count: u32, length: u16) -> f64 {
        let count = f64::from(count);
        count / (count + (K1 * (1.0 - B) + self.slope * f64::from(length)))
    }

    /// Returns the weight of a word that a number of visible texts have.
    pub(super) fn weight(&self, texts: u64, repeats: u64) -> Weight {
        let (all, texts) = (self.visible.texts as f64, texts as f64);
        let idf = (1.0 + (all - texts + 0.5) / (texts + 0.5)).ln() * SCALE;
        Weight { idf, repeats }
    }
}

impl Weight {
    pub(super) fn score(&self, saturation: f64) -> u64 {
        let score = (self.idf * saturation + 0.5) as i64 as u64;
        score.max(1) * self.repeats
    }
}
