//! Form and extent of an access filter.

#[cfg(feature = "openapi")]
use crate::api::descriptions::Description;
use crate::api::input::{Input, Reader};
use crate::error::Error;
use crate::model::AccessFilterOptions;

impl Input for AccessFilterOptions {
    type Arg<'a> = &'a Self;

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        let query = request.query();
        Ok(Self {
            format: query.parsed("format"),
            approved_only: query.flag("approved_only"),
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
