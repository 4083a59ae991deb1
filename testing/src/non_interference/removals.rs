//! Removals by others: erasures, some of which are left running, and what a retention expires.

use std::time::Duration;

use super::choices::Choices;
use super::hidden::KEYS;
use super::world::World;
use knowledge_core::Error;
use knowledge_core::model::{ErasureId, MemoryId, NewErasure};
use knowledge_core::service::IdempotencyKey;

/// Time by which the clock is moved: some periods of a retention end, none of them by a few seconds.
const STEP: Duration = Duration::from_secs(25 * 60 * 60);
/// Maximum number of calls of maintenance until it is complete.
const MAINTAIN_CALLS_MAX: usize = 200;

impl World {
    /// Erases the same in both worlds, and perhaps leaves the erasure running.
    pub(super) async fn erase_common(&mut self, choices: &mut Choices<'_>) -> Result<(), Error> {
        let is_left_running = choices.once_in(2);
        let scope = choices.below(8);
        let wiki = NewErasure::builder().source_id(self.sources[0]);
        let erasure = match scope {
            _ if !self.has_removals => None,
            0 => Some(wiki.build()),
            1 => Some(
                NewErasure::builder()
                    .member_id(self.seed.founder.id)
                    .build(),
            ),
            2 => Some(NewErasure::builder().member_id(self.pat.member).build()),
            3..6 => Some(wiki.source_key_prefix(KEYS[scope - 3]).build()),
            _ => None,
        };
        let erasure = match erasure {
            Some(erasure) => erasure,
            None => {
                let known = self.memories.iter().filter(|known| !known.differs);
                let known: Vec<MemoryId> = known.map(|known| known.id).collect();
                let Some(id) = choices.of(&known) else {
                    return Ok(());
                };
                NewErasure::builder().memory_ids(vec![*id]).build()
            }
        };
        let id = self.erase(&erasure, is_left_running).await?;
        self.note("erasures", id.to_string());
        Ok(())
    }

    /// Erases something as the owner. A running erasure is continued by maintenance.
    pub(super) async fn erase(
        &mut self,
        erasure: &NewErasure,
        is_left_running: bool,
    ) -> Result<ErasureId, Error> {
        let key: IdempotencyKey = self.name("erasure").parse().expect("a key");
        let (service, owner) = (self.seed.service.clone(), self.seed.owner.clone());
        if is_left_running {
            self.gate.close_after(1);
        }
        let erased = service.erasures().create(&owner, &key, erasure).await;
        self.gate.open();
        Ok(erased?.erasure.id)
    }

    /// Moves the clock by more than a day, and completes what is due, or leaves it for later.
    pub(super) async fn pass_time(&mut self, choices: &mut Choices<'_>) -> Result<(), Error> {
        self.advance(STEP);
        if choices.once_in(3) {
            Ok(())
        } else {
            self.maintain().await
        }
    }

    /// Runs maintenance until it is complete.
    pub(super) async fn maintain(&mut self) -> Result<(), Error> {
        let (service, now) = (self.seed.service.clone(), self.seed.service.env().now());
        for _ in 0..MAINTAIN_CALLS_MAX {
            if !service.maintain(now).await?.has_more {
                return Ok(());
            }
        }
        panic!("maintenance does not complete");
    }
}
