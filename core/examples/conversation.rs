//! Prints generated requests and the service's responses: `conversation SEED`.
//!
//! The same seed prints the same text on every target.

use std::sync::Arc;

use knowledge_core::store::MemoryStore;
use knowledge_testing::conversation;

#[tokio::main(flavor = "current_thread")]
#[allow(
    clippy::disallowed_methods,
    reason = "a program has arguments; the library has none"
)]
async fn main() {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok());
    let Some(seed) = seed else {
        eprintln!("usage: conversation SEED");
        std::process::exit(2);
    };
    let store = Arc::new(MemoryStore::new());
    print!("{}", conversation::run(store, seed).await);
}
