//! Fair queue: organisations whose events wait in the outbox take turns.
//!
//! Every event has a mark under `outbox_queue`, ordered by organisation. A batch has the oldest
//! events of several organisations, interleaved, and begins after the organisation that was served
//! last. It is read again before each commit.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::keys;
use crate::model::{EventId, OrgId};
use crate::service::{Event, KnowledgeService};
use crate::store::{Direction, Key, KeyEntry, KeyRange, StoreExt, decode_value};

/// Maximum number of events of a batch, and of entries that one scan reads.
pub(super) const EVENTS_PER_BATCH: usize = 100;
/// Maximum number of scans that contribute to a batch.
const SCANS_PER_BATCH: usize = 16;

/// Mark of an event: organisation and event.
pub(super) type QueuedEvent = (OrgId, EventId);

/// Fair queue of the events that one call fans out.
pub(super) struct FairQueue {
    /// Key of the marks at which the next batch begins.
    start: Key,
    /// Positions of the organisations that were served, in order.
    positions: Vec<(OrgId, Position)>,
    /// Organisations whose writes are held, which have no turn.
    held: BTreeSet<OrgId>,
}

/// Position of an organisation in its queue.
struct Position {
    after: EventId,
    /// True if an event up to the position needs a further step.
    has_unfinished: bool,
}

impl FairQueue {
    pub(super) fn begin(start: Key) -> Self {
        Self {
            start,
            positions: Vec::new(),
            held: BTreeSet::new(),
        }
    }

    /// Begins with an organisation, if there is one.
    pub(super) fn begin_with(org: Option<OrgId>) -> Self {
        Self::begin(
            org.map_or_else(keys::outbox_queues, keys::outbox_queue_of)
                .start,
        )
    }

    pub(super) fn start(&self) -> Key {
        self.start.clone()
    }

    /// Begins the next batch with the first organisation.
    pub(super) fn restart(&mut self) {
        self.start = keys::outbox_queues().start;
    }

    /// Notes a step in which the first `passed` events of a batch needed no further step.
    ///
    /// If there are none, the first event had the whole step and needs another one, after others.
    /// The next batch begins after the organisation of the last of these events.
    pub(super) fn served(&mut self, batch: &[QueuedEvent], passed: usize) {
        for (org, event) in &batch[..passed.max(1)] {
            let mut position = Position {
                after: *event,
                has_unfinished: passed == 0,
            };
            match self.place(*org) {
                Ok(place) => {
                    let known = &mut self.positions[place].1;
                    position.has_unfinished |= known.has_unfinished;
                    *known = position;
                }
                Err(place) => self.positions.insert(place, (*org, position)),
            }
            if let Some(end) = keys::outbox_queue_of(*org).end {
                self.start = end;
            }
        }
    }

    /// Leaves organisations out whose writes are held.
    pub(super) fn skip(&mut self, held: BTreeSet<OrgId>) {
        self.held.extend(held);
    }

    /// Returns the place of an organisation among the positions, or where it would be.
    fn place(&self, org: OrgId) -> Result<usize, usize> {
        self.positions
            .binary_search_by_key(&org, |(served, _)| *served)
    }

    /// Returns the events of the next batch; none if every event had its turn in this call.
    pub(super) async fn next_batch(
        &mut self,
        service: &KnowledgeService,
    ) -> Result<Vec<QueuedEvent>, Error> {
        let all = keys::outbox_queues();
        let before = KeyRange::new(all.start, self.start.clone());
        let from = KeyRange {
            start: self.start.clone(),
            end: all.end,
        };
        let (mut queues, mut scans) = (Vec::new(), 0);
        for mut rest in [from, before] {
            while queues.len() < EVENTS_PER_BATCH && scans < SCANS_PER_BATCH && !rest.is_empty() {
                let page = scan(service, &rest).await?;
                let listed = marks(service, &page);
                let found = queues.len();
                for of_org in listed.chunk_by(|one, next| one.0 == next.0) {
                    let waiting = self.waiting(service, of_org).await?;
                    queues.extend((!waiting.is_empty()).then_some(waiting));
                }
                scans += usize::from(queues.len() > found);
                let Some(last) = page.last().filter(|_| page.len() == EVENTS_PER_BATCH) else {
                    break;
                };
                // The other events of the last organisation wait for its next turn.
                let org = keys::parse_outbox_queue(&last.key).map(|(org, _)| org);
                rest = match org.and_then(|org| keys::outbox_queue_of(org).end) {
                    Some(start) => KeyRange { start, ..rest },
                    None => rest.after(&last.key),
                };
            }
        }
        Ok(interleaved(&queues))
    }

    /// Returns the first events of an organisation that wait for a turn; `listed` are its oldest.
    ///
    /// After its last event, it begins again with those that need a further step.
    async fn waiting(
        &mut self,
        service: &KnowledgeService,
        listed: &[QueuedEvent],
    ) -> Result<Vec<QueuedEvent>, Error> {
        let org = listed[0].0;
        if self.held.contains(&org) {
            return Ok(Vec::new());
        }
        let Ok(place) = self.place(org) else {
            return Ok(listed.to_vec());
        };
        let position = &self.positions[place].1;
        let later = listed.iter().filter(|(_, event)| *event > position.after);
        let later: Vec<_> = later.copied().collect();
        if !later.is_empty() {
            return Ok(later);
        }
        let rest = keys::outbox_queue_of(org).after(&keys::outbox_queue(org, position.after));
        let found = marks(service, &scan(service, &rest).await?);
        if found.is_empty() && position.has_unfinished {
            self.positions.remove(place);
            return Ok(listed.to_vec());
        }
        Ok(found)
    }
}

async fn scan(service: &KnowledgeService, range: &KeyRange) -> Result<Vec<KeyEntry>, Error> {
    let store = service.store();
    let found = store.scan(range, EVENTS_PER_BATCH, Direction::Forward);
    Ok(found.await?)
}

/// Parses marks. An unreadable one is logged and skipped.
fn marks(service: &KnowledgeService, page: &[KeyEntry]) -> Vec<QueuedEvent> {
    let marks = page.iter().filter_map(|found| {
        let mark = keys::parse_outbox_queue(&found.key);
        if mark.is_none() {
            service.log_unreadable(&found.key, "unreadable key");
        }
        mark
    });
    marks.collect()
}

/// Returns the first events of all queues, then the second ones, and so on.
fn interleaved(queues: &[Vec<QueuedEvent>]) -> Vec<QueuedEvent> {
    let places = 0..EVENTS_PER_BATCH;
    let events = places.flat_map(|place| queues.iter().filter_map(move |queue| queue.get(place)));
    events.take(EVENTS_PER_BATCH).copied().collect()
}

impl KnowledgeService {
    /// Returns the organisation of the oldest event in the outbox that is readable.
    pub(super) async fn org_of_oldest_event(&self) -> Result<Option<OrgId>, Error> {
        let page = scan(self, &keys::outbox_events()).await?;
        let mut events = page.iter().flat_map(decode_value::<Event>);
        Ok(events.next().map(|event| event.org_id))
    }

    /// Logs an unreadable entry of the outbox, which is kept for repair and does not hold up the
    /// rest.
    pub(super) fn log_unreadable(&self, key: &Key, error: &str) {
        if self.inner.corrupt_events.is_new(key) {
            tracing::error!(%key, %error, "unreadable outbox entry; skipping it");
        }
    }
}
