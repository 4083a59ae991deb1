//! `/v1/workspaces/{id}/connectors`

use serde_json::{Value, json};

use crate::support::{
    Show, assert_rejections, delete, error, get, own_org, patch, post, problems, quiet_org,
};

suite![
    connector_is_created_updated_and_deleted,
    connector_status_follows_reports,
    connectors_are_listed_in_pages,
    connector_reports_all_problems,
    connectors_are_reported_and_read_but_not_managed_by_members,
];

fn new() -> Value {
    json!({
        "kind": "confluence",
        "account_label": "wiki@acme",
        "scope": "workspace",
        "sync_interval_seconds": 3_600,
    })
}

async fn connector_is_created_updated_and_deleted() {
    let org = own_org();
    let token = &org.members.admin.token;
    let connectors = format!("/v1/workspaces/{}/connectors", org.empty.id);
    let made = post(&connectors).bearer(token).json(&new()).await;
    insta::assert_snapshot!(made.brief(), @r#"
    201 Created

    {
      "id": "<uuid 1>", "workspace_id": "<uuid 2>", "kind": "confluence",
      "account_label": "wiki@acme", "scope": "workspace", "sync_interval_seconds": 3600,
      "is_paused": false, "created_at": "<time>", "status": "pending", "last_sync": null,
      "last_error": null, "last_success_at": null, "next_sync_at": null, "error_count_24h": 0
    }
    "#);
    let connector = format!("{connectors}/{}", made.json()["id"].as_str().unwrap());
    let read = async || get(&connector).bearer(token).await;
    assert_eq!(
        (read().await.status.as_u16(), read().await.json()),
        (200, made.json())
    );

    let changes = json!({ "account_label": "other@acme", "is_paused": true });
    let changed = patch(&connector).bearer(token).json(&changes).await;
    assert_eq!(changed.status, 200);
    let shown = changed.json();
    assert_eq!(shown["status"], "paused");
    assert_eq!(shown["account_label"], "other@acme");
    assert_eq!(read().await.json(), shown);
    let nothing = patch(&connector).bearer(token).await;
    assert_eq!((nothing.status.as_u16(), nothing.json()), (200, shown));

    let ended = delete(&connector).bearer(token).await;
    insta::assert_snapshot!(ended.brief(), @"
    204 No Content
    ");
    let again = delete(&connector).bearer(token).await;
    insta::assert_snapshot!(error(&again), @r#"404 not_found: there is no such connector {"kind":"connector"}"#);
}

async fn connector_status_follows_reports() {
    let org = own_org();
    let token = &org.members.member.token;
    let connectors = format!("/v1/workspaces/{}/connectors", org.empty.id);
    let made = post(&connectors)
        .bearer(&org.members.admin.token)
        .json(&new())
        .await;
    let connector = format!("{connectors}/{}", made.json()["id"].as_str().unwrap());
    let report = async |body: Value| {
        let reports = format!("{connector}/sync-reports");
        let answer = post(reports).bearer(token).json(&body).await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
        get(&connector).bearer(token).await.json()
    };
    let next = "2030-01-31T09:30:00.000Z";
    let well = report(json!({ "outcome": "success", "next_sync_at": next })).await;
    assert_eq!(
        (&well["status"], &well["next_sync_at"]),
        (&json!("healthy"), &json!(next))
    );
    let failed = report(json!({ "outcome": "failure", "error": "no answer" })).await;
    assert_eq!(
        (&failed["status"], &failed["last_error"]),
        (&json!("degraded"), &json!("no answer"))
    );
    let refused = json!({ "outcome": "failure", "error": "no", "is_authentication": true });
    assert_eq!(report(refused).await["status"], "auth_required");
    let failure = json!({ "outcome": "failure", "error": "no answer" });
    let failing = report(failure).await;
    assert_eq!(
        (&failing["status"], &failing["error_count_24h"]),
        (&json!("failing"), &json!(3))
    );
}

async fn connectors_are_listed_in_pages() {
    let org = quiet_org();
    let list = |query: &str| {
        get(format!("/v1/workspaces/{}/connectors{query}", org.main.id))
            .bearer(&org.members.viewer.token)
    };
    let first = list("?limit=1").await;
    insta::assert_snapshot!(first.brief(), @r#"
    200 OK

    {
      "data": [
        {
          "id": "<uuid 1>", "workspace_id": "<uuid 2>", "kind": "confluence",
          "account_label": "pending@example.com", "scope": "workspace",
          "sync_interval_seconds": 86400, "is_paused": false, "created_at": "<time>",
          "status": "pending", "last_sync": null, "last_error": null, "last_success_at": null,
          "next_sync_at": null, "error_count_24h": 0
        }
      ],
      "next_cursor": "<cursor>"
    }
    "#);
    let mut ids = Vec::new();
    let mut page = first.json();
    loop {
        ids.push(page["data"][0]["id"].clone());
        match page["next_cursor"].as_str() {
            Some(cursor) => {
                page = list(&format!("?limit=1&cursor={cursor}")).await.json();
            }
            None => break,
        }
    }
    let all = list("").await.json();
    let all: Vec<_> = all["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["id"].clone())
        .collect();
    assert_eq!((ids.len(), &ids), (org.connectors.len(), &all));
    let wrong = list("?limit=0&cursor=x&order=name").await;
    insta::assert_snapshot!(problems(&wrong), @"
    invalid_value: cursor must be an unmodified next_cursor of this list
    invalid_value: limit must be a number from 1 to 200
    unknown_field: order is unknown; known parameters: limit, cursor
    ");
}

async fn connector_reports_all_problems() {
    assert_rejections! { r#"
        owner POST /v1/workspaces/<main>/connectors {"kind": "", "scope": "mine", "sync_interval_seconds": 59, "is_paused": true}
          too_small: kind must have 1 to 128 characters, not only white space, and no control characters
          required: account_label is required
          invalid_value: scope must be one of personal, workspace, organization
          invalid_value: sync_interval_seconds must be between one minute and 31 days
          unknown_field: is_paused is unknown; known fields: kind, account_label, scope, sync_interval_seconds
        owner PATCH /v1/workspaces/<main>/connectors/<connector> {"sync_interval_seconds": -1, "kind": "other"}
          invalid_type: sync_interval_seconds must be a whole number that is not negative
          unknown_field: kind is unknown; known fields: account_label, scope, sync_interval_seconds, is_paused
        owner POST /v1/workspaces/<main>/connectors/<connector>/sync-reports {}
          required: outcome is required
        owner POST /v1/workspaces/<main>/connectors/<connector>/sync-reports {"outcome": "failure"}
          required: error is required
        owner POST /v1/workspaces/<main>/connectors/<connector>/sync-reports {"outcome": "success", "error": "none", "next_sync_at": "soon"}
          invalid_value: next_sync_at must be an RFC 3339 timestamp, for example <time>
          invalid_value: error must be omitted for a success
    "# }
}

async fn connectors_are_reported_and_read_but_not_managed_by_members() {
    assert_rejections! { r#"
        member POST /v1/workspaces/<main>/connectors {"kind": "confluence", "account_label": "wiki@acme", "scope": "workspace", "sync_interval_seconds": 3600}
        member PATCH /v1/workspaces/<main>/connectors/<connector> {}
        member DELETE /v1/workspaces/<main>/connectors/<connector>
          403 forbidden: missing permission connector:manage {"permission":"connector:manage"}
        viewer POST /v1/workspaces/<main>/connectors/<connector>/sync-reports {"outcome": "success"}
          403 forbidden: missing permission connector:report {"permission":"connector:report"}
    "# }
    let org = quiet_org();
    let connector = format!(
        "/v1/workspaces/{}/connectors/{}",
        org.main.id, org.connectors[0]
    );
    let read = get(connector).bearer(&org.members.viewer.token).await;
    assert_eq!(read.status, 200);
}
