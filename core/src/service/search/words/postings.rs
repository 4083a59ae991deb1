//! Texts in which a word occurs, and how often.
//!
//! Texts are ordinals, which only ever rise. Rare and common words have different forms; which one
//! a word has never shows in a score.

use smallvec::SmallVec;

/// Number of texts from which on words can be dense.
const DENSE_TEXTS_MIN: usize = if cfg!(test) { 8 } else { 1_024 };

/// A word becomes dense if more than one in so many texts have it, and sparse again if fewer than
/// one in twice as many have it.
const DENSE_SHARE: usize = 8;

/// Count that stands for itself and all greater ones, which are in a list.
const LARGE_COUNT: u8 = u8::MAX;

/// Texts in which a word occurs.
pub(super) enum Postings {
    /// Word that few texts have.
    Sparse(Sparse),
    /// Word that many texts have.
    Dense(Box<Dense>),
}

/// Texts in the order of their ordinals, two bytes for most.
///
/// Each is a variable-length number: the distance from the text before, and in the lowest bit
/// whether a second number with the count follows, which is missing for a count of one.
#[derive(Default)]
pub(super) struct Sparse {
    bytes: SmallVec<[u8; 16]>,
    texts: u32,
    /// Ordinal after that of the last text.
    end: u32,
}

/// Rest of sparse postings that is still to be read.
pub(super) struct Reader<'p> {
    bytes: &'p [u8],
    end: u32,
}

/// Counts of all texts, by ordinal, with their statistics.
#[derive(Default)]
pub(super) struct Dense {
    /// Ends with the last text that has the word.
    counts: Vec<u8>,
    /// Ordinals and counts of those that are too large for a byte.
    large: Vec<(u32, u32)>,
    /// Number of texts with the word, by class.
    by_class: Vec<u32>,
}

impl Default for Postings {
    fn default() -> Self {
        Self::Sparse(Sparse::default())
    }
}

impl Postings {
    /// Returns the byte after which the next text is added.
    pub(super) fn last_byte(&self) -> u8 {
        let last = match self {
            Self::Sparse(sparse) => sparse.bytes.last(),
            Self::Dense(dense) => dense.counts.last(),
        };
        last.copied().unwrap_or_default()
    }

    pub(super) fn push(&mut self, ordinal: u32, count: u32, class: u32) {
        match self {
            Self::Sparse(sparse) => sparse.push(ordinal, count),
            Self::Dense(dense) => dense.push(ordinal, count, class),
        }
    }

    /// Chooses the form for an index with a number of texts, and returns true if it is dense.
    ///
    /// `class` gives the class of an ordinal, or nothing for a text that was removed.
    pub(super) fn adapt(&mut self, all: usize, class: impl Fn(u32) -> Option<u32>) -> bool {
        match self {
            Self::Sparse(sparse) if sparse.is_dense_among(all) => {
                let mut dense = Dense::default();
                for (ordinal, count) in sparse.iter() {
                    if let Some(class) = class(ordinal) {
                        dense.push(ordinal, count, class);
                    }
                }
                *self = Self::Dense(Box::new(dense));
            }
            Self::Dense(dense) if dense.is_sparse_among(all) => {
                let mut sparse = Sparse::default();
                for (ordinal, count) in dense.iter() {
                    sparse.push(ordinal, count);
                }
                *self = Self::Sparse(sparse);
            }
            _ => {}
        }
        matches!(self, Self::Dense(_))
    }

    /// Renumbers the texts in the same order, without those that have no new ordinal.
    ///
    /// Returns false if none is left.
    pub(super) fn renumber(&mut self, new: impl Fn(u32) -> Option<u32>) -> bool {
        match self {
            Self::Sparse(old) => {
                let mut sparse = Sparse::default();
                for (ordinal, count) in old.iter() {
                    if let Some(ordinal) = new(ordinal) {
                        sparse.push(ordinal, count);
                    }
                }
                sparse.bytes.shrink_to_fit();
                *old = sparse;
                old.texts > 0
            }
            Self::Dense(old) => {
                let mut dense = Dense::default();
                for (ordinal, count) in old.iter() {
                    if let Some(ordinal) = new(ordinal) {
                        dense.set(ordinal, count);
                    }
                }
                dense.by_class = std::mem::take(&mut old.by_class);
                **old = dense;
                !old.counts.is_empty()
            }
        }
    }

    pub(super) fn shrink(&mut self) {
        match self {
            Self::Sparse(sparse) => sparse.bytes.shrink_to_fit(),
            Self::Dense(dense) => {
                dense.counts.shrink_to_fit();
                dense.large.shrink_to_fit();
                dense.by_class.shrink_to_fit();
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Sparse(sparse) if sparse.bytes.spilled() => sparse.bytes.capacity(),
            Self::Sparse(_) => 0,
            Self::Dense(dense) => {
                size_of::<Dense>()
                    + dense.counts.capacity()
                    + dense.large.capacity() * size_of::<(u32, u32)>()
                    + dense.by_class.capacity() * size_of::<u32>()
            }
        }
    }
}

impl Sparse {
    /// Returns the number of texts, those included that were removed.
    pub(super) fn len(&self) -> usize {
        self.texts as usize
    }

