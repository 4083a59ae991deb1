//! `/v1/workspaces/{id}/mcp-keys`

use serde_json::{Value, json};

use crate::support::{Answer, Show, dashboard, delete, get, own_org, post, quiet_org};

fn new() -> Value {
    json!({
        "name": "Laptop",
        "client": "claude_code",
        "audience": ["workspace:handbook"],
        "rotationSeconds": 86_400,
    })
}

fn text(answer: &Answer, name: &str) -> String {
    answer.json()[name].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn mcp_key_is_created_rotated_and_revoked() {
    let org = own_org();
    let (admin, workspace) = (
        &org.members.admin.token,
        format!("/v1/workspaces/{}", org.main.id),
    );
    let keys = format!("{workspace}/mcp-keys");
    let made = post(&keys).bearer(admin).json(&new()).send().await;
    insta::assert_snapshot!(made.show(), @r#"
    201 Created
    cache-control: no-store
    content-length: 320
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "id": "<uuid 2>",
      "workspaceId": "<uuid 3>",
      "name": "Laptop",
      "client": "claude_code",
      "audience": [
        "workspace:handbook"
      ],
      "lastUsedAt": null,
      "rotatesAt": "<time>",
      "secret": "<token>"
    }
    "#);
    let key = format!("{keys}/{}", text(&made, "id"));
    let uses = format!("{workspace}/mcp-key-uses");
    let used = async |secret: &str| post(&uses).bearer(secret).send().await.status.as_u16();
    assert_eq!(used(&text(&made, "secret")).await, 204);
    let shown = get(&key).bearer(admin).send().await;
    insta::assert_snapshot!(shown.show(), @r#"
    200 OK
    cache-control: no-store
    content-length: 250
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "id": "<uuid 2>",
      "workspaceId": "<uuid 3>",
      "name": "Laptop",
      "client": "claude_code",
      "audience": [
        "workspace:handbook"
      ],
      "lastUsedAt": "<time>",
      "rotatesAt": "<time>"
    }
    "#);
    let on_dashboard = dashboard(admin, org.main.id).send().await.json();
    let on_dashboard = on_dashboard["mcp_keys"].as_array().unwrap().clone();
    assert!(on_dashboard.contains(&shown.json()));
    let listed = get(&keys).bearer(admin).send().await.json();
    assert_eq!(listed, json!({ "data": on_dashboard, "next_cursor": null }));

    let rotate = post(format!("{key}/rotate")).bearer(admin);
    let hour = json!({ "rotationSeconds": 3_600 });
    let rotated = rotate.json(&hour).send().await;
    assert_eq!(
        (rotated.status.as_u16(), text(&rotated, "id")),
        (200, text(&made, "id"))
    );
    assert_eq!(used(&text(&made, "secret")).await, 401);
    assert_eq!(used(&text(&rotated, "secret")).await, 204);
    let later = json!({ "rotationSeconds": 7_200 });
    let again = post(format!("{key}/rotate"))
        .bearer(admin)
        .json(&later)
        .send()
        .await;
    assert!(text(&again, "rotatesAt") > text(&rotated, "rotatesAt"));

    let revoked = delete(&key).bearer(admin).send().await;
    assert_eq!((revoked.status.as_u16(), revoked.body.len()), (204, 0));
    assert_eq!(used(&text(&again, "secret")).await, 401);
    let gone = delete(&key).bearer(admin).send().await;
    insta::assert_snapshot!(gone.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 87
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such MCP key",
      "details": {
        "kind": "mcp_key"
      }
    }
    "#);
}

#[tokio::test]
async fn mcp_key_defaults_to_other_client_and_ninety_days() {
    let org = own_org();
    let body = json!({ "name": "New", "client": "emacs", "audience": ["workspace:handbook"] });
    let made = post(format!("/v1/workspaces/{}/mcp-keys", org.main.id))
        .bearer(&org.members.admin.token)
        .json(&body)
        .send()
        .await;
    assert_eq!(
        (made.status.as_u16(), text(&made, "client")),
        (201, "other".to_owned())
    );
    assert!(!text(&made, "rotatesAt").is_empty());
}

#[tokio::test]
async fn mcp_key_reports_all_problems() {
    let org = quiet_org();
    let keys = format!("/v1/workspaces/{}/mcp-keys", org.main.id);
    let body = json!({
        "name": "", "client": 1, "audience": ["everybody", "org:acme", 2], "rotationSeconds": 0,
        "rotation": 1,
    });
    let refused = post(&keys)
        .bearer(&org.members.owner.token)
        .json(&body)
        .send()
        .await;
    insta::assert_snapshot!(refused.show(), @r#"
    400 Bad Request
    cache-control: no-store
    content-length: 881
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "invalid_request",
      "message": "the request is not valid: name must have 1 to 128 characters, not only white space, and no control characters (and 5 more)",
      "details": {
        "fields": [
          {
            "path": "name",
            "code": "too_small",
            "message": "must have 1 to 128 characters, not only white space, and no control characters"
          },
          {
            "path": "client",
            "code": "invalid_type",
            "message": "must be a string, not a number"
          },
          {
            "path": "audience[0]",
            "code": "invalid_value",
            "message": "must be <scope>:<name>, the scope one of org, workspace, team, user, the name 1 to 64 characters of a-z 0-9 - _ ."
          },
          {
            "path": "audience[2]",
            "code": "invalid_type",
            "message": "must be a string, not a number"
          },
          {
            "path": "rotationSeconds",
            "code": "invalid_value",
            "message": "must be greater than 0 and at most 366 days"
          },
          {
            "path": "rotation",
            "code": "unknown_field",
            "message": "is unknown; known fields: name, client, audience, rotationSeconds"
          }
        ]
      }
    }
    "#);
}

#[tokio::test]
async fn mcp_key_cannot_exceed_access_of_its_creator() {
    let org = quiet_org();
    let keys = format!("/v1/workspaces/{}/mcp-keys", org.main.id);
    let mut body = new();
    body["audience"] = json!(["user:owner"]);
    let refused = post(&keys)
        .bearer(&org.members.admin.token)
        .json(&body)
        .send()
        .await;
    insta::assert_snapshot!(refused.show(), @r#"
    403 Forbidden
    cache-control: no-store
    content-length: 114
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "forbidden",
      "message": "cannot grant an audience that does not cover the caller: user:owner",
      "details": {}
    }
    "#);
    let refused = post(&keys)
        .bearer(&org.members.member.token)
        .json(&new())
        .send()
        .await;
    assert_eq!(refused.status, 403);
}

#[tokio::test]
async fn mcp_key_records_its_own_use() {
    let org = quiet_org();
    let uses = |workspace| format!("/v1/workspaces/{workspace}/mcp-key-uses");
    let by_another = post(uses(org.main.id))
        .bearer(&org.members.owner.token)
        .send()
        .await;
    insta::assert_snapshot!(by_another.show(), @r#"
    404 Not Found
    cache-control: no-store
    content-length: 87
    content-type: application/json
    date: <date>
    request-id: <uuid 1>

    {
      "error": "not_found",
      "message": "there is no such MCP key",
      "details": {
        "kind": "mcp_key"
      }
    }
    "#);
    let elsewhere = post(uses(org.side.id))
        .bearer(&org.tokens.mcp_key)
        .send()
        .await;
    assert_eq!(elsewhere.status, 404);
    let body = json!({ "times": 2 });
    let with_fields = post(uses(org.main.id))
        .bearer(&org.tokens.mcp_key)
        .json(&body)
        .send()
        .await;
    assert_eq!(with_fields.status, 400);
}
