//! Texts, their classes and words.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::bm25::Collection;
use super::classes::{Classes, REMOVED};
use super::dictionary::Dictionary;
use super::postings::Postings;
use super::query::query_words;
use super::ranking::{Hit, Ranking};
use super::reserve_tightly;
use super::texts::Texts;

/// Number of removed texts that are always tolerated.
const REMOVED_TEXTS_MIN: usize = if cfg!(test) { 16 } else { 1_000 };

/// Words of texts, each of which has a class that decides who sees it.
///
/// Texts are numbered in the order of their arrival. A change appends the text anew, and leaves
/// what was before as removed until a quarter of all are.
pub(crate) struct WordIndex<C> {
    ids: Vec<u128>,
    texts: Texts,
    /// Ordinals of the texts that are not removed, by identifier.
    ordinals: HashTable<u32>,
    hasher: RandomState,
    classes: Classes<C>,
    dictionary: Dictionary,
    /// By number of the word.
    postings: Vec<Postings>,
    /// Numbers of the words that are dense.
    dense: Vec<u32>,
}

impl<C> Default for WordIndex<C> {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            texts: Texts::default(),
            ordinals: HashTable::new(),
            hasher: RandomState::default(),
            classes: Classes::default(),
            dictionary: Dictionary::default(),
            postings: Vec::new(),
            dense: Vec::new(),
        }
    }
}

impl<C: Clone + Eq + Hash> WordIndex<C> {
    /// Returns the number of texts.
    pub(crate) fn len(&self) -> usize {
        self.ordinals.len()
    }

    /// Returns the size in memory, without what classes own themselves.
    pub(crate) fn bytes(&self) -> usize {
        let postings: usize = self.postings.iter().map(Postings::heap_bytes).sum();
        postings
            + self.postings.capacity() * size_of::<Postings>()
            + self.ids.capacity() * size_of::<u128>()
            + self.texts.heap_bytes()
            + self.dense.capacity() * size_of::<u32>()
            + self.ordinals.allocation_size()
            + self.classes.heap_bytes()
            + self.dictionary.heap_bytes()
    }

    /// Adds a text that consists of two, or replaces the one with this identifier.
    pub(crate) fn put(&mut self, id: u128, class: C, texts: [&str; 2]) {
        self.remove(id);
        let Some(ordinal) = u32::try_from(self.ids.len())
            .ok()
            .filter(|end| *end < u32::MAX)
        else {
            return;
        };
        let mut words = self.dictionary.numbers(texts);
        let missing = self.dictionary.len() - self.postings.len();
        reserve_tightly(&mut self.postings, missing);
        self.postings
            .resize_with(self.dictionary.len(), Postings::default);
        let length = u16::try_from(words.len()).unwrap_or(u16::MAX);
        self.texts
            .push(self.classes.add_text(class, length), length);
        reserve_tightly(&mut self.ids, 1);
        self.ids.push(id);
        let Self {
            ids,
            ordinals,
            hasher,
            ..
        } = self;
        let hash = |ordinal: &u32| hasher.hash_one(ids[*ordinal as usize]);
        ordinals.insert_unique(hasher.hash_one(id), ordinal, hash);
        words.sort_unstable();
        // Loads all that the loop changes at once, not one place after another.
        let last_bytes = words
            .iter()
            .map(|word| self.postings[*word as usize].last_byte());
        std::hint::black_box(last_bytes.fold(0, u8::wrapping_add));
        for occurrences in words.chunk_by(|word, next| word == next) {
            self.add_posting(occurrences[0], ordinal, occurrences.len() as u32);
        }
        if self.ids.len().is_power_of_two() {
            self.review_dense();
        }
    }

    fn add_posting(&mut self, word: u32, ordinal: u32, count: u32) {
        let texts = &self.texts;
        let Some(postings) = self.postings.get_mut(word as usize) else {
            return;
        };
        postings.push(ordinal, count, texts.class(ordinal));
        if let Postings::Sparse(sparse) = postings
            && sparse.is_dense_among(texts.len())
            && postings.adapt(texts.len(), |ordinal| present_class(texts, ordinal))
        {
            self.dense.push(word);
        }
    }

    /// Gives a text another class. Returns false if there is no such text.
    pub(crate) fn relabel(&mut self, id: u128, class: C) -> bool {
        let Some(ordinal) = self.ordinal(id) else {
            return false;
        };
        let (old, length) = self.texts.get(ordinal);
        let new = self.classes.add_text(class, length);
        self.classes.remove_text(old, length);
        self.texts.set_class(ordinal, new);
        self.move_dense(ordinal, old, Some(new));
        true
    }

    /// Returns the classes of the texts.
    pub(crate) fn classes(&self) -> impl Iterator<Item = &C> {
        self.classes.names()
    }

