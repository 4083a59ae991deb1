//! History of deliveries: retained events, queries, and redelivery.

mod endpoint;
mod outbox_status;
mod queries;
mod redelivery;
mod retained_event;

pub use self::endpoint::Endpoint;
pub use self::outbox_status::OutboxStatus;
pub(in crate::service) use self::queries::{DeliveriesOf, page_of_deliveries};
pub use self::redelivery::RedeliveryReport;
pub(in crate::service) use self::retained_event::RetainedEvent;
