//! Requests with an idempotency key: their fingerprints, and the records of earlier ones.

use serde::Serialize;

use super::idempotency::{IdempotencyRecord, KeyedRequest};
use crate::error::Error;
use crate::service::{Caller, KnowledgeService};
use crate::store::StoreExt;

impl KnowledgeService {
    /// Returns the fingerprint of a parsed request that creates.
    ///
    /// It depends on the sealing key: the request may have short content, which a dump without the
    /// key must not confirm once the content has been erased.
    pub(crate) fn request_fingerprint<T: Serialize>(&self, request: &T) -> String {
        let canonical = serde_json::to_vec(request).expect("requests serialise");
        self.inner.sealer.fingerprint_of(&canonical)
    }

    /// Returns the record of the earlier request with the key of this one, which an authorised
    /// caller has repeated; `None` if it has expired in the meantime.
    ///
    /// # Errors
    /// [`Error::IdempotencyKeyReused`] if the earlier request was another one;
    /// [`Error::Unauthenticated`]; those of the store.
    pub(crate) async fn earlier_request(
        &self,
        caller: &Caller,
        request: &KeyedRequest,
    ) -> Result<Option<IdempotencyRecord>, Error> {
        let wanted = request.operation.spec().authentication.credential();
        let wanted = wanted.ok_or_else(|| Error::internal("a signature identifies no caller"))?;
        let (org, member) = self.recognize(caller.credential(), wanted).await?;
        let key = request.record_key(org, member);
        let found = self.store().get_as::<IdempotencyRecord>(&key).await?;
        let found = found.map(|found| found.value);
        match found.filter(|record| self.env().now() < record.expires_at) {
            Some(record) if !request.is_recorded_in(&record) => Err(Error::IdempotencyKeyReused),
            found => Ok(found),
        }
    }
}
