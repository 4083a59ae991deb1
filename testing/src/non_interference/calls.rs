//! Calls of the principal: any operation, with identifiers of visible, hidden and unknown things.

use serde_json::{Value, json};

use super::choices::Choices;
use super::hidden::{AUDIENCES, CELLAR_LABEL, KEYS, REVIEWS, SENSITIVITIES, TEXTS};
use super::world::{ACME, World};
use crate::call::{ApiCall, IDEMPOTENCY_KEY};
use knowledge_core::Error;
use knowledge_core::api::{Authentication, OPERATIONS, Operation};
use knowledge_core::model::MemoryId;

/// Identifier of no record.
const UNKNOWN: &str = "00000000-0000-0000-0000-0000ffff0000";
/// Operations that name memories, or change what exists, which most of the calls are of.
const ON_MEMORIES: [Operation; 22] = [
    Operation::GetMemory,
    Operation::ListMemories,
    Operation::ListLabels,
    Operation::BulkUpdateMemories,
    Operation::IngestMemories,
    Operation::CheckMemoryAccess,
    Operation::GetAccessFilter,
    Operation::UpdateMemory,
    Operation::CreateRecall,
    Operation::CreateRecall,
    Operation::SearchRecalls,
    Operation::SearchRecalls,
    Operation::ListRecalls,
    Operation::GetRecall,
    Operation::UpdateRecall,
    Operation::CreateMemory,
    Operation::DeleteMemory,
    Operation::ListChats,
    Operation::CreateErasure,
    Operation::CreateErasure,
    Operation::ListErasures,
    Operation::SetRetention,
];
/// Operations that require an `Idempotency-Key`.
const KEYED: [Operation; 2] = [Operation::BulkUpdateMemories, Operation::CreateErasure];
const LIMITS: [u8; 3] = [1, 2, 5];
/// Event types of the webhooks that the principal registers.
const EVENTS: [&str; 3] = ["chunk.created", "chunk.deleted", "memory.updated"];
const URL: &str = "https://example.com/hook";

