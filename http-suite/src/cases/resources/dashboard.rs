//! The whole content of the dashboard, produced through the API.
//!
//! The test starts from an organisation with one owner and an empty workspace.

use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};

use crate::support::{Call, bulk, dashboard, delete, get, own_org, patch, post};

suite![dashboard_is_filled_through_the_api_only];

/// An owner who calls the API.
struct Owner<'o> {
    org: &'o OrgFixture,
    workspace: String,
}

impl Owner<'_> {
    /// Sends a request that must succeed, and returns the response.
    async fn send(&self, call: Call, body: Option<Value>) -> Value {
        let owner = &self.org.members.owner;
        let call = call.bearer(&owner.token).session(&owner.session);
        let call = match &body {
            Some(body) => call.json(body),
            None => call,
        };
        let answer = call.await;
        assert!(answer.status.is_success(), "{answer:?}");
        if answer.body.is_empty() {
            Value::Null
        } else {
            answer.json()
        }
    }

    /// Creates a resource in the workspace.
    async fn make(&self, what: &str, body: Value) -> Value {
        let path = format!("{}/{what}", self.workspace);
        self.send(post(path), Some(body)).await
    }

    /// Removes all other members of the organisation.
    async fn send_everybody_away(&self) {
        let members = format!("/v1/orgs/{}/members", self.org.slug);
        let all = self.send(get(format!("{members}?limit=200")), None).await;
        for member in all["data"].as_array().unwrap() {
            let id = member["id"].as_str().unwrap();
            if id != self.org.members.owner.id.to_string() {
                self.send(delete(format!("{members}/{id}")), None).await;
            }
        }
    }

    async fn dashboard(&self) -> Value {
        let call = dashboard(&self.org.members.owner.token, self.org.empty.id);
        self.send(call.without("authorization"), None).await
    }

    /// Returns the completed steps of the checklist.
    async fn done(&self) -> Vec<String> {
        let checklist = self.dashboard().await["first_value_checklist"].clone();
        let steps = ["required", "suggested"].map(|tier| checklist[tier].clone());
        let steps = steps.iter().flat_map(|steps| steps.as_array().unwrap());
        let done = steps.filter(|step| step["completed"] == true);
        done.map(|step| step["step_id"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Creates a connector whose status follows from these reports.
    async fn connector(&self, status: &str, reports: &[Value]) {
        let new = json!({
            "kind": "wiki", "account_label": status, "scope": "workspace",
            "sync_interval_seconds": 3_600,
        });
        let made = self.make("connectors", new).await;
        let connector = format!("connectors/{}", made["id"].as_str().unwrap());
        for report in reports {
            self.make(&format!("{connector}/sync-reports"), report.clone())
                .await;
        }
        if status == "paused" {
            let path = format!("{}/{connector}", self.workspace);
            self.send(patch(path), Some(json!({ "is_paused": true })))
                .await;
        }
    }

    async fn connectors(&self) {
        let success = json!({ "outcome": "success" });
        let failure = json!({ "outcome": "failure", "error": "no answer" });
        let refused = json!({ "outcome": "failure", "error": "no", "is_authentication": true });
        let three = [failure.clone(), failure.clone(), failure.clone()];
        self.connector("pending", &[]).await;
        self.connector("healthy", std::slice::from_ref(&success))
            .await;
        self.connector("degraded", &[failure, success]).await;
        self.connector("failing", &three).await;
        self.connector("auth_required", &[refused]).await;
        self.connector("paused", &[]).await;
    }
}

async fn dashboard_is_filled_through_the_api_only() {
    let org = own_org();
    let workspace = format!("/v1/workspaces/{}", org.empty.id);
    let owner = Owner { org, workspace };
    owner.send_everybody_away().await;
    let nothing = owner.dashboard().await;
    assert_eq!(owner.done().await, [""; 0]);
    for list in ["connector_health", "mcp_keys", "recent_chats"] {
        assert_eq!(nothing[list], json!([]), "{list}");
    }
    assert_eq!(nothing["review_backlog_count"], 0);
    assert_eq!(nothing["workspace"]["last_ingest_at"], Value::Null);

    owner.connectors().await;
    assert_eq!(owner.done().await, ["connect_source"]);
    let health = owner.dashboard().await["connector_health"].clone();
    let health = health.as_array().unwrap().iter();
    let mut statuses: Vec<_> = health
        .map(|connector| {
            assert_eq!(connector["status"], connector["account_label"]);
            connector["status"].as_str().unwrap().to_owned()
        })
        .collect();
    statuses.sort();
    let expected = [
        "auth_required",
        "degraded",
        "failing",
        "healthy",
        "paused",
        "pending",
    ];
    assert_eq!(statuses, expected);

    let source = json!({ "name": "Wiki", "kind": "confluence" });
    let source = owner.send(post("/v1/sources"), Some(source)).await["id"].clone();
    let batch = json!({ "source_id": source, "memories": [
        { "title": "One", "content": "First.", "source_key": "page/1" },
        { "title": "Two", "content": "Second." },
    ]});
    let ingested = owner.make("ingest", batch).await;
    let third = json!({ "sourceId": source, "title": "Three", "content": "Third." });
    let third = owner.make("memories", third).await;
    assert_eq!(
        owner.done().await,
        ["connect_source", "ingest_first_memory"]
    );
    let waiting = owner.dashboard().await;
    assert_eq!(waiting["review_backlog_count"], 3);
    assert!(waiting["workspace"]["last_ingest_at"].is_string());

    let key = json!({ "name": "Laptop", "client": "claude_code", "audience": ["workspace:empty"] });
    let key = owner.make("mcp-keys", key).await;
    let used = get(format!("{}/memories", owner.workspace));
    let used = used.bearer(key["secret"].as_str().unwrap()).await;
    assert_eq!(used.status, 200);
    let shown = owner.dashboard().await["mcp_keys"].clone();
    assert_eq!(shown.as_array().unwrap().len(), 1);
    assert_eq!(
        (&shown[0]["id"], &shown[0]["name"]),
        (&key["id"], &json!("Laptop"))
    );
    assert!(shown[0]["lastUsedAt"].is_string(), "{shown}");

    let member = json!({ "handle": "bob", "name": "Bob", "role": "member" });
    let members = post(format!("/v1/orgs/{}/members", org.slug));
    owner.send(members, Some(member)).await;
    let chat = owner.make("chats", json!({ "title": "Keys" })).await;
    let messages = format!("chats/{}/messages", chat["id"].as_str().unwrap());
    owner
        .make(&messages, json!({ "content": "How long do they live?" }))
        .await;
    let chats = owner.dashboard().await["recent_chats"].clone();
    assert_eq!(chats[0]["snippet"], "How long do they live?");

    let webhook = json!({ "event_type": "chunk.created", "url": "https://example.com/hook" });
    owner.make("webhooks", webhook).await;
    let memories = ingested["memories"].as_array().unwrap().iter();
    let mut waiting: Vec<_> = memories.map(|memory| memory["id"].clone()).collect();
    waiting.push(third["id"].clone());
    let approve = json!({ "memoryIds": waiting, "reviewStatus": "approved" });
    let approved = bulk(&org.members.owner.token, &approve).await;
    assert_eq!(approved.json()["summary"]["succeeded"], 3);
    assert_eq!(owner.dashboard().await["review_backlog_count"], 0);
    assert_eq!(
        owner.done().await,
        [
            "connect_source",
            "ingest_first_memory",
            "create_mcp_key",
            "invite_teammate",
            "ask_first_question",
            "add_webhook",
            "clear_review_backlog",
        ]
    );
}
