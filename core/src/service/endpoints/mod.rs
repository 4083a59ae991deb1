//! Endpoints of outgoing events: webhooks and citation subscriptions.

pub(crate) mod citations;
pub(crate) mod webhooks;
