//! Output of the demo: text for people and JSON for programs.

use std::fmt::Write as _;

use knowledge_core::model::{CustomRole, MemoryId, RecallId, RoleId, WorkspaceId};
use knowledge_server::reference::PAGE_PATH;
use serde::Serialize;
use uuid::Uuid;

use super::state::Demo;
use crate::progress::{counted, grouped};

/// The operations as shell commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Walkthrough {
    /// Title and command of each step, in an order in which all of them work.
    pub(crate) steps: Vec<(&'static str, String)>,
}

impl Walkthrough {
    /// Returns the commands for a demo served at `base_url`, with its current custom roles.
    ///
    /// `key` is a new idempotency key.
    #[must_use]
    pub(crate) fn new(base_url: &str, demo: &Demo, roles: &[CustomRole], key: Uuid) -> Self {
        let api = format!("{base_url}/v1");
        let bearer = format!("-H 'Authorization: Bearer {}'", demo.bearer_token);
        let session = format!("-H 'Cookie: service_session={}'", demo.session_token);
        let site = "-H 'Sec-Fetch-Site: none'";
        let json = "-H 'Content-Type: application/json'";
        let workspace = format!("{api}/workspaces/{}", demo.workspace_id);
        let roles_url = format!("{api}/orgs/{}/custom-roles", demo.org_slug);
        let three: Vec<_> = demo
            .memory_ids
            .iter()
            .take(3)
            .map(|id| format!("\"{id}\""))
            .collect();
        let mut steps = vec![
            (
                "Relabel and approve three memories in one idempotent request (run it twice)",
                format!(
                    "curl -sS -X PATCH {api}/memories/bulk {bearer} -H 'Idempotency-Key: {key}' \
                     {json} \
                     -d '{{\"memoryIds\":[{}],\"sensitivityLabel\":\"confidential\",\
                      \"reviewStatus\":\"approved\"}}'",
                    three.join(",")
                ),
            ),
            (
                "Show the dashboard of the workspace",
                format!("curl -sS {workspace}/dashboard-summary {bearer}"),
            ),
            (
                "List the custom roles",
                format!("curl -sS {roles_url} {session}"),
            ),
        ];
        if let Some(role) = roles.first() {
            let role_url = format!("{roles_url}/{}", role.id);
            steps.extend(role_steps(&role_url, &format!("{session} {site} {json}")));
        }
        steps.extend([
            (
                "Subscribe to changes of the memories that an answer cites",
                format!(
                    "curl -sS -X POST {api}/citation-subscriptions {bearer} {json} \
                     -d '{{\"recall_id\":\"{}\",\
                      \"webhook_url\":\"http://127.0.0.1:9000/citations\"}}'",
                    demo.recall_id
                ),
            ),
            (
                "Subscribe to new memories in the workspace",
                format!(
                    "curl -sS -X POST {workspace}/webhooks {bearer} {json} \
                     -d '{{\"event_type\":\"chunk.created\",\
                      \"url\":\"http://127.0.0.1:9000/chunks\"}}'"
                ),
            ),
            (
                "Receive their pings and events in a second terminal; the signing_secret of each \
                 response is a SECRET",
                "knowledge webhook listen --listen 127.0.0.1:9000 --secret SECRET --secret SECRET"
                    .to_owned(),
            ),
            (
                "Let another system send memories",
                format!(
                    "curl -sS -X POST {workspace}/inbound-webhooks {bearer} {json} \
                     -d '{{\"name\":\"Status page\"}}'"
                ),
            ),
        ]);
        Self { steps }
    }
}

/// Returns the steps that change and delete a custom role.
fn role_steps(role_url: &str, headers: &str) -> [(&'static str, String); 2] {
    [
        (
            "Change a custom role",
            format!(
                "curl -sS -X PATCH {role_url} {headers} \
                 -d '{{\"description\":\"Changed from the command line\"}}'"
            ),
        ),
        (
            "Delete it; its holders become members",
            format!(
                "curl -sS -i -X DELETE {role_url} {headers} -d '{{\"reassign_to\":\"member\"}}'"
            ),
        ),
    ]
}

/// The output for a demo that is being served.
#[derive(Clone, Debug)]
pub(crate) struct Screen<'d> {
    /// Base URL without a trailing slash.
    pub(crate) base_url: String,
    /// URL with which a member signs in, once.
    pub(crate) login_url: String,
    /// The demo.
    pub(crate) demo: &'d Demo,
    /// Current custom roles, in the order of their list.
    pub(crate) roles: &'d [CustomRole],
    /// Memories of the first workspace that await review.
    pub(crate) backlog: u64,
    /// Data directory, for display.
    pub(crate) data_dir: String,
    /// A new idempotency key.
    pub(crate) key: Uuid,
}

