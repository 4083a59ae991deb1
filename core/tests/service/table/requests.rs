//! A valid request of each operation.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use knowledge_core::access::Secret;
use knowledge_core::api::{Api, Authentication, Operation, OperationSpec};
use knowledge_core::service::{self, Endpoint};
use serde_json::{Value, json};
use standardwebhooks::Webhook as Signer;

use super::callers::Caller;
use super::records::Records;
use crate::make::{ACME, ADMIN};
use crate::world::World;

/// A valid request of an operation on prepared records, without a credential.
pub(crate) struct Call {
    pub(crate) spec: &'static OperationSpec,
    /// Path and query.
    pub(crate) uri: String,
    body: Bytes,
    /// Headers of a signature, or the `Idempotency-Key`.
    headers: Vec<(&'static str, String)>,
}

impl Call {
    /// Prepares the records and the request; `caller` owns the records that have an owner.
    pub(crate) async fn new(world: &World, operation: Operation, caller: &Caller) -> Self {
        let records = Records::new(world, caller).await;
        if operation == Operation::SetWorkspaceAccess && !caller.is_assigned(world).await {
            // Only one of the people of a workspace makes it private.
            let (member, workspace) = (caller.member, world.workspace.id);
            let assigned = world.assign_in(member, workspace, Some(ADMIN));
            assigned.await.unwrap();
        }
        let spec = operation.spec();
        let query = query(&records, operation);
        let body = match body(world, &records, operation) {
            Value::Null => Bytes::new(),
            body => Bytes::from(body.to_string()),
        };
        let mut headers = Vec::new();
        let takes_key = [Operation::BulkUpdateMemories, Operation::CreateErasure];
        if takes_key.contains(&operation) {
            headers.push(("idempotency-key", world.name("key")));
        }
        if spec.authentication == Authentication::Signature {
            headers.extend(signed(world, &records.inbound_secret, &body));
        }
        let secret = records.key_secret.parse::<Secret>().unwrap();
        let used = service::Caller::new(secret);
        world.service.note_use(&used).await;
        Self {
            spec,
            uri: path(world, &records, spec).await + &query,
            body,
            headers,
        }
    }

    /// Replaces the body.
    pub(crate) fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Replaces the `Idempotency-Key`.
    pub(super) fn with_key(mut self, key: &str) -> Self {
        self.headers.retain(|(name, _)| *name != "idempotency-key");
        self.headers.push(("idempotency-key", key.to_owned()));
        self
    }

    /// Returns the body.
    pub(super) fn body(&self) -> Bytes {
        self.body.clone()
    }

    /// Returns the body; null if the request has none.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the body, followed by white space up to a length.
    pub(crate) fn padded_body(&self, bytes: usize) -> Vec<u8> {
        let mut body = match self.body.is_empty() {
            true => b"{}".to_vec(),
            false => self.body.to_vec(),
        };
        assert!(body.len() < bytes, "{:?}", self.spec.operation);
        body.resize(bytes, b' ');
        body
    }

    /// Returns the request, with the credential of a caller.
    pub(crate) fn request(&self, caller: Option<&Caller>) -> Request<Bytes> {
        let mut request = Request::builder()
            .method(self.spec.method.clone())
            .uri(&self.uri);
        if !self.body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        if let Some(caller) = caller {
            let token = &caller.token;
            request = match self.spec.authentication {
                Authentication::Bearer => {
                    request.header("authorization", format!("Bearer {token}"))
                }
                Authentication::Session => {
                    let session = format!("service_session={}", caller.session);
                    request.header("cookie", session)
                }
                Authentication::Signature => request,
            };
        }
        let is_signed = self.spec.authentication == Authentication::Signature;
        for (name, value) in &self.headers {
            if !is_signed || caller.is_some() {
                request = request.header(*name, value);
            }
        }
        request.body(self.body.clone()).unwrap()
    }

    /// Sends the request.
    pub(super) async fn send(&self, world: &World, caller: &Caller) -> Response<Bytes> {
        let request = self.request(Some(caller));
        Api::new(world.service.clone()).handle(request).await
    }

    /// Sends the request, which succeeds.
    pub(crate) async fn succeed(&self, world: &World, caller: &Caller) {
        let response = self.send(world, caller).await;
        let (operation, body) = (self.spec.operation, response.body());
        assert_eq!(
            response.status(),
            self.spec.success,
            "{operation:?}: {body:?}"
        );
    }

