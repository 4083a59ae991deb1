//! Deliveries: events on their way to endpoints, from the outbox to the answer.
//!
//! An endpoint is an outbound webhook or a citation subscription. The commit that changes something writes its event alone;
//! what follows is of this module: which endpoints hear of it ([`expansion`]), whose turn it is ([`queue`]), who sends
//! and what an answer means ([`dispatch`]), and what can be seen and done about it afterwards ([`log`]). The exchange
//! itself is the host's: [`exchange`] says what is sent and what is wanted back.

mod dispatch;
mod endpoint;
mod exchange;
mod expansion;
mod history;
mod log;
mod queue;
mod record;

pub use self::dispatch::{
    Claimed, ClaimedDelivery, DELIVERY_LEASE, DeliveryLease, Dispatched, Finished,
    IN_FLIGHT_PER_ENDPOINT_MAX,
};
pub use self::exchange::{
    ANSWER_BYTES_MAX, Attempt, DELIVERY_TIMEOUT, DeliveryAnswer, DeliveryRequest, DeliverySender,
};
pub use self::expansion::Expanded;
pub(super) use self::expansion::Expansion;
pub(super) use self::history::AnnouncedEvent;
pub use self::log::{Endpoint, OutboxStatus, Redelivered};
pub(super) use self::queue::{EndpointPlace, EndpointQueue, EndpointState};
pub(super) use self::record::{DeliveryPlace, StoredDelivery};
