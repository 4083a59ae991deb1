//! Reads of any mixture, alone and beside writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knowledge_storage_postgres::testing;
use knowledge_store::{
    Commit, CommitBuilder, Direction, Found, Key, KeyRange, MemoryStore, Read, Store,
};

use crate::support::{assert_committed, key, open};

/// Returns a random key out of about 300, with bytes at both ends of the order.
fn random_key(rng: &mut fastrand::Rng) -> Key {
    let alphabet = [0, 1, b'/', b'a', b'b', 0x7f, 0xfe, 0xff];
    let length = rng.usize(1..=3);
    let bytes: Vec<u8> = (0..length)
        .map(|_| alphabet[rng.usize(..alphabet.len())])
        .collect();
    Key::new(bytes).unwrap()
}

fn random_range(rng: &mut fastrand::Rng) -> (KeyRange, usize, Direction) {
    let range = match rng.u8(..4) {
        0 => KeyRange::all(),
        1 => KeyRange::prefix(&random_key(rng)),
        _ => KeyRange::new(random_key(rng), random_key(rng)),
    };
    let limit = *rng.choice(&[0, 1, 3, 10, usize::MAX]).unwrap();
    let direction = match rng.bool() {
        true => Direction::Forward,
        false => Direction::Reverse,
    };
    (range, limit, direction)
}

#[test]
fn random_reads_equal_those_of_the_memory_store() {
    let seed = std::env::var("STORE_TEST_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("a number"),
    );
    println!("STORE_TEST_SEED={seed}");
    testing::run(|server| async move {
        let mut rng = fastrand::Rng::with_seed(seed);
        let database = server.create_database().await;
        let store = open(server, &database).await;
        let model = MemoryStore::new();
        let mut keys: Vec<Key> = (0..200).map(|_| random_key(&mut rng)).collect();
        keys.sort();
        keys.dedup();
        let builder = keys.into_iter().fold(Commit::builder(), |builder, key| {
            let value = key.as_bytes().to_vec();
            builder.put(key, value)
        });
        let commit = builder.build().unwrap();
        assert_committed(model.commit(commit.clone()).await);
        assert_committed(store.commit(commit).await);
        for round in 0..150 {
            let lists: Vec<Vec<Key>> = (0..rng.usize(..4))
                .map(|_| (0..rng.usize(..20)).map(|_| random_key(&mut rng)).collect())
                .collect();
            let count = *rng.choice(&[0, 1, 2, 15, 16, 17, 40]).unwrap();
            let ranges: Vec<_> = (0..count).map(|_| random_range(&mut rng)).collect();
            let mut reads: Vec<Read<'_>> = lists.iter().map(|keys| Read::Keys(keys)).collect();
            reads.extend(ranges.iter().map(|(range, limit, direction)| Read::Range {
                range,
                limit: *limit,
                direction: *direction,
            }));
            rng.shuffle(&mut reads);
            let expected = model.read(&reads).await.unwrap();
            let found = store.read(&reads).await.unwrap();
            assert_eq!(found, expected, "round {round}");
        }
    });
}

/// Returns the n-th state of a row of entries that one commit writes.
fn row(round: usize) -> Commit {
    let keys = (0..60).map(|number| key(&format!("row{number:02}")));
    let builder = keys.fold(Commit::builder(), |builder: CommitBuilder, key| {
        match round % 3 {
            2 => builder.delete(key),
            _ => builder.put(key, round.to_string()),
        }
    });
    builder.build().unwrap()
}

#[test]
fn reads_beside_another_process_are_not_torn() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let (reader, writer) = (open(server, &database).await, open(server, &database).await);
        let is_done = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_done);
        let writing = tokio::spawn(async move {
            for round in 0..60 {
                assert_committed(writer.commit(row(round)).await);
            }
            done.store(true, Ordering::Relaxed);
        });
        let keys: Vec<Key> = (0..60)
            .map(|number| key(&format!("row{number:02}")))
            .collect();
        // With few ranges and with many, which are different statements.
        for ranges in [4, 30].iter().cycle() {
            let ranges: Vec<KeyRange> = (0..*ranges)
                .map(|number| KeyRange::prefix(&key(&format!("row{:01}", number % 6))))
                .collect();
            let mut reads: Vec<Read<'_>> = ranges.iter().map(Read::all).collect();
            reads.push(Read::Keys(&keys));
            let mut versions = Vec::new();
            for found in reader.read(&reads).await.unwrap() {
                match found {
                    Found::Keys(entries) => {
                        versions.extend(entries.into_iter().map(|entry| Some(entry?.version)));
                    }
                    Found::Range(entries) if entries.is_empty() => versions.push(None),
                    Found::Range(entries) => {
                        versions.extend(entries.iter().map(|found| Some(found.entry.version)));
                    }
                }
            }
            assert!(
                versions.iter().all(|version| *version == versions[0]),
                "{versions:?}"
            );
            if is_done.load(Ordering::Relaxed) {
                break;
            }
        }
        writing.await.expect("the writer ends without a panic");
    });
}
