//! Responses reconstructed from the stored data, for calls whose responses were lost.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::world::org_of;
use crate::model::{Answer, Call, Model};
use knowledge_core::internals::keys;
use knowledge_core::model::{AuditLogId, BulkItem, BulkResult, BulkSummary, MemoryId, OperationId};
use knowledge_core::service::{IngestOutcome, IngestedMemory, NewMemory};
use knowledge_core::store::Key;

/// Contents of a store, by key.
pub(super) type Contents = BTreeMap<Key, Bytes>;

/// Reconstructs the result of a call that changed `before` into `after`.
///
/// It contains only the parts that the model needs.
///
/// # Errors
/// If the audit log does not have the entries of exactly one operation for the call.
pub(super) fn reconstruct_answer(
    model: &Model,
    call: &Call,
    before: &Contents,
    after: &Contents,
) -> Result<Answer, String> {
    let added = |family: &str| -> Vec<(&Key, Value)> {
        let prefix = format!("{family}/");
        let entries = after.iter().filter(|(key, _)| !before.contains_key(*key));
        entries
            .filter(|(key, _)| key.as_bytes().starts_with(prefix.as_bytes()))
            .map(|(key, value)| (key, serde_json::from_slice(value).unwrap_or_default()))
            .collect()
    };
    match call {
        Call::ReportSync(..) | Call::NoteMcpKeyUse(..) => return Ok(Answer::Done),
        Call::PostMessage(..) => {
            return match &added("chat_message")[..] {
                [(key, _)] => keys::last_id(key)
                    .map(Answer::Made)
                    .ok_or_else(|| format!("{key} is no message")),
                others => Err(format!("{} messages were written", others.len())),
            };
        }
        _ => {}
    }
    let pages = added("audit");
    let [(key, page)] = &pages[..] else {
        return Err(format!(
            "{} pages of the audit log were written",
            pages.len()
        ));
    };
    match call {
        Call::BulkUpdate(..) => {
            let first = keys::last_id(key).ok_or("not a page")?;
            let result = of_bulk(read(&page["operation_id"])?, AuditLogId(first));
            Ok(Answer::Bulk(result))
        }
        Call::Ingest(_, _, _, memories) => {
            let runs = page["body"]["memories"]["runs"].as_array();
            let runs = runs.ok_or("not a page about memories")?;
            of_ingest(model, call, memories, runs).map(Answer::Ingested)
        }
        _ => read(&page["body"]["single"]["resource"]["id"]).map(Answer::Made),
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| format!("{value} was written: {error}"))
}

fn of_bulk(operation_id: OperationId, audit_log_id: AuditLogId) -> BulkResult {
    let first = BulkItem {
        memory_id: MemoryId(uuid::Uuid::nil()),
        ok: true,
        memory: None,
        audit_log_id,
        error: None,
    };
    BulkResult {
        operation_id,
        replayed: false,
        summary: BulkSummary::default(),
        results: vec![first],
    }
}

/// Returns the memories of a batch: the new ones are, in order, in the runs without labels before.
fn of_ingest(
    model: &Model,
    call: &Call,
    memories: &[NewMemory],
    runs: &[Value],
) -> Result<Vec<IngestedMemory>, String> {
    let Call::Ingest(_, workspace, source, _) = call else {
        return Err("not an ingest".to_owned());
    };
    let org = org_of(call).ok_or("nobody calls")?;
    let made = runs.iter().filter(|run| run.get("before").is_none());
    let mut made = made
        .filter_map(|run| run["memory_ids"].as_array())
        .flatten();
    let ingested = |memory: &NewMemory| {
        let name = memory.source_key.as_ref();
        let known = name.and_then(|name| model.named_memory(org, *workspace, *source, name));
        let (id, outcome) = match known {
            Some(id) => (id, IngestOutcome::Unchanged),
            None => {
                let id = made.next().ok_or("a memory has no entry")?;
                (read(id)?, IngestOutcome::Created)
            }
        };
        Ok(IngestedMemory { id, outcome })
    };
    memories.iter().map(ingested).collect()
}
