//! Prints what a sequence of operations comes to: `transcript SEED`. The same seed prints the same, and so does every
//! other target that the sequence is carried out on.

use std::sync::Arc;

use knowledge_core::store::MemoryStore;
use knowledge_core::testing::simulation;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok());
    let Some(seed) = seed else {
        eprintln!("usage: transcript SEED");
        std::process::exit(2);
    };
    let store = Arc::new(MemoryStore::new());
    match simulation::transcript(store, seed).await {
        Ok(transcript) => print!("{transcript}"),
        Err(divergence) => {
            eprintln!("{divergence}");
            std::process::exit(1);
        }
    }
}
