//! Index of words in memory, which ranks texts with BM25 among those that a caller may see.
//!
//! Labels decide before ranking: the statistics behind every score are those of the visible texts
//! alone, so nothing about a hidden text can be read from the hits, neither from their scores nor
//! from their order.

mod bm25;
mod classes;
mod dictionary;
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
mod host_nfkc;
mod index;
mod postings;
mod query;
mod ranking;
mod texts;
mod tokens;
mod top;

pub(crate) use self::index::WordIndex;

/// Makes place for more items, with less reserve than usual: what an index has is large.
fn reserve_tightly<T>(items: &mut Vec<T>, count: usize) {
    if items.capacity() - items.len() < count {
        items.reserve_exact(count.max(items.len() / 8).max(16));
    }
}
