//! Endpoints in both directions.

use serde_json::{Value, json};

use super::audit::Audited;
use super::{
    Asked, AuditFacts, ErrorResponse, McpKey, Model, Moment, Org, Owner, RequestErrors, Response,
    Who,
};
use knowledge_core::ProblemCode;
use knowledge_core::access::{Action, CredentialKind};
use knowledge_core::model::{
    CitationSubscription, Confirmation, ConfirmationState, EndpointId, InboundWebhook,
    InboundWebhookId, McpKeySummary, OrgId, ResourceState, SubscriptionId, Timestamp, Webhook,
    WebhookId, WebhookUrl, WorkspaceId,
};
use knowledge_core::service::{AuditAction, Endpoint};

/// Period for which a replaced signing secret remains valid.
pub(crate) const SECRET_OVERLAP: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// Inbound webhook with its signing secrets.
///
/// A secret is `None` if the response that had it was lost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InboundFacts {
    pub(crate) record: InboundWebhook,
    pub(crate) owner: Owner,
    pub(crate) secret: Option<String>,
    /// Secret before the last rotation, with the end of its validity.
    pub(crate) previous: Option<(Option<String>, Timestamp)>,
}

impl InboundFacts {
    /// Returns true if a message signed with this secret is accepted.
    pub(crate) fn accepts(&self, secret: &str, now: Timestamp) -> bool {
        let previous = self.previous.as_ref();
        let previous = previous.filter(|(_, until)| now < *until);
        self.secret.as_deref() == Some(secret)
            || previous.is_some_and(|(previous, _)| previous.as_deref() == Some(secret))
    }
}

impl RequestErrors {
    /// Checks a URL: https and a host name are required.
    ///
    /// None of the generated addresses is public.
    pub(crate) fn url(&mut self, path: &str, url: &WebhookUrl) {
        let has_name = url.address().is_none();
        let is_https = url.as_str().starts_with("https://");
        self.when(!(has_name && is_https), path, ProblemCode::InvalidValue);
    }
}

pub(crate) fn limit_reached(path: &str) -> Vec<ErrorResponse> {
    vec![ErrorResponse::invalid(path, ProblemCode::LimitReached)]
}

impl Org {
    /// Returns the webhook of a workspace with this identifier.
    pub(crate) fn webhook(
        &self,
        workspace: WorkspaceId,
        id: WebhookId,
    ) -> Result<&Webhook, ErrorResponse> {
        let found = self.webhooks.get(&id);
        let found = found.filter(|webhook| webhook.workspace_id == workspace);
        found.ok_or(ErrorResponse::NotFound)
    }

    /// Returns the inbound webhook of a workspace with this identifier.
    pub(crate) fn inbound_webhook(
        &self,
        workspace: WorkspaceId,
        id: InboundWebhookId,
    ) -> Result<&InboundFacts, ErrorResponse> {
        let found = self.inbound_webhooks.get(&id);
        let found = found.filter(|facts| facts.record.workspace_id == workspace);
        found.ok_or(ErrorResponse::NotFound)
    }
}

/// Returns the state of an endpoint that has not ended.
fn endpoint_state(is_active: bool, is_confirmed: bool) -> ResourceState {
    match (is_active, is_confirmed) {
        (false, _) => ResourceState::Disabled,
        (true, false) => ResourceState::Unconfirmed,
        (true, true) => ResourceState::Active,
    }
}

impl Model {
    /// Returns a webhook with its status.
    pub(crate) fn shown_webhook(&self, webhook: &Webhook, now: Timestamp) -> Webhook {
        let org = webhook.org_id;
        let owner = self.org(org).owners[&EndpointId::from(webhook.id)];
        let needed = (webhook.workspace_id, Some(Action::WebhookManage));
        let state = endpoint_state(webhook.is_active, webhook.is_confirmed);
        let status = self.status_of(org, owner, needed, state, now);
        let is_active = webhook.is_active && status.ended_reason.is_none();
        Webhook {
            is_active,
            confirmation: Some(confirmation(is_active)),
            status: Some(status),
            ..webhook.clone()
        }
    }

    /// Returns true if an endpoint is active, is not suspended and has not ended.
    pub(crate) fn is_receiving(&self, org: OrgId, endpoint: Endpoint, now: Timestamp) -> bool {
        let facts = self.org(org);
        let (id, place) = match endpoint {
            Endpoint::Webhook(workspace, id) => (
                EndpointId::from(id),
                (workspace, Some(Action::WebhookManage)),
            ),
            Endpoint::Subscription(id) => {
                let workspace = facts.subscriptions[&id].workspace_id;
                let needed = Some(Action::CitationSubscriptionManage);
                (EndpointId::from(id), (workspace, needed))
            }
        };
        let owner = facts.owners[&id];
        let status = self.status_of(org, owner, place, ResourceState::Active, now);
        facts.is_active(endpoint) && status.state == ResourceState::Active
    }

