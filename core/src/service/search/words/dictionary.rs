//! Numbers of words.

use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::tokens::words;

/// Bits of hashes that are used. In tests, different words often have the same hash.
const HASH_BITS: u32 = if cfg!(test) { 0b111 } else { u32::MAX };

/// Words that an index knows, numbered in the order of their arrival.
#[derive(Default)]
pub(super) struct Dictionary {
    spellings: Spellings,
    numbers: HashTable<Entry>,
    hasher: RandomState,
}

/// Word in a table: most others are told from it without their spellings.
struct Entry {
    hash: u32,
    number: u32,
}

#[derive(Default)]
struct Spellings {
    /// All words, one after another.
    bytes: Vec<u8>,
    /// End of each word.
    ends: Vec<u32>,
}

impl Entry {
    /// Returns the hash for the table.
    fn spread(hash: u32) -> u64 {
        u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Spellings {
    /// Adds a word, and returns its number. There is none after 4 GiB of others.
    fn push(&mut self, word: &[u8]) -> Option<u32> {
        let number = u32::try_from(self.ends.len()).ok()?;
        let end = u32::try_from(self.bytes.len() + word.len()).ok()?;
        self.bytes.extend_from_slice(word);
        self.ends.push(end);
        Some(number)
    }

    fn range(&self, number: u32) -> Range<usize> {
        let end = |number: u32| {
            self.ends
                .get(number as usize)
                .map_or(0, |end| *end as usize)
        };
        number.checked_sub(1).map_or(0, end)..end(number)
    }

    fn get(&self, number: u32) -> &[u8] {
        self.bytes.get(self.range(number)).unwrap_or_default()
    }
}

impl Dictionary {
    pub(super) fn len(&self) -> usize {
        self.spellings.ends.len()
    }

    pub(super) fn find(&self, word: &str) -> Option<u32> {
        self.find_hashed(word.as_bytes(), self.hash(word.as_bytes()))
    }

    /// Returns the numbers of the words of two texts, some of which can be new.
    pub(super) fn numbers(&mut self, texts: [&str; 2]) -> Vec<u32> {
        let length = texts.iter().map(|text| text.len()).sum();
        let mut found = Spellings {
            bytes: Vec::with_capacity(length),
            ends: Vec::with_capacity(length / 4),
        };
        let mut hashes = Vec::with_capacity(length / 4);
        for text in texts {
            words(text, |word| {
                if found.push(word.as_bytes()).is_some() {
                    hashes.push(self.hash(word.as_bytes()));
                }
            });
        }
        // Looks all of them up before any is compared, and loads all spellings at once: the
        // processor would wait for one after another.
        let guess = |hash: &u32| {
            let entry = self
                .numbers
                .find(Entry::spread(*hash), |entry| entry.hash == *hash);
            entry.map_or(u32::MAX, |entry| entry.number)
        };
        let mut numbers: Vec<u32> = hashes.iter().map(guess).collect();
        let spellings = numbers.iter().map(|number| self.spellings.get(*number));
        let first_bytes = spellings.filter_map(|word| word.first().copied());
        std::hint::black_box(first_bytes.fold(0, u8::wrapping_add));
        for (place, hash) in (0..).zip(hashes) {
            let (word, number) = (found.get(place), &mut numbers[place as usize]);
            if self.spellings.get(*number) != word {
                *number = self.number(word, hash).unwrap_or(u32::MAX);
            }
        }
        numbers.retain(|number| *number != u32::MAX);
        numbers
    }

    fn hash(&self, word: &[u8]) -> u32 {
        self.hasher.hash_one(word) as u32 & HASH_BITS
    }

    fn find_hashed(&self, word: &[u8], hash: u32) -> Option<u32> {
        let is_word =
            |entry: &Entry| entry.hash == hash && self.spellings.get(entry.number) == word;
        let entry = self.numbers.find(Entry::spread(hash), is_word)?;
        Some(entry.number)
    }

    /// Returns the number of a word, which is new if the word is.
    fn number(&mut self, word: &[u8], hash: u32) -> Option<u32> {
        self.find_hashed(word, hash).or_else(|| {
            let number = self.spellings.push(word)?;
            let entry = Entry { hash, number };
            let hash = |entry: &Entry| Entry::spread(entry.hash);
            self.numbers.insert_unique(hash(&entry), entry, hash);
            Some(number)
        })
    }

    /// Keeps the words for which `is_kept` is true, numbered anew in the same order.
    pub(super) fn retain(&mut self, is_kept: impl Fn(u32) -> bool) {
        let old = std::mem::take(&mut self.spellings);
        self.numbers.clear();
        for number in (0..).take(old.ends.len()).filter(|number| is_kept(*number)) {
            let word = old.get(number);
            self.number(word, self.hash(word));
        }
    }

    pub(super) fn shrink(&mut self) {
        self.spellings.bytes.shrink_to_fit();
        self.spellings.ends.shrink_to_fit();
        self.numbers
            .shrink_to_fit(|entry| Entry::spread(entry.hash));
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.spellings.bytes.capacity()
            + self.spellings.ends.capacity() * size_of::<u32>()
            + self.numbers.allocation_size()
    }
}