    /// Returns the class of a text.
    pub(crate) fn class(&self, id: u128) -> Option<&C> {
        let ordinal = self.ordinal(id)?;
        self.classes.name(self.texts.class(ordinal))
    }

    /// Removes a text. Returns false if there is none.
    pub(crate) fn remove(&mut self, id: u128) -> bool {
        let Self {
            ids,
            ordinals,
            hasher,
            ..
        } = self;
        let is_text = |ordinal: &u32| ids[*ordinal as usize] == id;
        let Ok(entry) = ordinals.find_entry(hasher.hash_one(id), is_text) else {
            return false;
        };
        let (ordinal, _) = entry.remove();
        let (class, length) = self.texts.get(ordinal);
        self.classes.remove_text(class, length);
        self.texts.set_class(ordinal, REMOVED);
        self.move_dense(ordinal, class, None);
        let removed = self.ids.len() - self.ordinals.len();
        if removed > REMOVED_TEXTS_MIN.max(self.ids.len() / 4) {
            self.compact();
        }
        true
    }

    /// Gives back memory that is kept for more texts.
    pub(crate) fn shrink(&mut self) {
        self.ids.shrink_to_fit();
        self.texts.shrink();
        let Self {
            ids,
            ordinals,
            hasher,
            ..
        } = self;
        ordinals.shrink_to_fit(|ordinal| hasher.hash_one(ids[*ordinal as usize]));
        self.classes.shrink();
        self.dictionary.shrink();
        self.postings.iter_mut().for_each(Postings::shrink);
        self.postings.shrink_to_fit();
        self.dense.shrink_to_fit();
    }

    /// Ranks the texts of visible classes that have a word of a query, the best ones first.
    ///
    /// Equal scores are in the order of identifiers. Neither order nor scores depend on texts of
    /// other classes, or on what happened before.
    pub(crate) fn search(
        &self,
        query: &str,
        limit: usize,
        is_visible: impl Fn(&C) -> bool,
    ) -> Vec<Hit> {
        let visible = self.classes.visible(is_visible);
        if limit == 0 || visible.words == 0 {
            return Vec::new();
        }
        let mut ranking = Ranking::new(Collection::new(&self.ids, &self.texts, visible));
        for (word, repeats) in query_words(query) {
            let number = self.dictionary.find(&word);
            if let Some(postings) = number.and_then(|number| self.postings.get(number as usize)) {
                ranking.add_word(postings, repeats);
            }
        }
        ranking.best(limit)
    }

    fn ordinal(&self, id: u128) -> Option<u32> {
        let is_text = |ordinal: &u32| self.ids[*ordinal as usize] == id;
        self.ordinals
            .find(self.hasher.hash_one(id), is_text)
            .copied()
    }

    fn move_dense(&mut self, ordinal: u32, from: u32, to: Option<u32>) {
        for word in &self.dense {
            if let Some(Postings::Dense(dense)) = self.postings.get_mut(*word as usize) {
                dense.move_text(ordinal, Some(from), to);
            }
        }
    }

    /// Makes words sparse again that few texts have.
    fn review_dense(&mut self) {
        let Self {
            texts,
            postings,
            dense,
            ..
        } = self;
        dense.retain(|word| {
            let postings = postings.get_mut(*word as usize);
            postings.is_some_and(|postings| {
                postings.adapt(texts.len(), |ordinal| present_class(texts, ordinal))
            })
        });
    }

    /// Forgets the texts that were removed, and words that only they have.
    fn compact(&mut self) {
        let new = self.texts.compact();
        let mut all = new.iter();
        self.ids.retain(|_| all.next().is_some_and(Option::is_some));
        let Self {
            ids,
            ordinals,
            hasher,
            ..
        } = self;
        let hash = |ordinal: &u32| hasher.hash_one(ids[*ordinal as usize]);
        ordinals.clear();
        for ordinal in (0..).take(ids.len()) {
            ordinals.insert_unique(hash(&ordinal), ordinal, hash);
        }
        let renumbered = |ordinal: u32| new.get(ordinal as usize).copied().flatten();
        let words = self.postings.iter_mut();
        let is_used: Vec<bool> = words.map(|word| word.renumber(renumbered)).collect();
        self.dictionary.retain(|word| is_used[word as usize]);
        let mut all = is_used.iter();
        self.postings.retain(|_| all.next() == Some(&true));
        let words = (0..).zip(&self.postings);
        let dense = words.filter(|(_, postings)| matches!(postings, Postings::Dense(_)));
        self.dense = dense.map(|(word, _)| word).collect();
        self.review_dense();
    }
}

fn present_class(texts: &Texts, ordinal: u32) -> Option<u32> {
    let class = texts.class(ordinal);
    (class != REMOVED).then_some(class)
}

#[cfg(test)]
mod tests;
