//! Search for the memories that answer a question.
//!
//! Memories are ranked by words, by an index in the memory of the process: nothing of it is stored,
//! so there is nothing of it to erase. Labels decide before anything is ranked: numbers of memories,
//! of words and of their lengths are those of what the caller may read, so that no answer tells
//! anything about what is hidden. An answer is exact: an index that is behind catches up first.

mod following;
mod indexes;
mod recall;
mod words;

pub(super) use self::indexes::SearchIndexes;
