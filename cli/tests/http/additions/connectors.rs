//! `/v1/workspaces/{id}/connectors`

use serde_json::{Value, json};

use crate::support::{Call, Show, delete, get, own_org, patch, post, quiet_org};

fn new() -> Value {
    json!({
        "kind": "confluence",
        "account_label": "wiki@acme",
        "scope": "workspace",
        "sync_interval_seconds": 3_600,
    })
}

#[tokio::test]
async fn connector_is_created_updated_and_deleted() {
    let org = own_org();
    let token = &org.members.admin.token;
    let connectors = format!("/v1/workspaces/{}/connectors", org.empty.id);
    let made = post(&connectors).bearer(token).json(&new()).send().await;
    insta::assert_snapshot!(made.show(), @r#"
    201 Created
    cache-control: no-store
    content-length: 371
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "id": "<uuid 2>",
      "workspace_id": "<uuid 3>",
      "kind": "confluence",
      "account_label": "wiki@acme",
      "scope": "workspace",
      "sync_interval_seconds": 3600,
      "is_paused": false,
      "created_at": "<time>",
      "status": "pending",
      "last_sync": null,
      "last_error": null,
      "last_success_at": null,
      "next_sync_at": null,
      "error_count_24h": 0
    }
    "#);
    let connector = format!("{connectors}/{}", made.json()["id"].as_str().unwrap());
    let read = async || get(&connector).bearer(token).send().await;
    assert_eq!(
        (read().await.status.as_u16(), read().await.json()),
        (200, made.json())
    );

    let changes = json!({ "account_label": "other@acme", "is_paused": true });
    let changed = patch(&connector).bearer(token).json(&changes).send().await;
    assert_eq!(changed.status, 200);
    let shown = changed.json();
    assert_eq!(shown["status"], "paused");
    assert_eq!(shown["account_label"], "other@acme");
    assert_eq!(read().await.json(), shown);
    let nothing = patch(&connector).bearer(token).send().await;
    assert_eq!((nothing.status.as_u16(), nothing.json()), (200, shown));

    let ended = delete(&connector).bearer(token).send().await;
    insta::assert_snapshot!(ended.show(), @"
    204 No Content
    date: <date>
    request-id: <uuid 1>
    ");
    let again = delete(&connector).bearer(token).send().await;
    insta::assert_snapshot!(again.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 91
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such connector",
      "details": {
        "kind": "connector"
      }
    }
    "#);
}

#[tokio::test]
async fn connector_status_follows_reports() {
    let org = own_org();
    let token = &org.members.member.token;
    let connectors = format!("/v1/workspaces/{}/connectors", org.empty.id);
    let made = post(&connectors)
        .bearer(&org.members.admin.token)
        .json(&new())
        .send()
        .await;
    let connector = format!("{connectors}/{}", made.json()["id"].as_str().unwrap());
    let report = async |body: Value| {
        let reports = format!("{connector}/sync-reports");
        let answer = post(reports).bearer(token).json(&body).send().await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
        get(&connector).bearer(token).send().await.json()
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

#[tokio::test]
async fn connectors_are_listed_in_pages() {
    let org = quiet_org();
    let list = |query: &str| {
        get(format!("/v1/workspaces/{}/connectors{query}", org.main.id))
            .bearer(&org.members.viewer.token)
    };
    let first = list("?limit=1").send().await;
    insta::assert_snapshot!(first.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 464
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "data": [
        {
          "id": "<uuid 2>",
          "workspace_id": "<uuid 3>",
          "kind": "confluence",
          "account_label": "pending@example.com",
          "scope": "workspace",
          "sync_interval_seconds": 86400,
          "is_paused": false,
          "created_at": "<time>",
          "status": "pending",
          "last_sync": null,
          "last_error": null,
          "last_success_at": null,
          "next_sync_at": null,
          "error_count_24h": 0
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
                page = list(&format!("?limit=1&cursor={cursor}"))
                    .send()
                    .await
                    .json();
            }
            None => break,
        }
    }
    let all = list("").send().await.json();
    let all: Vec<_> = all["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["id"].clone())
        .collect();
    assert_eq!((ids.len(), &ids), (org.connectors.len(), &all));
    let wrong = list("?limit=0&cursor=x&order=name").send().await;
    insta::assert_snapshot!(wrong.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 434
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: cursor must be an unmodified next_cursor of this list (and 2 more)",
      "details": {
        "fields": [
          {
            "path": "cursor",
            "code": "invalid_value",
            "message": "must be an unmodified next_cursor of this list"
          },
          {
            "path": "limit",
            "code": "invalid_value",
            "message": "must be a number from 1 to 200"
          },
          {
            "path": "order",
            "code": "unknown_field",
            "message": "is unknown; known parameters: limit, cursor"
          }
        ]
      }
    }
    "#);
}

#[tokio::test]
async fn connector_reports_all_problems() {
    let org = quiet_org();
    let connectors = format!("/v1/workspaces/{}/connectors", org.main.id);
    let connector = format!("{connectors}/{}", org.connectors[0]);
    let wrong = async |call: Call, body: Value| {
        let answer = call
            .bearer(&org.members.owner.token)
            .json(&body)
            .send()
            .await;
        assert_eq!(answer.status, 400, "{body}");
        let fields = answer.json()["details"]["fields"].clone();
        let fields = fields.as_array().unwrap().clone();
        let text = |field: &Value, name: &str| field[name].as_str().unwrap().to_owned();
        let problems = fields
            .iter()
            .map(|field| format!("{} {}", text(field, "path"), text(field, "code")));
        problems.collect::<Vec<_>>()
    };
    let body =
        json!({ "kind": "", "scope": "mine", "sync_interval_seconds": 59, "is_paused": true });
    assert_eq!(
        wrong(post(&connectors), body).await,
        [
            "kind too_small",
            "account_label required",
            "scope invalid_value",
            "sync_interval_seconds invalid_value",
            "is_paused unknown_field",
        ]
    );
    let body = json!({ "sync_interval_seconds": -1, "kind": "other" });
    assert_eq!(
        wrong(patch(&connector), body).await,
        ["sync_interval_seconds invalid_type", "kind unknown_field"]
    );
    let reports = || post(format!("{connector}/sync-reports"));
    assert_eq!(wrong(reports(), json!({})).await, ["outcome required"]);
    assert_eq!(
        wrong(reports(), json!({ "outcome": "failure" })).await,
        ["error required"]
    );
    let body = json!({ "outcome": "success", "error": "none", "next_sync_at": "soon" });
    assert_eq!(
        wrong(reports(), body).await,
        ["next_sync_at invalid_value", "error invalid_value"]
    );
}

#[tokio::test]
async fn connectors_are_reported_and_read_but_not_managed_by_members() {
    let org = quiet_org();
    let connectors = format!("/v1/workspaces/{}/connectors", org.main.id);
    let connector = format!("{connectors}/{}", org.connectors[0]);
    let token = &org.members.member.token;
    for call in [
        post(&connectors).json(&new()),
        patch(&connector).json(&json!({})),
        delete(&connector),
    ] {
        let answer = call.bearer(token).send().await;
        assert_eq!(answer.status, 403);
        assert_eq!(
            answer.json()["message"],
            "missing permission connector:manage"
        );
    }
    let reports = format!("{connector}/sync-reports");
    let report = json!({ "outcome": "success" });
    let viewer = &org.members.viewer.token;
    let answer = post(reports).bearer(viewer).json(&report).send().await;
    assert_eq!(answer.status, 403);
    assert_eq!(get(&connector).bearer(viewer).send().await.status, 200);
}
