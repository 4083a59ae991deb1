//! Memories, their sources and the recalls that cite them.

use serde_json::json;

use super::{Expectations, Parts, value};
use crate::keys;
use crate::model::{
    MemoryContent, MemoryId, MemoryLabels, Recall, RecallId, ReviewStatus, Source, SourceId,
    Timestamp,
};
use crate::service::verify::Verifier;
use crate::service::verify::expectation::Expectation;
use crate::store::KeyEntry;

pub(super) fn source(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let source: Source = value(entry)?;
    parts.agree(&[(2, source.id.0)])?;
    Ok(vec![Expectation::Exists(keys::org(parts.org()?))])
}

pub(super) fn last_ingest(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    value::<Timestamp>(entry)?;
    let workspace = keys::workspace(parts.org()?, parts.workspace()?);
    Ok(vec![Expectation::Exists(workspace)])
}

pub(super) fn memory(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let (org, id) = (parts.org()?, MemoryId(parts.id(2)?));
    let labels: MemoryLabels = value(entry)?;
    let workspace = labels.workspace_id;
    let is_pending = labels.review == ReviewStatus::Pending;
    verifier.count(keys::memory_count(org, workspace), 1);
    verifier.count(keys::pending_count(org, workspace), i64::from(is_pending));
    Ok(vec![
        Expectation::Exists(keys::workspace(org, workspace)),
        Expectation::Exists(keys::source(org, labels.source_id)),
        Expectation::Exists(keys::content(org, id)),
        Expectation::Exists(keys::workspace_memory(org, workspace, id)),
    ])
}

pub(super) fn content(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let (org, content) = (parts.org()?, value::<MemoryContent>(entry)?);
    let has_name = content.source_key.is_some();
    *verifier.names.entry(org).or_default() += i64::from(has_name);
    let memory = keys::memory(org, MemoryId(parts.id(2)?));
    let origin = keys::source(org, content.origin_source_id);
    Ok(vec![
        Expectation::Exists(memory),
        Expectation::Exists(origin),
    ])
}

pub(super) fn workspace_memory(
    _: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    value::<()>(entry)?;
    let memory = keys::memory(parts.org()?, MemoryId(parts.id(3)?));
    let place = json!({ "workspace_id": parts.workspace()? });
    Ok(vec![Expectation::Contains(memory, place)])
}

pub(super) fn source_key(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let (org, memory) = (parts.org()?, value(entry)?);
    *verifier.names.entry(org).or_default() -= 1;
    let (place, origin) = (parts.workspace()?, SourceId(parts.id(3)?));
    let (place, origin) = (
        json!({ "workspace_id": place }),
        json!({ "origin_source_id": origin }),
    );
    Ok(vec![
        Expectation::Exists(keys::source(org, SourceId(parts.id(3)?))),
        Expectation::Contains(keys::memory(org, memory), place),
        Expectation::Contains(keys::content(org, memory), origin),
        Expectation::HasName(keys::content(org, memory), parts.last().to_owned()),
    ])
}

pub(super) fn recall(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let (org, recall) = (parts.org()?, value::<Recall>(entry)?);
    parts.agree(&[(2, recall.id.0)])?;
    let cited = recall.memory_ids.iter();
    let cited = cited.map(|memory| Expectation::Exists(keys::cited_by(org, *memory, recall.id)));
    let place = keys::workspace_recall(org, recall.workspace_id, recall.id);
    let workspace = keys::workspace(org, recall.workspace_id);
    let others = [workspace, place].map(Expectation::Exists);
    Ok(cited.chain(others).collect())
}

pub(super) fn workspace_recall(
    _: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    value::<()>(entry)?;
    let recall = keys::recall(parts.org()?, RecallId(parts.id(3)?));
    let place = json!({ "workspace_id": parts.workspace()? });
    Ok(vec![Expectation::Contains(recall, place)])
}

pub(super) fn cited_by(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    value::<()>(entry)?;
    // The memory may have been deleted; the entry serves to notify subscribers of that.
    let (org, recall) = (parts.org()?, RecallId(parts.id(3)?));
    Ok(vec![Expectation::Exists(keys::recall(org, recall))])
}
