//! Citation subscriptions.

use schemars::JsonSchema;

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::{CitationSubscription, NewCitationSubscription, RecallId};
use crate::service::RotatedSecret;

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::CreateCitationSubscription,
        "`signing_secret` is returned only in this response.",
    )
    .needs("create_citation_subscription")
    .body::<NewCitationSubscription>()
    .answers::<CitationSubscription>()
    .leads_to(Operation::GetCitationSubscription, ID)
    .leads_to(Operation::RotateCitationSubscriptionSecret, ID)
    .leads_to(Operation::PingCitationSubscription, ID)
    .leads_to(Operation::ListCitationSubscriptionDeliveries, ID)
    .leads_to(Operation::RedeliverDeadToCitationSubscription, ID)
    .leads_to(Operation::DeleteCitationSubscription, ID);
    all.describe(
        Operation::ListCitationSubscriptions,
        "In order of creation.",
    )
    .needs("list_citation_subscriptions")
    .query::<OfRecall>()
    .answers_page::<CitationSubscription>();
    all.describe(Operation::GetCitationSubscription, "")
        .needs("citation_subscription")
        .answers::<CitationSubscription>();
    all.describe(Operation::DeleteCitationSubscription, "")
        .needs("delete_citation_subscription");
    all.describe(
        Operation::RotateCitationSubscriptionSecret,
        "The new `signing_secret` is returned only in this response. For 24 hours deliveries are signed with the old one too.",
    )
    .needs("rotate_citation_subscription_secret")
    .empty_body()
    .answers::<RotatedSecret>();
}

/// Filter of a list of subscriptions.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only used as a schema")]
struct OfRecall {
    /// Recall that they belong to.
    recall_id: RecallId,
}

const ID: &[(&str, &str)] = &[("id", "$response.body#/id")];
