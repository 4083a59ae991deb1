//! Tests of what a credential creates: it ends with the credential, and does no more than it could.

use serde_json::{Value, json};

use crate::support::{Answer, AssertText, Request, Scratch, Server, get, knowledge, send, start};

/// A served organisation, and a way to its tokens.
struct Stage {
    scratch: Scratch,
    server: Server,
    url: String,
    workspace: String,
}

impl Stage {
    fn new() -> Self {
        let scratch = Scratch::with_org();
        let listed = knowledge(&["workspace", "list", "--output=json", &scratch.data_dir()]);
        let listed: Vec<Value> = serde_json::from_str(&listed.ok().stdout).expect("a list");
        let workspace = listed[0]["id"].as_str().expect("an id").to_owned();
        let data_dir = scratch.data_dir();
        let server = start(&["serve", &data_dir, "--listen=127.0.0.1:0"]);
        let url = server.base_url();
        Self {
            scratch,
            server,
            url,
            workspace,
        }
    }

    /// Issues a token of the owner for an hour, and returns its secret.
    fn token(&self, name: &str, actions: &[&str]) -> String {
        let data_dir = self.scratch.data_dir();
        let name = format!("--name={name}");
        let args = ["token", "create", "--member=maya", "--expires-in=1h"];
        let actions: Vec<String> = actions
            .iter()
            .map(|action| format!("--action={action}"))
            .collect();
        let mut args = args.to_vec();
        args.extend([&*name, &data_dir]);
        args.extend(actions.iter().map(String::as_str));
        knowledge(&args).ok().stdout.trim().to_owned()
    }

    /// Revokes a token, and returns what the command says.
    fn revoke(&self, name: &str, flags: &[&str]) -> String {
        let data_dir = self.scratch.data_dir();
        let listed = knowledge(&["token", "list", "--output=json", &data_dir]).ok();
        let listed: Vec<Value> = serde_json::from_str(&listed.stdout).expect("a list");
        let found = listed.iter().find(|token| token["name"] == name);
        let id = found.and_then(|token| token["id"].as_str()).expect("an id");
        let command = ["token", "revoke", id, &data_dir];
        knowledge(&[&command[..], flags].concat()).ok().stderr
    }

    /// Sends a request about something of the workspace.
    fn call(&self, token: &str, (method, path): (&str, &str), body: &Value) -> Answer {
        let (url, workspace) = (&self.url, &self.workspace);
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        send(&Request {
            method: method.to_owned(),
            url: format!("{url}/v1/workspaces/{workspace}/{path}"),
            headers: vec![
                format!("Authorization: Bearer {token}"),
                "Content-Type: application/json".to_owned(),
            ],
            body,
        })
    }

    /// Registers an inbound webhook, and returns it.
    fn inbound_webhook(&self, token: &str) -> Value {
        let new = json!({ "name": "Tickets" });
        let made = self.call(token, ("POST", "inbound-webhooks"), &new);
        assert_eq!(made.status, 201, "{made:?}");
        made.json()
    }

    /// Posts a signed message, and returns the error output if it is rejected.
    fn post(&self, webhook: &Value, secret: &str) -> Result<(), String> {
        let batch = json!({ "memories": [{ "title": "Down", "content": "It is down." }] });
        let file = self.scratch.write("message.json", &batch.to_string());
        let url = format!("{}{}", self.url, text(webhook, "url"));
        let secret = format!("--secret={secret}");
        let posted = knowledge(&["webhook", "post", &url, &file, &secret]);
        if posted.code == 0 {
            Ok(())
        } else {
            Err(posted.stderr)
        }
    }
}

fn text(record: &Value, name: &str) -> String {
    record[name].as_str().expect("a text").to_owned()
}

#[test]
fn inbound_webhook_does_no_more_than_its_token() {
    let stage = Stage::new();
    let token = stage.token("narrow", &["inbound_webhook:manage"]);
    let webhook = stage.inbound_webhook(&token);
    let rejected = stage.post(&webhook, &text(&webhook, "signing_secret"));
    let message = rejected.expect_err("the token may not create memories");
    message.assert_has("403");
    assert_eq!(stage.server.terminate(), 0);
}

