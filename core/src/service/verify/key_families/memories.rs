//! Memories, their sources and the recalls that cite them.

use serde_json::json;

use crate::keys::{self, Sha256};
use crate::model::{
    MemoryContent, MemoryId, MemoryLabels, OrgId, Recall, RecallId, ReviewStatus, SourceId,
    Timestamp, WorkspaceId,
};
use crate::service::quota::day_of;
use crate::service::verify::expectation::Expectation;
use crate::service::verify::problem::{Expectations, Problem};
use crate::service::verify::verifier::Verifier;
use crate::store::KeyEntry;

pub(super) fn memory(
    verifier: &mut Verifier,
    _: &KeyEntry,
    labels: MemoryLabels,
    org: OrgId,
    id: MemoryId,
) -> Expectations {
    let workspace = labels.workspace_id;
    let is_pending = labels.review == ReviewStatus::Pending;
    verifier.count(keys::memory_count(org, workspace), 1);
    verifier.count(keys::pending_count(org, workspace), i64::from(is_pending));
    let label = labels.audience.to_string();
    verifier.count(keys::label_count(org, workspace, &label), 1);
    let is_approved = labels.review == ReviewStatus::Approved;
    let approved = keys::approved_label_count(org, workspace, &label);
    verifier.count(approved, i64::from(is_approved));
    Ok(vec![
        Expectation::Exists(keys::workspace(org, workspace)),
        Expectation::Exists(keys::source(org, labels.source_id)),
        Expectation::Exists(keys::workspace_memory(org, workspace, id)),
        Expectation::Exists(keys::reviewed_memory(org, workspace, labels.review, id)),
        Expectation::Exists(keys::sourced_memory(org, workspace, labels.source_id, id)),
    ])
}

pub(super) fn content(
    verifier: &mut Verifier,
    _: &KeyEntry,
    content: MemoryContent,
    org: OrgId,
) -> Expectations {
    let has_name = content.source_key.is_some();
    *verifier.names.entry(org).or_default() += i64::from(has_name);
    let origin = keys::source(org, content.origin_source_id);
    Ok(vec![Expectation::Exists(origin)])
}

pub(super) fn workspace_memory(
    _: &mut Verifier,
    _: &KeyEntry,
    (): (),
    org: OrgId,
    workspace: WorkspaceId,
    memory: MemoryId,
) -> Expectations {
    let place = json!({ "workspace_id": workspace });
    Ok(vec![Expectation::Contains(
        keys::memory(org, memory),
        place,
    )])
}

pub(super) fn reviewed_memory(
    _: &mut Verifier,
    _: &KeyEntry,
    (): (),
    org: OrgId,
    workspace: WorkspaceId,
    review: ReviewStatus,
    memory: MemoryId,
) -> Expectations {
    let key = keys::memory(org, memory);
    // The labels of a memory that waits for review do not say so.
    let expectation = if review == ReviewStatus::Pending {
        Expectation::ContainsWithout(key, json!({ "workspace_id": workspace }), "review")
    } else {
        Expectation::Contains(key, json!({ "workspace_id": workspace, "review": review }))
    };
    Ok(vec![expectation])
}

pub(super) fn sourced_memory(
    _: &mut Verifier,
    _: &KeyEntry,
    (): (),
    org: OrgId,
    workspace: WorkspaceId,
    source: SourceId,
    memory: MemoryId,
) -> Expectations {
    let filed = json!({ "workspace_id": workspace, "source_id": source });
    Ok(vec![Expectation::Contains(
        keys::memory(org, memory),
        filed,
    )])
}

/// Reads a counter of a day. What it counted has no record of its own.
pub(super) fn activity(_: &mut Verifier, _: &KeyEntry, _: i64, day: Timestamp) -> Expectations {
    if day_of(day) == day {
        Ok(Vec::new())
    } else {
        Err(Problem::unreadable(format!(
            "{day}, at which no day begins"
        )))
    }
}

pub(super) fn source_key(
    verifier: &mut Verifier,
    _: &KeyEntry,
    memory: MemoryId,
    org: OrgId,
    workspace: WorkspaceId,
    source: SourceId,
    name: Sha256,
) -> Expectations {
    *verifier.names.entry(org).or_default() -= 1;
    let place = json!({ "workspace_id": workspace });
    let origin = json!({ "origin_source_id": source });
    Ok(vec![
        Expectation::Contains(keys::memory(org, memory), place),
        Expectation::Contains(keys::content(org, memory), origin),
        Expectation::HasName(keys::content(org, memory), name.0),
    ])
}

pub(super) fn recall(_: &mut Verifier, _: &KeyEntry, recall: Recall, org: OrgId) -> Expectations {
    let cited = recall.memory_ids.iter();
    let cited = cited.map(|memory| Expectation::Exists(keys::cited_by(org, *memory, recall.id)));
    let place = keys::workspace_recall(org, recall.workspace_id, recall.id);
    let workspace = keys::workspace(org, recall.workspace_id);
    // Every recall expires.
    let sweep = keys::retention_sweep(org, recall.workspace_id);
    let others = [workspace, place, sweep].map(Expectation::Exists);
    Ok(cited.chain(others).collect())
}

pub(super) fn workspace_recall(
    _: &mut Verifier,
    _: &KeyEntry,
    (): (),
    org: OrgId,
    workspace: WorkspaceId,
    recall: RecallId,
) -> Expectations {
    let place = json!({ "workspace_id": workspace });
    Ok(vec![Expectation::Contains(
        keys::recall(org, recall),
        place,
    )])
}
