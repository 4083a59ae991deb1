//! Tests of the reads of a transaction: which ones are checked, and how many the store serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::BoxFuture;
use knowledge_store::faults::FaultPlan;
use knowledge_store::{
    Commit, Direction, Entry, KeyRange, MemoryStore, RangeRead, Store, StoreExt, Transaction,
    transact,
};

use super::{Outcome, env, faulty, key, put};

type Reading = for<'t> fn(&'t mut Transaction) -> BoxFuture<'t, Outcome<()>>;

/// Returns true if a transaction that uses `read` is retried after `change`.
async fn conflicts_with(change: Commit, read: Reading) -> bool {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    put(&*store, "a", "1").await;
    let attempts = AtomicU32::new(0);
    let (attempt, change, other) = (&attempts, &change, &store);
    let outcome: Outcome<()> = transact(&store, &env(), |mut transaction| async move {
        read(&mut transaction).await?;
        if attempt.fetch_add(1, Ordering::SeqCst) == 0 {
            other.commit(change.clone()).await?;
        }
        transaction.put(key("out"), &1);
        Ok(transaction.done(()))
    })
    .await;
    outcome.unwrap();
    attempts.load(Ordering::SeqCst) == 2
}

fn commit(builder: knowledge_store::CommitBuilder) -> Commit {
    builder.build().unwrap()
}

#[tokio::test]
async fn commit_checks_present_and_absent_reads() {
    let read_both: Reading = |transaction| {
        Box::pin(async move {
            transaction
                .get_many::<i64>(&[key("a"), key("absent")])
                .await?;
            Ok(())
        })
    };
    let changes = [("a", true), ("absent", true), ("elsewhere", false)];
    for (name, expected) in changes {
        let change = commit(Commit::builder().put(key(name), "2"));
        assert_eq!(conflicts_with(change, read_both).await, expected, "{name}");
    }
    let deletion = commit(Commit::builder().delete(key("a")));
    assert!(conflicts_with(deletion, read_both).await);
}

#[tokio::test]
async fn guarded_read_conflicts_with_addition_and_unchecked_does_not() {
    let addition = commit(Commit::builder().add(key("count"), 1));
    let guard: Reading = |transaction| {
        Box::pin(async move {
            assert!(transaction.get::<i64>(&key("count")).await?.unwrap_or(0) <= 1);
            Ok(())
        })
    };
    assert!(conflicts_with(addition.clone(), guard).await);
    let read_unchecked: Reading = |transaction| {
        Box::pin(async move {
            transaction.unchecked().get::<i64>(&key("count")).await?;
            Ok(())
        })
    };
    assert!(!conflicts_with(addition, read_unchecked).await);
}

#[tokio::test]
async fn change_between_reads_of_one_key_is_a_conflict() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    put(&*store, "a", "1").await;
    let attempts = AtomicU32::new(0);
    let (attempt, other) = (&attempts, &store);
    let outcome: Outcome<(i64, i64)> = transact(&store, &env(), |mut transaction| async move {
        let before = transaction.get(&key("a")).await?.unwrap();
        if attempt.fetch_add(1, Ordering::SeqCst) == 0 {
            put(&**other, "a", "2").await;
        }
        let after = transaction.get(&key("a")).await?.unwrap();
        transaction.put(key("out"), &1);
        Ok(transaction.done((before, after)))
    })
    .await;
    assert_eq!(
        outcome.unwrap(),
        (2, 2),
        "no decision on an inconsistent read is committed"
    );
}

/// Returns the number of store reads that a decision without writes takes, checks included.
async fn reads_of(read: Reading) -> u64 {
    let (faults, store) = faulty(FaultPlan::none());
    put(&*store, "a", "1").await;
    put(&*store, "b", "2").await;
    let outcome: Outcome<()> = transact(&store, &env(), |mut transaction| async move {
        read(&mut transaction).await?;
        Ok(transaction.done(()))
    })
    .await;
    outcome.unwrap();
    faults.counts().reads
}

fn names() -> RangeRead {
    RangeRead {
        range: KeyRange::prefix(&key("a")),
        limit: 9,
        direction: Direction::Forward,
    }
}