    /// Returns true if so many of all texts have the word that it should be dense.
    pub(super) fn is_dense_among(&self, all: usize) -> bool {
        all >= DENSE_TEXTS_MIN && self.texts as usize > all / DENSE_SHARE
    }

    fn push(&mut self, ordinal: u32, count: u32) {
        let distance = u64::from(ordinal.saturating_sub(self.end));
        let has_count = count > 1;
        encode(distance << 1 | u64::from(has_count), |byte| {
            self.push_byte(byte);
        });
        if has_count {
            encode(count.into(), |byte| self.push_byte(byte));
        }
        self.texts += 1;
        self.end = ordinal + 1;
    }

    fn push_byte(&mut self, byte: u8) {
        let length = self.bytes.len();
        if length == self.bytes.capacity() {
            // Not doubled, because an index is mostly full of these.
            self.bytes.reserve_exact((length / 4).max(16));
        }
        self.bytes.push(byte);
    }

    pub(super) fn read(&self) -> Reader<'_> {
        Reader {
            bytes: &self.bytes,
            end: 0,
        }
    }

    /// Texts with their counts.
    fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut reader = self.read();
        std::iter::from_fn(move || {
            let mut next = [(0, 0)];
            (reader.fill(&mut next) > 0).then_some(next[0])
        })
    }
}

impl Reader<'_> {
    /// Reads the next texts with their counts, and returns their number.
    pub(super) fn fill(&mut self, texts: &mut [(u32, u32)]) -> usize {
        let Self { mut bytes, mut end } = *self;
        let mut length = 0;
        for place in texts {
            let Some(head) = decode(&mut bytes) else {
                break;
            };
            let count = if head & 1 == 0 {
                Some(1)
            } else {
                decode(&mut bytes)
            };
            let ordinal = end + (head >> 1) as u32;
            *place = (ordinal, count.unwrap_or(1) as u32);
            end = ordinal + 1;
            length += 1;
        }
        *self = Self { bytes, end };
        length
    }
}

impl Dense {
    /// Returns true if so few of all texts have the word that it should be sparse.
    fn is_sparse_among(&self, all: usize) -> bool {
        let texts: u64 = self.by_class.iter().copied().map(u64::from).sum();
        all < DENSE_TEXTS_MIN || texts < (all / DENSE_SHARE / 2) as u64
    }

    fn push(&mut self, ordinal: u32, count: u32, class: u32) {
        self.set(ordinal, count);
        self.move_text(ordinal, None, Some(class));
    }

    /// Sets the count of a text that has the greatest ordinal.
    fn set(&mut self, ordinal: u32, count: u32) {
        let place = ordinal as usize;
        let missing = place + 1 - self.counts.len();
        super::reserve_tightly(&mut self.counts, missing);
        self.counts.resize(place, 0);
        self.counts.push(count.min(LARGE_COUNT.into()) as u8);
        if count >= LARGE_COUNT.into() {
            self.large.push((ordinal, count));
        }
    }

    /// Counts a text under another class, if the word occurs in it.
    pub(super) fn move_text(&mut self, ordinal: u32, from: Option<u32>, to: Option<u32>) {
        if self.count(ordinal) == 0 {
            return;
        }
        if let Some(texts) = from.and_then(|class| self.by_class.get_mut(class as usize)) {
            *texts = texts.saturating_sub(1);
        }
        match to.map(|class| class as usize) {
            Some(class) => {
                let classes = self.by_class.len().max(class + 1);
                self.by_class.resize(classes, 0);
                self.by_class[class] += 1;
            }
            None => self.counts[ordinal as usize] = 0,
        }
    }

    /// Counts of all texts up to the last that has the word: exact below 255, and 255 above.
    pub(super) fn counts(&self) -> &[u8] {
        &self.counts
    }

    pub(super) fn count(&self, ordinal: u32) -> u32 {
        match self.counts.get(ordinal as usize) {
            None => 0,
            Some(&LARGE_COUNT) => {
                let place = self
                    .large
                    .binary_search_by_key(&ordinal, |(ordinal, _)| *ordinal);
                place.map_or(0, |place| self.large[place].1)
            }
            Some(count) => u32::from(*count),
        }
    }

    /// Returns the number of texts with the word in classes that are visible.
    pub(super) fn visible(&self, classes: &[bool]) -> u64 {
        let visible = self
            .by_class
            .iter()
            .zip(classes)
            .filter(|(_, is_visible)| **is_visible);
        visible.map(|(texts, _)| u64::from(*texts)).sum()
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        let all = (0..).take(self.counts.len());
        all.map(|ordinal| (ordinal, self.count(ordinal)))
            .filter(|(_, count)| *count > 0)
    }
}

fn encode(mut number: u64, mut each: impl FnMut(u8)) {
    while number >= 0x80 {
        each(number as u8 | 0x80);
        number >>= 7;
    }
    each(number as u8);
}

#[inline]
fn decode(bytes: &mut &[u8]) -> Option<u64> {
    let (first, mut rest) = bytes.split_first()?;
    let mut number = u64::from(*first);
    if number >= 0x80 {
        number &= 0x7f;
        let mut shift = 7;
        loop {
            let (byte, after) = rest.split_first()?;
            rest = after;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                break;
            }
            shift += 7;
        }
    }
    *bytes = rest;
    Some(number)
}
