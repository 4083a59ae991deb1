//! Cases about concurrent callers.
//!
//! The sizes are such that a store that syncs every commit finishes within seconds.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::harness::Task;
use super::support::{
    CaseContext, Outcome, add, commit, delete, expect, expect_eq, expect_value, fail, get, key,
    numbered, put,
};
use crate::env::yield_once;
use crate::{
    Commit, CommitBuilder, CommitOutcome, Direction, Key, KeyRange, Read, Store, StoreExt,
};

const TASKS: usize = 8;
const ROUNDS: usize = 25;
/// Number of keys that one commit writes while readers read them.
const ROW_KEYS: usize = 48;

fn number(value: &[u8]) -> Outcome<i64> {
    match std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok())
    {
        Some(number) => Ok(number),
        None => fail(format!(
            "expected a number, found \"{}\"",
            value.escape_ascii()
        )),
    }
}

/// Adds 1 by read, check and put, and retries on conflict.
async fn increment(store: &dyn Store, counter: &Key) -> Outcome {
    // Each conflict means that another task was first, so a correct store needs at most as many
    // attempts as there are increments in total.
    for _ in 0..=TASKS * ROUNDS {
        let found = get(store, counter).await?;
        let current = found.as_ref().map_or(Ok(0), |entry| number(&entry.value))?;
        let version = found.map(|entry| entry.version);
        let commit = Commit::builder()
            .check(counter.clone(), version)
            .put(counter.clone(), (current + 1).to_string())
            .build()?;
        // On a single thread, this is the point where another task may run between read and write.
        yield_once().await;
        if let CommitOutcome::Committed(_) = store.commit(commit).await? {
            return Ok(());
        }
    }
    fail("a commit that checks a version just read conflicts every time")
}

/// Guard of a running writer, released also on a panic: readers continue while one exists.
struct Writing(Arc<AtomicUsize>);

impl Writing {
    fn new(writers: &Arc<AtomicUsize>) -> Self {
        writers.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(writers))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) async fn no_update_is_lost(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let tasks = (0..TASKS).map(|_| {
        let store = Arc::clone(&store);
        async move {
            for _ in 0..ROUNDS {
                increment(&*store, &key("total")).await?;
            }
            Ok(())
        }
    });
    context.concurrently(tasks).await?;
    expect_value(&*store, &key("total"), &(TASKS * ROUNDS).to_string()).await
}

pub(super) async fn concurrent_creations_succeed_once(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let wins: Arc<Vec<AtomicUsize>> = Arc::new((0..ROUNDS).map(|_| AtomicUsize::new(0)).collect());
    let tasks = (0..TASKS).map(|task| {
        let (store, wins) = (Arc::clone(&store), Arc::clone(&wins));
        async move {
            for (round, wins) in wins.iter().enumerate() {
                let name = numbered("created", round);
                let create = Commit::builder()
                    .check(name.clone(), None)
                    .put(name, task.to_string())
                    .put(numbered(&format!("by{task}-"), round), "won");
                yield_once().await;
                if let CommitOutcome::Committed(_) = store.commit(create.build()?).await? {
                    wins.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        }
    });
    context.concurrently(tasks).await?;
    for (round, wins) in wins.iter().enumerate() {
        let wins = wins.load(Ordering::Relaxed);
        expect_eq(format_args!("creators that won round {round}"), &wins, &1)?;
    }
    let by = store
        .scan(
            &KeyRange::prefix(&key("by")),
            usize::MAX,
            Direction::Forward,
        )
        .await?;
    expect_eq("traces of the winners", &by.len(), &ROUNDS)
}

pub(super) async fn concurrent_adds_are_all_counted(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let tasks = (0..TASKS).map(|task| {
        let store = Arc::clone(&store);
        async move {
            for _ in 0..ROUNDS {
                let builder = Commit::builder()
                    .add(key("up"), 3)
                    .add(key("down"), -1)
                    .add(numbered("own", task), 1);
                // Without a check there can be no conflict.
                commit(&*store, builder).await?;
            }
            Ok(())
        }
    });
    context.concurrently(tasks).await?;
    let commits = TASKS * ROUNDS;
    expect_value(&*store, &key("up"), &(3 * commits).to_string()).await?;
    expect_value(&*store, &key("down"), &format!("-{commits}")).await?;
    for task in 0..TASKS {
        expect_value(&*store, &numbered("own", task), &ROUNDS.to_string()).await?;
    }
    Ok(())
}

fn row() -> Vec<Key> {
    (0..ROW_KEYS).map(|i| numbered("row", i)).collect()
}

/// Returns the n-th state of the row: all keys with one value, or, every third time, none of them.
fn write_row(round: usize) -> CommitBuilder {
    row()
        .into_iter()
        .fold(Commit::builder(), |builder, key| match round % 3 {
            2 => builder.delete(key),
            _ => builder.put(key, round.to_string()),
        })
}

/// Runs writers of the row beside readers that read it until the writers are done.
async fn read_beside_writers<R>(
    context: &CaseContext<'_>,
    store: &Arc<dyn Store>,
    read: R,
) -> Outcome
where
    R: Fn(Arc<dyn Store>) -> Task<'static, Outcome> + crate::MaybeSendSync + Clone + 'static,
{
    const WRITERS: usize = 2;
    const WRITES: usize = 60;
    let writing = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, held) = (Arc::clone(store), Writing::new(&writing));
            Box::pin(async move {
                let _held = held;
                for round in 0..WRITES {
                    commit(&*store, write_row(round * WRITERS + writer)).await?;
                    yield_once().await;
                }
                Ok(())
            }) as Task<'static, Outcome>
        })
        .collect();
    let readers = (0..4).map(|_| {
        let (store, writing, read) = (Arc::clone(store), Arc::clone(&writing), read.clone());
        Box::pin(async move {
            while writing.load(Ordering::Relaxed) > 0 {
                read(Arc::clone(&store)).await?;
                yield_once().await;
            }
            Ok(())
        }) as Task<'static, Outcome>
    });
    context
        .concurrently(writers.into_iter().chain(readers))
        .await
}