/// Chooses an audience label, also one of a private workspace that the second world alone has.
fn audience(choices: &mut Choices<'_>) -> &'static str {
    let chosen = choices.below(AUDIENCES.len() + 1);
    AUDIENCES.get(chosen).copied().unwrap_or(CELLAR_LABEL)
}

impl World {
    /// Chooses a call; `None` if there is none of the operation.
    pub(super) fn call(&mut self, choices: &mut Choices<'_>) -> Option<ApiCall> {
        let spec = if choices.once_in(3) {
            &OPERATIONS[choices.below(OPERATIONS.len())]
        } else {
            choices.of(&ON_MEMORIES)?.spec()
        };
        let operation = spec.operation;
        if spec.authentication == Authentication::Signature {
            return None;
        }
        // Their identifiers are left out of the deliveries too, for the same reason.
        if self.has_removals && spec.path.contains("deliver") {
            return None;
        }
        let mut call = ApiCall::new(operation);
        self.add_path(choices, &mut call);
        let key = self.name("key");
        call.add_header(IDEMPOTENCY_KEY, key);
        match self.body(choices, operation) {
            Value::Null => {}
            body => call.set_body(&body),
        }
        if KEYED.contains(&operation) || spec.replay.is_some() {
            let sent = self.sent.iter().filter(|sent| sent.operation == operation);
            let sent: Vec<_> = sent.collect();
            match choices.of(&sent).filter(|_| choices.once_in(3)) {
                Some(sent) => call = (*sent).clone(),
                None => self.sent.push(call.clone()),
            }
        }
        let body = call.json();
        let cited = body["memory_ids"].as_array().into_iter().flatten();
        let cited = cited.filter_map(|id| id.as_str()?.parse().ok().map(MemoryId));
        self.cite(&cited.collect());
        self.add_queries(choices, &mut call);
        let tag = if choices.once_in(3) {
            choices.of(&self.tags).cloned()
        } else {
            None
        };
        // The entity tag of the dashboard is an exception, so nothing is asked by it.
        if let Some(tag) = tag.filter(|_| operation != Operation::GetDashboardSummary) {
            call.add_tag(tag);
        }
        Some(call)
    }

    /// Returns the calls with which the principal registers the endpoints that it may have.
    pub(super) fn first_calls(&self) -> Vec<ApiCall> {
        let mut calls = Vec::new();
        let mut add = |mut call: ApiCall, key: String, body: Value| {
            call.add_header(IDEMPOTENCY_KEY, key);
            call.set_body(&body);
            calls.push(call);
        };
        for workspace in self.workspaces {
            for event in EVENTS {
                let body = json!({ "event_type": event, "url": URL });
                let mut call = ApiCall::new(Operation::CreateWebhook);
                call.add_parameter(&workspace);
                add(call, format!("{workspace}-{event}"), body);
            }
        }
        for recall in self.ids.get("recalls").into_iter().flatten() {
            let body = json!({ "recall_id": recall, "webhook_url": URL });
            let call = ApiCall::new(Operation::CreateCitationSubscription);
            add(call, recall.clone(), body);
        }
        calls
    }

    /// Chooses a bulk update of a hidden memory, by the full token of the principal's member.
    ///
    /// The principal may repeat the update. It changes the sensitivity, which never hides a memory.
    pub(super) async fn call_of_full_token(
        &mut self,
        choices: &mut Choices<'_>,
    ) -> Result<Option<ApiCall>, Error> {
        let known = self.memories.iter().filter(|known| known.differs);
        let known = known.filter(|known| !self.is_pinned(known));
        let known: Vec<MemoryId> = known.map(|known| known.id).collect();
        let Some(id) = choices.of(&known) else {
            return Ok(None);
        };
        if !self.is_hidden(*id).await? {
            return Ok(None);
        }
        let sensitivity = SENSITIVITIES[choices.below(4)];
        let body = json!({ "memoryIds": [id], "sensitivityLabel": sensitivity });
        let mut call = ApiCall::new(Operation::BulkUpdateMemories);
        call.add_header(IDEMPOTENCY_KEY, self.name("key"));
        call.set_body(&body);
        self.sent.push(call.clone());
        Ok(Some(call))
    }

    /// Returns a memory: visible, hidden, deleted or unknown.
    pub(super) fn memory(&self, choices: &mut Choices<'_>) -> String {
        if choices.once_in(8) {
            return UNKNOWN.to_owned();
        }
        let known = choices.of(&self.memories).map(|known| known.id.to_string());
        known.unwrap_or_else(|| UNKNOWN.to_owned())
    }

    /// Returns an identifier of a collection, as it occurs in paths.
    pub(super) fn id(&self, choices: &mut Choices<'_>, collection: &str) -> String {
        let known = match collection {
            "memories" => return self.memory(choices),
            "workspaces" | "workspace-roles" => {
                let place = match (choices.below(16), self.vault) {
                    (4, Some(vault)) => vault,
                    (chosen, _) => self.workspaces[usize::from(chosen % 4 == 3)],
                };
                return place.to_string();
            }
            collection => self.ids.get(collection).map_or(&[][..], Vec::as_slice),
        };
        let known = choices.of(known).cloned();
        known.unwrap_or_else(|| UNKNOWN.to_owned())
    }

    /// Sets the parameters of the path.
    fn add_path(&self, choices: &mut Choices<'_>, call: &mut ApiCall) {
        let mut collection = "";
        for segment in call.operation.spec().path.split('/') {
            match segment {
                "{orgSlug}" => call.add_parameter(&ACME),
                segment if segment.starts_with('{') => {
                    call.add_parameter(&self.id(choices, collection));
                }
                segment => collection = segment,
            }
        }
    }

    /// Adds the query of a list.
    fn add_queries(&self, choices: &mut Choices<'_>, call: &mut ApiCall) {
        let operation = call.operation;
        if operation == Operation::ListCitationSubscriptions {
            call.add_query("recall_id", &self.id(choices, "recalls"));
        }
        let is_list = operation.id().starts_with("list");
        if !is_list || operation == Operation::ListCustomRoles {
            return;
        }
        let limit = choices.of(&LIMITS);
        limit
            .into_iter()
            .for_each(|limit| call.add_query("limit", limit));
        if operation == Operation::ListRecalls && choices.once_in(3) {
            call.add_query("memoryId", &self.memory(choices));
        }
        if operation == Operation::ListMemories && choices.once_in(3) {
            match choices.below(4) {
                3 => call.add_query("sourceId", &self.id(choices, "sources")),
                0 => call.add_query("reviewStatus", &REVIEWS[choices.below(3)]),
                1 => call.add_query("sensitivityLabel", &SENSITIVITIES[choices.below(4)]),
                _ => call.add_query("audienceTag", &audience(choices)),
            }
        }
        if let Some(cursor) = self.cursors.get(&call.path).filter(|_| choices.once_in(2)) {
            call.add_query("cursor", cursor);
        }
    }

    /// Returns changes of the labels of memories.
    fn new_labels(&self, choices: &mut Choices<'_>) -> Value {
        let mut fields = json!({});
        if choices.once_in(2) {
            fields["audienceTag"] = json!(audience(choices));
        }
        if choices.once_in(3) {
            fields["sensitivityLabel"] = json!(SENSITIVITIES[choices.below(4)]);
        }
        if choices.once_in(3) || fields == json!({}) {
            fields["reviewStatus"] = json!(REVIEWS[choices.below(3)]);
        }
        fields
    }

    fn some_memories(&self, choices: &mut Choices<'_>) -> Value {
        let mut ids = Vec::new();
        for _ in 0..=choices.below(4) {
            let id = self.memory(choices);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        json!(ids)
    }

    /// Returns the scope of an erasure: a list, a source, a prefix of its keys, or a member.
    fn erasure(&self, choices: &mut Choices<'_>) -> Value {
        let (dry_run, suppress) = (choices.once_in(4), !choices.once_in(3));
        let mut body = match choices.below(8) {
            0 => json!({ "sourceId": self.id(choices, "sources") }),
            1 => json!({
                "sourceId": self.id(choices, "sources"),
                "sourceKeyPrefix": KEYS[choices.below(3)],
            }),
            2 => json!({ "memberId": self.id(choices, "members") }),
            _ => json!({ "memoryIds": self.some_memories(choices) }),
        };
        body["dryRun"] = json!(dry_run);
        body["suppress"] = json!(suppress);
        body
    }

    /// Returns the body of an operation on memories.
    fn body_on_memories(&self, choices: &mut Choices<'_>, operation: Operation) -> Value {
        match operation {
            Operation::CheckMemoryAccess => json!({
                "memoryIds": self.some_memories(choices),
                "sourceKeys": [{
                    "workspaceId": self.id(choices, "workspaces"),
                    "sourceId": self.id(choices, "sources"),
                    "sourceKey": KEYS[choices.below(3)],
                }],
                "includeContent": true,
            }),
            Operation::BulkUpdateMemories => {
                let ids = self.some_memories(choices);
                let mut body = self.new_labels(choices);
                body["memoryIds"] = ids;
                if choices.once_in(4) {
                    body["dryRun"] = json!(true);
                }
                body
            }
            Operation::UpdateMemory => {
                let mut body = if choices.once_in(2) {
                    json!({})
                } else {
                    self.new_labels(choices)
                };
                if choices.once_in(2) || body == json!({}) {
                    body["content"] = json!(TEXTS[choices.below(2)]);
                }
                body
            }
            Operation::CreateMemory => {
                let mut body = json!({
                    "sourceId": self.sources[0], "title": TEXTS[choices.below(2)],
                    "content": TEXTS[choices.below(2)],
                });
                if choices.once_in(2) {
                    body["sourceKey"] = json!(KEYS[choices.below(3)]);
                }
                body
            }
            Operation::IngestMemories => json!({
                "source_id": self.sources[0],
                "revive": choices.once_in(4),
                "dry_run": choices.once_in(8),
                "memories": [{
                    "title": TEXTS[choices.below(2)], "content": TEXTS[choices.below(2)],
                    "source_key": KEYS[choices.below(3)],
                }],
            }),
            Operation::CreateRecall => {
                let ids = if choices.once_in(2) {
                    json!([self.memory(choices)])
                } else {
                    self.some_memories(choices)
                };
                json!({ "query": "Where?", "memory_ids": ids })
            }
            Operation::SearchRecalls => {
                let mut body = json!({
                    "limit": 1 + choices.below(4), "record": choices.once_in(2),
                });
                if choices.once_in(3) {
                    let candidate = |id| json!({ "memory_id": id });
                    let named = [self.memory(choices), self.memory(choices)].map(candidate);
                    body["candidates"] = json!(named);
                }
                if body["candidates"].is_null() || choices.once_in(2) {
                    body["query"] = json!(TEXTS[choices.below(2)]);
                }
                body
            }
            Operation::UpdateRecall => json!({ "memory_ids": [self.memory(choices)] }),
            Operation::CreateErasure => self.erasure(choices),
            Operation::SetRetention => {
                let mut body = json!({ "chat_days": 1 + choices.below(3) });
                for label in SENSITIVITIES {
                    if choices.once_in(2) {
                        body["memory_days"][label] = json!(1 + choices.below(3));
                    }
                }
                body
            }
            _ => Value::Null,
        }
    }

    /// Returns the body; null if the request has none.
    fn body(&self, choices: &mut Choices<'_>, operation: Operation) -> Value {
        let name = self.name("name");
        match operation {
            Operation::SetWorkspaceAccess => {
                let access = ["private", "open"][choices.below(2)];
                json!({ "access": access })
            }
            Operation::CreateSource => json!({ "name": name, "kind": "drive" }),
            Operation::CreateConnector => json!({
                "kind": "wiki", "account_label": "acme", "scope": "personal",
                "sync_interval_seconds": 3600,
            }),
            Operation::UpdateConnector => json!({ "account_label": name }),
            Operation::ReportSync => json!({ "outcome": "success" }),
            Operation::CreateMcpKey => json!({
                "name": name, "client": "cursor", "audience": [audience(choices)],
            }),
            Operation::CreateChat => json!({ "title": name }),
            Operation::PostChatMessage => json!({ "content": name }),
            Operation::DeleteCustomRole => json!({ "reassign_to": "viewer" }),
            Operation::UpdateCustomRole | Operation::UpdateMember => json!({ "name": name }),
            Operation::CreateCustomRole => json!({
                "name": name, "slug": name, "base_role": "viewer",
            }),
            Operation::AddMember => json!({ "handle": name, "name": name, "role": "member" }),
            Operation::CreateToken => json!({ "name": name }),
            Operation::AssignWorkspaceRole => json!({ "role": "viewer" }),
            Operation::CreateCitationSubscription => json!({
                "recall_id": self.id(choices, "recalls"), "webhook_url": URL,
            }),
            Operation::CreateWebhook => {
                json!({ "event_type": EVENTS[choices.below(EVENTS.len())], "url": URL })
            }
            Operation::UpdateWebhook => json!({ "is_active": choices.once_in(2) }),
            Operation::CreateInboundWebhook | Operation::UpdateInboundWebhook => {
                json!({ "name": name })
            }
            operation => self.body_on_memories(choices, operation),
        }
    }
}
