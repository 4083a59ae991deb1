//! Client of the requests of simulations.

use uuid::Uuid;

use knowledge_core::service::ClientInfo;

/// Identifier of every request, which the audit log records.
pub(crate) const REQUEST_ID: Uuid = Uuid::from_u128(0x00A0_0D17);

/// Client of every request.
pub(crate) const CLIENT: ClientInfo = ClientInfo {
    address: None,
    request_id: Some(REQUEST_ID),
};
