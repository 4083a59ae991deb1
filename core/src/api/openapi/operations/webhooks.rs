//! Webhooks, outbound and inbound.

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::{
    InboundWebhook, InboundWebhookUpdate, NewInboundWebhook, NewWebhook, Webhook, WebhookUpdate,
};
use crate::service::{InboundBatch, RotatedSecret};

/// Parameters of the operations on one webhook, from the response to its creation.
const MADE: &[(&str, &str)] = &[
    ("id", "$request.path.id"),
    ("webhookId", "$response.body#/id"),
];

/// Parameters of the address of an inbound webhook, from the same response.
const ADDRESS: &[(&str, &str)] = &[
    ("org", "$response.body#/org_id"),
    ("id", "$response.body#/id"),
];

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::CreateWebhook,
        "`signing_secret` is returned only in this response.",
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
        "`signing_secret` is returned only in this response. Senders post to `url`.",
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
        "In order of creation, without their secrets.",
    )
    .needs("list_webhooks")
    .answers_page::<Webhook>();
    all.describe(Operation::GetWebhook, "")
        .needs("webhook")
        .answers::<Webhook>()
        .etag();
    all.describe(Operation::UpdateWebhook, "Omitted fields are unchanged.")
        .needs("update_webhook")
        .if_match()
        .optional_body::<WebhookUpdate>()
        .answers::<Webhook>()
        .etag();
    all.describe(Operation::DeleteWebhook, "")
        .needs("delete_webhook");
    all.describe(
        Operation::RotateWebhookSecret,
        "The new `signing_secret` is returned only in this response. The old one remains valid for 24 hours.",
    )
    .needs("rotate_webhook_secret")
    .empty_body()
    .answers::<RotatedSecret>();
    all.describe(
        Operation::ListInboundWebhooks,
        "In order of creation, without their secrets.",
    )
    .needs("list_inbound_webhooks")
    .answers_page::<InboundWebhook>();
    all.describe(Operation::GetInboundWebhook, "")
        .needs("inbound_webhook")
        .answers::<InboundWebhook>()
        .etag();
    all.describe(
        Operation::UpdateInboundWebhook,
        "Omitted fields are unchanged.",
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
        "The new `signing_secret` is returned only in this response. The old one remains valid for 24 hours.",
    )
    .needs("rotate_inbound_webhook_secret")
    .empty_body()
    .answers::<RotatedSecret>();
    all.describe(
        Operation::PostToInboundWebhook,
        "The address is the `url` of the inbound webhook. The message is signed with the webhook's secret (Standard Webhooks \
         1.0.0), at most 5 minutes from the server's time in either direction. The memories wait for review and belong to the source of the webhook; a known \
         `source_key` updates that memory. A message is ingested completely or not at all. For 7 days, the repetition of an \
         accepted message is answered `204` and has no effect. The member in `acts_as` creates the memories with its current \
         permissions: `403` if it has been removed or lacks them.",
    )
    .needs("ingest_message")
    .signed()
    .body::<InboundBatch>();
}
