//! Classes and lengths of texts.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::classes::REMOVED;

/// Class that stands for itself and all greater ones, which are in a map.
const OTHER_CLASS: u16 = if cfg!(test) { 3 } else { u16::MAX };

/// Number of texts whose minimum length is known.
pub(super) const BLOCK: usize = if cfg!(test) { 16 } else { 256 };

/// Classes and lengths of texts, by ordinal.
///
/// In four bytes each: a search reads those of many texts in no order that a cache could foresee,
/// and with eight bytes took 13 instead of 3 ns for each.
#[derive(Default)]
pub(super) struct Texts {
    all: Vec<Text>,
    /// Minimum lengths of [`BLOCK`] texts each, removed ones included.
    lengths_min: Vec<u16>,
    other_classes: HashMap<u32, u32, RandomState>,
}

#[derive(Clone, Copy)]
struct Text {
    class: u16,
    length: u16,
}

impl Texts {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn push(&mut self, class: u32, length: u16) {
        super::reserve_tightly(&mut self.all, 1);
        self.all.push(Text {
            class: REMOVED as u16,
            length,
        });
        match self.lengths_min.get_mut((self.all.len() - 1) / BLOCK) {
            Some(min) => *min = length.min(*min),
            None => self.lengths_min.push(length),
        }
        self.set_class(self.all.len() as u32 - 1, class);
    }

    /// Returns the class and the length of a text.
    pub(super) fn get(&self, ordinal: u32) -> (u32, u16) {
        match self.all.get(ordinal as usize) {
            None => (REMOVED, 0),
            Some(Text {
                class: OTHER_CLASS,
                length,
            }) => (
                self.other_classes.get(&ordinal).copied().unwrap_or(REMOVED),
                *length,
            ),
            Some(Text { class, length }) => (u32::from(*class), *length),
        }
    }

    /// Returns a length that no text has less of, in a block that begins with an ordinal.
    pub(super) fn length_min(&self, start: u32) -> u16 {
        self.lengths_min
            .get(start as usize / BLOCK)
            .copied()
            .unwrap_or(0)
    }

    pub(super) fn length(&self, ordinal: u32) -> u16 {
        self.all.get(ordinal as usize).map_or(0, |text| text.length)
    }

    pub(super) fn class(&self, ordinal: u32) -> u32 {
        self.get(ordinal).0
    }

    pub(super) fn set_class(&mut self, ordinal: u32, class: u32) {
        let Some(text) = self.all.get_mut(ordinal as usize) else {
            return;
        };
        if text.class == OTHER_CLASS {
            self.other_classes.remove(&ordinal);
        }
        text.class = class.min(OTHER_CLASS.into()) as u16;
        if text.class == OTHER_CLASS {
            self.other_classes.insert(ordinal, class);
        }
    }

    /// Forgets the texts that were removed, and numbers the others anew.
    ///
    /// Returns the new ordinals, by the old ones.
    pub(super) fn compact(&mut self) -> Vec<Option<u32>> {
        let mut ordinals = 0..;
        let is_present = |text: &Text| u32::from(text.class) != REMOVED;
        let new: Vec<Option<u32>> = (self.all.iter())
            .map(|text| {
                if is_present(text) {
                    ordinals.next()
                } else {
                    None
                }
            })
            .collect();
        self.all.retain(is_present);
        let min = |block: &[Text]| block.iter().map(|text| text.length).min().unwrap_or(0);
        self.lengths_min = self.all.chunks(BLOCK).map(min).collect();
        let renumbered = |(ordinal, class)| Some(((*new.get(ordinal as usize)?)?, class));
        let other_classes = std::mem::take(&mut self.other_classes);
        self.other_classes = other_classes.into_iter().filter_map(renumbered).collect();
        new
    }

    pub(super) fn shrink(&mut self) {
        self.all.shrink_to_fit();
        self.lengths_min.shrink_to_fit();
        self.other_classes.shrink_to_fit();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        // A map has a byte for each entry beside it, and is full to seven eighths at most.
        let entries = self.other_classes.capacity() * 8 / 7;
        self.all.capacity() * size_of::<Text>()
            + self.lengths_min.capacity() * size_of::<u16>()
            + entries * (size_of::<(u32, u32)>() + 1)
    }
}
