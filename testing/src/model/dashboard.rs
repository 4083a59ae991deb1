//! Dashboards computed from scratch: connector health, checklist and recent chats.

use std::time::Duration;

use super::{Announcement, Org};
use knowledge_core::model::{
    ChatSummary, Checklist, ChecklistStep, ChecklistTier, ConnectorHealth, ConnectorStatus,
    DashboardSummary, McpKeySummary, MemberId, MemberKind, Timestamp, Workspace, WorkspaceId,
    WorkspaceSummary,
};
use knowledge_core::service::{Connector, ConnectorDetails, SyncOutcome, SyncReport};

const HOUR_MILLIS: i64 = 60 * 60 * 1_000;

/// Connector with all its reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConnectorFacts {
    pub(crate) connector: Connector,
    pub(crate) reports: Vec<(Timestamp, SyncReport)>,
    /// Time of the next sync, by the last report and the interval at that time.
    pub(crate) next_sync: Option<Timestamp>,
    pub(crate) announced: ConnectorStatus,
}

impl ConnectorFacts {
    /// Records a report.
    pub(crate) fn note(&mut self, report: &SyncReport, now: Timestamp) {
        let interval = Duration::from_secs(self.connector.sync_interval_seconds);
        self.next_sync = Some(report.next_sync_at.unwrap_or_else(|| now.plus(interval)));
        self.reports.push((now, report.clone()));
    }

    /// Returns the number of recent failures: each counts for 24 hours from the end of its hour.
    fn recent_errors(&self, now: Timestamp) -> u32 {
        let counts = |at: Timestamp| {
            let hour = at.as_millis().div_euclid(HOUR_MILLIS);
            now.as_millis() < (hour + 25) * HOUR_MILLIS
        };
        let failures = self.reports.iter().filter(|(_, report)| is_failure(report));
        failures.filter(|(at, _)| counts(*at)).count() as u32
    }

    pub(crate) fn status(&self, now: Timestamp) -> ConnectorStatus {
        let in_a_row = self.reports.iter().rev();
        let in_a_row = in_a_row
            .take_while(|(_, report)| is_failure(report))
            .count();
        let last_is_auth_error = self.reports.last().is_some_and(|(_, report)| {
            matches!(
                report.outcome,
                SyncOutcome::Failure {
                    is_authentication: true,
                    ..
                }
            )
        });
        let patience = Duration::from_secs(2 * self.connector.sync_interval_seconds);
        let since = self.last_success().unwrap_or(self.connector.created_at);
        if self.connector.is_paused {
            ConnectorStatus::Paused
        } else if last_is_auth_error {
            ConnectorStatus::AuthRequired
        } else if self.reports.is_empty() {
            ConnectorStatus::Pending
        } else if in_a_row >= 3 {
            ConnectorStatus::Failing
        } else if now >= since.plus(patience) {
            ConnectorStatus::Stale
        } else if self.recent_errors(now) > 0 {
            ConnectorStatus::Degraded
        } else {
            ConnectorStatus::Healthy
        }
    }

    fn last_success(&self) -> Option<Timestamp> {
        let mut newest_first = self.reports.iter().rev();
        let success = newest_first.find(|(_, report)| !is_failure(report));
        success.map(|(at, _)| *at)
    }

    pub(crate) fn details(&self, now: Timestamp) -> ConnectorDetails {
        let health = self.health("", now);
        ConnectorDetails {
            connector: self.connector.clone(),
            status: health.status,
            last_sync: health.last_sync,
            last_error: health.last_error,
            last_success_at: health.last_success_at,
            next_sync_at: health.next_sync_at,
            error_count_24h: health.error_count_24h,
        }
    }

    fn health(&self, workspace_slug: &str, now: Timestamp) -> ConnectorHealth {
        let last = self.reports.last();
        let last_error = last.and_then(|(_, report)| match &report.outcome {
            SyncOutcome::Success => None,
            SyncOutcome::Failure { error, .. } => Some(error.chars().take(500).collect()),
        });
        ConnectorHealth {
            service_account_id: self.connector.id,
            kind: self.connector.kind.clone(),
            account_label: self.connector.account_label.clone(),
            scope: self.connector.scope,
            workspace_slug: workspace_slug.to_owned(),
            status: self.status(now),
            last_sync: last.map(|(at, _)| *at),
            last_error,
            last_success_at: self.last_success(),
            next_sync_at: self.next_sync,
            error_count_24h: self.recent_errors(now),
        }
    }
}

