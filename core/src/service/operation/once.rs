//! Creations, at most one for each idempotency key.

use std::sync::Arc;

use serde::Serialize;

use super::idempotency::{Creation, IdempotencyRecord, KeyedRequest, Replay};
use super::unauthenticated::Unauthenticated;
use crate::error::Error;
use crate::operation::Operation;
use crate::service::access::principal::Principal;
use crate::service::{Caller, KnowledgeService};
use crate::store::{MaybeSend, Prepared, StoreExt};

/// Result of a request with an idempotency key.
pub(crate) struct Replayable<T> {
    pub(crate) value: T,
    /// True if an earlier request was the same, and nothing was created.
    pub(crate) replayed: bool,
}

impl KnowledgeService {
    /// Performs an operation that creates something, at most once if the caller has an idempotency
    /// key.
    ///
    /// `arguments` tell whether two calls are the same. `decide` creates, as for
    /// [`KnowledgeService::perform`]; `read` returns what an earlier call created, with the
    /// permissions of the operation.
    ///
    /// # Errors
    /// Those of `decide` and `read`; [`Error::IdempotencyKeyReused`] if an earlier call with the key
    /// was another one; [`Error::CreatedResourceGone`] if what it created does not exist for the
    /// caller.
    pub(crate) async fn once<'c, T, A, F, D, R>(
        &'c self,
        operation: Operation,
        caller: &'c Caller,
        arguments: &A,
        mut decide: F,
        read: impl FnOnce(Caller, Replay) -> R,
    ) -> Result<T, Error>
    where
        T: MaybeSend,
        A: Serialize,
        F: FnMut(Unauthenticated<'c>) -> D + MaybeSend,
        D: Future<Output = Result<Prepared<T>, Error>> + MaybeSend,
        R: Future<Output = Result<T, Error>>,
    {
        let creation = caller.creation().cloned();
        let keyed = match (creation.as_deref(), caller.idempotency_key()) {
            (Some(Creation::Replay(replay)), _) => {
                return Box::pin(read(caller.clone(), replay.clone())).await;
            }
            (None, Some(key)) => Some(KeyedRequest {
                operation,
                key: key.clone(),
                fingerprint: self.request_fingerprint(arguments),
            }),
            _ => None,
        };
        let creation = match &keyed {
            Some(request) => Some(Arc::new(Creation::Request(request.clone()))),
            None => creation,
        };
        loop {
            let created = self.perform_as(operation, caller, creation.clone(), &mut decide);
            let created = created.await;
            let (Some(request), Err(Error::IdempotencyKeyReused)) = (&keyed, &created) else {
                return created;
            };
            if let Some(replay) = self.replay_of(caller, request).await? {
                let creation = Creation::Replay(replay.clone());
                let caller = caller.clone().with_creation(creation);
                return Box::pin(read(caller, replay)).await.map_err(gone);
            }
        }
    }

    /// Carries out a request over HTTP, unless an earlier one with the same key was: `run` creates
    /// or reads, as its caller says.
    ///
    /// # Errors
    /// Those of [`KnowledgeService::once`].
    pub(crate) async fn run_once<T, F>(
        &self,
        caller: &Caller,
        request: &KeyedRequest,
        run: impl Fn(Caller) -> F,
    ) -> Result<Replayable<T>, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let first = Creation::Request(request.clone());
        let first = caller.clone().with_creation(first);
        loop {
            match run(first.clone()).await {
                Err(Error::IdempotencyKeyReused) => {}
                created => {
                    let (value, replayed) = (created?, false);
                    return Ok(Replayable { value, replayed });
                }
            }
            if let Some(replay) = self.replay_of(caller, request).await? {
                let caller = caller.clone().with_creation(Creation::Replay(replay));
                let (value, replayed) = (run(caller).await.map_err(gone)?, true);
                return Ok(Replayable { value, replayed });
            }
        }
    }

    /// Returns the fingerprint of a parsed request that creates or erases.
    ///
    /// It depends on the sealing key: the request may have short content, or the beginning of a
    /// source key, which a dump without the key must not confirm once the content has been erased.
    pub(crate) fn request_fingerprint<T: Serialize>(&self, request: &T) -> String {
        let canonical = serde_json::to_vec(request).expect("requests serialise");
        self.inner.sealer.fingerprint_of(&canonical)
    }

    /// Returns the replay of a request, with whose key an authorised caller was rejected; `None` if
    /// the record has expired in the meantime, which leaves the key to the request.
    ///
    /// # Errors
    /// [`Error::IdempotencyKeyReused`] if the earlier request was another one;
    /// [`Error::Unauthenticated`]; those of the store.
    async fn replay_of(
        &self,
        caller: &Caller,
        request: &KeyedRequest,
    ) -> Result<Option<Replay>, Error> {
        let wanted = request.operation.spec().authentication.credential();
        let wanted = wanted.ok_or_else(|| Error::internal("a signature identifies no caller"))?;
        let (org, sender) = if caller.acting_for().is_none() {
            let (org, member) = self.recognize(caller.credential(), wanted).await?;
            (org, (member, None))
        } else {
            let mut reading = self.reading();
            let (credential, now) = (caller.credential(), self.env().now());
            let account = Principal::authenticate(&mut reading, credential, wanted, now).await?;
            let principal = account.of_caller(&mut reading, caller, None).await?;
            (principal.org_id(), principal.sender())
        };
        let key = request.record_key(org, sender);
        let found = self.store().get_as::<IdempotencyRecord>(&key).await?;
        let found = found.map(|found| found.value);
        match found.filter(|record| self.env().now() < record.expires_at) {
            Some(record) if !request.is_recorded_in(&record) => Err(Error::IdempotencyKeyReused),
            found => Ok(found.map(|record| Replay {
                operation: request.operation,
                created: record.operation_id.0,
                kept: record.kept,
            })),
        }
    }
}

/// Converts the error of reading what an earlier request created.
fn gone(error: Error) -> Error {
    match error {
        Error::NotFound { .. } | Error::Forbidden { .. } => Error::CreatedResourceGone,
        error => error,
    }
}
