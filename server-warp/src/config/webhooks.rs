//! Settings of the delivery client.

use std::path::PathBuf;

use knowledge_core::model::AddressPolicy;

/// Settings of [`DeliveryClient`](crate::deliveries::DeliveryClient).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Addresses that deliveries may be sent to.
    pub addresses: AddressPolicy,
    /// CA certificates that replace those of the operating system.
    pub ca_file: Option<PathBuf>,
}
