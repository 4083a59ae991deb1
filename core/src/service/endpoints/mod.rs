//! Endpoints of outgoing events: webhooks and citation subscriptions.

pub(crate) mod citations;
mod endpoint_record;
pub(crate) mod webhooks;

pub(in crate::service) use self::endpoint_record::{EndpointRecord, find_subscription};
