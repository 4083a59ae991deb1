//! The conformance suite over the in-memory store, and over broken stores that it must detect.

mod broken;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use knowledge_store::conformance::{self, Harness, Lifetime, Report, Task};
use knowledge_store::{MemoryStore, Store};

use self::broken::{Broken, Defect};

/// Runs tasks on the threads of a Tokio runtime.
async fn on_threads(tasks: Vec<Task<'static>>) {
    let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    for task in running {
        task.await.expect("a task ends without a panic");
    }
}

struct Memory {
    has_threads: bool,
}

#[async_trait]
impl Harness for Memory {
    fn lifetime(&self) -> Lifetime {
        Lifetime::Volatile
    }

    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new())
    }

    async fn run_concurrently(&self, tasks: Vec<Task<'static>>) {
        if self.has_threads {
            on_threads(tasks).await;
        } else {
            futures::future::join_all(tasks).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_store_passes_conformance() {
    let report = conformance::run(&Memory { has_threads: true }).await;
    let ran = report.passed.iter().chain(&report.skipped).copied();
    let all: BTreeSet<_> = conformance::case_names().collect();
    assert_eq!(ran.collect::<BTreeSet<_>>(), all);
    let is_about_reopening = |name: &&str| name.starts_with("durability::");
    assert!(report.skipped.iter().all(is_about_reopening));
}

/// A run as on wasm32, which has no threads.
#[tokio::test]
async fn memory_store_passes_conformance_on_one_thread() {
    conformance::run(&Memory { has_threads: false }).await;
}

/// Each defect, with a case that must catch it.
const CAUGHT_BY: &[(Defect, &str)] = &[
    (
        Defect::AnswersGetSorted,
        "reading::get_returns_entries_in_requested_order",
    ),
    (
        Defect::SkipsRepeatedKeys,
        "reading::get_accepts_repeated_keys_and_none",
    ),
    (
        Defect::IgnoresReverse,
        "reading::scan_runs_in_both_directions",
    ),
    (
        Defect::TakesTheFirstInReverse,
        "reading::scan_stops_at_its_limit",
    ),
    (Defect::LimitOffByOne, "reading::scan_stops_at_its_limit"),
    (
        Defect::ScansToTheEndInclusive,
        "reading::scan_stays_within_its_range",
    ),
    (
        Defect::ScansFromTheStartExclusive,
        "reading::scan_stays_within_its_range",
    ),
    (
        Defect::FailsOnInvertedRanges,
        "reading::scan_of_empty_range_finds_nothing",
    ),
    (
        Defect::CutsLongBounds,
        "sizes::bounds_may_be_longer_than_a_key",
    ),
    (
        Defect::IgnoresChecks,
        "commits::failed_check_changes_nothing",
    ),
    (
        Defect::IgnoresChecksOfAbsence,
        "concurrency::concurrent_creations_succeed_once",
    ),
    (
        Defect::ChecksTheFirstOnly,
        "commits::one_failed_check_of_many_is_a_conflict",
    ),
    (
        Defect::ChecksInAnotherStep,
        "concurrency::no_update_is_lost",
    ),
    (
        Defect::AppliesOneByOne,
        "concurrency::scan_never_sees_partial_commit",
    ),
    (
        Defect::AppliesBeforeAnInvalidAdd,
        "counters::invalid_add_applies_nothing_of_its_commit",
    ),
    (
        Defect::ConflictsOnChecksOnly,
        "commits::commit_may_check_without_mutations",
    ),
    (
        Defect::ReadsKeyByKey,
        "concurrency::get_never_sees_partial_commit",
    ),
    (
        Defect::ReadsOneByOne,
        "concurrency::mixed_reads_see_one_snapshot",
    ),
    (
        Defect::AnswersKeysFirst,
        "reading::mixed_reads_have_one_result_each",
    ),
    (
        Defect::ReadsOldState,
        "commits::commit_is_visible_immediately",
    ),
    (
        Defect::ReusesVersionsAfterDelete,
        "versions::versions_are_not_reused_after_delete",
    ),
    (
        Defect::ReusesVersionsOverReopen,
        "durability::versions_are_not_reused_after_reopen",
    ),
    (
        Defect::KeepsTheVersionOfEqualValues,
        "versions::every_write_changes_the_version",
    ),
    (
        Defect::KeepsTheVersionOfCounters,
        "counters::add_changes_the_version",
    ),
    (
        Defect::AnswersAnotherVersion,
        "versions::commit_gives_its_version_to_its_entries",
    ),
    (
        Defect::AddLosesTheSign,
        "counters::counter_may_be_negative_and_stays_at_zero",
    ),
    (Defect::AddWraps, "counters::add_rejects_overflow"),
    (
        Defect::AddRemovesZero,
        "counters::counter_may_be_negative_and_stays_at_zero",
    ),
    (
        Defect::AddIsLost,
        "concurrency::concurrent_adds_are_all_counted",
    ),
    (
        Defect::AddTreatsTextAsZero,
        "counters::add_rejects_value_that_is_no_counter",
    ),
    (Defect::CutsLargeValues, "sizes::largest_value_is_stored"),
    (
        Defect::DropsMutationsPastThousand,
        "sizes::maximum_of_mutations_is_one_commit",
    ),
    (
        Defect::ReopenLosesTheLastCommit,
        "durability::last_commit_survives_reopen",
    ),
    (
        Defect::ReopenForgetsDeletes,
        "durability::deletes_survive_reopen",
    ),
    (
        Defect::KeepsTheMark,
        "concurrency::commit_changes_the_mark_of_its_area",
    ),
    (
        Defect::ChangesTheMarkTooEarly,
        "concurrency::area_with_the_same_mark_is_unchanged",
    ),
];

/// A harness that creates broken stores, and keeps them so that it can reopen them.
struct BrokenHarness {
    defect: Defect,
    last_opened: Mutex<Option<Arc<Broken>>>,
    reopens: AtomicUsize,
}

impl BrokenHarness {
    fn new(defect: Defect) -> Self {
        Self {
            defect,
            last_opened: Mutex::default(),
            reopens: AtomicUsize::new(0),
        }
    }

    fn remember(&self, store: Broken) -> Arc<dyn Store> {
        let store = Arc::new(store);
        *self.last_opened.lock().unwrap() = Some(Arc::clone(&store));
        store
    }
}

#[async_trait]
impl Harness for BrokenHarness {
    fn lifetime(&self) -> Lifetime {
        Lifetime::Durable
    }

    async fn open(&self) -> Arc<dyn Store> {
        self.remember(Broken::new(self.defect))
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        drop(store);
        // A case uses one store at a time, so this is the last one opened.
        let closed = self.last_opened.lock().unwrap().take().unwrap();
        assert_eq!(
            Arc::strong_count(&closed),
            1,
            "the suite keeps no reference"
        );
        self.reopens.fetch_add(1, Ordering::Relaxed);
        self.remember(closed.reopened())
    }

    async fn run_concurrently(&self, tasks: Vec<Task<'static>>) {
        on_threads(tasks).await;
    }
}

async fn survey(defect: Defect) -> Report {
    let harness = BrokenHarness::new(defect);
    let report = conformance::survey(&harness).await;
    assert!(harness.reopens.load(Ordering::Relaxed) > 0);
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn broken_store_without_defect_passes_conformance() {
    let report = survey(Defect::None).await;
    let all: Vec<_> = conformance::case_names().collect();
    assert_eq!(report.passed, all, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn store_defect_is_caught_by_its_case() {
    let mut missed = Vec::new();
    for (defect, case) in CAUGHT_BY {
        let report = survey(*defect).await;
        let failed: Vec<_> = report.failed.iter().map(|failed| failed.name).collect();
        if !failed.contains(case) {
            missed.push(format!("{defect:?}: not by {case}, but by {failed:?}"));
        }
        // A failure does not prevent the remaining cases.
        let ran = report.passed.len() + failed.len();
        assert_eq!(ran, conformance::case_names().count());
    }
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

#[tokio::test]
#[should_panic(
    expected = "counters::counter_is_decimal_text: the value under a: expected \"-999999983\""
)]
async fn conformance_failure_names_case_and_expectation() {
    conformance::run(&BrokenHarness::new(Defect::AddLosesTheSign)).await;
}
