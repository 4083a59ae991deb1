//! Deliveries of events to endpoints, from the outbox to the response.
//!
//! An endpoint is an outbound webhook or a citation subscription. The commit of a change writes its
//! event to the outbox. Then:
//!
//! 1. [`fan_out`] adds deliveries of the event to the queues of the matching endpoints.
//! 2. [`queue`] keeps the pending deliveries of each endpoint, their leases, and the time at which
//!    the endpoint is due.
//! 3. [`dispatch`] claims what is due under leases, and records the outcome of each attempt:
//!    success, a retry or a dead letter. The host makes the HTTP exchange. An endpoint receives only
//!    pings until its URL has answered one, which confirms it for the organisation.
//! 4. [`history`] retains events with their deliveries, which callers inspect and redeliver.

mod dispatch;
mod fan_out;
mod history;
mod queue;

pub use self::dispatch::{
    Attempt, AttemptOutcome, ClaimBatch, ClaimedDelivery, DELIVERY_TIMEOUT, DeliveryLease,
    DeliveryRequest, DeliveryResponse, DeliverySender, DispatchLimits, DispatchReport,
    IN_FLIGHT_PER_ENDPOINT_MAX, IN_FLIGHT_PER_QUICK_ENDPOINT_MAX, InFlight, QUICK_RESPONSE_MAX,
    RESPONSE_BYTES_MAX,
};
pub(super) use self::dispatch::{HostPings, NotifyingStore, Signal};
#[doc(hidden)]
pub use self::fan_out::FanOutLimits;
pub use self::fan_out::FanOutReport;
pub(super) use self::fan_out::{CorruptEvents, FanOutCursor, NextTurn};
pub(super) use self::history::{DeliveriesOf, RetainedEvent, page_of_deliveries};
pub use self::history::{Endpoint, OutboxStatus, RedeliveryReport};
pub use self::queue::DELIVERY_LEASE;
pub(super) use self::queue::{
    DeliveryRef, EndpointParent, EndpointQueue, EndpointState, EndpointSwitch, StoredDelivery,
    UrlConfirmation, find_delivery,
};
