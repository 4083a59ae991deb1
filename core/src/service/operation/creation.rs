//! Operations that create something, at most once per idempotency key.

use serde::Serialize;
use uuid::Uuid;

use super::authorized::Authorized;
use crate::error::Error;
use crate::model::{MemoryId, MemoryLabels};
use crate::service::access::monitor::Monitor;
use crate::service::operation::idempotency::IdempotencyRecord;
use crate::service::tasks::ScheduledTask;

impl Authorized<'_> {
    /// Sets the identifier of what the operation creates.
    pub(crate) fn set_created_id(&mut self, id: Uuid) {
        self.created.id = Some(id);
    }

    /// Sets the response that a replay repeats, or the records that it shows. They must not have
    /// content of memories.
    pub(crate) fn set_replay_data<T: Serialize>(&mut self, data: &T) {
        let creation = self.creation.as_deref();
        if creation.is_some_and(|creation| creation.request(self.operation).is_some()) {
            let data = serde_json::to_string(data).expect("responses and records serialise");
            self.created.replay_data = Some(data);
        }
    }

    /// Returns true if the operation reads what an earlier request created, for a replay.
    pub(crate) fn is_replay(&self) -> bool {
        let creation = self.creation.as_deref();
        creation.is_some_and(|found| found.replay(self.operation).is_some())
    }

    /// Returns true if the operation reads a memory for a replay of its creation, which shows the
    /// labels of a memory that exists for the caller without the permission to read.
    pub(crate) fn shows_replay(
        &self,
        monitor: &Monitor,
        id: MemoryId,
        labels: &MemoryLabels,
    ) -> bool {
        self.is_replay() && monitor.exists(id, labels) && !monitor.is_erased(id, labels)
    }

    /// Checks that no earlier request has the idempotency key of this one, if it has one.
    ///
    /// It follows the authorisation: a caller without the permissions of the operation gets no
    /// replay. What the operation decides on the content of the request is not decided again.
    ///
    /// # Errors
    /// [`Error::IdempotencyKeyReused`] otherwise, also if the request was the same, which is then
    /// replayed; those of the store.
    pub(crate) async fn check_idempotency_key(&mut self) -> Result<(), Error> {
        let creation = self.creation.as_deref();
        let Some(request) = creation.and_then(|found| found.request(self.operation)) else {
            return Ok(());
        };
        let key = request.record_key(self.org(), self.principal.sender());
        let found = self.transaction.get::<IdempotencyRecord>(&key).await?;
        if found.is_some_and(|record| self.now < record.expires_at) {
            return Err(Error::IdempotencyKeyReused);
        }
        self.created.record_key = Some(key);
        Ok(())
    }

    /// Writes the record of the idempotency key, if the request has one.
    ///
    /// # Errors
    /// [`Error::Internal`] if the key was not looked up, or if it is not known what was created: it
    /// would be a defect, and nothing is committed.
    pub(super) fn write_idempotency_record(&mut self) -> Result<(), Error> {
        let service = self.service;
        let creation = self.creation.as_deref();
        let Some(request) = creation.and_then(|found| found.request(self.operation)) else {
            return Ok(());
        };
        let created = std::mem::take(&mut self.created);
        let (Some(id), Some(key)) = (created.id, created.record_key) else {
            let message = format!("{:?} did not honour an idempotency key", self.operation);
            return Err(Error::internal(message));
        };
        let expires_at = self.now.plus(service.limits().idempotency_retention);
        let record = request.record(id, created.replay_data, expires_at);
        self.transaction.put(key.clone(), &record);
        let expiry = ScheduledTask::record(key);
        expiry.schedule(&mut self.transaction, expires_at, service.env());
        Ok(())
    }
}
