//! Dispatch: from deliveries that are due to the outcome of their attempts.

mod claim;
mod delivery_lease;
mod exchange;
mod finish;
mod finish_batch;
mod host_pings;
mod in_flight;
mod pending;
mod retry;
mod run;
mod wake_up;

pub use self::claim::{ClaimBatch, ClaimedDelivery};
pub use self::delivery_lease::DeliveryLease;
pub use self::exchange::{
    Attempt, DELIVERY_TIMEOUT, DeliveryRequest, DeliveryResponse, DeliverySender,
    RESPONSE_BYTES_MAX,
};
pub use self::finish::AttemptOutcome;
pub(in crate::service) use self::host_pings::HostPings;
pub use self::in_flight::{
    IN_FLIGHT_PER_ENDPOINT_MAX, IN_FLIGHT_PER_QUICK_ENDPOINT_MAX, InFlight, QUICK_RESPONSE_MAX,
};
pub use self::run::{DispatchLimits, DispatchReport};
pub(in crate::service) use self::wake_up::{NotifyingStore, Signal};
