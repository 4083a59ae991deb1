//! Limits and addresses for the checks of values.

use crate::limits::Limits;
use crate::model::AddressPolicy;

/// Limits and addresses that requests are checked against.
#[derive(Clone, Copy)]
pub(crate) struct Checks<'c> {
    /// Limits in force.
    pub(crate) limits: &'c Limits,
    /// Addresses that webhooks may have; any if it is absent.
    pub(crate) addresses: Option<&'c AddressPolicy>,
}
