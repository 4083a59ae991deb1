//! How events leave, as settings.

use std::path::PathBuf;

use knowledge_core::model::AddressPolicy;

/// The settings of [`DeliveryClient`](crate::deliveries::DeliveryClient).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Where deliveries may go.
    pub addresses: AddressPolicy,
    /// The authorities that vouch for hosts, where they are not those that the operating system trusts.
    pub ca_file: Option<PathBuf>,
}
