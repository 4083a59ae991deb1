//! Non-interference: what a principal may not know changes no byte of any response that it gets.
//!
//! [`check_non_interference`] generates a principal and two worlds that are alike in all that it may
//! know. They differ in hidden memories, in texts that it may not read, and in recalls and chats
//! of others. The principal makes the same calls of all operations in both, and sends the same
//! messages to the endpoint for assistants, while others change hidden things in only one of them.
//! Clock and randomness are those of a simulation, so all responses have to be equal byte for byte:
//! status, headers and body.
//!
//! What is hidden is decided by [`authorization`](crate::authorization), not by the service. What
//! responses may tell nevertheless is in [`EXCEPTIONS`].
//!
//! ```
//! use std::sync::Arc;
//! use knowledge_core::store::{MemoryStore, Store};
//! use knowledge_testing::non_interference::check_non_interference;
//! use knowledge_testing::simulation::Config;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // Your own store here: each case gets two empty ones, one after the other.
//! let make_store = || async { Arc::new(MemoryStore::new()) as Arc<dyn Store> };
//! check_non_interference(&Config::new(4), make_store).await;
//! # }
//! ```

mod calls;
mod choices;
mod deliveries;
mod gate;
mod hidden;
mod kinds;
mod messages;
mod planted;
mod private;
mod removals;
#[cfg(test)]
mod tests;
mod transcript;
mod world;

use std::future::Future;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use self::choices::Bytes16;
use self::kinds::Kind;
pub use self::planted::PlantedDefect;
use self::transcript::transcript;
use crate::simulation::{Config, Divergence, check_cases};
use knowledge_core::api::Operation;
use knowledge_core::store::Store;

/// What a response may tell although it depends on what the caller may not know.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// Operation whose response it is.
    pub operation: Operation,
    /// Parts of the response, or of each item of a list: JSON pointers, or `etag`. Empty for the
    /// whole response.
    pub parts: &'static [&'static str],
    /// Reason for which it may be told.
    pub reason: &'static str,
}

/// Declared exceptions from non-interference.
///
/// Seven more do not concern responses of single operations. The generator keeps them equal in both
/// worlds: that there is a private workspace, which the refusal of an erasure of a source or a
/// member tells, and that of a change or a deletion of an organisation-wide role; that a service
/// account or an invited person has a role in one, which the refusal of a credential tells; that
/// holders of `erasure:manage` delete chats and recalls of others; that a name, a slug or a source
/// key is taken, or that a source key was erased; quotas and conflicts; that a recall is judged
/// without those of its memories that were deleted; and that the author of a memory under review is
/// not told of its last changes if it is deleted before they are fanned out, because the author is
/// stored with the content.
///
/// One is not excepted but open: whoever added a memory and no longer may read it can send it again
/// by its source key, and sees by its labels whether the text was the stored one. The texts of such
/// memories are equal in both worlds.
pub const EXCEPTIONS: [Exception; 7] = [
    Exception {
        operation: Operation::ListAuditEntries,
        parts: &[],
        reason: "the audit log is for holders of audit:read",
    },
    Exception {
        operation: Operation::GetAuditEntry,
        parts: &[],
        reason: "the audit log is for holders of audit:read",
    },
    Exception {
        operation: Operation::GetDashboardSummary,
        parts: &[
            "etag",
            "/review_backlog_count",
            "/first_value_checklist",
            "/workspace/last_ingest_at",
        ],
        reason: "facts of the workspace for whoever holds dashboard:read, and their entity tag",
    },
    Exception {
        operation: Operation::GetActivity,
        parts: &["/days"],
        reason: "facts of the workspace for whoever holds dashboard:read",
    },
    Exception {
        operation: Operation::CreateErasure,
        parts: &["/counts", "/remains/sourceKeyHashes"],
        reason: COUNTS,
    },
    Exception {
        operation: Operation::ListErasures,
        parts: &["/counts", "/remains/sourceKeyHashes"],
        reason: COUNTS,
    },
    Exception {
        operation: Operation::GetErasure,
        parts: &["/counts", "/remains/sourceKeyHashes"],
        reason: COUNTS,
    },
];