    /// Sends the request and returns the status of the response.
    pub(crate) async fn status(&self, world: &World, caller: Option<&Caller>) -> StatusCode {
        let api = Api::new(world.service.clone());
        api.handle(self.request(caller)).await.status()
    }
}

/// Returns the headers of a message with a valid signature.
fn signed(world: &World, secret: &str, body: &[u8]) -> [(&'static str, String); 3] {
    let seconds = world.time.now().as_millis() / 1_000;
    let signer = Signer::new(secret).unwrap();
    let signature = signer.sign("message", seconds, body).unwrap();
    [
        ("webhook-id", "message".to_owned()),
        ("webhook-timestamp", seconds.to_string()),
        ("webhook-signature", signature),
    ]
}

/// Returns the path with the identifiers of the records.
async fn path(world: &World, records: &Records, spec: &OperationSpec) -> String {
    let workspace = world.workspace.id;
    let id = match spec.path.split('/').nth(2) {
        Some("memories") => records.memory.to_string(),
        Some("sources") => world.source.to_string(),
        Some("recalls") => records.recall.to_string(),
        Some("erasures") => records.erasure.to_string(),
        Some("audit-log") => world.audit().await.to_string(),
        Some("citation-subscriptions") => records.subscription.to_string(),
        Some("inbound") => records.inbound.to_string(),
        _ => workspace.to_string(),
    };
    let webhook = if spec.path.contains("inbound-webhooks") {
        records.inbound.to_string()
    } else {
        records.webhook.to_string()
    };
    let mut delivery = String::new();
    if spec.path.contains("/deliveries") {
        let endpoint = if spec.path.contains("{webhookId}") {
            Endpoint::Webhook(workspace, records.webhook)
        } else {
            Endpoint::Subscription(records.subscription)
        };
        delivery = records.deliveries(world, endpoint).await.to_string();
    }
    let member = match spec.path {
        // Others manage the tokens of service accounts only.
        path if path.contains("/tokens") => records.account,
        path if path.ends_with("/login-links") => records.invited,
        _ => records.member,
    };
    let path = spec
        .path
        .replace("{id}", &id)
        .replace("{org}", &world.org.id.to_string())
        .replace("{orgSlug}", ACME)
        .replace("{connectorId}", &records.connector.to_string())
        .replace("{keyId}", &records.mcp_key.to_string())
        .replace("{sessionId}", &records.chat.to_string())
        .replace("{roleId}", &records.role.to_string())
        .replace("{memberId}", &member.to_string())
        .replace("{tokenId}", &records.token.to_string())
        .replace("{workspaceId}", &workspace.to_string())
        .replace("{webhookId}", &webhook)
        .replace("{deliveryId}", &delivery);
    assert!(
        !path.contains('{'),
        "{path} has a parameter without a record"
    );
    path
}

/// Returns the memories of a batch: a stored one and a new one.
fn memories() -> Value {
    json!([
        { "title": "Known", "content": "A new text.", "source_key": "page/1" },
        { "title": "Note", "content": "A note.", "source_key": "page/2" },
    ])
}

/// Returns the query, with `?`.
fn query(records: &Records, operation: Operation) -> String {
    match operation {
        Operation::ListCitationSubscriptions => format!("?recall_id={}", records.recall),
        Operation::ListWebhookDeliveries | Operation::ListCitationSubscriptionDeliveries => {
            "?status=dead".to_owned()
        }
        _ => String::new(),
    }
}

/// Returns the body; null if the request has none.
///
/// # Panics
/// If the operation is unknown: each one of the table needs a request here.
fn body(world: &World, records: &Records, operation: Operation) -> Value {
    let url = "https://example.com/hook";
    let source = world.source;
    match operation {
        Operation::CheckMemoryAccess => json!({
            "memoryIds": [records.memory],
            "includeContent": true,
        }),
        Operation::BulkUpdateMemories => json!({
            "memoryIds": [records.memory], "sensitivityLabel": "confidential",
        }),
        Operation::CreateErasure => json!({ "memoryIds": [records.memory] }),
        Operation::CreateMemory => json!({
            "sourceId": source, "title": "Note", "content": "A note.", "sourceKey": "page/2",
        }),
        Operation::UpdateMemory => json!({
            "title": "Renamed", "reviewStatus": "approved", "audienceTag": "workspace:sales",
        }),
        Operation::IngestMemories => json!({
            "source_id": source, "memories": memories(),
        }),
        Operation::PostToInboundWebhook => json!({ "memories": memories() }),
        Operation::CreateSource => json!({ "name": "Files", "kind": "drive" }),
        Operation::CreateConnector => json!({
            "kind": "confluence", "account_label": "wiki@acme", "scope": "personal",
            "sync_interval_seconds": 3600,
        }),
        Operation::UpdateConnector => json!({ "account_label": "docs@acme" }),
        Operation::ReportSync => json!({ "outcome": "success" }),
        Operation::CreateMcpKey => json!({
            "name": "Laptop", "client": "claude-code", "audience": ["org:acme"],
        }),
        Operation::SetWorkspaceAccess => json!({ "access": "private" }),
        Operation::SetRetention => json!({ "chat_days": 90 }),
        Operation::CreateChat => json!({ "title": "Ideas" }),
        Operation::PostChatMessage => json!({ "content": "Hello." }),
        Operation::DeleteCustomRole => json!({ "reassign_to": "viewer" }),
        Operation::UpdateCustomRole => json!({ "slug": "reviewer", "name": "Reviewer" }),
        Operation::CreateCustomRole => json!({
            "name": "Editor", "slug": "editor", "base_role": "viewer",
        }),
        Operation::AddMember => json!({
            "handle": "grace", "name": "Grace", "role": "member",
        }),
        Operation::CreateToken => {
            // Longer than the record of its idempotency key.
            json!({ "name": "Search", "expires_in_seconds": 2_592_000 })
        }
        Operation::UpdateMember => json!({ "name": "Renamed", "role": "viewer" }),
        Operation::AssignWorkspaceRole => json!({ "role": "member" }),
        Operation::CreateRecall => json!({
            "query": "Where is it written?", "memory_ids": [records.memory],
        }),
        Operation::SearchRecalls => json!({ "candidates": [{ "memory_id": records.memory }] }),
        Operation::UpdateRecall => json!({ "memory_ids": [records.memory] }),
        Operation::CreateCitationSubscription => json!({
            "recall_id": records.recall, "webhook_url": url,
        }),
        Operation::CreateWebhook => json!({ "event_type": "chunk.created", "url": url }),
        Operation::UpdateWebhook => json!({
            "url": "https://example.com/other", "is_active": false,
        }),
        Operation::CreateInboundWebhook | Operation::UpdateInboundWebhook => {
            json!({ "name": "Letters" })
        }
        Operation::ListMemories
        | Operation::ListLabels
        | Operation::DeleteMemory
        | Operation::GetMemory
        | Operation::ListWorkspaces
        | Operation::GetWorkspace
        | Operation::GetRetention
        | Operation::ListSources
        | Operation::GetSource
        | Operation::GetDashboardSummary
        | Operation::GetActivity
        | Operation::ListConnectors
        | Operation::GetConnector
        | Operation::DeleteConnector
        | Operation::ListMcpKeys
        | Operation::GetMcpKey
        | Operation::RotateMcpKey
        | Operation::RevokeMcpKey
        | Operation::ListChats
        | Operation::GetChat
        | Operation::DeleteChat
        | Operation::ListChatMessages
        | Operation::ListCustomRoles
        | Operation::GetCustomRole
        | Operation::ListMembers
        | Operation::GetMember
        | Operation::RemoveMember
        | Operation::EndWorkspaceRole
        | Operation::CreateLoginLink
        | Operation::ListTokens
        | Operation::GetToken
        | Operation::EndToken
        | Operation::ListRecalls
        | Operation::GetRecall
        | Operation::DeleteRecall
        | Operation::ListErasures
        | Operation::GetErasure
        | Operation::ListAuditEntries
        | Operation::GetAuditEntry
        | Operation::ListCitationSubscriptions
        | Operation::GetCitationSubscription
        | Operation::DeleteCitationSubscription
        | Operation::RotateCitationSubscriptionSecret
        | Operation::ListCitationSubscriptionDeliveries
        | Operation::GetCitationSubscriptionDelivery
        | Operation::RedeliverToCitationSubscription
        | Operation::RedeliverDeadToCitationSubscription
        | Operation::PingCitationSubscription
        | Operation::ListWebhooks
        | Operation::GetWebhook
        | Operation::DeleteWebhook
        | Operation::RotateWebhookSecret
        | Operation::ListWebhookDeliveries
        | Operation::GetWebhookDelivery
        | Operation::RedeliverToWebhook
        | Operation::RedeliverDeadToWebhook
        | Operation::PingWebhook
        | Operation::ListInboundWebhooks
        | Operation::GetInboundWebhook
        | Operation::DeleteInboundWebhook
        | Operation::RotateInboundWebhookSecret
        | Operation::GetAccessFilter => Value::Null,
        other => panic!("{other:?} has no request here"),
    }
}
