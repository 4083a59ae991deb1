//! Webhooks, outbound and inbound.

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::{InboundWebhook, NewInboundWebhook, NewWebhook, Webhook};

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::CreateWebhook,
        "`signing_secret` is shown this once.",
    )
    .needs("create_webhook")
    .body::<NewWebhook>()
    .answers::<Webhook>();
    all.describe(
        Operation::CreateInboundWebhook,
        "`signing_secret` is shown this once. `url` is where senders post to.",
    )
    .needs("create_inbound_webhook")
    .body::<NewInboundWebhook>()
    .answers::<InboundWebhook>();
}
