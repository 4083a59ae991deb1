//! Settings of deliveries.

use std::path::PathBuf;

use knowledge_core::model::AddressPolicy;

use crate::deliveries::IN_FLIGHT_MAX_DEFAULT;

/// Settings of deliveries and of their [`DeliveryClient`](super::DeliveryClient).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// True if this server sends deliveries.
    pub deliver: bool,
    /// Maximum of concurrent deliveries.
    pub in_flight_max: usize,
    /// Addresses that deliveries may be sent to.
    pub addresses: AddressPolicy,
    /// CA certificates that replace those of the operating system.
    pub ca_file: Option<PathBuf>,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            deliver: true,
            in_flight_max: IN_FLIGHT_MAX_DEFAULT,
            addresses: AddressPolicy::default(),
            ca_file: None,
        }
    }
}