/// Output for programs.
#[derive(Debug, Serialize)]
struct Line<'d> {
    base_url: &'d str,
    login_url: &'d str,
    bearer_token: &'d str,
    session_token: &'d str,
    org_slug: &'d str,
    workspace_id: WorkspaceId,
    custom_role_ids: Vec<RoleId>,
    recall_id: RecallId,
    memory_ids: &'d [MemoryId],
}

impl Screen<'_> {
    /// Returns the output for programs.
    #[must_use]
    pub(crate) fn json(&self) -> impl Serialize + '_ {
        Line {
            base_url: &self.base_url,
            login_url: &self.login_url,
            bearer_token: &self.demo.bearer_token,
            session_token: &self.demo.session_token,
            org_slug: &self.demo.org_slug,
            workspace_id: self.demo.workspace_id,
            custom_role_ids: self.roles.iter().map(|role| role.id).collect(),
            recall_id: self.demo.recall_id,
            memory_ids: &self.demo.memory_ids,
        }
    }

    /// Returns the shell command that sets the variables of the README.
    fn variables(&self) -> String {
        let demo = self.demo;
        let mut variables = vec![
            ("URL", self.base_url.clone()),
            ("TOKEN", demo.bearer_token.clone()),
            ("SESSION", demo.session_token.clone()),
            ("ORG", demo.org_slug.clone()),
            ("WORKSPACE", demo.workspace_id.to_string()),
            ("RECALL", demo.recall_id.to_string()),
        ];
        let role = self.roles.first().map(|role| role.id.to_string());
        variables.extend(role.map(|role| ("ROLE", role)));
        let memory = demo.memory_ids.first().map(ToString::to_string);
        variables.extend(memory.map(|memory| ("MEMORY", memory)));
        let set = variables.iter();
        let set: String = set
            .map(|(name, value)| format!(" {name}='{value}'"))
            .collect();
        format!("export{set}")
    }

    /// Returns the name and the value of each fact about the demo.
    fn facts(&self) -> [(&'static str, String); 8] {
        let (demo, counts) = (self.demo, &self.demo.counts);
        [
            (
                "memories",
                format!(
                    "{}, {} of them in {} ({} to review)",
                    grouped(counts.memories),
                    grouped(counts.memories_in_first),
                    demo.workspace_slug,
                    grouped(self.backlog)
                ),
            ),
            (
                "also",
                [
                    counted(counts.members, "member", "members"),
                    counted(counts.sources, "source", "sources"),
                    counted(counts.connectors, "connector", "connectors"),
                    counted(counts.mcp_keys, "MCP key", "MCP keys"),
                    counted(counts.chats, "chat", "chats"),
                    counted(self.roles.len() as u64, "custom role", "custom roles"),
                ]
                .join(", "),
            ),
            ("data", self.data_dir.clone()),
            ("bearer token", demo.bearer_token.clone()),
            ("session", demo.session_token.clone()),
            ("listening on", self.base_url.clone()),
            ("sign in, once", self.login_url.clone()),
            ("reference", format!("{}{PAGE_PATH}", self.base_url)),
        ]
    }

    /// Returns the output for people.
    #[must_use]
    pub(crate) fn text(&self, has_colours: bool) -> String {
        let style = |style: console::Style| style.force_styling(has_colours);
        let strong = style(console::Style::new().bold());
        let faint = style(console::Style::new().dim());
        let accent = style(console::Style::new().cyan());
        let mut text = String::new();
        let mut line = |content: String| {
            let _ = writeln!(text, "{content}");
        };
        line(String::new());
        line(format!(
            "  {}  {}",
            strong.apply_to(&self.demo.org_name),
            faint.apply_to("a demo of the workspace knowledge service")
        ));
        line(String::new());
        for (name, value) in self.facts() {
            let name = format!("{name:>14}");
            line(format!("{}  {value}", faint.apply_to(name)));
        }
        line(String::new());
        line(format!(
            "  {}",
            strong.apply_to("Set the variables of the commands in README.md")
        ));
        line(self.variables());
        line(String::new());
        let walkthrough = Walkthrough::new(&self.base_url, self.demo, self.roles, self.key);
        for (number, (title, command)) in (1..).zip(&walkthrough.steps) {
            line(format!(
                "  {} {}",
                accent.apply_to(format!("{number}.")),
                strong.apply_to(title)
            ));
            line(command.clone());
            line(String::new());
        }
        line(format!(
            "  {}",
            faint.apply_to("Press Ctrl-C to stop; the next start serves the same data.")
        ));
        line(String::new());
        text
    }
}
