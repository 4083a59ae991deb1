//! Events derived from a source event: parts that fit into a body, citation changes, and what some
//! of the receivers may know of them.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::model::{
    ChangedMemories, CitationChange, EndpointId, EventContent, EventData, EventId, RecallId,
};

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

/// Returns the data of the parts of an event, each of which fits into a body.
pub(super) fn parts(data: &EventData) -> Vec<EventData> {
    let parts = data.memories().chunks(EVENT_MEMORIES_MAX);
    let parts = parts.map(|memories| {
        let mut part = data.clone();
        part.set_memories(memories.to_vec());
        part
    });
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() {
        return vec![data.clone()];
    }
    parts
}

/// Returns the identifier of one part of an event, for the endpoints after `after`.
pub(super) fn part_id(source: EventId, part: usize, after: Option<EndpointId>) -> EventId {
    if part == 0 && after.is_none() {
        return source;
    }
    let number = u64::try_from(part).unwrap_or(u64::MAX).to_be_bytes();
    derived_id(source, &[b"part", &number, &page(after)])
}

/// Returns the change that an event means for recalls that cite its memories, if any.
pub(super) fn change_of(source: &EventData) -> Option<(CitationChange, &ChangedMemories)> {
    match source {
        EventData::MemoryUpdated(changed) => Some((CitationChange::Updated, changed)),
        EventData::ChunkDeleted(changed) => Some((CitationChange::Deleted, changed)),
        _ => None,
    }
}

/// Returns the identifier of the event of changed citations of a recall, for the endpoints after
/// `after`.
pub(super) fn citation_id(source: EventId, recall: RecallId, after: Option<EndpointId>) -> EventId {
    derived_id(source, &[b"citation", recall.0.as_bytes(), &page(after)])
}

/// Returns the identifier of an event for those receivers that know only this part of its data.
pub(super) fn reduced_id(whole: EventId, data: &EventData) -> EventId {
    let data = serde_json::to_vec(&EventContent(data)).expect("the data of an event serialises");
    derived_id(whole, &[b"reduced", &data])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MemoryId, OperationId, WorkspaceId};

    #[test]
    fn derived_event_id_is_stable_and_has_time_of_its_source_event() {
        let millis = 1_700_000_000_123;
        let source = uuid::Builder::from_unix_timestamp_millis(millis, &[9; 10]).into_uuid();
        let source = EventId(source);
        let of = |memories| {
            EventData::MemoryUpdated(ChangedMemories {
                memory_ids: vec![MemoryId(Uuid::nil()); memories],
                operation_id: OperationId(Uuid::nil()),
                workspace_id: WorkspaceId(Uuid::nil()),
            })
        };
        assert_eq!(parts(&of(1_000)), [of(450), of(450), of(100)]);
        assert_eq!(parts(&of(0)), [of(0)]);
        let recall = |number| RecallId(Uuid::from_u128(number));
        let after = [None, Some(EndpointId(Uuid::from_u128(1)))];
        let derive = || {
            let ids = after.into_iter().flat_map(|after| {
                let parts = (0..3).map(move |number| part_id(source, number, after));
                let recalls = (1..3).map(move |number| citation_id(source, recall(number), after));
                parts.chain(recalls).collect::<Vec<_>>()
            });
            let whole = ids.collect::<Vec<_>>();
            let reduced = (1..3).flat_map(|known| {
                let whole = whole.iter();
                whole.map(move |whole| reduced_id(*whole, &of(known)))
            });
            reduced.chain(whole.iter().copied()).collect::<Vec<_>>()
        };
        let ids = derive();
        assert_eq!(ids, derive());
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), 30);
        for id in &ids {
            assert_eq!(id.0.as_u128() >> 80, u128::from(millis));
            assert_eq!(id.0.get_version_num(), 7);
        }
    }
}
