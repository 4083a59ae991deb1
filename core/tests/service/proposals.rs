//! Tests of proposals: memories that assistants add with MCP keys.

use knowledge_core::Error;
use knowledge_core::access::{Action, BaseRole, BuiltInRole, RoleRef, TokenScope};
use knowledge_core::model::{
    McpClient, MemoryId, NewInboundWebhook, Provenance, RecallId, RecallSearch, ReviewStatus,
    SensitivityLabel,
};
use knowledge_core::service::{Caller, CreateMemory, IssuedMcpKey, MemberUpdate};

use crate::make::{
    ADMIN, MEMBER, actions, audience, code, create_memory, custom, new_mcp_key, new_member,
    new_memory, problem, with,
};
use crate::world::World;

/// Creates a key with these audience labels that proposes memories from the source of the world.
async fn key_for(world: &World, labels: &[&str]) -> (IssuedMcpKey, Caller) {
    let new = with(new_mcp_key("org:acme"), |new| {
        new.audience = labels.iter().map(|label| label.parse().unwrap()).collect();
        new.proposal_source_id = Some(world.source);
    });
    let issued = world.create_mcp_key(&new).await.unwrap();
    let caller = Caller::from(issued.secret.clone().unwrap());
    (issued, caller)
}

fn proposal(world: &World) -> CreateMemory {
    create_memory("Restart", world.source)
}

async fn found(world: &World, by: &Caller, query: &str) -> Vec<MemoryId> {
    let search = RecallSearch::builder().query(query).record(false).build();
    let found = world.by(by).search_recalls(&search).await.unwrap();
    found.results.iter().map(|found| found.memory_id).collect()
}

#[tokio::test]
async fn proposal_waits_for_review_with_the_labels_of_the_key_and_its_origin() {
    let world = World::new().await;
    let (issued, key) = key_for(&world, &["org:acme", "workspace:research"]).await;
    assert_eq!(issued.summary.proposal_source_id, Some(world.source));
    let memories = world.approved_memories(1).await;
    let search = RecallSearch::builder().query("says");
    let recalled = world
        .by(&key)
        .search_recalls(&search.build())
        .await
        .unwrap();
    assert_eq!(recalled.results[0].memory_id, memories[0]);
    let new = with(proposal(&world), |new| new.recall_id = recalled.recall_id);
    let added = world.by(&key).create_memory(&new).await.unwrap().value;

    // It does not exist for the key before somebody has approved it.
    let id = added.summary.id;
    assert_eq!((added.summary.title, added.content), (None, None));
    assert_eq!(code(world.by(&key).get_memory(id).await), "not_found");
    assert_eq!(found(&world, &key, "restart").await, []);
    let shown = world.get_memory(id).await.unwrap().value.summary;
    let labels = (
        shown.review_status,
        shown.sensitivity_label,
        &*shown.audience_tag.to_string(),
    );
    let expected = (
        ReviewStatus::Pending,
        SensitivityLabel::Internal,
        "org:acme",
    );
    assert_eq!(labels, expected);
    let provenance = Provenance {
        mcp_key_id: Some(issued.summary.id),
        client: Some(McpClient::ClaudeCode),
        recall_id: recalled.recall_id,
    };
    assert_eq!(shown.provenance, Some(provenance.clone()));
    assert_eq!(shown.created_by, world.owner_id);

    world.approve(&[id]).await;
    assert_eq!(found(&world, &key, "restart").await, [id]);
    // Its origin outlives the key, and a change of the text.
    world.revoke_mcp_key(issued.summary.id).await.unwrap();
    world
        .change(&[id], audience("workspace:research"))
        .await
        .unwrap();
    let shown = world.get_memory(id).await.unwrap().value.summary;
    assert_eq!(shown.provenance, Some(provenance));
}

#[tokio::test]
async fn key_without_a_source_proposes_nothing() {
    let world = World::new().await;
    let issued = world.mcp_key_for("org:acme").await;
    let key = Caller::from(issued.secret.unwrap());
    let refused = world.by(&key).create_memory(&proposal(&world)).await;
    assert_eq!(refusal(refused), "missing permission memory:propose");
}

