//! Recalls.

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::{Recall, RecallSummary};
use crate::service::NewRecall;

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::CreateRecall,
        "Who subscribes to it hears when one of the memories changes.",
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
        "In the order in which they were made, without the memories that they cite.",
    )
    .needs("list_recalls")
    .answers_page::<RecallSummary>();
    all.describe(Operation::GetRecall, "")
        .needs("recall")
        .answers::<Recall>();
}
