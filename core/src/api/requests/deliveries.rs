//! Filter of deliveries.

#[cfg(feature = "openapi")]
use crate::api::descriptions::Description;
use crate::api::input::{Input, Reader};
use crate::error::Error;
use crate::model::DeliveryStatus;

/// Filter of a list of deliveries.
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub(in crate::api) struct StatusFilter {
    /// State of the deliveries; any if omitted.
    status: Option<DeliveryStatus>,
}

impl Input for StatusFilter {
    type Arg<'a> = Option<DeliveryStatus>;

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        let status = request.query().parsed("status");
        Ok(Self { status })
    }

    fn arg(&self) -> Option<DeliveryStatus> {
        self.status
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, _name: &'static str) {
        operation.query::<Self>();
    }
}