/// Returns the permission or the reason that a refusal names.
fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Forbidden { reason, .. }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn proposal_chooses_neither_labels_nor_the_source() {
    let world = World::new().await;
    let (_, key) = key_for(&world, &["org:acme"]).await;
    let choices: [fn(&mut CreateMemory); 3] = [
        |new| new.audience_tag = Some("org:acme".parse().unwrap()),
        |new| new.sensitivity_label = Some(SensitivityLabel::Public),
        |new| new.revive = true,
    ];
    for choice in choices {
        let new = with(proposal(&world), choice);
        let refused = world.by(&key).create_memory(&new).await;
        assert_eq!(refusal(refused), "missing permission memory:create");
    }
    let other = world.source("Other", "wiki").await.unwrap();
    let refused = world
        .by(&key)
        .create_memory(&create_memory("Restart", other))
        .await;
    let reason = "an MCP key proposes memories from its own source only";
    assert_eq!(refusal(refused), reason);
    // Nor does it change what is there.
    let new = with(proposal(&world), |new| {
        new.source_key = Some("a".to_owned());
    });
    world.by(&key).create_memory(&new).await.unwrap();
    let again = world.by(&key).create_memory(&new).await;
    assert_eq!(problem(again), "sourceKey duplicate");
}

#[tokio::test]
async fn member_may_propose_without_adding() {
    let world = World::new().await;
    let propose = actions(&[Action::MemoryPropose]);
    let role = world.role(BaseRole::Viewer, propose, actions(&[])).await;
    let member = world.caller(custom(role.id)).await;
    let added = world.by(&member).create_memory(&proposal(&world)).await;
    assert_eq!(added.unwrap().value.summary.provenance, None);
    let chosen = with(proposal(&world), |new| new.revive = true);
    let refused = world.by(&member).create_memory(&chosen).await;
    assert_eq!(refusal(refused), "missing permission memory:create");
    let batch = [new_memory("Batch")];
    let refused = world
        .by(&member)
        .ingest_memories(world.source, &batch)
        .await;
    assert_eq!(refusal(refused), "missing permission memory:create");
}

#[tokio::test]
async fn recall_of_a_proposal_is_one_of_the_member_in_the_workspace() {
    let world = World::new().await;
    let own = world.recall().await;
    let member = world.caller(MEMBER).await;
    let of = |recall| with(proposal(&world), |new| new.recall_id = Some(recall));
    let unknown = RecallId(uuid::Uuid::from_u128(1));
    let sales = world.workspace("sales").await;
    let refused = [
        world.by(&member).create_memory(&of(own)).await,
        world.create_memory(&of(unknown)).await,
        world
            .by(&world.owner)
            .within(sales)
            .create_memory(&of(own))
            .await,
    ];
    for refused in refused {
        assert_eq!(problem(refused), "recallId not_found");
    }
    let added = world.create_memory(&of(own)).await.unwrap().value;
    let provenance = added.summary.provenance.unwrap();
    assert_eq!(
        (provenance.recall_id, provenance.mcp_key_id),
        (Some(own), None)
    );
}

#[tokio::test]
async fn source_of_proposals_exists_and_takes_memories() {
    let world = World::new().await;
    let new = NewInboundWebhook::builder().name("Tickets").build();
    let webhook = world.create_inbound(&new).await.unwrap().source_id;
    let of = |source| {
        with(new_mcp_key("org:acme"), |new| {
            new.proposal_source_id = Some(source);
        })
    };
    let unknown = world
        .create_mcp_key(&of(uuid::Uuid::from_u128(1).into()))
        .await;
    assert_eq!(problem(unknown), "proposalSourceId not_found");
    let closed = world.create_mcp_key(&of(webhook)).await;
    assert_eq!(code(closed), "forbidden");
}