/// Reason for which the receipt of a source or a member counts what is hidden.
const COUNTS: &str = "what an erasure of a source or a member took away, for erasure:manage";

/// A principal, what is hidden from it, and what happens.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    kind: Kind,
    /// True if others erase a source or a member, and time passes.
    has_removals: bool,
    /// Memories, each by the choices that its attributes follow from.
    memories: Vec<Bytes16>,
    /// Calls and messages of the principal, and what others do, each by its choices.
    moves: Vec<Bytes16>,
}

fn scenarios(moves: usize) -> impl Strategy<Value = Scenario> {
    let choices = || any::<Bytes16>();
    (
        proptest::sample::select(&Kind::ALL[..]),
        any::<bool>(),
        vec(choices(), 1..16),
        vec(choices(), 1..=moves),
    )
        .prop_map(|(kind, has_removals, memories, moves)| Scenario {
            kind,
            has_removals,
            memories,
            moves,
        })
}

/// Checks that hidden things change no response, over stores of one kind.
///
/// `make_store` creates an empty store for each world; no two are in use at once. The cases, the
/// seed and the report of a failure are as in [`check_store`](crate::simulation::check_store). A
/// case has up to half as many calls as [`Config::operations`]; its faults are not used.
///
/// # Panics
/// If a response differs: with the calls that led to it, as few as were found, and the seed.
pub async fn check_non_interference<F, R>(config: &Config, make_store: F)
where
    F: Fn() -> R,
    R: Future<Output = Arc<dyn Store>>,
{
    let make_store = &make_store;
    let scenarios = scenarios(moves_max(config));
    check_cases(config, scenarios, |seed, scenario| async move {
        check_scenario(make_store, (seed, &scenario), None).await
    })
    .await;
}

/// Returns the first case that finds a defect put back, counted from 1, and what it finds.
///
/// The cases are those of [`check_non_interference`], as many as it would run; `None` if none of them
/// finds the defect.
///
/// # Panics
/// If the case fails without the defect too.
pub async fn cases_until_found<F, R>(
    config: &Config,
    make_store: F,
    defect: PlantedDefect,
) -> Option<(u32, Divergence)>
where
    F: Fn() -> R,
    R: Future<Output = Arc<dyn Store>>,
{
    for case in 0..config.cases {
        let (seed, scenario) = config.generate(case, &scenarios(moves_max(config)));
        let generated = (seed, &scenario);
        if let Err(found) = check_scenario(&make_store, generated, Some(defect)).await {
            let without = check_scenario(&make_store, generated, None).await;
            without.expect("the service has no defect");
            return Some((case + 1, found));
        }
    }
    None
}

/// Returns the maximum number of moves in a scenario.
fn moves_max(config: &Config) -> usize {
    (config.operations / 2).max(1)
}

/// Runs a scenario in both worlds, and compares what the principal gets to see.
async fn check_scenario<F, R>(
    make_store: F,
    (seed, scenario): (u64, &Scenario),
    planted: Option<PlantedDefect>,
) -> Result<(), Divergence>
where
    F: Fn() -> R,
    R: Future<Output = Arc<dyn Store>>,
{
    let first = transcript(make_store().await, seed, scenario, planted, None).await?;
    let second = transcript(make_store().await, seed, scenario, planted, Some(&first)).await?;
    compare(scenario, &first.lines, &second.lines)
}

/// Compares the two transcripts line by line.
fn compare(scenario: &Scenario, first: &[String], second: &[String]) -> Result<(), Divergence> {
    for (index, (one, other)) in first.iter().zip(second).enumerate() {
        if one != other {
            let mut trace = vec![format!("{:?}", scenario.kind)];
            trace.extend_from_slice(&first[..index]);
            return Err(Divergence {
                trace,
                problem: format!("the responses differ:\n{one}\n{other}"),
            });
        }
    }
    let (count, other) = (first.len(), second.len());
    let longer = if count > other { first } else { second };
    if let Some(surplus) = longer.get(count.min(other)) {
        return Err(Divergence {
            trace: first.to_vec(),
            problem: format!(
                "{count} responses and deliveries in one world, {other} in the other:\n{surplus}"
            ),
        });
    }
    Ok(())
}
