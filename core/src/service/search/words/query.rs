//! Words of a query.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::tokens::words;

/// Maximum number of different words of a query that are used, the first ones.
const QUERY_WORDS_MAX: usize = 64;

/// Maximum number of repetitions of a word in a query that count.
const REPEATS_MAX: u64 = 4_096;

/// Returns the words of a query, and how often it has each of them.
///
/// Which of them are used must not depend on the words that an index knows: some of those may
/// occur in hidden texts only.
pub(super) fn query_words(query: &str) -> HashMap<String, u64, RandomState> {
    let mut found = HashMap::<String, u64, _>::default();
    words(query, |word| {
        if let Some(repeats) = found.get_mut(word) {
            *repeats = REPEATS_MAX.min(*repeats + 1);
        } else if found.len() < QUERY_WORDS_MAX {
            found.insert(word.to_owned(), 1);
        }
    });
    found
}
