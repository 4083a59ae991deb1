//! Requests of the kit, and readers of error codes.

use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, RoleRef, TokenScope};
use knowledge_core::model::{
    EventType, MemoryChange, NewCitationSubscription, NewWebhook, RecallId, RoleId, WebhookUpdate,
    WorkspaceId,
};
use knowledge_core::service::{Cursor, PageRequest};
pub(crate) use knowledge_testing::requests::*;

/// The slug of the organisation.
pub(crate) const ACME: &str = "acme";
/// The key that seals stored secrets.
pub(crate) const SEALING_KEY: [u8; 32] = [42; 32];

pub(crate) fn actions(actions: &[Action]) -> ActionSet {
    ActionSet::of(actions)
}

pub(crate) fn custom(role: RoleId) -> RoleRef {
    RoleRef::Custom(role)
}

/// Returns a scope of these workspaces only.
pub(crate) fn in_workspaces(workspaces: &[WorkspaceId]) -> TokenScope {
    TokenScope {
        workspaces: Some(workspaces.to_vec()),
        ..TokenScope::default()
    }
}

/// Returns a request for a page of this size at this cursor.
pub(crate) fn page_at(limit: Option<usize>, cursor: Option<Cursor>) -> PageRequest {
    let request = PageRequest::builder().maybe_limit(limit);
    request.maybe_cursor(cursor).build()
}

/// Returns a change of the audience.
pub(crate) fn audience(label: &str) -> MemoryChange {
    let label = label.parse().unwrap();
    MemoryChange::builder().audience_tag(label).build()
}

/// Returns a webhook for new memories with this URL.
pub(crate) fn new_webhook(url: &str) -> NewWebhook {
    let new = NewWebhook::builder().event_type(EventType::ChunkCreated);
    new.url(url.parse().unwrap()).build()
}

/// Returns an update that activates or deactivates a webhook.
pub(crate) fn set_active(is_active: bool) -> WebhookUpdate {
    WebhookUpdate::builder().is_active(is_active).build()
}

/// Returns an update of the URL of a webhook.
pub(crate) fn set_url(url: &str) -> WebhookUpdate {
    WebhookUpdate::builder().url(url.parse().unwrap()).build()
}

/// Returns a subscription to the citations of a recall with this URL.
pub(crate) fn new_subscription(recall: RecallId, url: &str) -> NewCitationSubscription {
    let new = NewCitationSubscription::builder().recall_id(recall);
    new.webhook_url(url.parse().unwrap()).build()
}

/// Returns the only problem of an invalid request: its path and its code.
#[track_caller]
pub(crate) fn problem<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::InvalidRequest { fields }) => {
            let problems: Vec<_> = fields
                .iter()
                .map(|field| format!("{} {}", field.path, field.code))
                .collect();
            problems.join(", ")
        }
        other => panic!("not an invalid request: {other:?}"),
    }
}

/// Returns the code of an error.
#[track_caller]
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    result.expect_err("it is refused").code()
}
