//! Sources.

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::Source;
use crate::service::NewSource;

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(Operation::CreateSource, "")
        .needs("create_source")
        .body::<NewSource>()
        .answers::<Source>()
        .leads_to(Operation::GetSource, &[("id", "$response.body#/id")]);
    all.describe(Operation::ListSources, "In order of creation.")
        .needs("list_sources")
        .answers_page::<Source>();
    all.describe(Operation::GetSource, "")
        .needs("source")
        .answers::<Source>();
}
