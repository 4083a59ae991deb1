//! Transaction of a claim from one endpoint.

use super::claim_batch::EndpointClaimResult;
use super::endpoint_claim::EndpointClaim;
use super::queue_claim::QueueClaim;
use crate::error::Error;
use crate::keys;
use crate::model::Timestamp;
use crate::service::KnowledgeService;
use crate::service::deliveries::dispatch::retry::{CORRUPT_RETRY_DELAY, REQUEUE_DELAY};
use crate::service::deliveries::queue::{EndpointQueue, EndpointState};
use crate::store::{Entry, Prepared, Transaction, decode};

impl EndpointClaim {
    /// Claims from the endpoint, or postpones it if its data are corrupt.
    pub(super) async fn run(
        self,
        service: &KnowledgeService,
    ) -> Result<EndpointClaimResult, Error> {
        let claimed = service.transact(|transaction| self.claim(service, transaction));
        match claimed.await {
            // Corrupt data are kept for repair and do not hold up the rest.
            Err(Error::Internal { detail }) => {
                let endpoint = self.endpoint;
                let message = "claiming for an endpoint failed; postponing it";
                tracing::error!(%endpoint, %detail, "{message}");
                service
                    .transact(|transaction| self.postpone_corrupt(transaction))
                    .await
            }
            // Another dispatcher is claiming from it.
            Err(Error::Conflict) => Ok(EndpointClaimResult::nothing(Some(
                self.now.plus(REQUEUE_DELAY),
            ))),
            result => result,
        }
    }

    async fn claim(
        self,
        service: &KnowledgeService,
        mut transaction: Transaction,
    ) -> Result<Prepared<EndpointClaimResult>, Error> {
        let state = keys::endpoint(self.org, self.endpoint);
        transaction
            .prefetch(vec![state], vec![self.front()])
            .await?;
        let queue = EndpointQueue::read(&mut transaction, self.org, self.endpoint).await?;
        let Some(queue) = queue else {
            transaction.delete(self.entry_key());
            return Ok(transaction.done(EndpointClaimResult::default()));
        };
        if queue.state.due != Some(self.at) {
            return self.correct_entry(transaction, queue.state.due).await;
        }
        let result = QueueClaim::run(service, &mut transaction, queue, self).await?;
        Ok(transaction.done(result))
    }

    /// Corrects an entry of the ready queue that differs from the endpoint's due time.
    ///
    /// Another dispatcher has moved it in the meantime, or it is left over from corrupt data.
    async fn correct_entry(
        self,
        mut transaction: Transaction,
        due: Option<Timestamp>,
    ) -> Result<Prepared<EndpointClaimResult>, Error> {
        let entry = transaction.get::<Entry>(&self.entry_key()).await?;
        if entry.is_some() {
            transaction.delete(self.entry_key());
            if let Some(due) = due {
                transaction.put(keys::endpoint_due(due, self.org, self.endpoint), &());
            }
        }
        Ok(transaction.done(EndpointClaimResult::nothing(due)))
    }

    /// Postpones an endpoint whose claim failed.
    async fn postpone_corrupt(
        self,
        mut transaction: Transaction,
    ) -> Result<Prepared<EndpointClaimResult>, Error> {
        let later = self.now.plus(CORRUPT_RETRY_DELAY);
        let key = keys::endpoint(self.org, self.endpoint);
        let found = transaction
            .get_many::<Entry>(std::slice::from_ref(&key))
            .await?;
        let next_due = match found.first() {
            Some(Some(entry)) => match decode::<EndpointState>(&key, entry) {
                Ok(state) if state.value.due == Some(self.at) => {
                    EndpointQueue::of(self.org, self.endpoint, state.value)
                        .postpone(&mut transaction, later);
                    Some(later)
                }
                Ok(state) => state.value.due,
                // If the state itself is corrupt, only the entry is postponed.
                Err(_) => {
                    transaction.delete(self.entry_key());
                    transaction.put(keys::endpoint_due(later, self.org, self.endpoint), &());
                    Some(later)
                }
            },
            _ => None,
        };
        Ok(transaction.done(EndpointClaimResult::nothing(next_due)))
    }
}