#[test]
fn inbound_webhook_ends_with_its_token_unless_rotated() {
    let stage = Stage::new();
    let token = stage.token("short", &["inbound_webhook:manage", "memory:create"]);
    let webhook = stage.inbound_webhook(&token);
    let secret = text(&webhook, "signing_secret");
    stage.post(&webhook, &secret).expect("the token is valid");

    stage.revoke("short", &[]);
    let message = stage.post(&webhook, &secret).expect_err("it was revoked");
    message.assert_has("403");

    let lasting = stage.token("lasting", &[]);
    let path = format!("inbound-webhooks/{}/rotate-secret", text(&webhook, "id"));
    let rotated = stage.call(&lasting, ("POST", &path), &Value::Null);
    assert_eq!(rotated.status, 200, "{rotated:?}");
    let secret = text(&rotated.json(), "signing_secret");
    stage.post(&webhook, &secret).expect("it was taken over");
    assert_eq!(stage.server.terminate(), 0);
}

#[test]
fn mcp_key_ends_with_its_token() {
    let stage = Stage::new();
    let token = stage.token("short", &["mcp_key:manage", "memory:read"]);
    let new = json!({ "name": "Desk", "client": "other", "audience": ["org:acme"] });
    let made = stage.call(&token, ("POST", "mcp-keys"), &new);
    assert_eq!(made.status, 201, "{made:?}");
    let key = text(&made.json(), "secret");
    let list = |key: &str| stage.call(key, ("GET", "memories"), &Value::Null).status;
    assert_eq!(list(&key), 200);
    stage.revoke("short", &[]);
    assert_eq!(list(&key), 401);
    assert_eq!(stage.server.terminate(), 0);
}

#[test]
fn mcp_key_of_an_unscoped_token_ends_with_it_on_request() {
    let stage = Stage::new();
    let token = stage.token("leaked", &[]);
    let new = json!({ "name": "Desk", "client": "other", "audience": ["org:acme"] });
    let made = stage.call(&token, ("POST", "mcp-keys"), &new);
    assert_eq!(made.status, 201, "{made:?}");
    let key = text(&made.json(), "secret");
    let list = |key: &str| stage.call(key, ("GET", "memories"), &Value::Null).status;

    let said = stage.revoke("leaked", &[]);
    let id = text(&made.json(), "id");
    said.assert_has(&format!("created with it:\n  MCP key {id} Desk: active\n"));
    said.assert_has("repeat with --with-created");
    assert_eq!(list(&key), 200);

    let said = stage.revoke("leaked", &["--with-created"]);
    said.assert_has(&format!(
        "MCP key {id} Desk: ended just now: ended_with_credential"
    ));
    assert_eq!(list(&key), 401);
    let data_dir = stage.scratch.data_dir();
    let shown = knowledge(&["dashboard", "--org=acme", &stage.workspace, &data_dir]).ok();
    shown
        .stdout
        .assert_has("ended just now: ended_with_credential");
    assert_eq!(stage.server.terminate(), 0);
}

#[test]
fn credentials_and_inbound_webhooks_end_with_workspace_and_organization() {
    let stage = Stage::new();
    let data_dir = stage.scratch.data_dir();
    let token = stage.token("all", &[]);
    let session = ["session", "create", "--member=maya", &data_dir];
    let session = knowledge(&session).ok().stdout;
    let session = format!("Cookie: service_session={}", session.trim());
    let roles = || {
        let url = format!("{}/v1/orgs/acme/custom-roles", stage.url);
        get(url, session.clone()).status
    };
    let webhook = stage.inbound_webhook(&token);
    let secret = text(&webhook, "signing_secret");
    let list = || stage.call(&token, ("GET", "memories"), &Value::Null);
    stage.post(&webhook, &secret).expect("all of it is there");
    assert_eq!((roles(), list().status), (200, 200));
    let memory = text(&list().json()["data"][0], "id");
    let read = || {
        let url = format!("{}/v1/memories/{memory}", stage.url);
        get(url, format!("Authorization: Bearer {token}")).status
    };
    assert_eq!(read(), 200);

    knowledge(&["workspace", "delete", &stage.workspace, "--yes", &data_dir]).ok();
    let message = stage.post(&webhook, &secret).expect_err("it is gone");
    message.assert_has("404");
    assert_eq!((roles(), list().status, read()), (200, 404, 404));

    knowledge(&["org", "delete", "acme", "--yes", &data_dir]).ok();
    let message = stage.post(&webhook, &secret).expect_err("it is gone");
    message.assert_has("404");
    assert_eq!((roles(), list().status, read()), (401, 401, 401));
    assert_eq!(stage.server.terminate(), 0);
}
