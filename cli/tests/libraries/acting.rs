//! An organisation with people, their memories, and a service account that acts for them.

use serde_json::{Value, json};

use crate::support::{Request, knowledge, send};
use crate::{Service, text};

/// Members besides the owner, each with its role and a team.
pub(crate) const PEOPLE: [(&str, &str, &str); 3] = [
    ("ada", "admin", "platform"),
    ("tom", "member", "sales"),
    ("vic", "viewer", "platform"),
];

/// An organisation with a service account.
pub(crate) struct Acting {
    pub(crate) service: Service,
    /// Identifier of the workspace `support`.
    pub(crate) workspace: String,
    /// Token of the service account.
    pub(crate) bot: String,
}

impl Acting {
    /// Starts a server. The service account may do what a member may, and these actions.
    pub(crate) fn start(actions: &[&str]) -> Self {
        let service = Service::start();
        let data_dir = service.scratch.data_dir();
        let run = |args: &[&str]| {
            let made = knowledge(&[args, &[&data_dir]].concat()).ok();
            made.stdout.trim().to_owned()
        };
        for (handle, role, team) in PEOPLE {
            let (role, team) = (format!("--role={role}"), format!("--team={team}"));
            run(&["user", "create", handle, &role, &team]);
        }
        let session = run(&["session", "create", "--member=maya"]);
        let allow: Vec<&str> = [&["member:act_for"], actions].concat();
        let role = json!({
            "name": "Acting", "slug": "acting", "base_role": "member",
            "actions": { "allow": allow },
        });
        let role = send(&Request {
            method: "POST".to_owned(),
            url: format!("{}/v1/orgs/acme/custom-roles", service.url),
            headers: vec![
                format!("Cookie: service_session={session}"),
                "Content-Type: application/json".to_owned(),
            ],
            body: role.to_string(),
        });
        let role = format!("--role={}", text(&role.json()["data"]["id"]));
        run(&["user", "create", "bot", &role, "--service-account"]);
        let workspaces = service.get("/v1/workspaces");
        let workspaces = workspaces["data"].as_array().expect("a list").iter();
        let mut support = workspaces.filter(|one| one["slug"] == "support");
        let workspace = text(&support.next().expect("the workspace")["id"]).to_owned();
        Self {
            bot: run(&["token", "create", "--member=bot"]),
            workspace,
            service,
        }
    }

    /// Adds memories with these texts and labels by the owner, and returns their identifiers.
    pub(crate) fn ingest(&self, memories: &[Value]) -> Vec<String> {
        let source = json!({ "name": "Wiki", "kind": "wiki" });
        let source = self.service.post("/v1/sources", &source);
        let batch = json!({ "source_id": source["id"], "memories": memories });
        let path = format!("/v1/workspaces/{}/ingest", self.workspace);
        let ingested = self.service.post(&path, &batch);
        let items = ingested["memories"].as_array().expect("a list").iter();
        items.map(|item| text(&item["id"]).to_owned()).collect()
    }

    /// Sets labels of memories by the owner.
    pub(crate) fn change(&self, memories: &[String], mut change: Value) {
        change["memoryIds"] = json!(memories);
        self.service.call("PATCH", "/v1/memories/bulk", &change);
    }

    /// Calls the service by the service account, for a member.
    pub(crate) fn call_for(&self, member: &str, method: &str, path: &str, body: &Value) -> Value {
        let mut headers = vec![
            format!("Authorization: Bearer {}", self.bot),
            format!("Knowledge-Act-For: user:{member}"),
        ];
        let has_body = !body.is_null();
        headers.extend(has_body.then(|| "Content-Type: application/json".to_owned()));
        let answer = send(&Request {
            method: method.to_owned(),
            url: format!("{}{path}", self.service.url),
            headers,
            body: if has_body {
                body.to_string()
            } else {
                String::new()
            },
        });
        assert_eq!(answer.status, 200, "{path} for {member}: {answer:?}");
        answer.json()
    }
}
