//! `knowledge dashboard`: the summary of a workspace, drawn for a terminal.

use std::time::Duration;

use console::Style;
use http::Method;
use knowledge_core::env::Env;
use knowledge_core::model::{
    ChecklistStep, ConnectorHealth, ConnectorStatus, DashboardSummary, McpKeySummary,
    ResourceState, ResourceStatus, Timestamp,
};

use super::args::WithOutput;
use super::failure::Failure;
use super::operator::OrgArgs;
use super::output::render_options;
use super::table::{Cell, Fit, RenderOptions, Table, plain};
use crate::progress::counted;

/// Show the dashboard of a workspace
///
/// Works with and without a running server: if a server holds the data directory, the command uses
/// its admin socket. The output is coloured only on a terminal, and never if NO_COLOR is set.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Workspace, by slug or identifier
    workspace: String,

    /// Handle of the member to act as; defaults to an owner
    #[arg(long = "as", value_name = "HANDLE")]
    acts_as: Option<String>,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let (operator, output) = args.org.open().await?;
    let member = operator.acting_member(args.acts_as).await?;
    let workspace = args.workspace.as_str();
    let segments = [
        "members",
        &member,
        "workspaces",
        workspace,
        "dashboard-summary",
    ];
    let summary: DashboardSummary = operator.call(Method::GET, &segments, None, &[]).await?;
    let drawn = draw(&summary, Env::system().now(), render_options());
    output.print(&drawn, &summary)
}

/// Draws the whole dashboard.
fn draw(summary: &DashboardSummary, now: Timestamp, options: RenderOptions) -> String {
    let bold = options.style(Style::new().bold());
    let heading = |text: &str| options.line(&bold.apply_to(text).to_string());
    let workspace = &summary.workspace;
    let mut drawn = String::from("\n");
    let name = options.style(Style::new().bold().cyan());
    drawn += &options.line(&format!(
        "{}  {} · {}",
        name.apply_to(plain(&workspace.name)),
        workspace.slug,
        workspace.audience
    ));
    drawn += &options.line(&format!(
        "{} to review · last ingest {}",
        counted(summary.review_backlog_count, "memory", "memories"),
        moment(workspace.last_ingest_at, now)
    ));
    drawn += &format!("\n{}", heading("First steps"));
    drawn += &checklist(summary, options);
    let sections = [
        ("Connectors", connectors(&summary.connector_health, now)),
        ("MCP keys", mcp_keys(summary, now)),
        ("Recent chats", chats(summary, now)),
    ];
    for (title, table) in sections {
        drawn += &format!("\n{}", heading(title));
        drawn += &table.map_or_else(|| options.line("  none"), |table| table.draw(options));
    }
    drawn.push('\n');
    drawn
}

fn checklist(summary: &DashboardSummary, options: RenderOptions) -> String {
    let list = &summary.first_value_checklist;
    let done = options.style(Style::new().green()).apply_to("✓");
    let open = options.style(Style::new().yellow()).apply_to("○");
    let line = |step: &ChecklistStep| {
        let mark = if step.completed { &done } else { &open };
        let tier = if step.required { "" } else { "  (suggested)" };
        options.line(&format!("  {mark} {}{tier}", step.label))
    };
    list.required
        .iter()
        .chain(&list.suggested)
        .map(line)
        .collect()
}

fn connectors(list: &[ConnectorHealth], now: Timestamp) -> Option<Table> {
    let mut table = Table::new(&[
        ("STATUS", Fit::Whole),
        ("KIND", Fit::Whole),
        ("ACCOUNT", Fit::Cut),
        ("SCOPE", Fit::Optional),
        ("LAST SUCCESS", Fit::Whole),
        ("NEXT SYNC", Fit::Optional),
        ("ERRORS 24 H", Fit::Optional),
        ("LAST ERROR", Fit::Cut),
    ]);
    for connector in list {
        table.row([
            Cell::new(connector.status.as_str()).styled(status_style(connector.status)),
            Cell::new(&connector.kind),
            Cell::new(&connector.account_label),
            Cell::new(connector.scope.as_str()),
            Cell::new(moment(connector.last_success_at, now)),
            Cell::new(planned(connector.next_sync_at, now)),
            Cell::new(connector.error_count_24h.to_string()),
            Cell::new(connector.last_error.as_deref().unwrap_or("-")),
        ]);
    }
    (!list.is_empty()).then_some(table)
}

