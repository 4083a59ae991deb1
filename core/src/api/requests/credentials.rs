//! Query of requests that end a credential.

#[cfg(feature = "openapi")]
use crate::api::descriptions::Description;
use crate::api::input::{Input, Reader};
use crate::error::Error;

/// Treatment of what a credential created.
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub(in crate::api) struct WithCreated {
    /// True to end everything that the credential created, too.
    with_created: Option<bool>,
}

impl Input for WithCreated {
    type Arg<'a> = bool;

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        let with_created = request.query().flag("with_created");
        Ok(Self { with_created })
    }

    fn arg(&self) -> bool {
        self.with_created.unwrap_or(false)
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, _name: &'static str) {
        operation.query::<Self>();
    }
}