pub(super) async fn get_never_sees_partial_commit(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    read_beside_writers(context, &store, |store| {
        Box::pin(async move {
            let found = store.get(&row()).await?;
            expect(
                found.iter().all(|entry| *entry == found[0]),
                format_args!("a get shows one commit, got {found:?}"),
            )
        })
    })
    .await
}

pub(super) async fn scan_never_sees_partial_commit(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    // Neighbours that never change: a scan must not lose them while the row appears and disappears.
    for name in ["rov", "rox"] {
        put(&*store, &key(name), "still").await?;
    }
    read_beside_writers(context, &store, |store| {
        Box::pin(async move {
            for direction in [Direction::Forward, Direction::Reverse] {
                let found = store.scan(&KeyRange::all(), usize::MAX, direction).await?;
                let all = found.len();
                let row: Vec<_> = found
                    .iter()
                    .filter(|found| found.key.as_bytes().starts_with(b"row"))
                    .collect();
                expect_eq("neighbours of the row", &(all - row.len()), &2)?;
                expect(
                    row.is_empty() || row.len() == ROW_KEYS,
                    format_args!("a scan shows all of the row or nothing, got {}", row.len()),
                )?;
                expect(
                    row.iter().all(|found| found.entry == row[0].entry),
                    "a scan shows one commit",
                )?;
                let sorted = found.windows(2).all(|pair| match direction {
                    Direction::Forward => pair[0].key < pair[1].key,
                    Direction::Reverse => pair[0].key > pair[1].key,
                });
                expect(sorted, "a scan beside writers is in order")?;

                let limited = store
                    .scan(&KeyRange::prefix(&key("row")), 7, direction)
                    .await?;
                expect(
                    limited.is_empty() || limited.len() == 7,
                    format_args!("a scan of 7 finds 7 or none, got {}", limited.len()),
                )?;
            }
            Ok(())
        })
    })
    .await
}

pub(super) async fn mixed_reads_see_one_snapshot(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    read_beside_writers(context, &store, |store| {
        Box::pin(async move {
            let (row, range) = (row(), KeyRange::prefix(&key("row")));
            let whole = |direction| Read::Range {
                range: &range,
                limit: usize::MAX,
                direction,
            };
            let [first, forward, last, reverse] = store
                .read_array([
                    Read::Keys(&row[..1]),
                    whole(Direction::Forward),
                    Read::Keys(&row[ROW_KEYS - 1..]),
                    whole(Direction::Reverse),
                ])
                .await?;
            let (forward, mut reverse) = (forward.into_range()?, reverse.into_range()?);
            reverse.reverse();
            expect_eq("the row read twice in one call", &forward, &reverse)?;
            for found in [first, last] {
                let found = found.into_keys()?.pop().flatten();
                let in_range = forward.first().map(|found| found.entry.clone());
                expect_eq("a key beside the range that holds it", &found, &in_range)?;
            }
            Ok(())
        })
    })
    .await
}

pub(super) async fn reads_are_monotonic(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    add(&*store, &key("clock"), 1).await?;
    let writing = Arc::new(AtomicUsize::new(0));
    let writer = {
        let (store, held) = (Arc::clone(&store), Writing::new(&writing));
        Box::pin(async move {
            let _held = held;
            for round in 0..100 {
                add(&*store, &key("clock"), 1).await?;
                if round % 10 == 0 {
                    // Appears and disappears, so that pages split and merge under the readers.
                    put(&*store, &numbered("pad", round), "x").await?;
                    delete(&*store, &numbered("pad", round)).await?;
                }
                yield_once().await;
            }
            Ok(())
        }) as Task<'static, Outcome>
    };
    let readers = (0..4).map(|_| {
        let (store, writing) = (Arc::clone(&store), Arc::clone(&writing));
        Box::pin(async move {
            let mut last = 0;
            while writing.load(Ordering::Relaxed) > 0 {
                let found = get(&*store, &key("clock")).await?;
                let now = found.map_or(Ok(0), |entry| number(&entry.value))?;
                expect(now >= last, format_args!("{now} does not follow {last}"))?;
                last = now;
                yield_once().await;
            }
            Ok(())
        }) as Task<'static, Outcome>
    });
    context.concurrently(readers.chain([writer])).await?;
    expect_value(&*store, &key("clock"), "101").await
}

