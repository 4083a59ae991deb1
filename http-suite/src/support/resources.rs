//! Valid requests of the operations that [`Operation::all`] leaves out, by resource.

use http::Method;
use knowledge_testing::fixture::OrgFixture;
use serde_json::json;
use uuid::Uuid;

use super::operations::Operation;
use crate::client::Call;

/// Creates a GET request.
pub fn get(path: impl Into<String>) -> Call {
    Call::new(Method::GET, path)
}

/// Creates a POST request.
pub fn post(path: impl Into<String>) -> Call {
    Call::new(Method::POST, path)
}

/// Creates a PUT request.
pub fn put(path: impl Into<String>) -> Call {
    Call::new(Method::PUT, path)
}

/// Creates a PATCH request.
pub fn patch(path: impl Into<String>) -> Call {
    Call::new(Method::PATCH, path)
}

/// Creates a DELETE request.
pub fn delete(path: impl Into<String>) -> Call {
    Call::new(Method::DELETE, path)
}

impl Operation {
    /// Returns [those](Self::all) of `docs/interface.md`, followed by the others.
    pub fn every(org: &OrgFixture) -> Vec<Self> {
        let mut every = Self::all(org);
        every.extend(of_the_organisation(org));
        every.extend(of_a_workspace(org));
        every.extend(of_webhooks(org));
        every.extend(of_deliveries(org));
        every.extend(of_memories(org));
        every.extend(of_recalls(org));
        every
    }
}

fn of_the_organisation(org: &OrgFixture) -> Vec<Operation> {
    let session = &org.members.owner.session;
    let path = format!("/v1/orgs/{}", org.slug);
    let roles = format!("{path}/custom-roles");
    let role = json!({ "name": "New", "slug": "new", "base_role": "viewer" });
    let members = format!("{path}/members");
    let member = format!("{members}/{}", org.members.guest.id);
    let held = format!("{member}/workspace-roles/{}", org.main.id);
    let new = json!({ "name": "New", "handle": "new", "role": "viewer" });
    let tokens = format!("{members}/{}/tokens", org.members.robot.id);
    let token = format!("{tokens}/{}", Uuid::nil());
    let new_token = json!({ "name": "New" });
    let one = "DELETE, GET, HEAD, PATCH";
    let operations = [
        Operation::new("create token", post(&tokens).json(&new_token)).allowing("GET, HEAD, POST"),
        Operation::new("list tokens", get(&tokens)).allowing("GET, HEAD, POST"),
        Operation::new("token", get(&token)).allowing("DELETE, GET, HEAD"),
        Operation::new("end token", delete(&token)).allowing("DELETE, GET, HEAD"),
        Operation::new("create role", post(&roles).json(&role)).allowing("GET, HEAD, POST"),
        Operation::new("role", get(format!("{roles}/{}", org.roles.guest))).allowing(one),
        Operation::new("list members", get(&members)).allowing("GET, HEAD, POST"),
        Operation::new("add member", post(&members).json(&new)).allowing("GET, HEAD, POST"),
        Operation::new("create login link", post(format!("{member}/login-links"))),
        Operation::new("member", get(&member)).allowing(one),
        Operation::new("update member", patch(&member).json(&json!({}))).allowing(one),
        Operation::new("remove member", delete(&member)).allowing(one),
        Operation::new(
            "assign role in a workspace",
            put(&held).json(&json!({ "role": org.roles.guest })),
        )
        .allowing("DELETE, PUT"),
        Operation::new("end role in a workspace", delete(&held)).allowing("DELETE, PUT"),
    ];
    operations
        .map(|mut operation| {
            operation.call = operation.call.session(session);
            operation.with_session()
        })
        .into()
}

