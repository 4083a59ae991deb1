//! Filter of recalls.

#[cfg(feature = "openapi")]
use crate::api::descriptions::Description;
use crate::api::input::{Input, Reader};
use crate::error::Error;
use crate::model::CitationFilter;

impl Input for CitationFilter {
    type Arg<'a> = &'a Self;

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        Ok(Self {
            memory_id: request.query().parsed("memoryId"),
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
