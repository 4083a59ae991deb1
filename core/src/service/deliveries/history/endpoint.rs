//! Endpoints as callers name them.

use crate::model::{EndpointId, SubscriptionId, WebhookId, WorkspaceId};

/// An endpoint as callers name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// An outbound webhook of a workspace.
    Webhook(WorkspaceId, WebhookId),
    /// A citation subscription.
    Subscription(SubscriptionId),
}

impl Endpoint {
    /// Returns the identifiers by which a caller names it.
    pub(super) fn named(self) -> (Option<WorkspaceId>, EndpointId) {
        match self {
            Self::Webhook(workspace, _) => (Some(workspace), self.id()),
            Self::Subscription(_) => (None, self.id()),
        }
    }

    /// Returns the identifier, which both kinds have.
    pub(in crate::service) fn id(self) -> EndpointId {
        match self {
            Self::Webhook(_, id) => id.into(),
            Self::Subscription(id) => id.into(),
        }
    }
}
