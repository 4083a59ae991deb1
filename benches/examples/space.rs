//! Space of memories by key family: `cargo run -p knowledge-benches --example space`.
//!
//! An argument sets the number of memories. Each has a content of 300 bytes and a source key; one
//! in ten is confidential, one in five has a team as its audience. They are ingested in batches and
//! approved by bulk updates. The table counts the bytes given to the store, before an engine adds
//! to them or compresses them.

use std::collections::BTreeMap;
use std::sync::Arc;

use knowledge_benches::{CONTENT_BYTES, Tenant, add_handbook};
use knowledge_core::store::{KeyRange, MemoryStore, Store, StoreExt};

/// Default number of memories.
const MEMORIES: usize = 20_000;

/// Totals of the entries of a key family.
#[derive(Clone, Copy, Default)]
struct Space {
    entries: usize,
    key_bytes: usize,
    value_bytes: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let memories = std::env::args().nth(1).map_or(MEMORIES, |count| {
        count.parse().expect("the argument is a number of memories")
    });
    assert!(memories > 0, "at least one memory is needed");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let tenant = Tenant::fill(Arc::clone(&store), 0).await;
    add_handbook(&tenant, memories).await;
    let found = tenant.seed.service.verify().await.expect("the store works");
    assert_eq!(found.differences, Vec::new());
    print(&by_family(&*store).await, memories);
}

async fn by_family(store: &dyn Store) -> BTreeMap<String, Space> {
    let mut families = BTreeMap::<String, Space>::new();
    let all = store.scan_all(&KeyRange::all()).await;
    for found in all.expect("the store works") {
        let key = found.key.to_string();
        let family = key.split('/').next().unwrap_or_default();
        let space = families.entry(family.to_owned()).or_default();
        space.entries += 1;
        space.key_bytes += found.key.as_bytes().len();
        space.value_bytes += found.entry.value.len();
    }
    families
}

/// Prints the families that grow with the number of memories, and the total.
fn print(families: &BTreeMap<String, Space>, memories: usize) {
    let per_memory = |count: usize| count as f64 / memories as f64;
    let row = |name: &str, space: Space| {
        println!(
            "| {name} | {:.3} | {:.1} | {:.1} |",
            per_memory(space.entries),
            per_memory(space.key_bytes),
            per_memory(space.value_bytes)
        );
    };
    println!("{memories} memories, {CONTENT_BYTES} B of content each; bytes per memory\n");
    println!("| family | entries | keys | values |");
    println!("| --- | ---: | ---: | ---: |");
    let (mut other, mut all) = (Space::default(), Space::default());
    for (name, space) in families {
        let bytes = space.key_bytes + space.value_bytes;
        if per_memory(bytes) >= 0.1 {
            row(&format!("`{name}`"), *space);
        } else {
            add(&mut other, *space);
        }
        add(&mut all, *space);
    }
    row("others", other);
    row("all", all);
    let bytes = per_memory(all.key_bytes + all.value_bytes);
    println!("\nkeys and values together: {bytes:.0} B per memory");
}

fn add(to: &mut Space, space: Space) {
    to.entries += space.entries;
    to.key_bytes += space.key_bytes;
    to.value_bytes += space.value_bytes;
}
