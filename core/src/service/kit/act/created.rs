//! Acts that create something, at most once per idempotency key.

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::Act;
use crate::error::Error;
use crate::service::kit::idempotency::IdempotencyRecord;
use crate::service::tasks::ScheduledTask;
use crate::store::Key;

/// Facts about what an act creates, for the record of its idempotency key.
#[derive(Default)]
pub(super) struct Created {
    id: Option<Uuid>,
    /// Response that a replay repeats, if it is not made from what is stored.
    response: Option<Value>,
    /// Key of the record, once it is known that there is none.
    record_key: Option<Key>,
}

impl Act<'_> {
    /// Notes the identifier of what the act creates.
    pub(crate) fn creates(&mut self, id: Uuid) {
        self.created.id = Some(id);
    }

    /// Notes the response, for an act whose replays repeat it. It must not have content of memories.
    pub(crate) fn responds<T: Serialize>(&mut self, response: &T) {
        if self.service.keyed(self.operation).is_some() {
            let response = serde_json::to_value(response);
            self.created.response = response.ok();
        }
    }

    /// Requires that no earlier request has the idempotency key of this one, if it has one.
    ///
    /// It follows the authorisation: a caller that may not do this any more gets no replay.
    ///
    /// # Errors
    /// [`Error::IdempotencyKeyReused`] otherwise, also if the request was the same, which is then
    /// replayed; those of the store.
    pub(super) async fn require_first(&mut self) -> Result<(), Error> {
        let service = self.service;
        let Some(request) = service.keyed(self.operation) else {
            return Ok(());
        };
        let key = request.record_key(self.org(), self.caller.member_id());
        let found = self.transaction.read::<IdempotencyRecord>(&key).await?;
        request.accept(found.filter(|record| self.now < record.expires_at))?;
        self.created.record_key = Some(key);
        Ok(())
    }

    /// Writes the record of the idempotency key, if the request has one.
    ///
    /// # Errors
    /// [`Error::Internal`] if the key was not looked up, or if it is not known what was created: it
    /// would be a defect, and nothing is committed.
    pub(super) fn keep_record(&mut self) -> Result<(), Error> {
        let service = self.service;
        let Some(request) = service.keyed(self.operation) else {
            return Ok(());
        };
        let created = std::mem::take(&mut self.created);
        let (Some(id), Some(key)) = (created.id, created.record_key) else {
            let message = format!("{:?} did not honour an idempotency key", self.operation);
            return Err(Error::internal(message));
        };
        let expires_at = self.now.plus(service.limits().idempotency_retention);
        let record = request.record(id, created.response, expires_at);
        self.transaction.put(key.clone(), &record);
        let expiry = ScheduledTask::record(key);
        expiry.schedule(&mut self.transaction, expires_at, service.env());
        Ok(())
    }
}
