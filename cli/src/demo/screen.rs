//! Output of the demo: text for people and JSON for programs.

use knowledge_core::model::{CustomRole, MemoryId, RecallId, RoleId, WorkspaceId};
use knowledge_server::reference::PAGE_PATH;
use serde::Serialize;
use uuid::Uuid;

use super::data::{HISTORY, ORGANIZATION, org_slug};
use super::state::Demo;
use crate::progress::{counted, grouped};

/// Titles and commands of the steps, in an order in which all of them work.
///
/// `$` begins the name of a value. Without a role, the steps with one are omitted.
const WALKTHROUGH: &str = include_str!("data/walkthrough.txt");

/// Memories that the walkthrough relabels.
const RELABELLED: usize = 3;

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
    /// Memory of the first workspace that awaits review, if one does.
    pub(crate) pending: Option<MemoryId>,
    /// Number of memories of the first workspace that await review.
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
            org_slug: org_slug(),
            workspace_id: self.demo.workspace_id,
            custom_role_ids: self.roles.iter().map(|role| role.id).collect(),
            recall_id: self.demo.recall_id,
            memory_ids: &self.demo.memory_ids,
        }
    }

    /// Returns the variables of the README with their values.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let demo = self.demo;
        let mut variables = vec![
            ("URL", self.base_url.clone()),
            ("TOKEN", demo.bearer_token.clone()),
            ("SESSION", demo.session_token.clone()),
            ("ORG", org_slug().to_owned()),
            ("WORKSPACE", demo.workspace_id.to_string()),
            ("RECALL", demo.recall_id.to_string()),
        ];
        let role = self.roles.first().map(|role| role.id.to_string());
        variables.extend(role.map(|role| ("ROLE", role)));
        let memory = self.pending.or(demo.memory_ids.first().copied());
        variables.extend(memory.map(|memory| ("MEMORY", memory.to_string())));
        variables
    }

    /// Returns the title and the command of each step of the walkthrough.
    fn steps(&self) -> Vec<(&'static str, String)> {
        let memories = self.demo.memory_ids.iter().take(RELABELLED);
        let memories: Vec<String> = memories.map(|id| format!("\"{id}\"")).collect();
        let mut values = self.variables();
        values.push(("MEMORIES", memories.join(",")));
        values.push(("KEY", self.key.to_string()));
        let steps = WALKTHROUGH.trim_end().split("\n\n");
        let steps = steps.filter_map(|step| step.split_once('\n'));
        let steps =
            steps.filter(|(_, command)| !self.roles.is_empty() || !command.contains("$ROLE"));
        let filled = steps.map(|(title, command)| {
            let command = values
                .iter()
                .fold(command.to_owned(), |command, (name, value)| {
                    command.replace(&format!("${name}"), value)
                });
            (title, command)
        });
        filled.collect()
    }

    /// Returns the name and the value of each fact about the demo.
    fn facts(&self) -> [(&'static str, String); 8] {
        let (demo, org, history) = (self.demo, &*ORGANIZATION, &*HISTORY);
        let memories = format!(
            "{}, {} of them in {} ({} to review)",
            grouped(demo.memories),
            grouped(demo.memories_in_first),
            org.workspaces[0].slug,
            grouped(self.backlog)
        );
        let also = [
            // The owner is not among the members of the file.
            (1 + org.members.len(), "member"),
            (org.sources.len(), "source"),
            (history.connectors.len(), "connector"),
            (history.mcp_keys.len(), "MCP key"),
            (history.chats.len(), "chat"),
            (self.roles.len(), "custom role"),
        ];
        let also = also.map(|(count, noun)| counted(count as u64, noun, &format!("{noun}s")));
        [
            ("memories", memories),
            ("also", also.join(", ")),
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
        let name = strong.apply_to(&ORGANIZATION.new.name);
        let about = faint.apply_to("a demo of the workspace knowledge service");
        let mut text = format!("\n  {name}  {about}\n\n");
        for (name, value) in self.facts() {
            let name = faint.apply_to(format!("{name:>14}"));
            text.push_str(&format!("{name}  {value}\n"));
        }
        let heading = strong.apply_to("Set the variables of the commands in README.md");
        text.push_str(&format!("\n  {heading}\nexport"));
        for (name, value) in self.variables() {
            text.push_str(&format!(" {name}='{value}'"));
        }
        text.push_str("\n\n");
        for (number, (title, command)) in (1..).zip(self.steps()) {
            let (number, title) = (
                accent.apply_to(format!("{number}.")),
                strong.apply_to(title),
            );
            text.push_str(&format!("  {number} {title}\n{command}\n\n"));
        }
        let end = faint.apply_to("Press Ctrl-C to stop; the next start serves the same data.");
        text.push_str(&format!("  {end}\n\n"));
        text
    }
}
