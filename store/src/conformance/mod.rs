//! The conformance suite: what every backend of [`Store`] has to pass.
//!
//! There is one entry point, [`run`], and it runs every case there is. A backend says how its stores are opened and
//! how tasks run at the same time, by implementing [`Harness`]; a backend whose contents do not outlive it says that
//! too, and the cases that need it are then listed as excused, not left out in silence.
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
//! assert_eq!(report.passed.len() + report.excused.len(), conformance::case_names().count());
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

use self::support::{Outcome, Trial};
use crate::{MaybeSendSync, Store};

/// A future of the suite's own: `Send` where there are threads.
#[cfg(not(target_arch = "wasm32"))]
pub type Task<'a, T = ()> = futures::future::BoxFuture<'a, T>;
/// A future of the suite's own: `Send` where there are threads.
#[cfg(target_arch = "wasm32")]
pub type Task<'a, T = ()> = futures::future::LocalBoxFuture<'a, T>;

/// How long the contents of a store live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// They are there again when the store is opened again.
    Durable,
    /// They go with the store; the cases about reopening are excused.
    Volatile,
}

/// What the suite has to know about a backend.
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
pub trait Harness: MaybeSendSync {
    /// Whether the cases about reopening apply.
    fn lifetime(&self) -> Lifetime;

    /// Opens a store that holds nothing. Every case opens one of its own.
    ///
    /// # Panics
    /// Where it cannot be opened; the case then counts as failed.
    async fn open(&self) -> Arc<dyn Store>;

    /// Closes `store` and opens it again. The suite hands in its only reference. Never called where the lifetime is
    /// [`Lifetime::Volatile`].
    ///
    /// # Panics
    /// Where it cannot be opened again; the case then counts as failed.
    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        drop(store);
        unimplemented_reopen()
    }

    /// Runs all tasks at the same time and returns when all have ended. On threads wherever the platform has them: the
    /// default takes turns on one, which does not show races inside a backend.
    ///
    /// # Panics
    /// Where a task panicked; the case then counts as failed.
    async fn run_concurrently(&self, tasks: Vec<Task<'static>>) {
        join_all(tasks).await;
    }

    /// Told the name of each case before it begins, so that a backend that hangs shows where.
    fn case_begins(&self, case: &'static str) {
        let _ = case;
    }
}

fn unimplemented_reopen() -> ! {
    panic!("a harness of a durable store has to implement `reopen`")
}

/// A case that did not go as a backend promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCase {
    /// The name of the case.
    pub name: &'static str,
    /// What was expected and what came.
    pub message: String,
}

/// What became of every case of the suite; each name stands in exactly one of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The cases that the backend passed.
    pub passed: Vec<&'static str>,
    /// The cases about reopening, for a backend that is [`Lifetime::Volatile`].
    pub excused: Vec<&'static str>,
    /// The cases that the backend failed.
    pub failed: Vec<FailedCase>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, excused, failed) = (self.passed.len(), self.excused.len(), self.failed.len());
        write!(f, "{passed} passed, {excused} excused, {failed} failed")?;
        for FailedCase { name, message } in &self.failed {
            write!(f, "\n  {name}: {message}")?;
        }
        Ok(())
    }
}

type CaseFn = for<'t> fn(&'t Trial<'t>) -> Task<'t, Outcome>;

struct Case {
    name: &'static str,
    needs: Option<Lifetime>,
    run: CaseFn,
}

/// Lists the cases of a module. A case that is written but not listed is dead code, which the compiler reports.
macro_rules! cases {
    ($($module:ident, needs $needs:expr => { $($case:ident),* $(,)? })*) => {
        &[$($(Case {
            name: concat!(stringify!($module), "::", stringify!($case)),
            needs: $needs,
            run: |trial| Box::pin($module::$case(trial)),
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

/// The names of all cases, in the order in which they run.
pub fn case_names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// Runs every case and says what became of each, without a panic of its own. Where panics unwind, one inside the backend counts
/// as a failure of its case.
pub async fn survey(harness: &dyn Harness) -> Report {
    let mut report = Report::default();
    for case in CASES {
        if case.needs.is_some_and(|needs| needs != harness.lifetime()) {
            report.excused.push(case.name);
            continue;
        }
        harness.case_begins(case.name);
        let trial = Trial::new(harness);
        let ended = AssertUnwindSafe((case.run)(&trial)).catch_unwind().await;
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
/// After the last case, where one failed: with the names of all that did, what each expected and what came.
pub async fn run(harness: &dyn Harness) -> Report {
    let report = survey(harness).await;
    assert!(
        report.failed.is_empty(),
        "the store is not what it promises: {report}"
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
