//! Days of a workspace's activity.

#[cfg(feature = "openapi")]
use crate::api::descriptions::Description;
use crate::api::input::{Input, Reader};
use crate::error::Error;
use crate::service::ActivityDays;

impl Input for ActivityDays {
    type Arg<'a> = &'a Self;

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        let query = request.query();
        let days = query.text("days").map(|text| {
            // A text that is not a number is out of range.
            text.parse().unwrap_or(u64::MAX)
        });
        let days = Self { days };
        days.check(query.problems());
        Ok(days)
    }

    fn arg(&self) -> &Self {
        self
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, _name: &'static str) {
        operation.query::<Self>();
    }
}