fn status_style(status: ConnectorStatus) -> Style {
    match status {
        ConnectorStatus::Healthy => Style::new().green(),
        ConnectorStatus::Degraded | ConnectorStatus::Stale => Style::new().yellow(),
        ConnectorStatus::Failing | ConnectorStatus::AuthRequired => Style::new().red(),
        ConnectorStatus::Paused | ConnectorStatus::Pending => Style::new().dim(),
    }
}

/// Formats the state of an MCP key, with the time and the reason of its end.
fn key_state(key: &McpKeySummary, now: Timestamp) -> Cell {
    let style = match key.state {
        ResourceState::Active => Style::new().green(),
        _ => Style::new().red(),
    };
    let status = ResourceStatus {
        state: key.state,
        ended_reason: key.ended_reason,
        ended_at: key.ended_at,
    };
    Cell::new(status_text(status, now)).styled(style)
}

fn mcp_keys(summary: &DashboardSummary, now: Timestamp) -> Option<Table> {
    let mut table = Table::new(&[
        ("NAME", Fit::Cut),
        ("CLIENT", Fit::Whole),
        ("STATE", Fit::Whole),
        ("LAST USED", Fit::Whole),
        ("ROTATES", Fit::Optional),
        ("AUDIENCE", Fit::Cut),
    ]);
    for key in &summary.mcp_keys {
        let audience: Vec<_> = key.audience.iter().map(ToString::to_string).collect();
        table.row([
            Cell::new(&key.name),
            Cell::new(key.client.as_str()),
            key_state(key, now),
            Cell::new(moment(key.last_used_at, now)),
            Cell::new(planned(key.rotates_at, now)),
            Cell::new(audience.join(", ")),
        ]);
    }
    (!summary.mcp_keys.is_empty()).then_some(table)
}

fn chats(summary: &DashboardSummary, now: Timestamp) -> Option<Table> {
    let mut table = Table::new(&[
        ("LAST MESSAGE", Fit::Whole),
        ("TITLE", Fit::Cut),
        ("SNIPPET", Fit::Cut),
    ]);
    for chat in &summary.recent_chats {
        table.row([
            Cell::new(moment(Some(chat.last_message_at), now)),
            Cell::new(&chat.title),
            Cell::new(&chat.snippet),
        ]);
    }
    (!summary.recent_chats.is_empty()).then_some(table)
}

/// Formats a time relative to now: `never`, `just now`, `5 min ago`, `in 3 h`, `2 d ago`.
pub(super) fn moment(time: Option<Timestamp>, now: Timestamp) -> String {
    let Some(time) = time else {
        return "never".to_owned();
    };
    let (before, after) = (now.since(time), time.since(now));
    let distance = rounded(before.max(after));
    match distance {
        None => "just now".to_owned(),
        Some(distance) if before > after => format!("{distance} ago"),
        Some(distance) => format!("in {distance}"),
    }
}

/// Formats the state, with the time of an end and the reason of an end or a suspension.
pub(super) fn status_text(status: ResourceStatus, now: Timestamp) -> String {
    let state = match status.ended_at {
        Some(at) => format!("{} {}", status.state, moment(Some(at), now)),
        None => status.state.to_string(),
    };
    match status.ended_reason {
        Some(reason) => format!("{state}: {reason}"),
        None => state,
    }
}

/// Formats the time of a planned event; a dash if there is none.
fn planned(time: Option<Timestamp>, now: Timestamp) -> String {
    time.map_or_else(|| "-".to_owned(), |time| moment(Some(time), now))
}

/// Rounds a duration down to its largest unit; `None` below a minute.
fn rounded(duration: Duration) -> Option<String> {
    let minutes = duration.as_secs() / 60;
    match (minutes / (24 * 60), minutes / 60, minutes) {
        (0, 0, 0) => None,
        (0, 0, minutes) => Some(format!("{minutes} min")),
        (0, hours, _) => Some(format!("{hours} h")),
        (days, _, _) => Some(format!("{days} d")),
    }
}

#[cfg(test)]
#[path = "dashboard_tests.rs"]
mod tests;
