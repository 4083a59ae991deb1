//! Recalls.

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::{Recall, RecallSummary};
use crate::service::NewRecall;

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::CreateRecall,
        "Its subscribers are notified when one of the memories changes.",
    )
    .needs("create_recall")
    .body::<NewRecall>()
    .answers::<Recall>()
    .leads_to(Operation::GetRecall, &[("id", "$response.body#/id")])
    .leads_to(
        Operation::ListCitationSubscriptions,
        &[("recall_id", "$response.body#/id")],
    );
    all.describe(
        Operation::ListRecalls,
        "Newest first, without the memories that they cite.",
    )
    .needs("list_recalls")
    .answers_page::<RecallSummary>();
    all.describe(Operation::GetRecall, "")
        .needs("recall")
        .answers::<Recall>();
}
