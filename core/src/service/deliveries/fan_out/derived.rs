//! Events derived from a source event: parts that fit into a body, and citation changes.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::model::{
    ChangedCitations, ChangedMemories, CitationChange, EndpointId, EventData, EventId, MemoryId,
};
use crate::service::Event;

/// Maximum number of memories that one body lists, which keeps it below 20 kB.
const EVENT_MEMORIES_MAX: usize = 450;

/// Derives the identifier of an event that another one causes.
///
/// It depends only on the arguments, so that an event derived twice is one event, and has the time
/// of the source event.
fn derived_id(source: EventId, what: &[&[u8]]) -> EventId {
    let mut digest = Sha256::new_with_prefix(source.0.as_bytes());
    for part in what {
        digest.update(part);
    }
    let digest = digest.finalize();
    let millis = u64::try_from(source.0.as_u128() >> 80).expect("48 bits");
    let random = digest.first_chunk().expect("a digest of 32 bytes");
    EventId(uuid::Builder::from_unix_timestamp_millis(millis, random).into_uuid())
}

/// Returns the bytes that distinguish the endpoints after `after` from the others.
fn page(after: Option<EndpointId>) -> [u8; 16] {
    *after.map_or(Uuid::nil(), |after| after.0).as_bytes()
}

/// Returns the memories of an event, if it is about memories.
pub(super) fn memories_of(event: &Event) -> &[MemoryId] {
    match &event.data {
        EventData::ChunkCreated(changed)
        | EventData::ChunkDeleted(changed)
        | EventData::MemoryUpdated(changed) => &changed.memory_ids,
        _ => &[],
    }
}

/// Returns the number of parts of an event with this many memories.
pub(super) fn parts(memories: usize) -> usize {
    memories.div_ceil(EVENT_MEMORIES_MAX).max(1)
}

/// Creates one part of an event, for the endpoints after `after`.
pub(super) fn part(
    source: &Event,
    memories: &[MemoryId],
    part: usize,
    after: Option<EndpointId>,
) -> Event {
    let mut event = source.clone();
    if let EventData::ChunkCreated(changed)
    | EventData::ChunkDeleted(changed)
    | EventData::MemoryUpdated(changed) = &mut event.data
        && let Some(memories) = memories.chunks(EVENT_MEMORIES_MAX).nth(part)
    {
        changed.memory_ids = memories.to_vec();
    }
    if part > 0 || after.is_some() {
        let number = u64::try_from(part).unwrap_or(u64::MAX).to_be_bytes();
        event.id = derived_id(source.id, &[b"part", &number, &page(after)]);
    }
    event
}

/// Returns the change that an event means for recalls that cite its memories, if any.
pub(super) fn change_of(source: &EventData) -> Option<(CitationChange, &ChangedMemories)> {
    match source {
        EventData::MemoryUpdated(changed) => Some((CitationChange::Updated, changed)),
        EventData::ChunkDeleted(changed) => Some((CitationChange::Deleted, changed)),
        _ => None,
    }
}

/// Creates the event of changed citations of a recall, for the endpoints after `after`.
pub(super) fn citation(
    source: &Event,
    citations: ChangedCitations,
    after: Option<EndpointId>,
) -> Event {
    let what: [&[u8]; 3] = [b"citation", citations.recall_id.0.as_bytes(), &page(after)];
    Event {
        id: derived_id(source.id, &what),
        data: EventData::CitationChanged(citations),
        ..*source
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{OperationId, OrgId, RecallId, Timestamp, WorkspaceId};

    #[test]
    fn derived_event_id_is_stable_and_has_time_of_its_source_event() {
        let millis = 1_700_000_000_123;
        let source = uuid::Builder::from_unix_timestamp_millis(millis, &[9; 10]).into_uuid();
        let event = Event {
            id: EventId(source),
            org_id: OrgId(Uuid::nil()),
            workspace_id: WorkspaceId(Uuid::nil()),
            timestamp: Timestamp::UNIX_EPOCH,
            data: EventData::MemoryUpdated(ChangedMemories {
                memory_ids: vec![MemoryId(Uuid::nil()); 1_000],
                operation_id: OperationId(Uuid::nil()),
                workspace_id: WorkspaceId(Uuid::nil()),
            }),
            endpoints: 1,
        };
        let memories = memories_of(&event);
        assert_eq!(parts(memories.len()), 3);
        let recall = |number| ChangedCitations {
            change: CitationChange::Updated,
            memory_ids: Vec::new(),
            operation_id: OperationId(Uuid::nil()),
            recall_id: RecallId(Uuid::from_u128(number)),
            workspace_id: event.workspace_id,
        };
        let after = [None, Some(EndpointId(Uuid::from_u128(1)))];
        let derive = || {
            let ids = after.into_iter().flat_map(|after| {
                let parts = (0..3).map(move |number| (number, after));
                let parts = parts.map(|(number, after)| part(&event, memories, number, after).id);
                let recalls = (1..3).map(move |number| (recall(number), after));
                let recalls = recalls.map(|(recall, after)| citation(&event, recall, after).id);
                parts.chain(recalls).collect::<Vec<_>>()
            });
            ids.collect::<Vec<_>>()
        };
        let ids = derive();
        assert_eq!(ids, derive());
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), 10);
        for id in &ids {
            assert_eq!(id.0.as_u128() >> 80, u128::from(millis));
            assert_eq!(id.0.get_version_num(), 7);
        }
    }
}
