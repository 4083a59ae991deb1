//! Classes of texts, which decide together who may see them.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Number of the class of removed texts, which nobody sees.
pub(super) const REMOVED: u32 = 0;

/// Classes that have texts.
pub(super) struct Classes<C> {
    /// By number. Those without texts have no name, and the first one never has.
    all: Vec<Class<C>>,
    numbers: HashTable<u32>,
    unused: Vec<u32>,
    hasher: RandomState,
}

struct Class<C> {
    name: Option<C>,
    texts: u64,
    words: u64,
}

/// Classes that a caller sees.
pub(super) struct Visible {
    /// By number.
    pub(super) classes: Vec<bool>,
    /// Number of their texts.
    pub(super) texts: u64,
    /// Number of the words in them, repeated ones included.
    pub(super) words: u64,
}

impl<C> Default for Classes<C> {
    fn default() -> Self {
        Self {
            all: vec![Class {
                name: None,
                texts: 0,
                words: 0,
            }],
            numbers: HashTable::new(),
            unused: Vec::new(),
            hasher: RandomState::default(),
        }
    }
}

impl<C: Eq + Hash> Classes<C> {
    pub(super) fn name(&self, number: u32) -> Option<&C> {
        self.all.get(number as usize)?.name.as_ref()
    }

    /// Returns the classes that have texts.
    pub(super) fn names(&self) -> impl Iterator<Item = &C> {
        self.all.iter().filter_map(|class| class.name.as_ref())
    }

    /// Adds a text with a number of words to a class, and returns the number of the class.
    pub(super) fn add_text(&mut self, name: C, words: u16) -> u32 {
        let Self {
            all,
            numbers,
            unused,
            hasher,
        } = self;
        let hash = hasher.hash_one(&name);
        let is_class = |number: &u32| all[*number as usize].name.as_ref() == Some(&name);
        let number = numbers.find(hash, is_class).copied().unwrap_or_else(|| {
            let number = unused.pop().unwrap_or(all.len() as u32);
            let class = Class {
                name: Some(name),
                texts: 0,
                words: 0,
            };
            match all.get_mut(number as usize) {
                Some(place) => *place = class,
                None => all.push(class),
            }
            let name_of = |number: &u32| all[*number as usize].name.as_ref();
            let hash_of = |number: &u32| name_of(number).map_or(0, |name| hasher.hash_one(name));
            numbers.insert_unique(hash, number, hash_of);
            number
        });
        let class = &mut all[number as usize];
        class.texts += 1;
        class.words += u64::from(words);
        number
    }

    /// Removes a text with a number of words from its class.
    pub(super) fn remove_text(&mut self, number: u32, words: u16) {
        let Some(class) = self.all.get_mut(number as usize) else {
            return;
        };
        class.texts = class.texts.saturating_sub(1);
        class.words = class.words.saturating_sub(words.into());
        if class.texts > 0 {
            return;
        }
        if let Some(name) = class.name.take() {
            let hash = self.hasher.hash_one(&name);
            if let Ok(entry) = self.numbers.find_entry(hash, |other| *other == number) {
                entry.remove();
                self.unused.push(number);
            }
        }
    }

    /// Asks once for each class that has texts.
    pub(super) fn visible(&self, is_visible: impl Fn(&C) -> bool) -> Visible {
        let is_seen = |class: &Class<C>| class.name.as_ref().is_some_and(&is_visible);
        let classes: Vec<_> = self.all.iter().map(is_seen).collect();
        let seen = || {
            self.all
                .iter()
                .zip(&classes)
                .filter(|(_, is_seen)| **is_seen)
        };
        Visible {
            texts: seen().map(|(class, _)| class.texts).sum(),
            words: seen().map(|(class, _)| class.words).sum(),
            classes,
        }
    }

    pub(super) fn shrink(&mut self) {
        self.unused.shrink_to_fit();
        self.all.shrink_to_fit();
    }

    /// Returns the size without what names own themselves.
    pub(super) fn heap_bytes(&self) -> usize {
        self.all.capacity() * size_of::<Class<C>>()
            + self.numbers.allocation_size()
            + self.unused.capacity() * size_of::<u32>()
    }
}
