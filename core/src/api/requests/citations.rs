//! Filter of citation subscriptions.

use uuid::Uuid;

#[cfg(feature = "openapi")]
use crate::api::descriptions::Description;
use crate::api::input::{Input, Reader};
use crate::error::Error;
use crate::model::RecallId;

/// Filter of a list of subscriptions.
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub(in crate::api) struct RecallFilter {
    /// Recall that they belong to.
    #[cfg_attr(feature = "openapi", schemars(required))]
    recall_id: Option<RecallId>,
}

impl Input for RecallFilter {
    type Arg<'a> = RecallId;

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        let recall_id = request.query().required_id("recall_id");
        Ok(Self { recall_id })
    }

    fn arg(&self) -> RecallId {
        // Without problems it is set.
        self.recall_id.unwrap_or(RecallId(Uuid::nil()))
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, _name: &'static str) {
        operation.query::<Self>();
    }
}
