//! Conformance suite that every backend of [`Store`](crate::Store) must pass.
//!
//! The entry point is [`run`], which runs every case. A backend implements [`Harness`], which opens
//! its stores and runs tasks concurrently. A backend whose contents are lost with it declares that,
//! and the cases that depend on durability are reported as skipped.
//!
//! ```
//! use std::sync::Arc;
//! use async_trait::async_trait;
//! use knowledge_store::{MemoryStore, Store};
//! use knowledge_store::conformance::{self, Harness, Lifetime};
//!
//! struct Memory;
//!
//! #[async_trait]
//! impl Harness for Memory {
//!     fn lifetime(&self) -> Lifetime {
//!         Lifetime::Volatile
//!     }
//!     async fn open(&self) -> Arc<dyn Store> {
//!         Arc::new(MemoryStore::new())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let report = conformance::run(&Memory).await;
//! assert_eq!(report.passed.len() + report.skipped.len(), conformance::case_names().count());
//! # }
//! ```

mod commits;
mod concurrency;
mod counters;
mod durability;
mod harness;
mod reading;
mod sizes;
mod support;
mod versions;

use std::fmt;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;

pub use self::harness::{Harness, Lifetime, Task};
use self::support::{CaseContext, Outcome};

/// Failed case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCase {
    /// Name of the case.
    pub name: &'static str,
    /// Expected and actual behaviour.
    pub message: String,
}

/// Result of the suite: each case is in exactly one of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Cases that the backend passed.
    pub passed: Vec<&'static str>,
    /// Cases about reopening, if the backend is [`Lifetime::Volatile`].
    pub skipped: Vec<&'static str>,
    /// Cases that the backend failed.
    pub failed: Vec<FailedCase>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, skipped, failed) = (self.passed.len(), self.skipped.len(), self.failed.len());
        write!(f, "{passed} passed, {skipped} skipped, {failed} failed")?;
        for FailedCase { name, message } in &self.failed {
            write!(f, "\n  {name}: {message}")?;
        }
        Ok(())
    }
}

type CaseFn = for<'t> fn(&'t CaseContext<'t>) -> Task<'t, Outcome>;

struct Case {
    name: &'static str,
    needs: Option<Lifetime>,
    run: CaseFn,
}

/// Lists the cases of a module.
///
/// A case that is written but not listed is dead code, which the compiler reports.
macro_rules! cases {
    ($($module:ident, needs $needs:expr => { $($case:ident),* $(,)? })*) => {
        &[$($(Case {
            name: concat!(stringify!($module), "::", stringify!($case)),
            needs: $needs,
            run: |context| Box::pin($module::$case(context)),
        },)*)*]
    };
}

const CASES: &[Case] = cases! {
    reading, needs None => {
        empty_store_has_no_entries,
        get_returns_entries_in_requested_order,
        get_accepts_repeated_keys_and_none,
        keys_are_ordered_byte_by_byte,
        scan_runs_in_both_directions,
        scan_stops_at_its_limit,
        scan_stays_within_its_range,
        scan_of_empty_range_finds_nothing,
        pages_cover_a_range_once,
        prefix_range_finds_only_its_keys,
        values_keep_their_bytes,
        mixed_reads_have_one_result_each,
        reads_accept_any_mixture,
    }
    commits, needs None => {
        commit_is_visible_immediately,
        failed_check_changes_nothing,
        one_failed_check_of_many_is_a_conflict,
        checks_compare_with_current_version,
        commit_may_check_without_mutations,
        commit_may_mutate_without_checks,
        empty_commit_is_committed,
        delete_removes_entry,
        stale_check_fails_after_delete,
    }
    versions, needs None => {
        commit_gives_its_version_to_its_entries,
        every_write_changes_the_version,
        write_of_one_key_keeps_the_others,
        versions_are_not_reused_after_delete,
    }
    counters, needs None => {
        counter_starts_at_zero,
        counter_is_decimal_text,
        counter_may_be_negative_and_stays_at_zero,
        put_number_is_a_counter,
        add_rejects_value_that_is_no_counter,
        add_rejects_overflow,
        invalid_add_applies_nothing_of_its_commit,
        failed_check_precedes_invalid_add,
        add_changes_the_version,
        add_combines_with_puts_and_deletes,
    }
    sizes, needs None => {
        longest_key_is_stored,
        bounds_may_be_longer_than_a_key,
        largest_value_is_stored,
        maximum_of_mutations_is_one_commit,
        largest_commit_is_committed,
        maximum_of_checks_is_one_commit,
        get_accepts_thousands_of_keys,
    }
    concurrency, needs None => {
        no_update_is_lost,
        concurrent_creations_succeed_once,
        concurrent_adds_are_all_counted,
        get_never_sees_partial_commit,
        scan_never_sees_partial_commit,
        mixed_reads_see_one_snapshot,
        reads_are_monotonic,
        transfers_keep_their_sum,
        versions_of_concurrent_commits_differ,
        commit_changes_the_mark_of_its_area,
        area_with_the_same_mark_is_unchanged,
    }
    durability, needs Some(Lifetime::Durable) => {
        contents_survive_reopen,
        last_commit_survives_reopen,
        deletes_survive_reopen,
        versions_are_not_reused_after_reopen,
        check_is_valid_after_reopen,
        counters_continue_after_reopen,
        largest_commit_survives_reopen,
        concurrent_commits_survive_reopen,
        store_may_be_reopened_many_times,
    }
};

/// Returns the names of all cases, in the order in which they run.
pub fn case_names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// Runs every case and reports the results, without a panic of its own.
///
/// On targets where panics unwind, a panic inside the backend fails its case.
#[must_use = "only the report has the failures"]
pub async fn survey(harness: &dyn Harness) -> Report {
    let mut report = Report::default();
    for case in CASES {
        if case.needs.is_some_and(|needs| needs != harness.lifetime()) {
            report.skipped.push(case.name);
            continue;
        }
        harness.case_begins(case.name);
        let context = CaseContext::new(harness);
        let ended = AssertUnwindSafe((case.run)(&context)).catch_unwind().await;
        let message = match ended {
            Ok(Ok(())) => {
                report.passed.push(case.name);
                continue;
            }
            Ok(Err(failure)) => failure.to_string(),
            Err(panic) => format!("panicked: {}", panic_message(&*panic)),
        };
        report.failed.push(FailedCase {
            name: case.name,
            message,
        });
    }
    report
}

/// Runs every case.
///
/// # Panics
/// After the last case, if any case failed: with the names of the failed cases, and the expected
/// and actual behaviour of each.
pub async fn run(harness: &dyn Harness) -> Report {
    let report = survey(harness).await;
    assert!(
        report.failed.is_empty(),
        "the store breaks its promises: {report}"
    );
    report
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
