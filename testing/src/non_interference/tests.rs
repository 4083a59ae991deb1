//! Tests of the generator: what it draws, and what its calls reach.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::kinds::Kind;
use super::transcript::transcript;
use super::{moves_max, scenarios};
use crate::simulation::Config;
use knowledge_core::store::MemoryStore;

/// Cases that the tests of this workspace run.
fn config() -> Config {
    Config::new(1_200).with_seed(1)
}

#[test]
fn generator_draws_every_kind_of_principal() {
    let (config, mut drawn) = (config(), Vec::new());
    for case in 0..config.cases {
        let (_, scenario) = config.generate(case, &scenarios(moves_max(&config)));
        drawn.push((scenario.kind, scenario.has_removals));
    }
    for kind in Kind::ALL {
        for has_removals in [false, true] {
            assert!(
                drawn.contains(&(kind, has_removals)),
                "{kind:?} {has_removals}"
            );
        }
    }
    // Those that the property is promised for, by name.
    for kind in [
        Kind::Viewer,
        Kind::TeamMember,
        Kind::RestrictedAdmin,
        Kind::OneWorkspace,
        Kind::FewActions,
        Kind::AudienceList,
        Kind::McpKey,
    ] {
        assert!(Kind::ALL.contains(&kind), "{kind:?}");
    }
}

/// Calls and deliveries that have to occur: all of these texts in one line of a transcript.
const REACHED: &[&[&str]] = &[
    &["POST /v1/erasures {", "\"memoryIds\":[", "-> 201"],
    &[
        "POST /v1/erasures {",
        "\"sourceId\":\"",
        "-> 201",
        "\"sourceKeyPrefix\":null",
    ],
    &[
        "POST /v1/erasures {",
        "\"sourceId\":\"",
        "-> 201",
        "\"sourceKeyPrefix\":\"page/",
    ],
    &["POST /v1/erasures {", "\"memberId\":\"", "-> 201"],
    &["POST /v1/erasures {", "\"dryRun\":true", "-> 200"],
    &["POST /v1/erasures", "idempotent-replayed"],
    &[
        "PATCH /v1/memories/bulk {",
        "\"dryRun\":true",
        "-> 200",
        "\"impact\":{",
    ],
    &[
        "PATCH /v1/memories/bulk {",
        "\"audienceTag\":\"workspace:cellar\"",
        "-> 200",
        "\"labels_without_members\":[\"workspace:cellar\"]",
    ],
    &["GET /v1/workspaces/", "/labels", "-> 200"],
    &["GET /v1/workspaces/", "/activity", "-> 200"],
    &["GET /v1/workspaces/", "/recalls?", "memoryId=", "-> 200"],
    &["GET /v1/workspaces/", "/memories?", "sourceId=", "-> 200"],
    &["PATCH /v1/memories/bulk", "idempotent-replayed"],
    &[
        "POST /v1/workspaces/",
        "/memories {",
        "-> 201",
        "idempotent-replayed",
    ],
    &["POST /v1/workspaces/", "/memories {", "-> 410"],
    &[
        "POST /v1/workspaces/",
        "/ingest {",
        "-> 200",
        "idempotent-replayed",
    ],
    &[
        "POST /v1/workspaces/",
        "/recalls {",
        "-> 201",
        "idempotent-replayed",
    ],
    &["GET /v1/erasures", "\"status\":\"running\""],
    &["POST /mcp", "tools/list {", "-> 200", "\"name\":\"recall\""],
    &["POST /mcp", "server/discover {", "-> 200"],
    &["POST /mcp", "\"name\":\"recall\"", "\"recall_id\":\""],
    &["POST /mcp", "\"name\":\"fetch\"", "\"structuredContent\":{"],
    &["POST /mcp", "\"name\":\"fetch\"", "\"not_found: "],
    &["POST /mcp", "\"name\":\"list_memories\"", "\"memories\":[{"],
    &["POST /mcp?workspace=", "tools/call {", "-> 404"],
    &[
        "PUT /v1/workspaces/",
        "/retention",
        "-> 200",
        "\"chat_days\":1",
    ],
    &["POST https://example.com/hook", "\"type\":\"webhook.ping\""],
    &[
        "POST https://example.com/hook",
        "\"type\":\"chunk.created\"",
    ],
    &[
        "POST https://example.com/hook",
        "\"type\":\"chunk.deleted\"",
    ],
    &[
        "POST https://example.com/hook",
        "\"type\":\"memory.updated\"",
    ],
    &[
        "POST https://example.com/hook",
        "\"type\":\"citation.changed\"",
    ],
];

#[tokio::test]
async fn generated_calls_reach_removals_and_deliveries() {
    let config = config();
    let mut missing: BTreeSet<&[&str]> = REACHED.iter().copied().collect();
    for case in 0..config.cases {
        let (seed, scenario) = config.generate(case, &scenarios(moves_max(&config)));
        let store = Arc::new(MemoryStore::new());
        let run = transcript(store, seed, &scenario, None, None).await;
        let lines = run.expect("what others do succeeds").lines;
        let has = |texts: &&[&str]| {
            let mut lines = lines.iter();
            lines.any(|line| texts.iter().all(|text| line.contains(text)))
        };
        missing.retain(|texts| !has(texts));
        if missing.is_empty() {
            return;
        }
    }
    panic!("never: {missing:#?}");
}
