//! Tests of `knowledge demo`.

use std::fs;

use serde_json::Value;

use crate::support::{
    Answer, AssertText, Request, Scratch, Server, get, knowledge, request_of, send, start, words,
};

const FIELDS: [&str; 9] = [
    "base_url",
    "login_url",
    "bearer_token",
    "session_token",
    "org_slug",
    "workspace_id",
    "custom_role_ids",
    "recall_id",
    "memory_ids",
];

fn demo(scratch: &Scratch, memories: &str) -> (Server, Value) {
    let mut server = start(&words(&format!(
        "demo {} --listen=127.0.0.1:0 --output=json --memories {memories}",
        scratch.data_dir()
    )));
    let line = serde_json::from_str(&server.line()).expect("one JSON object in one line");
    (server, line)
}

fn text(line: &Value, field: &str) -> String {
    line[field].as_str().expect(field).to_owned()
}

fn bearer(line: &Value) -> String {
    format!("Authorization: Bearer {}", text(line, "bearer_token"))
}

fn cookie(line: &Value) -> String {
    format!("Cookie: service_session={}", text(line, "session_token"))
}

fn dashboard_url(line: &Value) -> String {
    let (base, workspace) = (text(line, "base_url"), text(line, "workspace_id"));
    format!("{base}/v1/workspaces/{workspace}/dashboard-summary")
}

fn roles_url(line: &Value) -> String {
    let (base, org) = (text(line, "base_url"), text(line, "org_slug"));
    format!("{base}/v1/orgs/{org}/custom-roles")
}

#[test]
fn demo_line_has_all_fields_and_valid_tokens() {
    let scratch = Scratch::new();
    let (server, line) = demo(&scratch, "300");
    let fields: Vec<_> = line.as_object().expect("an object").keys().collect();
    assert_eq!(fields.len(), FIELDS.len(), "{fields:?}");
    for field in FIELDS {
        assert!(!line[field].is_null(), "{field}");
    }
    assert_eq!(line["memory_ids"].as_array().expect("a list").len(), 240);

    let dashboard = get(dashboard_url(&line), bearer(&line));
    assert_eq!(dashboard.status, 200);
    let dashboard = dashboard.json();
    let statuses: Vec<_> = dashboard["connector_health"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|connector| connector["status"].as_str().expect("a status"))
        .collect();
    assert_eq!(
        statuses,
        [
            "healthy",
            "degraded",
            "stale",
            "failing",
            "auth_required",
            "paused",
            "pending"
        ]
    );
    assert_eq!(
        dashboard["recent_chats"].as_array().expect("a list").len(),
        10
    );
    assert!(dashboard["review_backlog_count"].as_u64().expect("a count") > 10);
    let used = |key: &Value| !key["lastUsedAt"].is_null();
    let keys = dashboard["mcp_keys"].as_array().expect("a list");
    assert!(keys.iter().any(used) && !keys.iter().all(used), "{keys:?}");

    let roles = get(roles_url(&line), cookie(&line));
    assert_eq!(roles.status, 200);
    let roles = roles.json();
    let roles = roles["data"].as_array().expect("a list");
    let ids: Vec<_> = roles.iter().map(|role| role["id"].clone()).collect();
    assert_eq!(line["custom_role_ids"], Value::Array(ids));
    assert!(roles.iter().any(|role| role["is_active"] == false));
    assert!(roles.iter().any(|role| !role["workspace_id"].is_null()));
    assert_eq!(server.terminate(), 0);
}

/// Deliveries leave the machine, which must not happen in a mere demonstration.
#[test]
fn demo_delivers_nothing_before_a_registration() {
    let scratch = Scratch::new();
    let (_server, line) = demo(&scratch, "30");
    let list = |path: &str| {
        let url = format!("{}/v1/{path}", text(&line, "base_url"));
        let answer = get(url, bearer(&line));
        assert_eq!(answer.status, 200, "{path}");
        answer.json()["data"].as_array().expect("a list").clone()
    };
    let workspaces = list("workspaces");
    assert_eq!(workspaces.len(), 2);
    let mut webhooks = Vec::new();
    for workspace in workspaces {
        let id = text(&workspace, "id");
        webhooks.extend(list(&format!("workspaces/{id}/webhooks")));
    }
    assert_eq!(webhooks.len(), 1);
    assert_eq!(webhooks[0]["is_active"], false);
    let subscriptions = format!(
        "citation-subscriptions?recall_id={}",
        text(&line, "recall_id")
    );
    assert!(list(&subscriptions).is_empty());
}

#[test]
fn demo_has_two_holders_of_its_first_role() {
    let scratch = Scratch::new();
    let (_server, line) = demo(&scratch, "3");
    let first = line["custom_role_ids"][0].as_str().expect("a role");
    let answer = send(&Request {
        method: "DELETE".to_owned(),
        url: format!("{}/{first}", roles_url(&line)),
        headers: vec![cookie(&line)],
        body: String::new(),
    });
    assert_eq!(answer.status, 409);
    assert_eq!(answer.json()["details"]["holder_count"], 2);
}

