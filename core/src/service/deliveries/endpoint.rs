//! Effects on the queue of an endpoint that is activated, deactivated or deleted.

use super::queue::EndpointQueue;
use crate::error::Error;
use crate::keys;
use crate::model::{DisabledReason, EndpointId, OrgId, Timestamp};
use crate::service::KnowledgeService;
use crate::service::tasks::ScheduledTask;
use crate::store::Transaction;

impl KnowledgeService {
    /// Applies the activation or deactivation of an endpoint by its owner, or its new URL.
    ///
    /// The endpoint is due immediately. If it is inactive, all its pending deliveries are
    /// dead-lettered. If it is active, those that are due are sent, and later retries keep their
    /// times. An unconfirmed endpoint receives a ping; those to another URL do not count.
    pub(in crate::service) async fn endpoint_switched(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
        (was_disabled, is_moved, is_confirmed): (Option<DisabledReason>, bool, bool),
        now: Timestamp,
    ) -> Result<(), Error> {
        if was_disabled.is_some() {
            transaction.add(keys::disabled_endpoint_count(org), -1);
        }
        if let Some(mut queue) = EndpointQueue::read(transaction, org, endpoint).await? {
            queue.state.failing_since = None;
            if is_moved {
                queue.state.pings.clear();
            }
            if queue.state.due.is_some() || !is_confirmed {
                queue.schedule_by(now);
            }
            queue.save(transaction);
        }
        Ok(())
    }

    /// Removes a deleted endpoint from the ready queue and schedules the purge of its deliveries.
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
        ScheduledTask::FormerEndpoint { org, endpoint }.schedule(transaction, now, self.env());
        Ok(())
    }
}