const ACCOUNTS: usize = 5;
const DEPOSIT: i64 = 100;

async fn balances(store: &dyn Store) -> Outcome<Vec<(Key, i64, crate::Version)>> {
    let found = store
        .scan(
            &KeyRange::prefix(&key("account")),
            usize::MAX,
            Direction::Forward,
        )
        .await?;
    let balance = |found: crate::KeyEntry| {
        number(&found.entry.value).map(|balance| (found.key, balance, found.entry.version))
    };
    found.into_iter().map(balance).collect()
}

fn sum(balances: &[(Key, i64, crate::Version)]) -> i64 {
    balances.iter().map(|(_, balance, _)| balance).sum()
}

pub(super) async fn transfers_keep_their_sum(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    for account in 0..ACCOUNTS {
        put(&*store, &numbered("account", account), &DEPOSIT.to_string()).await?;
    }
    let total = DEPOSIT * ACCOUNTS as i64;
    let tasks = (0..TASKS).map(|task| {
        let store = Arc::clone(&store);
        async move {
            let mut rng = fastrand::Rng::with_seed(task as u64);
            for _ in 0..ROUNDS {
                let seen = balances(&*store).await?;
                expect_eq("the sum of all accounts", &sum(&seen), &total)?;
                let from = rng.usize(..ACCOUNTS);
                let to = (from + rng.usize(1..ACCOUNTS)) % ACCOUNTS;
                let amount = rng.i64(1..50);
                let commit = [(from, -amount), (to, amount)].into_iter().fold(
                    Commit::builder(),
                    |builder, (account, change)| {
                        let (key, balance, version) = &seen[account];
                        builder
                            .check(key.clone(), Some(*version))
                            .put(key.clone(), (balance + change).to_string())
                    },
                );
                yield_once().await;
                // A conflict means that another transfer was first; this one is then abandoned.
                store.commit(commit.build()?).await?;
            }
            Ok(())
        }
    });
    context.concurrently(tasks).await?;
    expect_eq(
        "the sum at the end",
        &sum(&balances(&*store).await?),
        &total,
    )
}

pub(super) async fn versions_of_concurrent_commits_differ(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let versions = Arc::new(Mutex::new(Vec::new()));
    let tasks = (0..TASKS).map(|task| {
        let (store, versions) = (Arc::clone(&store), Arc::clone(&versions));
        async move {
            for round in 0..ROUNDS {
                // Half of the writes are to the same key.
                let name = match round % 2 {
                    0 => key("same"),
                    _ => numbered("own", task),
                };
                let version = put(&*store, &name, &task.to_string()).await?;
                versions
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((name, version));
            }
            Ok(())
        }
    });
    context.concurrently(tasks).await?;
    let versions = versions.lock().unwrap_or_else(PoisonError::into_inner);
    let distinct: HashSet<_> = versions.iter().collect();
    expect_eq("distinct versions", &distinct.len(), &(TASKS * ROUNDS))
}

/// Key in the area whose marks the cases compare.
const MARKED: &str = "number/marked";

pub(super) async fn commit_changes_the_mark_of_its_area(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let tasks = (0..TASKS).map(|task| {
        let (store, name) = (Arc::clone(&store), numbered("own/marked/", task));
        async move {
            for round in 0..ROUNDS {
                let before = store.mark(b"marked");
                match round % 3 {
                    2 => drop(delete(&*store, &name).await?),
                    _ => drop(put(&*store, &name, &round.to_string()).await?),
                }
                let after = store.mark(b"marked");
                // Without a mark there is no promise.
                expect(
                    before.is_none() || before != after,
                    "an area has another mark after a commit that changed it",
                )?;
            }
            Ok(())
        }
    });
    context.concurrently(tasks).await
}

pub(super) async fn area_with_the_same_mark_is_unchanged(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let writing = Arc::new(AtomicUsize::new(0));
    let writer = {
        let (store, held) = (Arc::clone(&store), Writing::new(&writing));
        Box::pin(async move {
            let _held = held;
            for _ in 0..100 {
                add(&*store, &key(MARKED), 1).await?;
                yield_once().await;
            }
            Ok(())
        }) as Task<'static, Outcome>
    };
    let readers = (0..4).map(|_| {
        let (store, writing) = (Arc::clone(&store), Arc::clone(&writing));
        Box::pin(async move {
            while writing.load(Ordering::Relaxed) > 0 {
                let mark = store.mark(b"marked");
                let first = get(&*store, &key(MARKED)).await?;
                yield_once().await;
                let second = get(&*store, &key(MARKED)).await?;
                if mark.is_some() && store.mark(b"marked") == mark {
                    expect_eq("an entry of an area with the same mark", &second, &first)?;
                }
            }
            Ok(())
        }) as Task<'static, Outcome>
    });
    context.concurrently(readers.chain([writer])).await
}
