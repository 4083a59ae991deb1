//! Endpoints of outgoing events: webhooks and citation subscriptions.

pub(crate) mod citations;
mod endpoint_record;
mod shown_confirmation;
pub(crate) mod webhooks;

pub(in crate::service) use self::endpoint_record::{EndpointRecord, find_subscription};
pub(in crate::service) use self::shown_confirmation::show_confirmations;
