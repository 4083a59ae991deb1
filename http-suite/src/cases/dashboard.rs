//! `GET /v1/workspaces/{id}/dashboard-summary`

use http::Method;
use knowledge_testing::fixture::OrgFixture;
use serde_json::json;
use uuid::Uuid;

use crate::support::{
    Call, Show, assert_rejections, bulk, create_webhook, dashboard, own_org, quiet_org,
};

suite![
    dashboard_shows_full_workspace,
    dashboard_shows_empty_workspace,
    dashboard_shows_changes,
    dashboard_head_is_get_without_body,
    dashboard_rejects_unauthenticated_caller,
    dashboard_requires_permission,
    dashboard_of_unknown_workspace_is_not_found,
    dashboard_treats_dot_segment_as_identifier,
];

pub(crate) fn main_dashboard(org: &OrgFixture) -> Call {
    dashboard(&org.members.viewer.token, org.main.id)
}

async fn dashboard_shows_full_workspace() {
    let org = quiet_org();
    let answer = main_dashboard(org).await;
    insta::assert_snapshot!(answer.show(), @r#"
    200 OK
    cache-control: private, no-cache
    content-length: 4080
    content-type: application/json
    date: <date>
    etag: W/"<etag 1>"
    request-id: <uuid 1>

    {
      "workspace": {
        "id": "<uuid 2>", "name": "Handbook", "slug": "handbook", "audience": "workspace:handbook",
        "last_ingest_at": "<time>"
      },
      "review_backlog_count": 80,
      "first_value_checklist": {
        "required": [
          {
            "step_id": "connect_source", "label": "Connect a source", "cta_label": "Connect",
            "completed": true, "required": true, "tier": "required", "workspace_slug": "handbook"
          },
          {
            "step_id": "ingest_first_memory", "label": "Bring in the first memory",
            "cta_label": "Import", "completed": true, "required": true, "tier": "required",
            "workspace_slug": "handbook"
          },
          {
            "step_id": "create_mcp_key", "label": "Create an MCP key", "cta_label": "Create key",
            "completed": true, "required": true, "tier": "required", "workspace_slug": "handbook"
          }
        ],
        "suggested": [
          {
            "step_id": "invite_teammate", "label": "Invite a teammate", "cta_label": "Invite",
            "completed": true, "required": false, "tier": "suggested", "workspace_slug": "handbook"
          },
          {
            "step_id": "ask_first_question", "label": "Ask the first question", "cta_label": "Ask",
            "completed": true, "required": false, "tier": "suggested", "workspace_slug": "handbook"
          },
          {
            "step_id": "add_webhook", "label": "Add a webhook", "cta_label": "Add webhook",
            "completed": false, "required": false, "tier": "suggested", "workspace_slug": "handbook"
          },
          {
            "step_id": "clear_review_backlog", "label": "Clear the review backlog",
            "cta_label": "Review", "completed": false, "required": false, "tier": "suggested",
            "workspace_slug": "handbook"
          }
        ]
      },
      "connector_health": [
        {
          "service_account_id": "<uuid 3>", "kind": "confluence",
          "account_label": "pending@example.com", "scope": "workspace", "workspace_slug": "handbook",
          "status": "pending", "last_sync": null, "last_error": null, "last_success_at": null,
          "next_sync_at": null, "error_count_24h": 0
        },
        {
          "service_account_id": "<uuid 4>", "kind": "confluence",
          "account_label": "healthy@example.com", "scope": "workspace", "workspace_slug": "handbook",
          "status": "healthy", "last_sync": "<time>", "last_error": null,
          "last_success_at": "<time>", "next_sync_at": "<time>", "error_count_24h": 0
        },
        {
          "service_account_id": "<uuid 5>", "kind": "confluence",
          "account_label": "degraded@example.com", "scope": "workspace",
          "workspace_slug": "handbook", "status": "degraded", "last_sync": "<time>",
          "last_error": null, "last_success_at": "<time>", "next_sync_at": "<time>",
          "error_count_24h": 1
        },
        {
          "service_account_id": "<uuid 6>", "kind": "confluence",
          "account_label": "failing@example.com", "scope": "workspace", "workspace_slug": "handbook",
          "status": "failing", "last_sync": "<time>", "last_error": "the other end refused",
          "last_success_at": null, "next_sync_at": "<time>", "error_count_24h": 3
        },
        {
          "service_account_id": "<uuid 7>", "kind": "confluence",
          "account_label": "auth_required@example.com", "scope": "workspace",
          "workspace_slug": "handbook", "status": "auth_required", "last_sync": "<time>",
          "last_error": "the other end refused", "last_success_at": null, "next_sync_at": "<time>",
          "error_count_24h": 1
        },
        {
          "service_account_id": "<uuid 8>", "kind": "confluence",
          "account_label": "paused@example.com", "scope": "workspace", "workspace_slug": "handbook",
          "status": "paused", "last_sync": "<time>", "last_error": null, "last_success_at": "<time>",
          "next_sync_at": "<time>", "error_count_24h": 0
        }
      ],
      "mcp_keys": [
        {
          "id": "<uuid 9>", "workspaceId": "<uuid 2>", "name": "Laptop", "client": "claude_code",
          "audience": ["org:<org>", "workspace:handbook"], "lastUsedAt": null, "rotatesAt": "<time>",
          "state": "active", "endedReason": null, "endedAt": null
        }
      ],
      "recent_chats": [
        {
          "session_id": "<uuid 10>", "title": "Leave", "last_message_at": "<time>",
          "snippet": "Who approves leave?"
        },
        {
          "session_id": "<uuid 11>", "title": "Keys", "last_message_at": "<time>",
          "snippet": "How do we rotate keys?"
        }
      ]
    }
    "#);
    let summary = answer.json();
    assert_eq!(summary["workspace"]["id"], json!(org.main.id));
    assert_eq!(summary["mcp_keys"][0]["id"], json!(org.mcp_key_id));
    for (shown, id) in summary["connector_health"]
        .as_array()
        .unwrap()
        .iter()
        .zip(&org.connectors)
    {
        assert_eq!(shown["service_account_id"], json!(id));
    }
    let newest_first = org.chats.iter().rev();
    for (shown, id) in summary["recent_chats"]
        .as_array()
        .unwrap()
        .iter()
        .zip(newest_first)
    {
        assert_eq!(shown["session_id"], json!(id));
    }
}

async fn dashboard_shows_empty_workspace() {
    let org = quiet_org();
    let answer = dashboard(&org.members.viewer.token, org.empty.id).await;
    insta::assert_snapshot!(answer.show(), @r#"
    200 OK
    cache-control: private, no-cache
    content-length: 1399
    content-type: application/json
    date: <date>
    etag: W/"<etag 1>"
    request-id: <uuid 1>

    {
      "workspace": {
        "id": "<uuid 2>", "name": "Empty", "slug": "empty", "audience": "workspace:empty",
        "last_ingest_at": null
      },
      "review_backlog_count": 0,
      "first_value_checklist": {
        "required": [
          {
            "step_id": "connect_source", "label": "Connect a source", "cta_label": "Connect",
            "completed": false, "required": true, "tier": "required", "workspace_slug": "empty"
          },
          {
            "step_id": "ingest_first_memory", "label": "Bring in the first memory",
            "cta_label": "Import", "completed": false, "required": true, "tier": "required",
            "workspace_slug": "empty"
          },
          {
            "step_id": "create_mcp_key", "label": "Create an MCP key", "cta_label": "Create key",
            "completed": false, "required": true, "tier": "required", "workspace_slug": "empty"
          }
        ],
        "suggested": [
          {
            "step_id": "invite_teammate", "label": "Invite a teammate", "cta_label": "Invite",
            "completed": true, "required": false, "tier": "suggested", "workspace_slug": "empty"
          },
          {
            "step_id": "ask_first_question", "label": "Ask the first question", "cta_label": "Ask",
            "completed": false, "required": false, "tier": "suggested", "workspace_slug": "empty"
          },
          {
            "step_id": "add_webhook", "label": "Add a webhook", "cta_label": "Add webhook",
            "completed": false, "required": false, "tier": "suggested", "workspace_slug": "empty"
          },
          {
            "step_id": "clear_review_backlog", "label": "Clear the review backlog",
            "cta_label": "Review", "completed": false, "required": false, "tier": "suggested",
            "workspace_slug": "empty"
          }
        ]
      },
      "connector_health": [], "mcp_keys": [], "recent_chats": []
    }
    "#);
}

async fn dashboard_shows_changes() {
    let org = own_org();
    let step = async |step_id: &str| {
        let summary = main_dashboard(org).await.json();
        let steps = summary["first_value_checklist"]["suggested"]
            .as_array()
            .unwrap()
            .clone();
        let step = steps
            .iter()
            .find(|step| step["step_id"] == step_id)
            .unwrap()
            .clone();
        (
            step["completed"].as_bool().unwrap(),
            summary["review_backlog_count"].as_u64().unwrap(),
        )
    };
    assert_eq!(step("add_webhook").await, (false, 80));
    let webhook = json!({ "event_type": "webhook.ping", "url": "https://example.com" });
    let created = create_webhook(&org.members.admin.token, org.main.id, &webhook).await;
    assert_eq!(created.status, 201);
    assert_eq!(step("add_webhook").await, (true, 80));

    let memories = &org.main.memories;
    let all = [
        &memories.internal,
        &memories.confidential,
        &memories.restricted,
        &memories.private,
    ];
    let all: Vec<_> = all.into_iter().flatten().collect();
    let approve = json!({ "memoryIds": all, "reviewStatus": "approved" });
    assert_eq!(bulk(&org.members.owner.token, &approve).await.status, 200);
    assert_eq!(step("clear_review_backlog").await, (true, 0));
}

async fn dashboard_head_is_get_without_body() {
    let org = quiet_org();
    let get = main_dashboard(org).await;
    let head = main_dashboard(org).method(Method::HEAD).await;
    insta::assert_snapshot!(head.show(), @r#"
    200 OK
    cache-control: private, no-cache
    content-length: 4080
    content-type: application/json
    date: <date>
    etag: W/"<etag 1>"
    request-id: <uuid 1>
    "#);
    assert_eq!(head.header("etag"), get.header("etag"));
    assert_eq!(head.header("content-length"), get.body.len().to_string());
}

async fn dashboard_rejects_unauthenticated_caller() {
    assert_rejections! { r#"
        nobody GET /v1/workspaces/<main>/dashboard-summary
          401 unauthenticated in headers: an access token is required; send Authorization: Bearer wkt_... [www-authenticate: Bearer realm="knowledge"]
    "# }
}

async fn dashboard_requires_permission() {
    assert_rejections! { "
        side_only GET /v1/workspaces/<main>/dashboard-summary
          404 not_found in headers: there is no such workspace
        mcp_key GET /v1/workspaces/<main>/dashboard-summary
          403 forbidden in headers: missing permission dashboard:read
    " }
    let org = quiet_org();
    for token in [&org.tokens.reading_only, &org.members.guest.token] {
        assert_eq!(dashboard(token, org.main.id).await.status, 200);
    }
}

async fn dashboard_of_unknown_workspace_is_not_found() {
    assert_rejections! { "
        viewer GET /v1/workspaces/<max>/dashboard-summary
        viewer GET /v1/workspaces/handbook/dashboard-summary
        viewer GET /v1/workspaces/0/dashboard-summary
        viewer GET /v1/workspaces/%00/dashboard-summary
        viewer GET /v1/workspaces/<nil>/dashboard-summary
          404 not_found in headers: there is no such workspace
    " }
}

async fn dashboard_treats_dot_segment_as_identifier() {
    let get = async |id: &str| {
        let path = format!("/v1/workspaces/{id}/dashboard-summary");
        let call = Call::new(Method::GET, path).bearer(&quiet_org().members.viewer.token);
        call.await.show()
    };
    assert_eq!(get("%2e%2e").await, get(&Uuid::max().to_string()).await);
}
