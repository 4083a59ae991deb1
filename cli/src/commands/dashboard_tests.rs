use knowledge_core::model::{
    ChatId, ChatSummary, Checklist, ChecklistTier, ConnectorId, ConnectorScope, CredentialId,
    McpClient, McpKeySummary, ResourceState, WorkspaceId, WorkspaceSummary,
};
use uuid::Uuid;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-03-14T12:00:00Z")
}

fn connector(status: ConnectorStatus, kind: &str, last_error: Option<&str>) -> ConnectorHealth {
    ConnectorHealth {
        service_account_id: ConnectorId(Uuid::nil()),
        kind: kind.to_owned(),
        account_label: format!("{kind}@acme.example"),
        scope: ConnectorScope::Workspace,
        workspace_slug: "support".to_owned(),
        status,
        last_sync: Some(at("2026-03-14T11:42:00Z")),
        last_error: last_error.map(str::to_owned),
        last_success_at: (status != ConnectorStatus::Pending).then(|| at("2026-03-14T11:42:00Z")),
        next_sync_at: Some(at("2026-03-14T14:30:00Z")),
        error_count_24h: u32::from(last_error.is_some()),
    }
}

fn step(label: &str, tier: ChecklistTier, completed: bool) -> ChecklistStep {
    ChecklistStep {
        step_id: String::new(),
        label: label.to_owned(),
        cta_label: String::new(),
        completed,
        required: tier == ChecklistTier::Required,
        tier,
        workspace_slug: "support".to_owned(),
    }
}

fn summary() -> DashboardSummary {
    DashboardSummary {
        workspace: WorkspaceSummary {
            id: WorkspaceId(Uuid::nil()),
            name: "Support".to_owned(),
            slug: "support".to_owned(),
            audience: "workspace:support".parse().unwrap(),
            last_ingest_at: Some(at("2026-03-12T11:00:00Z")),
        },
        review_backlog_count: 1_204,
        first_value_checklist: Checklist {
            required: vec![step("Connect a source", ChecklistTier::Required, true)],
            suggested: vec![step("Add a webhook", ChecklistTier::Suggested, false)],
        },
        connector_health: vec![
            connector(ConnectorStatus::Healthy, "confluence", None),
            connector(
                ConnectorStatus::AuthRequired,
                "slack",
                Some("401\ttoken revoked"),
            ),
            connector(ConnectorStatus::Pending, "gmail", None),
        ],
        mcp_keys: vec![McpKeySummary {
            id: CredentialId(Uuid::nil()),
            workspace_id: WorkspaceId(Uuid::nil()),
            name: "Laptop".to_owned(),
            client: McpClient::ClaudeCode,
            audience: vec![
                "workspace:support".parse().unwrap(),
                "org:acme".parse().unwrap(),
            ],
            proposal_source_id: None,
            last_used_at: None,
            rotates_at: Some(at("2026-06-01T00:00:00Z")),
            state: ResourceState::Active,
            ended_reason: None,
            ended_at: None,
        }],
        recent_chats: vec![ChatSummary {
            session_id: ChatId(Uuid::nil()),
            title: "Refunds".to_owned(),
            last_message_at: at("2026-03-14T11:59:40Z"),
            snippet: "Which refunds wait for a second signature?".to_owned(),
        }],
    }
}

const PLAIN: RenderOptions = RenderOptions {
    width: usize::MAX,
    has_colours: false,
};

#[test]
fn dashboard_is_drawn_in_full() {
    insta::assert_snapshot!(draw(&summary(), now(), PLAIN), @r#"
    Support  support · workspace:support
    1,204 memories to review · last ingest 2 d ago

    First steps
      ✓ Connect a source
      ○ Add a webhook  (suggested)

    Connectors
      STATUS         KIND        ACCOUNT                  SCOPE      LAST SUCCESS  NEXT SYNC  ERRORS 24 H  LAST ERROR
      healthy        confluence  confluence@acme.example  workspace  18 min ago    in 2 h     0            -
      auth_required  slack       slack@acme.example       workspace  18 min ago    in 2 h     1            401 token revoked
      pending        gmail       gmail@acme.example       workspace  never         in 2 h     0            -

    MCP keys
      NAME    CLIENT       STATE   LAST USED  ROTATES  AUDIENCE
      Laptop  claude_code  active  never      in 78 d  workspace:support, org:acme

    Recent chats
      LAST MESSAGE  TITLE    SNIPPET
      just now      Refunds  Which refunds wait for a second signature?
    "#);
}

#[test]
fn dashboard_of_empty_workspace_omits_sections() {
    let empty = DashboardSummary {
        review_backlog_count: 1,
        first_value_checklist: Checklist {
            required: Vec::new(),
            suggested: Vec::new(),
        },
        connector_health: Vec::new(),
        mcp_keys: Vec::new(),
        recent_chats: Vec::new(),
        workspace: WorkspaceSummary {
            last_ingest_at: None,
            ..summary().workspace
        },
    };
    insta::assert_snapshot!(draw(&empty, now(), PLAIN), @r#"
    Support  support · workspace:support
    1 memory to review · last ingest never

    First steps

    Connectors
      none

    MCP keys
      none

    Recent chats
      none
    "#);
}

#[test]
fn dashboard_lines_fit_the_terminal() {
    for width in [20, 40, 80, 120] {
        for has_colours in [false, true] {
            let options = RenderOptions { width, has_colours };
            for line in draw(&summary(), now(), options).lines() {
                assert!(
                    console::measure_text_width(line) <= width,
                    "{width}: {line}"
                );
            }
        }
    }
}

#[test]
fn dashboard_is_coloured_on_request_only() {
    let coloured = draw(
        &summary(),
        now(),
        RenderOptions {
            width: 200,
            has_colours: true,
        },
    );
    assert!(coloured.contains("\u{1b}[32mhealthy"), "{coloured}");
    assert!(coloured.contains("\u{1b}[31mauth_required"), "{coloured}");
    assert!(!draw(&summary(), now(), PLAIN).contains('\u{1b}'));
}

#[test]
fn dashboard_times_are_relative_to_now() {
    for (time, expected) in [
        ("2026-03-14T12:00:00Z", "just now"),
        ("2026-03-14T11:59:01Z", "just now"),
        ("2026-03-14T11:01:00Z", "59 min ago"),
        ("2026-03-13T12:01:00Z", "23 h ago"),
        ("2026-03-12T12:00:00Z", "2 d ago"),
        ("2026-03-14T15:00:00Z", "in 3 h"),
    ] {
        assert_eq!(moment(Some(at(time)), now()), expected);
    }
    assert_eq!(moment(None, now()), "never");
}
