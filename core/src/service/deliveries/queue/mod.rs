//! Queues of the endpoints, and the ready queue of all endpoints.
//!
//! The pending deliveries of an endpoint have entries under `delivery_due`, ordered by time. The
//! endpoint itself has one entry under `endpoint_due`, the ready queue, so that a long queue takes
//! no more room there than a short one. Adding to a queue, or moving an entry to an earlier time,
//! also writes the state of the endpoint, so that a claim which has not seen the change conflicts.
//! Removing an entry, or moving it to a later time, need not.
//!
//! While a delivery is leased, its entry stays where it is; the lease is in the state
//! ([`EndpointLeases`]). It counts as an entry at the expiry of its lease.
//!
//! Invariant: while the queue is not empty, the endpoint has a due time. It is no later than the
//! earliest entry, or than [`EndpointState::not_before`] if that is later. It may be earlier; the
//! wake-up is then a no-op.

mod endpoint_leases;
mod endpoint_queue;
mod endpoint_state;
mod endpoint_switch;
mod pings;
mod queued_delivery;
mod stored_delivery;
mod url_confirmation;

pub use self::endpoint_leases::DELIVERY_LEASE;
pub(super) use self::endpoint_leases::LEASE_AHEAD_MAX;
pub(in crate::service) use self::endpoint_queue::EndpointQueue;
pub(in crate::service) use self::endpoint_state::{EndpointParent, EndpointState};
pub(in crate::service) use self::endpoint_switch::EndpointSwitch;
pub(super) use self::queued_delivery::QueuedDelivery;
pub(super) use self::stored_delivery::delivery_keys;
pub(in crate::service) use self::stored_delivery::{DeliveryRef, StoredDelivery, find_delivery};
pub(in crate::service) use self::url_confirmation::{NextPing, UrlConfirmation};
