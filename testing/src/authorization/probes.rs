//! Requests that tell whether their operation is permitted.

use bytes::Bytes;
use http::Request;

use super::{Access, Labels, Names, Reference, Use, Verdict};
use crate::call::{ACT_FOR, ApiCall, IDEMPOTENCY_KEY};
use crate::requests::{new_chat, new_memory, new_recall, new_role, with};
use crate::seed::Seed;
use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, Secret};
use knowledge_core::api::{Authentication, OPERATIONS};
use knowledge_core::model::{
    MemoryId, NewCitationSubscription, RecallId, RoleId, SourceId, WorkspaceId,
};
use knowledge_core::service::Caller;

/// Workspace of the requests.
pub(super) const MAIN: &str = "main";
/// Handle of the member that owns the organisation.
pub(super) const OWNER: &str = "olga";
/// Handle of the member whose role and credential vary.
pub(super) const TESTER: &str = "tina";

/// What a request names, which decides under which condition of the table it is permitted.
#[derive(Clone, Copy, Debug)]
enum Named {
    /// Nothing that belongs to anybody.
    Nothing,
    /// Something of the member.
    Own(&'static str),
    /// Something of another member.
    Other(&'static str),
}

/// A request of an operation.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) operation: &'static str,
    /// Query and JSON body; `$` stands for records.
    query: &'static str,
    body: &'static str,
    named: Named,
}

const fn probe(operation: &'static str, body: &'static str) -> Probe {
    Probe {
        operation,
        query: "",
        body,
        named: Named::Nothing,
    }
}

/// Returns a request that names something of the member.
const fn own(operation: &'static str, body: &'static str, condition: &'static str) -> Probe {
    Probe {
        operation,
        query: "",
        body,
        named: Named::Own(condition),
    }
}

/// Returns a request that names something of another member.
const fn other(operation: &'static str, condition: &'static str) -> Probe {
    Probe {
        operation,
        query: "",
        body: "",
        named: Named::Other(condition),
    }
}

/// Condition of what is always required.
const ALWAYS: &str = "always";
const OTHERS: &str = "for another member's subscription";

/// Operations that are compared memory by memory.
const OF_MEMORIES: [&str; 5] = [
    "bulkUpdateMemories",
    "updateMemory",
    "deleteMemory",
    "checkMemoryAccess",
    "getMemory",
];

/// Operations that a list of audience labels excludes, besides what they require.
const WITHOUT_LIST: [&str; 3] = ["setWorkspaceAccess", "setRetention", "createMcpKey"];

/// Operations that decide by what the table of the reference states, with a valid request.
///
/// Most name an unknown identifier, which only a caller with the permission learns. The operations
/// that create or assign roles grant nothing here, because they also depend on the actions that the
/// caller holds.
pub(super) const PROBES: &[Probe] = &[
    probe("listMemories", ""),
    probe("listLabels", ""),
    probe("getAccessFilter", ""),
    probe(
        "createMemory",
        r#"{"sourceId":"$source","title":"T","content":"C"}"#,
    ),
    probe(
        "ingestMemories",
        r#"{"source_id":"$source","memories":[{"title":"T","content":"C"}]}"#,
    ),
    own(
        "ingestMemories",
        r#"{"source_id":"$source","memories":[{"title":"T","content":"C","source_key":"known"}]}"#,
        "to update a memory with a known source key",
    ),
    probe("listWorkspaces", ""),
    // To make it private, the caller has to be one of its people too.
    probe("setWorkspaceAccess", r#"{"access":"open"}"#),
    probe("getRetention", ""),
    probe("setRetention", r#"{"chat_days":90}"#),
    probe("createSource", r#"{"name":"N","kind":"k"}"#),
    probe("listSources", ""),
    probe("getSource", ""),
    probe("getDashboardSummary", ""),
    probe("getActivity", ""),
    probe(
        "createConnector",
        r#"{"kind":"k","account_label":"l","scope":"personal","sync_interval_seconds":3600}"#,
    ),
    probe("listConnectors", ""),
    probe("getConnector", ""),
    probe("updateConnector", r#"{"is_paused":true}"#),
    probe("deleteConnector", ""),
    probe("reportSync", r#"{"outcome":"success"}"#),
    probe(
        "createMcpKey",
        r#"{"name":"N","client":"claude_code","audience":["org:acme"]}"#,
    ),
    own(
        "createMcpKey",
        r#"{"name":"N","client":"other","audience":["org:acme"],"proposalSourceId":"$source"}"#,
        "for a key that proposes memories",
    ),
    probe("listMcpKeys", ""),
    probe("getMcpKey", ""),
    probe("rotateMcpKey", ""),
    probe("revokeMcpKey", ""),
    probe("createChat", r#"{"title":"T"}"#),
    probe("listChats", ""),
    probe("getChat", ""),
    own("deleteChat", "", "for a chat that the caller created"),
    other(
        "deleteChat",
        "for a chat of another member, also one that the caller takes no part in",
    ),
    probe("postChatMessage", r#"{"content":"C"}"#),
    probe("listChatMessages", ""),
    probe("createErasure", r#"{"memoryIds":["$unknown"]}"#),
    probe("listErasures", ""),
    probe("getErasure", ""),
    probe("deleteCustomRole", ""),
    probe("updateCustomRole", r#"{"name":"N"}"#),
    probe("listCustomRoles", ""),
    probe(
        "createCustomRole",
        r#"{"name":"N","slug":"n","base_role":"viewer","actions":{"allow":[],"deny":[$actions]}}"#,
    ),
    probe("getCustomRole", ""),
    probe("listMembers", ""),
    probe("addMember", r#"{"handle":"new","name":"N","role":"$idle"}"#),
    probe("createLoginLink", ""),
    probe("getMember", ""),
    probe("updateMember", r#"{"name":"N"}"#),
    probe("removeMember", ""),
    probe("assignWorkspaceRole", r#"{"role":"viewer"}"#),
    probe("endWorkspaceRole", ""),
    // Of an unknown member, as of a service account; one's own need nothing.
    probe("createToken", r#"{"name":"N"}"#),
    probe("listTokens", ""),
    probe("getToken", ""),
    probe("endToken", ""),
    probe("createRecall", r#"{"query":"Q","memory_ids":["$unknown"]}"#),
    probe(
        "searchRecalls",
        r#"{"query":"Q","candidates":[{"memory_id":"$unknown"}]}"#,
    ),
    probe("listRecalls", ""),
    own("getRecall", "", ALWAYS),
    own(
        "updateRecall",
        r#"{"memory_ids":["$unknown"]}"#,
        "for a recall that the caller registered",
    ),
    own(
        "deleteRecall",
        "",
        "for a recall that the caller registered",
    ),
    other(
        "deleteRecall",
        "for a recall of another member, also one that does not exist for the caller",
    ),
    probe("listAuditEntries", ""),
    probe("getAuditEntry", ""),
    own(
        "createCitationSubscription",
        r#"{"recall_id":"$recall","webhook_url":"https://example.com/"}"#,
        ALWAYS,
    ),
    Probe {
        query: "?recall_id=$recall",
        ..own("listCitationSubscriptions", "", ALWAYS)
    },
    own("getCitationSubscription", "", ALWAYS),
    own("deleteCitationSubscription", "", ALWAYS),
    own("rotateCitationSubscriptionSecret", "", ALWAYS),
    own("listCitationSubscriptionDeliveries", "", ALWAYS),
    own("getCitationSubscriptionDelivery", "", ALWAYS),
    own("redeliverToCitationSubscription", "", ALWAYS),
    own("redeliverDeadToCitationSubscription", "", ALWAYS),
    own("pingCitationSubscription", "", ALWAYS),
    other("getCitationSubscription", ALWAYS),
    other("deleteCitationSubscription", OTHERS),
    other("rotateCitationSubscriptionSecret", OTHERS),
    other("listCitationSubscriptionDeliveries", OTHERS),
    other("getCitationSubscriptionDelivery", OTHERS),
    other("redeliverToCitationSubscription", OTHERS),
    other("redeliverDeadToCitationSubscription", OTHERS),
    other("pingCitationSubscription", OTHERS),
    probe(
        "createWebhook",
        r#"{"event_type":"chunk.created","url":"https://example.com/"}"#,
    ),
    probe("listWebhooks", ""),
    probe("getWebhook", ""),
    probe("updateWebhook", r#"{"is_active":false}"#),
    probe("deleteWebhook", ""),
    probe("rotateWebhookSecret", ""),
    probe("listWebhookDeliveries", ""),
    probe("getWebhookDelivery", ""),
    probe("redeliverToWebhook", ""),
    probe("redeliverDeadToWebhook", ""),
    probe("pingWebhook", ""),
    probe("createInboundWebhook", r#"{"name":"N"}"#),
    probe("listInboundWebhooks", ""),
    probe("getInboundWebhook", ""),
    probe("updateInboundWebhook", r#"{"name":"N"}"#),
    probe("deleteInboundWebhook", ""),
    probe("rotateInboundWebhookSecret", ""),
];

/// Returns the operations that require an action and that a comparison does not cover.
#[must_use]
pub fn operations_left_out() -> Names {
    let is_covered = |operation: &&str| {
        let mut probes = PROBES.iter();
        OF_MEMORIES.contains(operation) || probes.any(|probe| probe.operation == *operation)
    };
    let operations = Reference::read().operations();
    super::names(operations.filter(|operation| !is_covered(operation)))
}

impl Probe {
    fn spec(&self) -> &'static knowledge_core::api::OperationSpec {
        let mut specs = OPERATIONS.iter();
        let found = specs.find(|spec| spec.operation.id() == self.operation);
        found.expect("the operation exists")
    }

    pub(super) fn by_session(&self) -> bool {
        self.spec().authentication == Authentication::Session
    }

    /// Returns what the rules state for a caller; `None` if the table does not.
    pub(super) fn verdict(&self, by: &Access<'_>) -> Option<Verdict> {
        let (operation, has_list) = (self.operation, by.caller.scope.audience.is_some());
        let is_of_chat = operation == "deleteChat";
        let is_excluded = match self.named {
            Named::Nothing => WITHOUT_LIST.contains(&operation),
            // What a member made exists for it, but not through a list of audience labels.
            _ => !is_of_chat,
        };
        if has_list && is_excluded {
            return None;
        }
        // Of what the member registered, a service account sees what it may read itself.
        let is_nothing = matches!(self.named, Named::Nothing);
        if by.caller.via.is_some() && !is_nothing && !is_of_chat {
            return None;
        }
        let always = by.operation(operation, MAIN);
        let other = |condition| by.operation_if(operation, condition, MAIN);
        let sees_recall = || by.verdict(&cited(), &Use::Check) == Verdict::Everything;
        Some(match self.named {
            Named::Nothing => always,
            Named::Own(condition) => by.operation_if(operation, condition, MAIN),
            // Those who may not erase it know of it only as others do.
            Named::Other(condition) if is_of_chat => match (always, other(condition)) {
                (Verdict::Everything, Verdict::Everything) if !has_list => Verdict::Everything,
                (Verdict::Everything, _) => Verdict::Unknown,
                (refused, _) => refused,
            },
            Named::Other(condition) if operation == "deleteRecall" => match other(condition) {
                Verdict::Forbidden if !sees_recall() => Verdict::Unknown,
                verdict => verdict,
            },
            Named::Other(condition) => other(condition),
        })
    }
}

/// Returns the labels of the memory that the recalls cite.
pub(super) fn cited() -> Labels {
    Labels::new(MAIN, "org:acme", "internal", "approved", OWNER)
}

/// Records of one member that the requests name.
struct Made {
    recall: String,
    subscription: String,
    chat: String,
}

/// Records that the requests name.
pub(super) struct Records {
    workspace: WorkspaceId,
    source: SourceId,
    idle: RoleId,
    own: Made,
    other: Made,
}

/// Identifier of no record.
const UNKNOWN: &str = "00000000-0000-0000-0000-0000ffff0000";

impl Made {
    /// Creates the records of a member, with a subscription to `of` or to its own recall.
    async fn new(
        seed: &Seed,
        member: &Caller,
        workspace: WorkspaceId,
        cited: MemoryId,
        of: Option<RecallId>,
    ) -> Result<Self, Error> {
        let service = &seed.service;
        let new = new_recall(&[cited]);
        let recall = service.recalls().create(member, workspace, &new).await?.id;
        let new = NewCitationSubscription::builder()
            .recall_id(of.unwrap_or(recall))
            .webhook_url("https://example.com/".parse().expect("a URL"))
            .build();
        let subscription = service
            .citation_subscriptions()
            .create(member, &new)
            .await?;
        let chat = service
            .chats()
            .create(member, workspace, &new_chat("Chat"))
            .await?;
        Ok(Self {
            recall: recall.to_string(),
            subscription: subscription.id.to_string(),
            chat: chat.id.to_string(),
        })
    }
}

impl Records {
    /// Creates the records of the member and of the owner.
    pub(super) async fn new(
        seed: &Seed,
        member: &Caller,
        workspace: WorkspaceId,
        source: SourceId,
        cited: MemoryId,
    ) -> Result<Self, Error> {
        let own = Made::new(seed, member, workspace, cited, None).await?;
        let recall = own.recall.parse().expect("an identifier");
        let other = Made::new(seed, &seed.owner, workspace, cited, Some(recall)).await?;
        let known = with(new_memory("Known"), |new| {
            new.source_key = Some("known".to_owned());
        });
        let memories = seed.service.memories();
        memories.ingest(member, workspace, source, &[known]).await?;
        let idle = with(new_role("idle"), |new| new.actions.deny = ActionSet::ALL);
        Ok(Self {
            workspace,
            source,
            idle: seed.role(&idle).await?.id,
            own,
            other,
        })
    }

    /// Returns the request of a probe, of the member or of a service account that acts for it.
    pub(super) fn request(
        &self,
        probe: &Probe,
        secret: &Secret,
        is_acting: bool,
    ) -> Request<Bytes> {
        let spec = probe.spec();
        let (made, chat) = match probe.named {
            Named::Nothing => (&self.own, UNKNOWN),
            Named::Own(_) => (&self.own, &*self.own.chat),
            Named::Other(_) => (&self.other, &*self.other.chat),
        };
        let id = match spec.path.split('/').nth(2) {
            Some("workspaces") => self.workspace.to_string(),
            Some("sources") => self.source.to_string(),
            Some("recalls") => made.recall.clone(),
            Some("citation-subscriptions") => made.subscription.clone(),
            _ => UNKNOWN.to_owned(),
        };
        let filled = |text: &str| {
            let actions: Vec<_> = Action::ALL.iter().map(|action| action.as_str()).collect();
            text.replace("$source", &self.source.to_string())
                .replace("$recall", &self.own.recall)
                .replace("$idle", &self.idle.to_string())
                .replace("$actions", &format!("\"{}\"", actions.join("\",\"")))
                .replace("$unknown", UNKNOWN)
        };
        let mut call = ApiCall::new(spec.operation);
        for segment in spec.path.split('/') {
            match segment {
                "{id}" => call.add_parameter(&id),
                "{orgSlug}" => call.add_parameter(&"acme"),
                "{sessionId}" => call.add_parameter(&chat),
                parameter if parameter.starts_with('{') => call.add_parameter(&UNKNOWN),
                _ => {}
            }
        }
        if probe.operation == "createErasure" {
            call.add_header(IDEMPOTENCY_KEY, "key");
        }
        call.query = filled(probe.query);
        call.body = Bytes::from(filled(probe.body));
        call.credential = Some(secret.clone());
        if is_acting {
            call.add_header(ACT_FOR, format!("user:{TESTER}"));
        }
        call.request()
    }
}
