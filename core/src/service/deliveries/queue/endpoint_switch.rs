//! Effects on the queue of an endpoint that is activated, deactivated, moved or deleted.

use super::endpoint_queue::EndpointQueue;
use crate::error::Error;
use crate::keys;
use crate::model::{DisabledReason, EndpointId, OrgId, Timestamp};
use crate::service::KnowledgeService;
use crate::service::tasks::ScheduledTask;
use crate::store::Transaction;

/// Activation or deactivation of an endpoint by its owner, or its new URL.
pub(in crate::service) struct EndpointSwitch {
    /// Reason for which the service had disabled it, which the change overrides.
    pub(in crate::service) was_disabled: Option<DisabledReason>,
    /// True if it has a new URL.
    pub(in crate::service) is_moved: bool,
    /// True if its URL, after the change, has answered a ping.
    pub(in crate::service) is_confirmed: bool,
}

impl KnowledgeService {
    /// Applies a change of an endpoint to its queue.
    ///
    /// The endpoint is due immediately. If it is inactive, all its pending deliveries are
    /// dead-lettered. If it is active, those that are due are sent, and later retries keep their
    /// times. An unconfirmed endpoint receives a ping; those to another URL do not count.
    pub(in crate::service) async fn switch_endpoint(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
        switch: EndpointSwitch,
        now: Timestamp,
    ) -> Result<(), Error> {
        if switch.was_disabled.is_some() {
            transaction.add(keys::disabled_endpoint_count(org), -1);
        }
        if let Some(mut queue) = EndpointQueue::read(transaction, org, endpoint).await? {
            queue.state.failing_since = None;
            if switch.is_moved {
                queue.state.pings.clear();
            }
            if queue.state.due.is_some() || !switch.is_confirmed {
                queue.schedule_by(now);
            }
            queue.save(transaction);
        }
        Ok(())
    }

    /// Removes a deleted endpoint from the ready queue and schedules the purge of its deliveries.
    pub(in crate::service) async fn remove_endpoint(
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
