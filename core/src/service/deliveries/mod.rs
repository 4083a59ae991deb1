//! Deliveries: events on their way to endpoints, from the outbox to the answer.
//!
//! An endpoint is an outbound webhook or a citation subscription. The commit that changes something writes its event alone;
//! what follows is of this module: which endpoints hear of it ([`expansion`]), whose turn it is ([`queue`], [`claim`], [`turn`]), who
//! may send ([`lease`]), what an answer means ([`finish`], [`schedule`]), and what can be seen and done about it afterwards
//! ([`log`]). The exchange itself is the host's: [`exchange`] says what is sent and what is wanted back. [`dispatch`] is all
//! of it in one call.

mod claim;
mod dispatch;
mod endpoint;
mod exchange;
mod expansion;
mod finish;
mod history;
mod in_flight;
mod lease;
mod log;
mod queue;
mod recipient;
mod record;
mod redelivery;
mod schedule;
mod turn;

pub use self::claim::{Claimed, ClaimedDelivery, IN_FLIGHT_PER_ENDPOINT_MAX};
pub use self::dispatch::{DispatchLimits, Dispatched};
pub use self::exchange::{
    ANSWER_BYTES_MAX, Attempt, DELIVERY_TIMEOUT, DeliveryAnswer, DeliveryRequest, DeliverySender,
};
pub use self::expansion::Expanded;
#[doc(hidden)]
pub use self::expansion::ExpansionLimits;
pub(super) use self::expansion::{Damage, Expansion};
pub use self::finish::Finished;
pub(super) use self::history::AnnouncedEvent;
pub use self::in_flight::InFlight;
pub use self::lease::{DELIVERY_LEASE, DeliveryLease};
pub(super) use self::log::find_delivery;
pub use self::log::{Endpoint, OutboxStatus, Redelivered};
pub(super) use self::queue::{EndpointPlace, EndpointQueue, EndpointState};
pub(super) use self::recipient::Recipient;
pub(super) use self::record::{DeliveryPlace, StoredDelivery};