#[tokio::test]
async fn prefetched_keys_and_ranges_are_one_read() {
    let prefetched: Reading = |transaction| {
        Box::pin(async move {
            let keys = [key("a"), key("b"), key("absent")];
            transaction.prefetch(keys.into(), vec![names()]).await?;
            assert_eq!(transaction.get(&key("b")).await?, Some(2));
            let both = [key("a"), key("absent")];
            let found = transaction.get_many::<u64>(&both).await?;
            assert_eq!(found, [Some(1), None]);
            let whole = transaction.scan(&RangeRead::all(names().range)).await?;
            assert_eq!(transaction.scan(&names()).await?, whole);
            assert_eq!(whole.len(), 1);
            Ok(())
        })
    };
    assert_eq!(reads_of(prefetched).await, 1);
}

#[tokio::test]
async fn known_keys_are_read_again_without_the_store() {
    let again: Reading = |transaction| {
        Box::pin(async move {
            let keys = vec![key("a"), key("b")];
            transaction.prefetch(keys.clone(), Vec::new()).await?;
            transaction.prefetch(keys.clone(), Vec::new()).await?;
            assert_eq!(transaction.unchecked().get(&key("a")).await?, Some(1));
            for _ in 0..2 {
                assert_eq!(transaction.get(&key("a")).await?, Some(1));
                let found = transaction.get_many::<u64>(&keys).await?;
                assert_eq!(found, [Some(1), Some(2)]);
            }
            let found = transaction.unchecked().get_many::<u64>(&keys).await?;
            assert_eq!(found, [Some(1), Some(2)]);
            let prefetched = transaction.prefetched();
            assert!(prefetched.contains(&key("a")) && !prefetched.contains(&key("c")));
            assert_eq!(prefetched.get(&key("a"))?, Some(1));
            Ok(())
        })
    };
    assert_eq!(reads_of(again).await, 1);
    let not_prefetched: Reading = |transaction| {
        Box::pin(async move {
            for _ in 0..2 {
                assert_eq!(transaction.get(&key("a")).await?, Some(1));
            }
            Ok(())
        })
    };
    assert_eq!(reads_of(not_prefetched).await, 1);
}

/// A key outlives the range that it was prefetched with, once it was named.
#[tokio::test]
async fn named_key_is_kept_when_its_range_is_taken() {
    let taken: Reading = |transaction| {
        Box::pin(async move {
            transaction.prefetch(Vec::new(), vec![names()]).await?;
            transaction.prefetch(vec![key("a")], Vec::new()).await?;
            assert_eq!(transaction.get::<u64>(&key("absent")).await?, None);
            assert_eq!(
                transaction.prefetched().scan(&names()).map(<[_]>::len),
                Some(1)
            );
            assert_eq!(transaction.scan(&names()).await?.len(), 1);
            assert_eq!(transaction.prefetched().scan(&names()), None);
            assert_eq!(transaction.get(&key("a")).await?, Some(1));
            assert_eq!(transaction.get::<u64>(&key("absent")).await?, None);
            Ok(())
        })
    };
    assert_eq!(reads_of(taken).await, 1);
}

/// Every read repeats what was prefetched until it is a check, so that all are of one time.
#[tokio::test]
async fn later_read_refreshes_prefetched_entries() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    put(&*store, "a", "1").await;
    let mut transaction = Transaction::begin(Arc::clone(&store));
    let keys = vec![key("a")];
    transaction.prefetch(keys, Vec::new()).await.unwrap();
    put(&*store, "a", "2").await;
    let other = transaction.get::<u64>(&key("b")).await.unwrap();
    assert_eq!(other, None);
    assert_eq!(transaction.get(&key("a")).await.unwrap(), Some(2));
    put(&*store, "a", "3").await;
    assert_eq!(transaction.get(&key("a")).await.unwrap(), Some(2));
    let fresh = transaction.unchecked().store();
    let fresh = fresh.get_as::<u64>(&key("a")).await.unwrap();
    assert_eq!(fresh.unwrap().value, 3);
}

