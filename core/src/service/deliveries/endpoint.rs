//! What becomes of a queue when its endpoint is switched or deleted.

use super::queue::EndpointQueue;
use crate::error::Error;
use crate::model::{DisabledReason, EndpointId, OrgId, Timestamp};
use crate::service::KnowledgeService;
use crate::service::maintain::Due;
use crate::keys;
use crate::store::Transaction;

impl KnowledgeService {
    /// The owner switched an endpoint off or on. Its turn comes at once: switched off, all that waits is given up; switched
    /// on, what is due by then is sent, and retries that are to come later keep their times.
    pub(in crate::service) async fn endpoint_switched(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
        was_disabled: Option<DisabledReason>,
        now: Timestamp,
    ) -> Result<(), Error> {
        if was_disabled.is_some() {
            transaction.add(keys::disabled_endpoint_count(org), -1);
        }
        if let Some(mut queue) = EndpointQueue::read(transaction, org, endpoint).await? {
            queue.state.failing_since = None;
            if queue.state.due.is_some() {
                queue.wake(now);
            }
            queue.settle(transaction);
        }
        Ok(())
    }

    /// An endpoint was deleted: it has no turn any more, and its deliveries are cleared behind it.
    pub(in crate::service) async fn endpoint_deleted(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
        was_disabled: Option<DisabledReason>,
        now: Timestamp,
    ) -> Result<(), Error> {
        if was_disabled.is_some() {
            transaction.add(keys::disabled_endpoint_count(org), -1);
        }
        if let Some(queue) = EndpointQueue::read(transaction, org, endpoint).await? {
            queue.delete(transaction);
        }
        Due::FormerEndpoint { org, endpoint }.schedule(transaction, now, self.env());
        Ok(())
    }
}
