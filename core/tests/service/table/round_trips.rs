//! Calls of the store by operations that clients call often, compared with the documentation.

use knowledge_core::access::Secret;
use knowledge_core::api::Operation;
use knowledge_store::faults::CallCounts;
use serde_json::json;

use super::callers::Caller;
use super::requests::Call;
use crate::world::World;

const DOCS: &str = include_str!("../../../../docs/scaling.md");
/// Operations in the documentation, in its order.
const DOCUMENTED: [Operation; 8] = [
    Operation::BulkUpdateMemories,
    Operation::GetDashboardSummary,
    Operation::DeleteCustomRole,
    Operation::UpdateCustomRole,
    Operation::ListCustomRoles,
    Operation::CreateCitationSubscription,
    Operation::CreateWebhook,
    Operation::CreateInboundWebhook,
];
/// First lines of the table in the documentation.
const HEAD: &str = "| operation | reads | with custom roles | commits | round trips |\n\
    | --- | --- | --- | --- | --- |\n";
/// Round trips of a commit on PostgreSQL; a read takes one.
const COMMIT_ROUND_TRIPS: u64 = 2;
/// Maximum number of reads of a dashboard, whatever the roles of the caller.
const DASHBOARD_READS_MAX: u64 = 1;
/// Number of memories of the large bulk update.
const MEMORIES: usize = 1_000;

/// Returns the reads and commits of a successful call.
async fn count(world: &World, call: &Call, caller: &Caller) -> (u64, u64) {
    let before = world.faults.counts();
    call.succeed(world, caller).await;
    let CallCounts { reads, commits, .. } = world.faults.counts();
    (reads - before.reads, commits - before.commits)
}

/// Returns the row of an operation, with a number of memories if it is not one.
async fn row(operation: Operation, memories: usize) -> String {
    let mut counts = Vec::new();
    for is_custom in [false, true] {
        let world = World::new().await;
        let caller = match is_custom {
            false => Caller::admin(&world).await,
            true => Caller::custom(&world).await,
        };
        let mut call = Call::new(&world, operation, &caller).await;
        if memories > 1 {
            let memories = world.memories(memories).await;
            let body = json!({ "memoryIds": memories, "sensitivityLabel": "confidential" });
            call = call.with_body(body.to_string());
        }
        // The server has served both credentials before.
        let by = |secret: &str| secret.parse::<Secret>().unwrap().into();
        let (token, session) = (by(&caller.token), by(&caller.session));
        world.by(&token).get_dashboard().await.unwrap();
        world.by(&session).list_roles().await.unwrap();
        counts.push(count(&world, &call, &caller).await);
    }
    let (reads, commits) = counts[0];
    let (custom_reads, custom_commits) = counts[1];
    assert_eq!(commits, custom_commits, "{operation:?}");
    if operation == Operation::GetDashboardSummary {
        assert!(custom_reads <= DASHBOARD_READS_MAX, "{custom_reads} reads");
    }
    let spec = operation.spec();
    let what = match memories {
        1 => String::new(),
        _ => format!(", {memories} memories"),
    };
    let round_trips = custom_reads + COMMIT_ROUND_TRIPS * commits;
    format!(
        "| `{} {}`{what} | {reads} | {custom_reads} | {commits} | {round_trips} |\n",
        spec.method, spec.path
    )
}

/// More calls of the store than documented are a loss of speed, and fewer a gain to write down.
#[tokio::test]
async fn operations_make_the_documented_calls() {
    let mut table = HEAD.to_owned();
    for operation in DOCUMENTED {
        table += &row(operation, 1).await;
        if operation == Operation::BulkUpdateMemories {
            table += &row(operation, MEMORIES).await;
        }
    }
    assert!(
        DOCS.contains(&table),
        "docs/scaling.md has to contain this table:\n{table}"
    );
}