fn of_a_workspace(org: &OrgFixture) -> Vec<Operation> {
    let path = format!("/v1/workspaces/{}", org.main.id);
    let connectors = format!("{path}/connectors");
    let connector = format!("{connectors}/{}", org.connectors[0]);
    let new_connector = json!({
        "kind": "wiki", "account_label": "team", "scope": "workspace", "sync_interval_seconds": 3_600,
    });
    let keys = format!("{path}/mcp-keys");
    let key = format!("{keys}/{}", org.mcp_key_id);
    let new_key = json!({ "name": "New", "client": "cursor", "audience": ["workspace:handbook"] });
    let chats = format!("{path}/chats");
    let chat = format!("{chats}/{}", org.chats[0]);
    let one = "DELETE, GET, HEAD, PATCH";
    let many = "GET, HEAD, POST";
    let operations = [
        Operation::new("create connector", post(&connectors).json(&new_connector)).allowing(many),
        Operation::new("list connectors", get(&connectors)).allowing(many),
        Operation::new("connector", get(&connector)).allowing(one),
        Operation::new("update connector", patch(&connector).json(&json!({}))).allowing(one),
        Operation::new("delete connector", delete(&connector)).allowing(one),
        Operation::new(
            "report sync",
            post(format!("{connector}/sync-reports")).json(&json!({ "outcome": "success" })),
        ),
        Operation::new("create MCP key", post(&keys).json(&new_key)).allowing(many),
        Operation::new("list MCP keys", get(&keys)).allowing(many),
        Operation::new("MCP key", get(&key)).allowing("DELETE, GET, HEAD"),
        Operation::new("rotate MCP key", post(format!("{key}/rotate"))),
        Operation::new("revoke MCP key", delete(&key)).allowing("DELETE, GET, HEAD"),
        Operation::new("create chat", post(&chats).json(&json!({ "title": "New" }))).allowing(many),
        Operation::new("list chats", get(&chats)).allowing(many),
        Operation::new("chat", get(&chat)).allowing("DELETE, GET, HEAD"),
        Operation::new(
            "post chat message",
            post(format!("{chat}/messages")).json(&json!({ "content": "New" })),
        )
        .allowing(many),
        Operation::new("list chat messages", get(format!("{chat}/messages"))).allowing(many),
    ];
    by_the_owner(org, operations)
}

fn of_webhooks(org: &OrgFixture) -> Vec<Operation> {
    let path = format!("/v1/workspaces/{}", org.main.id);
    let webhooks = format!("{path}/webhooks");
    let webhook = format!("{webhooks}/{}", Uuid::nil());
    let inbound = format!("{path}/inbound-webhooks");
    let one_inbound = format!("{inbound}/{}", Uuid::nil());
    let one = "DELETE, GET, HEAD, PATCH";
    let many = "GET, HEAD, POST";
    let operations = [
        Operation::new("list webhooks", get(&webhooks))
            .with_method_errors_in_headers()
            .allowing(many),
        Operation::new("webhook", get(&webhook)).allowing(one),
        Operation::new("update webhook", patch(&webhook).json(&json!({}))).allowing(one),
        Operation::new("delete webhook", delete(&webhook)).allowing(one),
        Operation::new(
            "rotate webhook secret",
            post(format!("{webhook}/rotate-secret")),
        ),
        Operation::new("list inbound webhooks", get(&inbound))
            .with_method_errors_in_headers()
            .allowing(many),
        Operation::new("inbound webhook", get(&one_inbound)).allowing(one),
        Operation::new(
            "update inbound webhook",
            patch(&one_inbound).json(&json!({})),
        )
        .allowing(one),
        Operation::new("delete inbound webhook", delete(&one_inbound)).allowing(one),
        Operation::new(
            "rotate inbound webhook secret",
            post(format!("{one_inbound}/rotate-secret")),
        ),
    ];
    by_the_owner(org, operations)
}

fn of_deliveries(org: &OrgFixture) -> Vec<Operation> {
    let nothing = Uuid::nil();
    let webhook = format!("/v1/workspaces/{}/webhooks/{nothing}", org.main.id);
    let subscription = format!("/v1/citation-subscriptions/{nothing}");
    let of = |endpoint: &str| {
        let deliveries = format!("{endpoint}/deliveries");
        let delivery = format!("{deliveries}/{nothing}");
        [
            Operation::new("list deliveries", get(&deliveries)).allowing("GET, HEAD"),
            Operation::new("delivery", get(&delivery)).allowing("GET, HEAD"),
            Operation::new("redeliver", post(format!("{delivery}/redeliver"))),
            Operation::new(
                "redeliver dead",
                post(format!("{deliveries}/redeliver-dead")),
            ),
            Operation::new("ping", post(format!("{endpoint}/ping"))),
        ]
    };
    let mut operations = by_the_owner(org, of(&webhook));
    operations.extend(by_the_owner(org, of(&subscription)));
    operations
}

