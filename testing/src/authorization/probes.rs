//! Requests that tell whether their operation is permitted.

use bytes::Bytes;
use http::{Method, Request};

use crate::requests::new_recall;
use crate::seed::Seed;
use knowledge_core::Error;
use knowledge_core::access::Secret;
use knowledge_core::api::{Authentication, OPERATIONS};
use knowledge_core::model::{MemoryId, NewCitationSubscription, SourceId, WorkspaceId};
use knowledge_core::service::Caller;

/// A request of an operation.
pub(super) struct Probe {
    pub(super) operation: &'static str,
    /// Query and JSON body; `$` stands for records.
    query: &'static str,
    body: &'static str,
}

const fn probe(operation: &'static str, query: &'static str, body: &'static str) -> Probe {
    Probe {
        operation,
        query,
        body,
    }
}

/// Operations that decide by what the table of the reference states, with a valid request.
///
/// Most name an unknown identifier, which only a caller with the permission learns. Operations on
/// memories are compared memory by memory. Operations that create or assign roles are missing,
/// because they also depend on the actions that the caller holds.
pub(super) const PROBES: [Probe; 49] = [
    probe("listMemories", "", ""),
    probe(
        "createMemory",
        "",
        r#"{"sourceId":"$source","title":"T","content":"C"}"#,
    ),
    probe(
        "ingestMemories",
        "",
        r#"{"source_id":"$source","memories":[{"title":"T","content":"C"}]}"#,
    ),
    probe("listWorkspaces", "", ""),
    probe("getRetention", "", ""),
    probe("createSource", "", r#"{"name":"N","kind":"k"}"#),
    probe("listSources", "", ""),
    probe("getSource", "", ""),
    probe("getDashboardSummary", "", ""),
    probe(
        "createConnector",
        "",
        r#"{"kind":"k","account_label":"l","scope":"personal","sync_interval_seconds":3600}"#,
    ),
    probe("listConnectors", "", ""),
    probe("getConnector", "", ""),
    probe("updateConnector", "", r#"{"is_paused":true}"#),
    probe("deleteConnector", "", ""),
    probe("reportSync", "", r#"{"outcome":"success"}"#),
    probe("listMcpKeys", "", ""),
    probe("getMcpKey", "", ""),
    probe("rotateMcpKey", "", ""),
    probe("revokeMcpKey", "", ""),
    probe("createChat", "", r#"{"title":"T"}"#),
    probe("listChats", "", ""),
    probe("getChat", "", ""),
    probe("postChatMessage", "", r#"{"content":"C"}"#),
    probe("listChatMessages", "", ""),
    probe("deleteCustomRole", "", ""),
    probe("updateCustomRole", "", r#"{"name":"N"}"#),
    probe("listCustomRoles", "", ""),
    probe("getCustomRole", "", ""),
    probe("listMembers", "", ""),
    probe("getMember", "", ""),
    probe("removeMember", "", ""),
    probe(
        "createRecall",
        "",
        r#"{"query":"Q","memory_ids":["$unknown"]}"#,
    ),
    probe("listRecalls", "", ""),
    probe("getRecall", "", ""),
    probe("listAuditEntries", "", ""),
    probe("getAuditEntry", "", ""),
    probe("listCitationSubscriptions", "?recall_id=$recall", ""),
    probe("getCitationSubscription", "", ""),
    probe(
        "createWebhook",
        "",
        r#"{"event_type":"chunk.created","url":"https://example.com/"}"#,
    ),
    probe("listWebhooks", "", ""),
    probe("getWebhook", "", ""),
    probe("updateWebhook", "", r#"{"is_active":false}"#),
    probe("rotateWebhookSecret", "", ""),
    probe("listWebhookDeliveries", "", ""),
    probe("pingWebhook", "", ""),
    probe("createInboundWebhook", "", r#"{"name":"N"}"#),
    probe("listInboundWebhooks", "", ""),
    probe("getInboundWebhook", "", ""),
    probe("deleteInboundWebhook", "", ""),
];

impl Probe {
    fn spec(&self) -> &'static knowledge_core::api::OperationSpec {
        let mut specs = OPERATIONS.iter();
        let found = specs.find(|spec| spec.operation.id() == self.operation);
        found.expect("the operation exists")
    }

    pub(super) fn by_session(&self) -> bool {
        self.spec().authentication == Authentication::Session
    }

    /// Returns true if the request names the member's recall, or its subscription to it.
    pub(super) fn is_of_recall(&self) -> bool {
        self.query.contains("$recall")
            || ["getRecall", "getCitationSubscription"].contains(&self.operation)
    }
}

/// Records that the requests name.
pub(super) struct Records {
    workspace: WorkspaceId,
    source: SourceId,
    recall: String,
    subscription: String,
}

/// Identifier of no record.
const UNKNOWN: &str = "00000000-0000-0000-0000-0000ffff0000";

impl Records {
    /// Creates the records of the member.
    pub(super) async fn new(
        seed: &Seed,
        member: &Caller,
        workspace: WorkspaceId,
        source: SourceId,
        cited: MemoryId,
    ) -> Result<Self, Error> {
        let service = &seed.service;
        let new = new_recall(&[cited]);
        let recall = service.create_recall(member, workspace, &new).await?.id;
        let new = NewCitationSubscription::builder()
            .recall_id(recall)
            .webhook_url("https://example.com/".parse().expect("a URL"))
            .build();
        let subscription = service.create_citation_subscription(member, &new).await?;
        Ok(Self {
            workspace,
            source,
            recall: recall.to_string(),
            subscription: subscription.id.to_string(),
        })
    }

    /// Returns the request of a probe.
    pub(super) fn request(&self, probe: &Probe, secret: &Secret) -> Request<Bytes> {
        let spec = probe.spec();
        let id = match spec.path.split('/').nth(2) {
            Some("workspaces") => self.workspace.to_string(),
            Some("sources") => self.source.to_string(),
            Some("recalls") => self.recall.clone(),
            Some("citation-subscriptions") => self.subscription.clone(),
            _ => UNKNOWN.to_owned(),
        };
        let mut path = String::new();
        for segment in spec.path.split('/').skip(1) {
            path.push('/');
            path.push_str(match segment {
                "{id}" => &id,
                "{orgSlug}" => "acme",
                parameter if parameter.starts_with('{') => UNKNOWN,
                segment => segment,
            });
        }
        let filled = |text: &str| {
            let text = text.replace("$source", &self.source.to_string());
            text.replace("$recall", &self.recall)
                .replace("$unknown", UNKNOWN)
        };
        let mut request = Request::builder()
            .method(Method::clone(&spec.method))
            .uri(path + &filled(probe.query));
        request = match probe.by_session() {
            true => request
                .header("cookie", format!("service_session={}", secret.expose()))
                .header("sec-fetch-site", "none"),
            false => request.header("authorization", format!("Bearer {}", secret.expose())),
        };
        if !probe.body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let body = Bytes::from(filled(probe.body));
        request.body(body).expect("all parts are valid")
    }
}
