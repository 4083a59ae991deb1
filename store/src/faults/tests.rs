//! Tests of the fault-injecting store.

use super::*;
use crate::{Direction, Key, KeyRange, MemoryStore, StoreExt};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

fn key(name: &str) -> Key {
    Key::new(name.as_bytes()).unwrap()
}

fn put(name: &str) -> Commit {
    Commit::builder().put(key(name), "v").build().unwrap()
}

fn store(plan: FaultPlan) -> FaultStore {
    FaultStore::new(Arc::new(MemoryStore::new()), plan)
}

fn holds(store: &FaultStore, name: &str) -> bool {
    block_on(store.inner().get(&[key(name)])).unwrap()[0].is_some()
}

fn kind(outcome: Result<CommitOutcome, StoreError>) -> StoreErrorKind {
    outcome.unwrap_err().kind()
}

#[test]
fn scripted_plan_determines_fault_of_each_commit() {
    let store = store(
        FaultPlan::none()
            .at_commit(1, CommitFault::Conflict)
            .at_commit(2, CommitFault::Unavailable)
            .at_commit(3, CommitFault::Full)
            .at_commit(4, CommitFault::LostNotApplied)
            .at_commit(5, CommitFault::LostApplied),
    );
    let commit = |name| block_on(store.commit(put(name)));
    assert_eq!(commit("1").unwrap(), CommitOutcome::Conflict);
    assert_eq!(kind(commit("2")), StoreErrorKind::Unavailable);
    assert_eq!(kind(commit("3")), StoreErrorKind::Full);
    assert_eq!(kind(commit("4")), StoreErrorKind::Unknown);
    assert_eq!(kind(commit("5")), StoreErrorKind::Unknown);
    assert!(matches!(commit("6").unwrap(), CommitOutcome::Committed(_)));
    let held: Vec<bool> = ["1", "2", "3", "4", "5", "6"]
        .map(|name| holds(&store, name))
        .into();
    assert_eq!(held, [false, false, false, false, true, true]);
    assert_eq!(store.counts().faults, 5);
}

#[test]
fn delayed_commit_applies_after_next_call() {
    let store = store(FaultPlan::none().at_commit(1, CommitFault::LostAppliedLater));
    assert_eq!(
        kind(block_on(store.commit(put("k")))),
        StoreErrorKind::Unknown
    );
    let early = block_on(store.get(&[key("k")])).unwrap();
    let then = block_on(store.get(&[key("k")])).unwrap();
    assert!(early[0].is_none());
    assert!(then[0].is_some());
}

#[test]
fn delayed_commit_applies_after_a_failing_read() {
    let store = store(FaultPlan::none().at_commit(1, CommitFault::LostAppliedLater));
    let _ = block_on(store.commit(put("k")));
    store.fail_reads(true);
    assert!(block_on(store.get(&[key("k")])).is_err());
    assert!(holds(&store, "k"));
}

#[test]
fn delayed_commit_still_evaluates_its_checks() {
    let store = store(FaultPlan::none().at_commit(1, CommitFault::LostAppliedLater));
    let create = Commit::builder()
        .check(key("k"), None)
        .put(key("k"), "late")
        .build();
    let _ = block_on(store.commit(create.unwrap()));
    block_on(store.commit(put("k"))).unwrap();
    let found = block_on(store.get(&[key("k")])).unwrap();
    assert_eq!(found[0].as_ref().unwrap().value, "v");
}

#[test]
fn closed_store_stays_closed() {
    let store = store(FaultPlan::none().at_commit(1, CommitFault::Close));
    assert_eq!(
        kind(block_on(store.commit(put("k")))),
        StoreErrorKind::Unavailable
    );
    store.disable_faults();
    assert_eq!(
        kind(block_on(store.commit(put("k")))),
        StoreErrorKind::Unavailable
    );
    assert!(block_on(store.get(&[key("k")])).is_err());
}

#[test]
fn reads_fail_until_faults_are_disabled() {
    let store = store(FaultPlan::none());
    store.fail_reads(true);
    let all = KeyRange::all();
    assert!(block_on(store.get(&[key("k")])).is_err());
    assert!(block_on(store.scan(&all, 1, Direction::Forward)).is_err());
    store.disable_faults();
    assert!(block_on(store.get(&[key("k")])).is_ok());
    store.enable_faults();
    assert!(block_on(store.get(&[key("k")])).is_err());
}

#[test]
fn same_seed_yields_same_faults() {
    let rates = FaultRates {
        conflict: 0.2,
        unavailable: 0.1,
        full: 0.1,
        lost_applied: 0.1,
        lost_not_applied: 0.1,
        lost_applied_later: 0.1,
        read: 0.2,
    };
    let run = |seed| {
        let store = store(FaultPlan::seeded(seed, rates));
        let answers: Vec<String> = (0..200)
            .map(|i| format!("{:?}", block_on(store.commit(put(&i.to_string())))))
            .collect();
        (answers, store.counts())
    };
    let (answers, counts) = run(7);
    assert_eq!(run(7), (answers.clone(), counts));
    assert_ne!(run(8).0, answers);
    assert!(
        (90..190).contains(&counts.faults),
        "faults: {}",
        counts.faults
    );
}

#[test]
fn recorded_history_replays_to_same_contents() {
    let rates = FaultRates {
        lost_applied: 0.2,
        lost_not_applied: 0.2,
        lost_applied_later: 0.2,
        ..FaultRates::default()
    };
    let store = store(FaultPlan::seeded(3, rates)).recording();
    for i in 0..100 {
        let _ = block_on(store.commit(put(&(i % 30).to_string())));
    }
    store.disable_faults();
    block_on(store.get(&[])).unwrap();
    let copy = MemoryStore::new();
    for (_, commit) in store.history() {
        block_on(copy.commit(commit)).unwrap();
    }
    let all = |store: &dyn Store| {
        block_on(store.scan(&KeyRange::all(), usize::MAX, Direction::Forward)).unwrap()
    };
    assert_eq!(all(&copy), all(&**store.inner()));
}

#[test]
fn store_calls_are_counted() {
    let store = store(FaultPlan::none());
    block_on(async {
        store.commit(put("a")).await.unwrap();
        store.commit(put("b")).await.unwrap();
        store.get(&[key("a"), key("c")]).await.unwrap();
        let all = KeyRange::all();
        store.scan(&all, 10, Direction::Forward).await.unwrap();
    });
    let expected = CallCounts {
        reads: 2,
        keys_read: 2,
        ranges_read: 1,
        entries_scanned: 2,
        commits: 2,
        faults: 0,
    };
    assert_eq!(store.counts(), expected);
}
