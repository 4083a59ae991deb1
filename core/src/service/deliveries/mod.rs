//! Deliveries of events to endpoints, from the outbox to the response.
//!
//! An endpoint is an outbound webhook or a citation subscription. The commit of a change writes its
//! event to the outbox. Fan-out ([`fan_out`]) adds deliveries to the queues of the matching
//! endpoints ([`queue`], [`queued_delivery`]). A dispatcher claims what is due ([`claim`],
//! [`entry_claim`], [`claim_builder`]) under leases ([`lease`], [`endpoint_leases`]) and records the
//! outcome ([`finish`], of many successful attempts at once [`finish_batch`]): success, a retry
//! ([`schedule`]) or a dead letter ([`dead_letters`]). An endpoint receives only pings until it has
//! answered one ([`confirmation`]). Callers inspect deliveries and redeliver them ([`queries`],
//! [`redelivery`]). The host makes the HTTP exchange ([`exchange`]). [`dispatch`] does everything in
//! one call.

mod claim;
mod claim_builder;
mod confirmation;
mod dead_letters;
mod dispatch;
mod endpoint;
mod endpoint_leases;
mod endpoint_record;
mod entry_claim;
mod exchange;
mod fan_out;
mod finish;
mod finish_batch;
mod history;
mod in_flight;
mod lease;
mod pending;
mod queries;
mod queue;
mod queued_delivery;
mod record;
mod redelivery;
mod schedule;

pub use self::claim::ClaimBatch;
pub use self::claim_builder::ClaimedDelivery;
pub(super) use self::confirmation::HostPings;
pub use self::dispatch::{DispatchLimits, DispatchReport};
pub use self::endpoint_leases::DELIVERY_LEASE;
pub(super) use self::endpoint_record::{EndpointRecord, find_subscription};
pub use self::exchange::{
    Attempt, DELIVERY_TIMEOUT, DeliveryRequest, DeliveryResponse, DeliverySender,
    RESPONSE_BYTES_MAX,
};
#[doc(hidden)]
pub use self::fan_out::FanOutLimits;
pub use self::fan_out::FanOutReport;
pub(super) use self::fan_out::{CorruptEvents, FanOutCursor, NextTurn};
pub use self::finish::AttemptOutcome;
pub(super) use self::history::RetainedEvent;
pub use self::in_flight::{
    IN_FLIGHT_PER_ENDPOINT_MAX, IN_FLIGHT_PER_QUICK_ENDPOINT_MAX, InFlight, QUICK_RESPONSE_MAX,
};
pub use self::lease::DeliveryLease;
pub(super) use self::pending::{NotifyingStore, Signal};
pub(super) use self::queries::page_of_deliveries;
pub use self::queries::{Endpoint, OutboxStatus};
pub(super) use self::queue::{EndpointParent, EndpointQueue, EndpointState};
pub(super) use self::record::{DeliveryRef, StoredDelivery, find_delivery};
pub use self::redelivery::RedeliveryReport;
pub(super) use self::redelivery::{redeliver_dead_letters, redeliver_one};