#[test]
fn demo_serves_same_data_and_tokens_on_next_start() {
    let scratch = Scratch::new();
    let (server, first) = demo(&scratch, "120");
    assert_eq!(server.terminate(), 0);
    let (server, second) = demo(&scratch, "500");
    for field in [
        "org_slug",
        "workspace_id",
        "custom_role_ids",
        "recall_id",
        "memory_ids",
    ] {
        assert_eq!(first[field], second[field], "{field}");
    }
    for tokens in [&first, &second] {
        assert_eq!(get(dashboard_url(&second), bearer(tokens)).status, 200);
        assert_eq!(get(roles_url(&second), cookie(tokens)).status, 200);
    }
    server.kill(); // Also after a crash.
    let (_server, third) = demo(&scratch, "120");
    assert_eq!(get(dashboard_url(&third), bearer(&first)).status, 200);
}

#[test]
fn demo_replaces_a_revoked_token() {
    let scratch = Scratch::new();
    let (server, first) = demo(&scratch, "3");
    server.kill();
    let list = knowledge(&["token", "list", "--output=json", &scratch.data_dir()]).ok();
    let list: Vec<Value> = serde_json::from_str(&list.stdout).expect("a list");
    let of_demo = |entry: &&Value| entry["name"] == "Demo token";
    let id = list.iter().find(of_demo).expect("the token")["id"].clone();
    knowledge(&[
        "token",
        "revoke",
        id.as_str().expect("an id"),
        &scratch.data_dir(),
    ])
    .ok();
    let (_server, second) = demo(&scratch, "3");
    assert_eq!(get(dashboard_url(&second), bearer(&first)).status, 401);
    assert_eq!(get(dashboard_url(&second), bearer(&second)).status, 200);
    assert_eq!(first["session_token"], second["session_token"]);
}

#[test]
fn demo_that_was_interrupted_is_created_again() {
    let scratch = Scratch::new();
    let (server, _) = demo(&scratch, "200");
    server.kill();
    // The state during the creation of the demo, with a store that is not empty.
    let state = scratch.path("data.demo.json");
    let whole = fs::read_to_string(&state).expect("the state");
    fs::write(&state, r#"{"state":"seeding"}"#).expect("write the state");
    let (server, line) = demo(&scratch, "100");
    assert_eq!(line["memory_ids"].as_array().expect("a list").len(), 80);
    server.error_with("the last start was interrupted");
    assert_ne!(fs::read_to_string(&state).expect("the state"), whole);
    assert_eq!(get(dashboard_url(&line), bearer(&line)).status, 200);
}

#[test]
fn demo_killed_during_creation_is_complete_on_next_start() {
    let scratch = Scratch::new();
    let server = start(&words(&format!(
        "demo {} --listen=127.0.0.1:0 --output=json --memories=1000000",
        scratch.data_dir()
    )));
    server.error_with("creating the demo"); // Two seconds into it.
    server.kill();
    let (_server, line) = demo(&scratch, "150");
    assert_eq!(line["memory_ids"].as_array().expect("a list").len(), 120);
    assert_eq!(get(dashboard_url(&line), bearer(&line)).status, 200);
}

#[test]
fn demo_leaves_other_data_unchanged() {
    let scratch = Scratch::with_org();
    let refused = knowledge(&["demo", &scratch.data_dir(), "--listen=127.0.0.1:0"]).failed();
    refused.assert_has("contains data that does not belong to a demo");
    // This applies even if the state of an interrupted demo is beside it.
    let state = scratch.write("data.demo.json", r#"{"state":"seeding"}"#);
    make_private(&state);
    let refused = knowledge(&["demo", &scratch.data_dir(), "--listen=127.0.0.1:0"]).failed();
    refused.assert_has("contains data that does not belong to a demo");
    knowledge(&["dashboard", "support", &scratch.data_dir()]).ok();
}

fn make_private(path: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("permissions");
}

#[test]
fn demo_commands_work_when_pasted_in_order() {
    let scratch = Scratch::new();
    let args = [
        "demo",
        &scratch.data_dir(),
        "--listen=127.0.0.1:0",
        "--memories=100",
    ];
    // Twice, since the second start has one role less.
    for _ in 0..2 {
        let mut server = start(&args);
        let screen = server.output_until("Ctrl-C");
        assert!(!screen.contains('\u{1b}'), "no colours without a terminal");
        let lines: Vec<_> = screen
            .lines()
            .filter(|line| line.starts_with("curl "))
            .collect();
        let answers: Vec<_> = lines.iter().map(|line| send(&request_of(line))).collect();
        let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(
            statuses,
            [200, 200, 200, 200, 204, 201, 201, 201],
            "{answers:?}"
        );
        assert_eq!(answers[0].json()["summary"]["succeeded"], 3);
        assert_eq!(answers[0].json()["replayed"], false);
        assert_eq!(send(&request_of(lines[0])).json()["replayed"], true);
        receive(&screen, &answers[5..7]);
        assert_eq!(server.terminate(), 0);
    }
}

/// Starts the receiver that the screen prints, on another port and with the secrets of the
/// registrations.
fn receive(screen: &str, registrations: &[Answer]) {
    let mut lines = screen.lines();
    let line = lines.find(|line| line.starts_with("knowledge webhook listen "));
    let mut secrets = registrations.iter().map(Answer::json);
    let words = line.expect("a receiver").split(' ').skip(1);
    let words: Vec<String> = words
        .map(|word| match word {
            "SECRET" => text(&secrets.next().expect("a response"), "signing_secret"),
            "127.0.0.1:9000" => "127.0.0.1:0".to_owned(),
            word => word.to_owned(),
        })
        .collect();
    assert!(secrets.next().is_none(), "{words:?}");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    start(&words).error_with("listening on http://127.0.0.1:");
}
