//! Fan-out: from events in the outbox to deliveries in the queues of endpoints.

mod citations;
mod cited_event;
mod corrupt_events;
mod decisions;
mod derived;
mod fair_queue;
mod fan_out_cursor;
mod fan_out_limits;
mod known;
mod next_turn;
mod run;
mod step;
mod targets;

pub(in crate::service) use self::corrupt_events::CorruptEvents;
pub(in crate::service) use self::fan_out_cursor::FanOutCursor;
#[doc(hidden)]
pub use self::fan_out_limits::FanOutLimits;
pub(in crate::service) use self::next_turn::NextTurn;
pub use self::run::FanOutReport;
