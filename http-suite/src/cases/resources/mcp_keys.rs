//! `/v1/workspaces/{id}/mcp-keys`

use serde_json::{Value, json};

use crate::support::{
    Answer, Show, assert_rejections, dashboard, delete, error, get, own_org, post,
};

suite![
    mcp_key_is_created_rotated_and_revoked,
    mcp_key_defaults_to_other_client_and_ninety_days,
    mcp_key_reports_all_problems,
    mcp_key_cannot_exceed_access_of_its_creator,
];

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

async fn mcp_key_is_created_rotated_and_revoked() {
    let org = own_org();
    let (admin, workspace) = (
        &org.members.admin.token,
        format!("/v1/workspaces/{}", org.main.id),
    );
    let keys = format!("{workspace}/mcp-keys");
    let made = post(&keys).bearer(admin).json(&new()).await;
    insta::assert_snapshot!(made.brief(), @r#"
    201 Created

    {
      "id": "<uuid 1>", "workspaceId": "<uuid 2>", "name": "Laptop", "client": "claude_code",
      "audience": ["workspace:handbook"], "lastUsedAt": null, "rotatesAt": "<time>",
      "state": "active", "endedReason": null, "endedAt": null, "secret": "<token>"
    }
    "#);
    let key = format!("{keys}/{}", text(&made, "id"));
    let memories = format!("{workspace}/memories");
    let used = async |secret: &str| get(&memories).bearer(secret).await.status.as_u16();
    assert_eq!(used(&text(&made, "secret")).await, 200);
    let shown = get(&key).bearer(admin).await;
    insta::assert_snapshot!(shown.brief(), @r#"
    200 OK

    {
      "id": "<uuid 1>", "workspaceId": "<uuid 2>", "name": "Laptop", "client": "claude_code",
      "audience": ["workspace:handbook"], "lastUsedAt": "<time>", "rotatesAt": "<time>",
      "state": "active", "endedReason": null, "endedAt": null
    }
    "#);
    let on_dashboard = dashboard(admin, org.main.id).await.json();
    let on_dashboard = on_dashboard["mcp_keys"].as_array().unwrap().clone();
    assert!(on_dashboard.contains(&shown.json()));
    let listed = get(&keys).bearer(admin).await.json();
    assert_eq!(listed, json!({ "data": on_dashboard, "next_cursor": null }));

    let rotate = post(format!("{key}/rotate")).bearer(admin);
    let hour = json!({ "rotationSeconds": 3_600 });
    let rotated = rotate.json(&hour).await;
    assert_eq!(
        (rotated.status.as_u16(), text(&rotated, "id")),
        (200, text(&made, "id"))
    );
    assert_eq!(used(&text(&made, "secret")).await, 401);
    assert_eq!(used(&text(&rotated, "secret")).await, 200);
    let later = json!({ "rotationSeconds": 7_200 });
    let again = post(format!("{key}/rotate"))
        .bearer(admin)
        .json(&later)
        .await;
    assert!(text(&again, "rotatesAt") > text(&rotated, "rotatesAt"));

    let revoked = delete(&key).bearer(admin).await;
    assert_eq!((revoked.status.as_u16(), revoked.body.len()), (204, 0));
    assert_eq!(used(&text(&again, "secret")).await, 401);
    let gone = delete(&key).bearer(admin).await;
    insta::assert_snapshot!(error(&gone), @r#"404 not_found: there is no such MCP key {"kind":"mcp_key"}"#);
}

async fn mcp_key_defaults_to_other_client_and_ninety_days() {
    let org = own_org();
    let mut body = json!({ "name": "New", "client": "emacs", "audience": ["workspace:handbook"] });
    let create = async |body: &Value| {
        post(format!("/v1/workspaces/{}/mcp-keys", org.main.id))
            .bearer(&org.members.admin.token)
            .json(body)
            .await
    };
    let made = create(&body).await;
    assert_eq!(
        (made.status.as_u16(), text(&made, "client")),
        (201, "other".to_owned())
    );
    // The token that creates it is valid for a day.
    body["rotationSeconds"] = json!(89 * 24 * 60 * 60);
    let shorter = create(&body).await;
    assert!(text(&made, "rotatesAt") > text(&shorter, "rotatesAt"));
}

async fn mcp_key_reports_all_problems() {
    assert_rejections! { r#"
        owner POST /v1/workspaces/<main>/mcp-keys {"name": "", "client": 1, "audience": ["everybody", "org:acme", 2], "rotationSeconds": 0, "rotation": 1}
          too_small: name must have 1 to 128 characters, not only white space, and no control characters
          invalid_type: client must be a string, not a number
          invalid_value: audience[0] must be <scope>:<name>, the scope one of org, workspace, team, user, the name 1 to 64 characters of a-z 0-9 - _ .
          invalid_type: audience[2] must be a string, not a number
          invalid_value: rotationSeconds must be greater than 0 and at most 366 days
          unknown_field: rotation is unknown; known fields: name, client, audience, rotationSeconds, proposalSourceId
    "# }
}

async fn mcp_key_cannot_exceed_access_of_its_creator() {
    assert_rejections! { r#"
        admin POST /v1/workspaces/<main>/mcp-keys {"name": "Laptop", "client": "claude_code", "audience": ["user:owner"], "rotationSeconds": 86400}
          403 forbidden: cannot grant an audience that does not cover the caller: user:owner {"permission":null}
        member POST /v1/workspaces/<main>/mcp-keys {"name": "Laptop", "client": "claude_code", "audience": ["workspace:handbook"], "rotationSeconds": 86400}
          403 forbidden: missing permission mcp_key:manage {"permission":"mcp_key:manage"}
    "# }
}