    /// Returns an inbound webhook with its status.
    pub(crate) fn shown_inbound(&self, facts: &InboundFacts, now: Timestamp) -> InboundWebhook {
        let webhook = &facts.record;
        let needed = (webhook.workspace_id, Some(Action::MemoryCreate));
        let state = ResourceState::Active;
        let status = self.status_of(webhook.org_id, facts.owner, needed, state, now);
        InboundWebhook {
            status: Some(status),
            ..webhook.clone()
        }
    }

    /// Returns an MCP key with its status.
    pub(crate) fn shown_mcp_key(&self, org: OrgId, key: &McpKey, now: Timestamp) -> McpKeySummary {
        let place = (key.workspace_id, None);
        let used = self.shown_uses.get(&key.id).copied();
        let used = used.filter(|used| key.created_at <= *used && *used <= now);
        let status = self.status_of(org, key.owner(), place, ResourceState::Active, now);
        key.summary(used, status)
    }

    /// Takes the last uses of MCP keys from the response to a call: they are recorded apart from the
    /// operations.
    pub(crate) fn take_shown_uses(&mut self, response: Option<&Response>) {
        self.shown_uses.clear();
        let Some(body) = response.map(|response| &response.body) else {
            return;
        };
        let lists = ["data", "mcp_keys"].map(|list| body.get(list).and_then(Value::as_array));
        for shown in lists.into_iter().flatten().flatten().chain([body]) {
            let field = |name: &str| shown.get(name).cloned().unwrap_or_default();
            let id = serde_json::from_value(field("id"));
            let used = serde_json::from_value(field("lastUsedAt"));
            if let (Ok(id), Ok(used)) = (id, used) {
                self.shown_uses.insert(id, used);
            }
        }
    }

    /// Returns the MCP keys of a workspace that have not expired, in order of their creation.
    pub(crate) fn shown_mcp_keys(
        &self,
        org: OrgId,
        workspace: WorkspaceId,
        now: Timestamp,
    ) -> Vec<McpKeySummary> {
        let keys = self.org(org).mcp_keys.values();
        keys.filter(|key| key.workspace_id == workspace && key.is_live(now))
            .map(|key| self.shown_mcp_key(org, key, now))
            .collect()
    }

    /// Returns a subscription as a caller sees it, with its status.
    pub(crate) fn shown_subscription(
        &self,
        who: &Who,
        found: &CitationSubscription,
        now: Timestamp,
    ) -> CitationSubscription {
        let mut found = found.clone();
        let org = self.org(who.org);
        let owner = org.owners[&EndpointId::from(found.id)];
        let needed = Some(Action::CitationSubscriptionManage);
        let needed = (found.workspace_id, needed);
        let state = endpoint_state(true, found.is_confirmed);
        let status = self.status_of(who.org, owner, needed, state, now);
        found.status = Some(status);
        found.confirmation = Some(confirmation(status.ended_reason.is_none()));
        let manages = || {
            org.rules(who)
                .holds(Action::WebhookManage, found.workspace_id)
        };
        if found.subscriber_user_id != who.member && !manages() {
            let parts: Vec<&str> = found.webhook_url.as_str().splitn(4, '/').collect();
            let origin = format!("{}//{}", parts[0], parts[2]);
            found.webhook_url = origin.parse().expect("the origin of a URL is a URL");
        }
        found
    }
}

/// Returns how far the confirmation of an endpoint is: the simulation sends no pings.
fn confirmation(is_active: bool) -> Confirmation {
    let state = if is_active {
        ConfirmationState::Pending
    } else {
        ConfirmationState::Stopped
    };
    Confirmation {
        state,
        next_attempt_at: None,
        reason: None,
    }
}

impl Model {
    /// Audits the rotation of a signing secret, and returns its response.
    pub(crate) fn rotated(
        &mut self,
        who: &Who,
        action: AuditAction,
        endpoint: impl Audited,
        secret: Option<String>,
        at: &Moment<'_>,
    ) -> Response {
        let until = at.now.plus(SECRET_OVERLAP);
        let after = json!({ "previous_secret_expires_at": until });
        let entry = AuditFacts::ok(endpoint, (), after);
        self.org_mut(who.org).audit(who, action, entry, at.now);
        Response::of(&json!({ "signing_secret": secret, "previous_secret_expires_at": until }))
    }

    /// Authorises a caller for a subscription.
    pub(crate) fn authorize_for_subscription(
        &self,
        asked: Asked<'_>,
        id: SubscriptionId,
        now: Timestamp,
    ) -> Result<(Who, CitationSubscription), ErrorResponse> {
        let who = self.authenticate(asked.by, CredentialKind::Bearer, now)?;
        let found = self.org(who.org).subscriptions.get(&id);
        let found = found.ok_or(ErrorResponse::NotFound)?.clone();
        let place = found.workspace_id;
        if found.subscriber_user_id != who.member || who.scope.audience.is_some() {
            self.org(who.org).recall(&who, found.recall_id)?;
        }
        self.authorize_in(asked, place, now)?;
        let condition = "for another member's subscription";
        let rules = self.org(who.org).rules(&who);
        if found.subscriber_user_id != who.member && !rules.may(asked.operation, condition, place) {
            return Err(ErrorResponse::Forbidden);
        }
        Ok((who, found))
    }
}