/// Whoever takes a key over, or ends it, holds what it may do.
#[tokio::test]
async fn key_that_proposes_is_taken_over_by_those_who_propose() {
    let world = World::new().await;
    let (issued, _) = key_for(&world, &["org:acme"]).await;
    let manages = actions(&[Action::McpKeyManage]);
    let admin = RoleRef::BuiltIn(BuiltInRole::Admin);
    let reads = [
        Action::MemoryReadConfidential,
        Action::MemoryReadRestricted,
        Action::ChatWrite,
    ];
    let role = world
        .role(BaseRole::Viewer, manages | actions(&reads), actions(&[]))
        .await;
    let viewer = world.caller(custom(role.id)).await;
    let refused = world
        .by(&viewer)
        .rotate_mcp_key(issued.summary.id, None)
        .await;
    let reason = "cannot take over or end what may do more than the caller: memory:propose";
    assert_eq!(refusal(refused), reason);
    let admin = world.caller(admin).await;
    let rotated = world
        .by(&admin)
        .rotate_mcp_key(issued.summary.id, None)
        .await
        .unwrap();
    assert_eq!(rotated.summary.proposal_source_id, Some(world.source));
    let key = Caller::from(rotated.secret.unwrap());
    world
        .by(&key)
        .create_memory(&proposal(&world))
        .await
        .unwrap();
}

/// A token that is limited to labels is no key: its labels are no choice of an audience.
#[tokio::test]
async fn labels_of_a_token_choose_no_audience() {
    let world = World::new().await;
    let propose = actions(&[Action::MemoryPropose]);
    let role = world.role(BaseRole::Viewer, propose, actions(&[])).await;
    let member = world.member(custom(role.id)).await;
    let scope = TokenScope {
        audience: Some(vec!["user:olga".parse().unwrap()]),
        ..TokenScope::default()
    };
    let token = world.token(member, scope).await.secret.into();
    let added = world.by(&token).create_memory(&proposal(&world)).await;
    let summary = added.unwrap().value.summary;
    let shown = (summary.audience_tag.to_string(), summary.provenance);
    assert_eq!(shown, ("workspace:research".to_owned(), None));
}

#[tokio::test]
async fn label_of_a_proposal_covers_the_member_of_the_key() {
    let world = World::new().await;
    let new = with(new_member("nora", ADMIN), |new| {
        new.teams = vec!["core".to_owned()];
    });
    let member = world.add(&new).await;
    let by = world.trusted(member);
    let of = |labels: &[&str]| {
        with(new_mcp_key("team:core"), |new| {
            new.audience = labels.iter().map(|label| label.parse().unwrap()).collect();
            new.proposal_source_id = Some(world.source);
        })
    };
    let mut keys = Vec::new();
    for labels in [&["team:core", "org:acme"][..], &["team:core"]] {
        let key = world.by(&by).create_mcp_key(&of(labels)).await.unwrap();
        keys.push(Caller::from(key.secret.unwrap()));
    }
    let leave = MemberUpdate::builder().teams(Vec::new()).build();
    world.update_member(member, &leave, None).await.unwrap();
    let added = world.by(&keys[0]).create_memory(&proposal(&world)).await;
    assert_eq!(
        added.unwrap().value.summary.audience_tag.to_string(),
        "org:acme"
    );
    let refused = world.by(&keys[1]).create_memory(&proposal(&world)).await;
    let reason = "no audience label of the MCP key covers its member";
    assert_eq!(refusal(refused), reason);
}

/// A recall of the member that cites what the key may not read does not exist for the key.
#[tokio::test]
async fn recall_of_a_proposal_exists_for_the_key() {
    let world = World::new().await;
    let memories = world.approved_memories(1).await;
    world.change(&memories, audience("org:acme")).await.unwrap();
    let recall = world.recall_of(&memories).await;
    let (_, key) = key_for(&world, &["org:acme"]).await;
    let new = with(proposal(&world), |new| new.recall_id = Some(recall));
    world.by(&key).create_memory(&new).await.unwrap();
    world
        .change(&memories, audience("team:legal"))
        .await
        .unwrap();
    let refused = world.by(&key).create_memory(&new).await;
    assert_eq!(problem(refused), "recallId not_found");
    world.create_memory(&new).await.unwrap();
}

#[tokio::test]
async fn only_those_who_propose_make_keys_that_do() {
    let world = World::new().await;
    let manages = actions(&[Action::McpKeyManage, Action::MemoryCreate]);
    let role = world.role(BaseRole::Viewer, manages, actions(&[])).await;
    let member = world.caller(custom(role.id)).await;
    let mut new = new_mcp_key("org:acme");
    world.by(&member).create_mcp_key(&new).await.unwrap();
    new.proposal_source_id = Some(world.source);
    let refused = world.by(&member).create_mcp_key(&new).await;
    assert_eq!(refusal(refused), "missing permission memory:propose");
}