fn is_failure(report: &SyncReport) -> bool {
    matches!(report.outcome, SyncOutcome::Failure { .. })
}

impl Org {
    pub(crate) fn connectors_of(
        &self,
        workspace: WorkspaceId,
    ) -> impl Iterator<Item = &ConnectorFacts> {
        let all = self.connectors.values();
        all.filter(move |facts| facts.connector.workspace_id == workspace)
    }

    fn recent_chats(
        &self,
        member: MemberId,
        workspace: WorkspaceId,
        now: Timestamp,
    ) -> Vec<ChatSummary> {
        let here = self.chats.values();
        let mut here: Vec<_> = here
            .filter(|facts| self.shows_chat(facts, (member, workspace), now))
            .map(|facts| ChatSummary {
                session_id: facts.chat.id,
                title: facts.chat.title.clone(),
                last_message_at: facts.chat.last_message_at,
                snippet: facts.newest.chars().take(160).collect(),
            })
            .collect();
        here.sort_by_key(|chat| std::cmp::Reverse((chat.last_message_at, chat.session_id)));
        here.truncate(10);
        here
    }

    fn checklist(&self, workspace: &Workspace, now: Timestamp) -> Checklist {
        let step = |tier, step_id: &str, completed| ChecklistStep {
            step_id: step_id.to_owned(),
            label: String::new(),
            cta_label: String::new(),
            completed,
            required: tier == ChecklistTier::Required,
            tier,
            workspace_slug: workspace.slug.clone(),
        };
        let required = |step_id, completed| step(ChecklistTier::Required, step_id, completed);
        let suggested = |step_id, completed| step(ChecklistTier::Suggested, step_id, completed);
        let here = workspace.id;
        let has_memories = self
            .memories
            .values()
            .any(|memory| memory.labels.workspace_id == here);
        let mut keys = self.mcp_keys.values();
        let has_mcp_key = keys.any(|key| key.workspace_id == here && key.is_live(now));
        let is_user = |kind| kind == MemberKind::User;
        let users = self
            .members
            .values()
            .filter(|member| is_user(member.kind))
            .count();
        let has_chat = self
            .chats
            .values()
            .any(|facts| facts.chat.workspace_id == here && self.keeps_chat(facts, now));
        let has_webhook = self.webhooks.values().any(|hook| hook.workspace_id == here);
        Checklist {
            required: vec![
                required("connect_source", self.connectors_of(here).next().is_some()),
                required("ingest_first_memory", has_memories),
                required("create_mcp_key", has_mcp_key),
            ],
            suggested: vec![
                suggested("invite_teammate", users > 1),
                suggested("ask_first_question", has_chat),
                suggested("add_webhook", has_webhook),
                suggested(
                    "clear_review_backlog",
                    has_memories && self.backlog(here) == 0,
                ),
            ],
        }
    }

    /// Returns a member's dashboard of a workspace, without the texts of the checklist.
    pub(crate) fn summary(
        &self,
        member: MemberId,
        workspace: &Workspace,
        mcp_keys: Vec<McpKeySummary>,
        now: Timestamp,
    ) -> DashboardSummary {
        let health = |facts: &ConnectorFacts| facts.health(&workspace.slug, now);
        DashboardSummary {
            workspace: WorkspaceSummary {
                id: workspace.id,
                name: workspace.name.clone(),
                slug: workspace.slug.clone(),
                audience: workspace.audience.clone(),
                last_ingest_at: self.last_ingest.get(&workspace.id).copied(),
            },
            review_backlog_count: self.backlog(workspace.id),
            first_value_checklist: self.checklist(workspace, now),
            // Identifiers are in the order of their creation.
            connector_health: self.connectors_of(workspace.id).map(health).collect(),
            mcp_keys,
            recent_chats: self.recent_chats(member, workspace.id, now),
        }
    }

    /// Announces the status of a connector if it is not the one announced last.
    pub(crate) fn announce_status(&mut self, facts: &mut ConnectorFacts, now: Timestamp) {
        let status = facts.status(now);
        if status != facts.announced {
            let (workspace, id) = (facts.connector.workspace_id, facts.connector.id);
            let from = Some(facts.announced);
            self.announce(Announcement::Status(workspace, id, from, status));
            facts.announced = status;
        }
    }
}
