//! Filter of memories.

#[cfg(feature = "openapi")]
use crate::api::descriptions::Description;
use crate::api::input::{Input, Reader};
use crate::error::Error;
use crate::model::MemoryFilter;

impl Input for MemoryFilter {
    type Arg<'a> = &'a Self;

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        let query = request.query();
        Ok(Self {
            audience_tag: query.parsed("audienceTag"),
            sensitivity_label: query.parsed("sensitivityLabel"),
            review_status: query.parsed("reviewStatus"),
            source_id: query.parsed("sourceId"),
        })
    }

    fn arg(&self) -> &Self {
        self
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, _name: &'static str) {
        operation.query::<Self>();
    }
}
