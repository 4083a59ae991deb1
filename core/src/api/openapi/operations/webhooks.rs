//! Webhooks, outbound and inbound.

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::{
    InboundWebhook, InboundWebhookUpdate, NewInboundWebhook, NewWebhook, Webhook, WebhookUpdate,
};
use crate::service::{InboundBatch, RotatedSecret};

/// The parameters of the operations on one webhook, from the answer to its registration.
const MADE: &[(&str, &str)] = &[
    ("id", "$request.path.id"),
    ("webhookId", "$response.body#/id"),
];

/// The parameters of the address of an inbound webhook, from the same answer.
const ADDRESS: &[(&str, &str)] = &[
    ("org", "$response.body#/org_id"),
    ("id", "$response.body#/id"),
];

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::CreateWebhook,
        "`signing_secret` is shown this once.",
    )
    .needs("create_webhook")
    .body::<NewWebhook>()
    .answers::<Webhook>()
    .leads_to(Operation::GetWebhook, MADE)
    .leads_to(Operation::UpdateWebhook, MADE)
    .leads_to(Operation::RotateWebhookSecret, MADE)
    .leads_to(Operation::PingWebhook, MADE)
    .leads_to(Operation::ListWebhookDeliveries, MADE)
    .leads_to(Operation::RedeliverDeadToWebhook, MADE)
    .leads_to(Operation::DeleteWebhook, MADE);
    all.describe(
        Operation::CreateInboundWebhook,
        "`signing_secret` is shown this once. `url` is where senders post to.",
    )
    .needs("create_inbound_webhook")
    .body::<NewInboundWebhook>()
    .answers::<InboundWebhook>()
    .leads_to(Operation::PostToInboundWebhook, ADDRESS)
    .leads_to(Operation::GetInboundWebhook, MADE)
    .leads_to(Operation::UpdateInboundWebhook, MADE)
    .leads_to(Operation::RotateInboundWebhookSecret, MADE)
    .leads_to(Operation::DeleteInboundWebhook, MADE);
    all.describe(
        Operation::ListWebhooks,
        "In the order in which they were made, without their secrets.",
    )
    .needs("list_webhooks")
    .answers_page::<Webhook>();
    all.describe(Operation::GetWebhook, "")
        .needs("webhook")
        .answers::<Webhook>()
        .etag();
    all.describe(Operation::UpdateWebhook, "What is left out stays as it is.")
        .needs("update_webhook")
        .if_match()
        .optional_body::<WebhookUpdate>()
        .answers::<Webhook>()
        .etag();
    all.describe(Operation::DeleteWebhook, "")
        .needs("delete_webhook");
    all.describe(
        Operation::RotateWebhookSecret,
        "The new `signing_secret` is shown this once. For 24 hours the old one counts too.",
    )
    .needs("rotate_webhook_secret")
    .empty_body()
    .answers::<RotatedSecret>();
    all.describe(
        Operation::ListInboundWebhooks,
        "In the order in which they were made, without their secrets.",
    )
    .needs("list_inbound_webhooks")
    .answers_page::<InboundWebhook>();
    all.describe(Operation::GetInboundWebhook, "")
        .needs("inbound_webhook")
        .answers::<InboundWebhook>()
        .etag();
    all.describe(
        Operation::UpdateInboundWebhook,
        "What is left out stays as it is.",
    )
    .needs("update_inbound_webhook")
    .if_match()
    .optional_body::<InboundWebhookUpdate>()
    .answers::<InboundWebhook>()
    .etag();
    all.describe(Operation::DeleteInboundWebhook, "")
        .needs("delete_inbound_webhook");
    all.describe(
        Operation::RotateInboundWebhookSecret,
        "The new `signing_secret` is shown this once. For 24 hours the old one counts too.",
    )
    .needs("rotate_inbound_webhook_secret")
    .empty_body()
    .answers::<RotatedSecret>();
    all.describe(
        Operation::PostToInboundWebhook,
        "The address is the `url` of the inbound webhook; the message is signed as Standard Webhooks 1.0.0 says, with the \
         webhook's secret, not more than 5 minutes ago. The memories wait for review, and belong to the source of the \
         webhook; a `source_key` seen before updates that memory. All are taken in, or none. A message that was taken in is \
         answered alike when it comes again, without effect, for 7 days. It is taken in by the member in `acts_as`, with \
         what that member may do at the moment: `403` where it is gone or may no longer.",
    )
    .needs("take_message")
    .signed()
    .body::<InboundBatch>();
}
