//! Conformance suite that every backend of [`Store`] must pass.
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
mod reading;
mod sizes;
mod support;
mod versions;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::join_all;

use self::support::{CaseContext, Outcome};
use crate::{MaybeSendSync, Store};

/// Future of the suite: `Send` on targets with threads.
#[cfg(not(target_arch = "wasm32"))]
pub type Task<'a, T = ()> = futures::future::BoxFuture<'a, T>;
/// Future of the suite: `Send` on targets with threads.
#[cfg(target_arch = "wasm32")]
pub type Task<'a, T = ()> = futures::future::LocalBoxFuture<'a, T>;

/// Lifetime of the contents of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The contents are still there when the store is reopened.
    Durable,
    /// The contents are lost with the store; the cases about reopening are skipped.
    Volatile,
}

/// Interface between the suite and a backend.
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
pub trait Harness: MaybeSendSync {
    /// Returns the lifetime of the contents, which decides on the cases about reopening.
    fn lifetime(&self) -> Lifetime;

    /// Opens an empty store; every case opens its own.
    ///
    /// # Panics
    /// If it cannot be opened; the case then fails.
    async fn open(&self) -> Arc<dyn Store>;

    /// Closes `store` and reopens it.
    ///
    /// The suite passes its only reference. It never calls this for [`Lifetime::Volatile`].
    ///
    /// # Panics
    /// If it cannot be reopened; the case then fails.
    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        drop(store);
        unimplemented_reopen()
    }

    /// Runs all tasks concurrently and returns when all have ended.
    ///
    /// Use threads if the platform has them: the default interleaves the tasks on a single one,
    /// which does not reveal races inside a backend.
    ///
    /// # Panics
    /// If a task panicked; the case then fails.
    async fn run_concurrently(&self, tasks: Vec<Task<'static>>) {
        join_all(tasks).await;
    }

    /// Receives the name of each case before it begins, to show where a backend hangs.
    fn case_begins(&self, case: &'static str) {
        let _ = case;
    }
}

fn unimplemented_reopen() -> ! {
    panic!("the harness of a durable store must implement `reopen`")
}

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
        an_empty_store_holds_nothing,
        get_answers_in_the_order_asked,
        get_takes_repeated_keys_and_none,
        keys_are_ordered_byte_by_byte,
        scan_walks_in_both_directions,
        scan_stops_at_its_limit,
        scan_keeps_to_its_range,
        scan_of_an_empty_range_finds_nothing,
        pages_cover_a_range_once,
        a_prefix_finds_its_keys_alone,
        values_come_back_byte_for_byte,
        mixed_reads_answer_one_by_one,
        reads_take_any_mixture,
    }
    commits, needs None => {
        a_commit_is_read_at_once,
        a_failed_check_changes_nothing,
        one_failed_check_of_many_is_a_conflict,
        checks_hold_for_what_stands,
        a_commit_may_check_and_not_change,
        a_commit_may_change_and_not_check,
        an_empty_commit_is_committed,
        a_delete_removes,
        a_stale_check_fails_after_a_delete,
    }
    versions, needs None => {
        a_commit_gives_its_version_to_its_entries,
        every_write_changes_the_version,
        a_write_of_one_key_leaves_the_others,
        versions_are_not_used_again_after_a_delete,
    }
    counters, needs None => {
        a_counter_begins_at_zero,
        a_counter_is_decimal_text,
        a_counter_may_be_negative_and_stays_at_zero,
        a_put_number_is_a_counter,
        add_refuses_what_is_no_counter,
        add_refuses_to_overflow,
        an_invalid_add_applies_nothing_of_its_commit,
        a_failed_check_comes_before_an_invalid_add,
        add_changes_the_version,
        add_meets_puts_and_deletes_in_one_commit,
    }
    sizes, needs None => {
        the_longest_key_is_kept,
        bounds_may_be_longer_than_a_key,
        the_largest_value_is_kept,
        the_most_mutations_are_one_commit,
        the_largest_commit_is_one_commit,
        the_most_checks_are_one_commit,
        get_takes_thousands_of_keys,
    }
    concurrency, needs None => {
        no_update_is_lost,
        one_creator_wins,
        counters_take_adds_from_all_sides,
        get_never_sees_half_a_commit,
        scan_never_sees_half_a_commit,
        mixed_reads_see_one_moment,
        readers_never_go_back_in_time,
        transfers_keep_their_sum,
        versions_of_concurrent_commits_differ,
    }
    durability, needs Some(Lifetime::Durable) => {
        contents_survive_a_reopen,
        the_last_commit_survives_a_reopen,
        deletes_survive_a_reopen,
        versions_are_not_used_again_over_a_reopen,
        a_check_holds_over_a_reopen,
        counters_go_on_after_a_reopen,
        the_largest_commit_survives_a_reopen,
        concurrent_commits_survive_a_reopen,
        a_store_may_be_reopened_many_times,
    }
};

/// Returns the names of all cases, in the order in which they run.
pub fn case_names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// Runs every case and reports the results, without a panic of its own.
///
/// On targets where panics unwind, a panic inside the backend fails its case.
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