fn of_memories(org: &OrgFixture) -> Vec<Operation> {
    let path = format!("/v1/workspaces/{}", org.main.id);
    let memories = format!("{path}/memories");
    let memory = format!("/v1/memories/{}", org.main.memories.internal[0]);
    let new = json!({ "sourceId": org.sources[0], "title": "New", "content": "New." });
    let item = json!({ "title": "New", "content": "New." });
    let batch = json!({ "source_id": org.sources[0], "memories": [item] });
    let one = "DELETE, GET, HEAD, PATCH";
    let many = "GET, HEAD, POST";
    let operations = [
        Operation::new("create memory", post(&memories).json(&new)).allowing(many),
        Operation::new("list memories", get(&memories)).allowing(many),
        Operation::new("ingest", post(format!("{path}/ingest")).json(&batch)),
        Operation::new("memory", get(&memory)).allowing(one),
        Operation::new("update memory", patch(&memory).json(&json!({}))).allowing(one),
        Operation::new("delete memory", delete(&memory)).allowing(one),
        Operation::new("list workspaces", get("/v1/workspaces")).allowing("GET, HEAD"),
        Operation::new("workspace", get(&path)).allowing("GET, HEAD"),
        Operation::new(
            "check access",
            post("/v1/memories/access-check").json(&json!({ "memoryIds": [Uuid::nil()] })),
        ),
        Operation::new("list labels", get(format!("{path}/labels"))).allowing("GET, HEAD"),
        Operation::new("activity", get(format!("{path}/activity"))).allowing("GET, HEAD"),
        Operation::new(
            "set access",
            put(format!("{path}/access")).json(&json!({ "access": "open" })),
        )
        .allowing("PUT"),
    ];
    by_the_owner(org, operations)
}

fn of_recalls(org: &OrgFixture) -> Vec<Operation> {
    let recalls = format!("/v1/workspaces/{}/recalls", org.main.id);
    let new = json!({ "query": "New?", "memory_ids": [org.main.memories.internal[0]] });
    let used = json!({ "memory_ids": [org.main.memories.internal[60]] });
    let subscriptions = "/v1/citation-subscriptions";
    let of_recall = format!("{subscriptions}?recall_id={}", org.recall);
    let subscription = format!("{subscriptions}/{}", Uuid::nil());
    let entry = format!("/v1/audit-log/{}", Uuid::nil());
    let operations = [
        Operation::new("create recall", post(&recalls).json(&new)).allowing("GET, HEAD, POST"),
        Operation::new("list recalls", get(&recalls)).allowing("GET, HEAD, POST"),
        Operation::new("recall", get(format!("/v1/recalls/{}", org.recall)))
            .allowing("DELETE, GET, HEAD, PATCH"),
        Operation::new(
            "narrow recall",
            patch(format!("/v1/recalls/{}", org.recall)).json(&used),
        )
        .allowing("DELETE, GET, HEAD, PATCH"),
        Operation::new("list subscriptions", get(of_recall))
            .with_method_errors_in_headers()
            .allowing("GET, HEAD, POST"),
        Operation::new("subscription", get(&subscription)).allowing("DELETE, GET, HEAD"),
        Operation::new("end subscription", delete(&subscription)).allowing("DELETE, GET, HEAD"),
        Operation::new(
            "rotate subscription secret",
            post(format!("{subscription}/rotate-secret")),
        ),
        Operation::new("list audit log", get("/v1/audit-log")).allowing("GET, HEAD"),
        Operation::new("audit entry", get(entry)).allowing("GET, HEAD"),
    ];
    by_the_owner(org, operations)
}

fn by_the_owner<const N: usize>(org: &OrgFixture, operations: [Operation; N]) -> Vec<Operation> {
    let token = &org.members.owner.token;
    operations
        .map(|mut operation| {
            operation.call = operation.call.bearer(token);
            operation
        })
        .into()
}
