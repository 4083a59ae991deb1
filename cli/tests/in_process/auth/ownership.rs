//! Tests of what members create with a session: it belongs to them, and ends with it on request.

use http::Method;
use serde_json::{Value, json};

use super::{Member, server, sign_in};
use crate::support::{Answer, Call, InProcess};

/// Creates something in the main workspace with a bearer token.
async fn create(server: &InProcess, token: &str, path: &str, body: &Value) -> Value {
    let path = format!("/v1/workspaces/{}/{path}", server.org().main.id);
    let call = Call::new(Method::POST, &path).bearer(token).json(body);
    let made = call.send_to(&server.base_url).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.json()
}

async fn create_key(server: &InProcess, member: &Member) -> Value {
    let new = json!({ "name": "Laptop", "client": "cursor", "audience": ["workspace:handbook"] });
    let token = member.token(server).await;
    create(server, &token, "mcp-keys", &new).await
}

async fn create_webhook(server: &InProcess, member: &Member) -> Value {
    let new = json!({ "event_type": "chunk.created", "url": "https://example.com/hook" });
    let token = member.token(server).await;
    create(server, &token, "webhooks", &new).await
}

/// Reads something of the main workspace with a bearer token.
async fn read(server: &InProcess, token: &str, path: &str) -> Answer {
    let path = format!("/v1/workspaces/{}/{path}", server.org().main.id);
    let call = Call::new(Method::GET, &path).bearer(token);
    call.send_to(&server.base_url).await
}

fn text(record: &Value, name: &str) -> String {
    record[name].as_str().expect("a text").to_owned()
}

/// Returns the path of the credential of a session.
fn own(member: &Member) -> String {
    let session = text(&member.login.json()["session"], "id");
    format!("/auth/credentials/{session}")
}

#[tokio::test]
async fn creations_outlive_a_logout() {
    let server = server().await;
    let member = sign_in(&server, server.org().members.admin.id).await;
    let (key, webhook) = (
        create_key(&server, &member).await,
        create_webhook(&server, &member).await,
    );
    let logout = member.send(&server, Method::POST, "/auth/logout").await;
    assert_eq!(logout.status, 204);
    let memories = read(&server, &text(&key, "secret"), "memories").await;
    assert_eq!(memories.status, 200, "{memories:?}");
    let path = format!("webhooks/{}", text(&webhook, "id"));
    let token = &server.org().members.owner.token;
    let shown = read(&server, token, &path).await.json();
    assert_eq!(shown["state"], "unconfirmed");
    assert_eq!(shown["is_active"], true);
}

#[tokio::test]
async fn creations_are_listed_and_end_on_request() {
    let server = server().await;
    let member = sign_in(&server, server.org().members.admin.id).await;
    let (key, webhook) = (
        create_key(&server, &member).await,
        create_webhook(&server, &member).await,
    );
    let created = format!("{}/created", own(&member));
    let listed = member.send(&server, Method::GET, &created).await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let mut kinds: Vec<Value> = Vec::new();
    for created in listed.json()["data"].as_array().expect("a list") {
        kinds.push(created["kind"].clone());
    }
    kinds.sort_unstable_by_key(ToString::to_string);
    assert_eq!(kinds, [json!("mcp_key"), json!("webhook")]);

    let logout = "/auth/logout?with_created=maybe";
    let wrong = member.send(&server, Method::POST, logout).await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
    let logout = "/auth/logout?with_created=true";
    let logout = member.send(&server, Method::POST, logout).await;
    assert_eq!(logout.status, 204, "{logout:?}");
    let memories = read(&server, &text(&key, "secret"), "memories").await;
    assert_eq!(memories.status, 401, "{memories:?}");

    let token = &server.org().members.owner.token;
    let path = format!("webhooks/{}", text(&webhook, "id"));
    let shown = read(&server, token, &path).await.json();
    assert_eq!(shown["is_active"], false);
    assert_eq!(shown["state"], "ended");
    assert_eq!(shown["ended_reason"], "ended_with_credential");
    assert!(shown["ended_at"].is_string(), "{shown}");
    let path = format!("mcp-keys/{}", text(&key, "id"));
    let shown = read(&server, token, &path).await.json();
    assert_eq!(shown["state"], "ended");
    let dashboard = read(&server, token, "dashboard-summary").await.json();
    let keys = dashboard["mcp_keys"].as_array().expect("a list");
    assert!(keys.contains(&shown), "{dashboard}");
}

#[tokio::test]
async fn other_session_ends_with_what_it_created() {
    let server = server().await;
    let admin = server.org().members.admin.id;
    let (lost, member) = (sign_in(&server, admin).await, sign_in(&server, admin).await);
    let key = create_key(&server, &lost).await;
    let path = format!("{}?with_created=true", own(&lost));
    let ended = member.send(&server, Method::DELETE, &path).await;
    assert_eq!(ended.status, 204, "{ended:?}");
    let memories = read(&server, &text(&key, "secret"), "memories").await;
    assert_eq!(memories.status, 401, "{memories:?}");
}

#[tokio::test]
async fn creations_of_a_token_end_with_its_session_on_request() {
    let server = server().await;
    let org = server.org();
    let member = sign_in(&server, org.members.admin.id).await;
    let tokens = format!(
        "/v1/orgs/{}/members/{}/tokens",
        org.slug, org.members.admin.id
    );
    let made = member.call(Method::POST, &tokens);
    let made = made.json(&json!({ "name": "Script" }));
    let made = made.send_to(&server.base_url).await;
    assert_eq!(made.status, 201, "{made:?}");
    let token = text(&made.json()["data"], "secret");
    let new = json!({ "name": "Laptop", "client": "cursor", "audience": ["workspace:handbook"] });
    let key = create(&server, &token, "mcp-keys", &new).await;
    let secret = text(&key, "secret");
    assert_eq!(read(&server, &secret, "memories").await.status, 200);
    let created = format!("{}/created", own(&member));
    let listed = member.send(&server, Method::GET, &created).await.json();
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(2), "{listed}");
    let logout = "/auth/logout?with_created=true";
    let logout = member.send(&server, Method::POST, logout).await;
    assert_eq!(logout.status, 204, "{logout:?}");
    for ended in [token, secret] {
        assert_eq!(read(&server, &ended, "memories").await.status, 401);
    }
}

#[tokio::test]
async fn creations_of_a_service_account_are_listed_for_its_manager() {
    let server = server().await;
    let org = server.org();
    let owner = sign_in(&server, org.members.owner.id).await;
    let robot = format!("/v1/orgs/{}/members/{}", org.slug, org.members.robot.id);
    let changed = owner.call(Method::PATCH, &robot);
    let changed = changed.json(&json!({ "role": "admin" }));
    let changed = changed.send_to(&server.base_url).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let made = owner.call(Method::POST, &format!("{robot}/tokens"));
    let made = made.json(&json!({ "name": "Script" }));
    let made = made.send_to(&server.base_url).await;
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json()["data"].clone();
    let new = json!({ "name": "Agent", "client": "cursor", "audience": ["workspace:handbook"] });
    let key = create(&server, &text(&made, "secret"), "mcp-keys", &new).await;

    let created = format!("/auth/credentials/{}/created", text(&made, "id"));
    let listed = owner.send(&server, Method::GET, &created).await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let listed = listed.json()["data"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed[0]["kind"], "mcp_key");
    assert_eq!(listed[0]["id"], key["id"]);
    let viewer = sign_in(&server, org.members.viewer.id).await;
    let refused = viewer.send(&server, Method::GET, &created).await;
    assert_eq!(refused.status, 404, "{refused:?}");
}
