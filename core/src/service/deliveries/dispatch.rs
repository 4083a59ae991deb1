//! Whose turn it is, and what an answer means: claims, leases, the schedule.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exchange::{Attempt, DeliveryRequest, DeliverySender};
use crate::error::Error;
use crate::model::{DisabledReason, EndpointId, EventId, EventType, OrgId, Timestamp};
use crate::service::KnowledgeService;

/// How long a claim holds without being renewed: after a crash what was in flight is due again within this time.
pub const DELIVERY_LEASE: Duration = Duration::from_secs(4);
/// How many deliveries to one endpoint may be in flight at once.
pub const IN_FLIGHT_PER_ENDPOINT_MAX: usize = 8;

/// The right to make one attempt of a delivery and to say what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryLease {
    org: OrgId,
    endpoint: EndpointId,
    event: EventId,
    epoch: u64,
}

impl DeliveryLease {
    /// The endpoint that the delivery goes to.
    #[must_use]
    pub fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    /// The event that is delivered.
    #[must_use]
    pub fn event(&self) -> EventId {
        self.event
    }
}

/// A delivery to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// The lease, which [`KnowledgeService::finish_delivery`] ends.
    pub lease: DeliveryLease,
    /// What happened.
    pub event_type: EventType,
    /// What to send, signed for now.
    pub request: DeliveryRequest,
}

/// What was claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// The deliveries to send.
    pub deliveries: Vec<ClaimedDelivery>,
    /// Deliveries that were given up because their endpoint is switched off.
    pub given_up: u64,
    /// When the next turn of an endpoint is, where nothing more is due to be claimed now.
    pub next_due: Option<Timestamp>,
    /// Whether more is due now than was claimed, for endpoints with room.
    pub has_more: bool,
}

/// What the end of an attempt led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It is delivered.
    Delivered,
    /// It will be attempted again then.
    Retry(Timestamp),
    /// It was given up, with its endpoint where a reason stands.
    Dead(Option<DisabledReason>),
    /// Somebody else claimed it meanwhile, or it is gone: nothing was changed.
    LeaseLost,
}

/// What one round of [`KnowledgeService::dispatch`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dispatched {
    /// Attempts that were made.
    pub attempts: u64,
    /// Those that succeeded.
    pub delivered: u64,
    /// Whether there is more to do now: call again.
    pub has_more: bool,
    /// When something is due next, where nothing is now.
    pub next_due: Option<Timestamp>,
}

impl KnowledgeService {
    /// Claims up to `room` deliveries that are due, in fair turns between the endpoints. `in_flight` says how many
    /// exchanges the caller has under way with each: none gets more than [`IN_FLIGHT_PER_ENDPOINT_MAX`], one that has been
    /// failing no second one.
    ///
    /// # Errors
    /// Those of the store; what was claimed before comes back when its lease lapses.
    pub async fn claim_deliveries(
        &self,
        now: Timestamp,
        room: usize,
        in_flight: &BTreeMap<EndpointId, usize>,
    ) -> Result<Claimed, Error> {
        let _ = (now, room, in_flight);
        Err(Error::internal("not written yet"))
    }

    /// Renews leases, so that they hold for [`DELIVERY_LEASE`] from `now`. Those that are lost are left out of the answer.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn renew_leases(
        &self,
        now: Timestamp,
        leases: &[DeliveryLease],
    ) -> Result<Vec<DeliveryLease>, Error> {
        let _ = (now, leases);
        Err(Error::internal("not written yet"))
    }

    /// Ends an attempt: what came of it decides what becomes of the delivery, and of its endpoint.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn finish_delivery(
        &self,
        now: Timestamp,
        lease: &DeliveryLease,
        attempt: &Attempt,
    ) -> Result<Finished, Error> {
        let _ = (now, lease, attempt);
        Err(Error::internal("not written yet"))
    }

    /// One whole round: expands what is in the outbox, and makes what is due, with this sender. For hosts without a
    /// process of their own to do so all the time.
    ///
    /// # Errors
    /// Those of the store; what was done before stays done.
    pub async fn dispatch(
        &self,
        sender: &dyn DeliverySender,
        now: Timestamp,
    ) -> Result<Dispatched, Error> {
        let _ = (sender, now);
        Err(Error::internal("not written yet"))
    }
}