/// A read does not repeat what an unchecked one has returned, which another read confirms then.
#[tokio::test]
async fn entry_of_an_unchecked_read_is_not_repeated() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    put(&*store, "a", "1").await;
    let mut transaction = Transaction::begin(Arc::clone(&store));
    let keys = vec![key("a")];
    transaction.prefetch(keys, Vec::new()).await.unwrap();
    let unchecked = transaction.unchecked().get(&key("a")).await.unwrap();
    assert_eq!(unchecked, Some(1));
    put(&*store, "a", "2").await;
    transaction.get::<u64>(&key("b")).await.unwrap();
    assert_eq!(transaction.get(&key("a")).await.unwrap(), Some(1));

    let confirmed: Reading = |transaction| {
        Box::pin(async move {
            transaction.prefetch(vec![key("a")], Vec::new()).await?;
            transaction.unchecked().get::<u64>(&key("a")).await?;
            transaction.get::<u64>(&key("b")).await?;
            transaction.get::<u64>(&key("a")).await?;
            Ok(())
        })
    };
    assert_eq!(reads_of(confirmed).await, 3);
}

#[tokio::test]
async fn second_read_confirms_the_first() {
    let both: Reading = |transaction| {
        Box::pin(async move {
            transaction.get::<u64>(&key("a")).await?;
            transaction.get::<u64>(&key("b")).await?;
            Ok(())
        })
    };
    assert_eq!(reads_of(both).await, 2);
    let unchecked_last: Reading = |transaction| {
        Box::pin(async move {
            transaction.get::<u64>(&key("a")).await?;
            transaction.get::<u64>(&key("b")).await?;
            transaction.unchecked().store().get(&[key("a")]).await?;
            Ok(())
        })
    };
    assert_eq!(reads_of(unchecked_last).await, 4);
    let elsewhere: Reading = |transaction| {
        Box::pin(async move {
            transaction.get::<u64>(&key("a")).await?;
            let found = transaction.unchecked().store().get(&[key("b")]).await?;
            let version = found[0].as_ref().map(|entry| entry.version);
            transaction.check(key("b"), version);
            Ok(())
        })
    };
    assert_eq!(reads_of(elsewhere).await, 3);
}

#[tokio::test]
async fn change_between_two_reads_is_noticed_without_a_commit() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    put(&*store, "a", "1").await;
    let attempts = AtomicU32::new(0);
    let (attempt, other) = (&attempts, &store);
    let outcome: Outcome<(Option<u64>, Option<u64>)> =
        transact(&store, &env(), |mut transaction| async move {
            transaction.prefetch(vec![key("a")], Vec::new()).await?;
            let a = transaction.get(&key("a")).await?;
            if attempt.fetch_add(1, Ordering::SeqCst) == 0 {
                put(&**other, "a", "2").await;
                put(&**other, "b", "2").await;
            }
            let b = transaction.get(&key("b")).await?;
            Ok(transaction.done((a, b)))
        })
        .await;
    assert_eq!(outcome.unwrap(), (Some(2), Some(2)));
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn prefetched_entry_is_no_check_until_it_is_used() {
    let unused: Reading = |transaction| {
        Box::pin(async move {
            transaction
                .prefetch(vec![key("a"), key("b")], Vec::new())
                .await?;
            transaction.get::<u64>(&key("b")).await?;
            Ok(())
        })
    };
    let change = commit(Commit::builder().put(key("a"), "2"));
    assert!(!conflicts_with(change, unused).await);
    let used: Reading = |transaction| {
        Box::pin(async move {
            transaction
                .prefetch(vec![key("a"), key("b")], Vec::new())
                .await?;
            transaction.get::<u64>(&key("a")).await?;
            Ok(())
        })
    };
    let change = commit(Commit::builder().put(key("a"), "2"));
    assert!(conflicts_with(change, used).await);
}

#[tokio::test]
async fn prefetched_entry_is_returned_each_time_it_is_named() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    put(&*store, "a", "1").await;
    let mut transaction = Transaction::begin(Arc::clone(&store));
    let keys = vec![key("a"), key("b")];
    transaction.prefetch(keys, Vec::new()).await.unwrap();
    put(&*store, "a", "2").await;
    let named = [key("a"), key("b"), key("a")];
    let found = transaction.get_many::<Entry>(&named).await.unwrap();
    let found = found.iter().map(Option::as_ref);
    let values: Vec<_> = found
        .map(|entry| entry.map(|entry| &*entry.value))
        .collect();
    assert_eq!(values, [Some(&b"1"[..]), None, Some(&b"1"[..])]);
}
