//! Citation subscriptions.

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::{CitationSubscription, NewCitationSubscription};

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::CreateCitationSubscription,
        "`signing_secret` is shown this once.",
    )
    .needs("create_citation_subscription")
    .body::<NewCitationSubscription>()
    .answers::<CitationSubscription>();
}
