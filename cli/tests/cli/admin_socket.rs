//! Tests of commands over the admin socket of a running server.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::{AssertText, Scratch, Server, get, knowledge, start};

fn serve(scratch: &Scratch, more: &[&str]) -> Server {
    let data_dir = scratch.data_dir();
    let args = [
        "serve",
        &data_dir,
        "--listen=127.0.0.1:0",
        "--log-level=info",
    ];
    start(&[&args, more].concat())
}

fn list(scratch: &Scratch, more: &[&str]) -> Vec<Value> {
    let data_dir = scratch.data_dir();
    let args = ["token", "list", "--output=json", &data_dir];
    let listed = knowledge(&[&args, more].concat()).ok();
    serde_json::from_str(&listed.stdout).expect("a list")
}

/// Returns the status of a response to this token, for a resource that does not exist.
fn status(url: &str, token: &str) -> u16 {
    let missing = format!("{url}/v1/workspaces/none/dashboard-summary");
    get(missing, format!("Authorization: Bearer {token}")).status
}

#[test]
fn tokens_are_issued_and_revoked_over_the_socket() {
    let scratch = Scratch::with_org();
    let data_dir = scratch.data_dir();
    let server = serve(&scratch, &[]);
    let url = server.base_url();
    let mode = fs::metadata(scratch.path("data.sock")).expect("the socket");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    let made = knowledge(&["token", "create", "--member=maya", &data_dir]).ok();
    let token = made.stdout.trim();
    assert_eq!(status(&url, token), 404);
    let listed = list(&scratch, &[]);
    let id = listed[0]["id"].as_str().expect("an id");
    knowledge(&["token", "revoke", id, &data_dir]).ok();
    assert_eq!(status(&url, token), 401);
    let line = server.error_with("/admin/v1/orgs/acme/credentials");
    assert!(line.contains("POST") || line.contains("GET"), "{line}");
    assert_eq!(server.terminate(), 0);
    assert!(!scratch.path("data.sock").exists());
    assert_eq!(list(&scratch, &[])[0]["state"], "revoked");
}

#[test]
fn public_address_has_no_admin_routes() {
    let scratch = Scratch::with_org();
    let server = serve(&scratch, &[]);
    let answer = get(
        format!("{}/admin/v1/orgs", server.base_url()),
        "Accept: */*".to_owned(),
    );
    assert_eq!(answer.status, 404);
    assert_eq!(server.terminate(), 0);
}

#[test]
fn socket_of_killed_server_is_replaced() {
    let scratch = Scratch::with_org();
    let server = serve(&scratch, &[]);
    server.base_url();
    server.kill();
    assert!(scratch.path("data.sock").exists());
    assert!(list(&scratch, &[]).is_empty(), "over the store");
    let server = serve(&scratch, &[]);
    server.base_url();
    assert!(list(&scratch, &[]).is_empty(), "over the socket");
    assert_eq!(server.terminate(), 0);
}

#[test]
fn command_reports_a_server_without_the_socket() {
    let scratch = Scratch::with_org();
    let data_dir = scratch.data_dir();
    let server = serve(&scratch, &["--admin-socket=off"]);
    server.base_url();
    let message = knowledge(&["token", "list", &data_dir]).failed();
    let expected = format!(
        "error: {} is in use by process {}, and no server listens on the admin socket {}; if that process is a server \
         with another admin socket, pass its path with --admin-socket, otherwise wait until it ends",
        scratch.arg("data"),
        server.pid(),
        scratch.arg("data.sock")
    );
    assert_eq!(message, expected);
    assert_eq!(server.terminate(), 0);
}

#[test]
fn socket_path_is_configurable() {
    let scratch = Scratch::with_org();
    let elsewhere = format!("--admin-socket={}", scratch.arg("elsewhere.sock"));
    let server = serve(&scratch, &[&elsewhere]);
    server.base_url();
    assert!(list(&scratch, &[&elsewhere]).is_empty());
    let other = Scratch::with_org();
    let args = [
        "serve",
        &other.data_dir(),
        "--listen=127.0.0.1:0",
        &elsewhere,
    ];
    let message = knowledge(&args).failed();
    let taken = format!(
        "another server listens on the admin socket {}",
        scratch.arg("elsewhere.sock")
    );
    message.assert_has(&taken);
    assert_eq!(server.terminate(), 0);
    let letter = scratch.write("letter", "dear");
    let args = [
        "serve",
        &scratch.data_dir(),
        "--listen=127.0.0.1:0",
        &format!("--admin-socket={letter}"),
    ];
    let message = knowledge(&args).failed();
    message.assert_has("exists and is not a socket");
    assert_eq!(fs::read_to_string(letter).expect("the letter"), "dear");
}
