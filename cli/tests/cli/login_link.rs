//! Tests of `knowledge login-link`, with and without a running server.

use serde_json::{Value, json};

use crate::support::{Answer, AssertText, Request, Scratch, knowledge, send, start};

fn links(scratch: &Scratch, more: &[&str]) -> (String, String) {
    let data_dir = scratch.data_dir();
    let made = knowledge(&[&["login-link", "maya", &data_dir], more].concat()).ok();
    (made.stdout.trim().to_owned(), made.stderr)
}

/// Returns the secret in a link, which is in the fragment of the URL.
fn secret<'l>(link: &'l str, base_url: &str) -> &'l str {
    let secret = link.strip_prefix(&format!("{base_url}/#/login/"));
    let secret = secret.unwrap_or_else(|| panic!("{link} is not of {base_url}"));
    secret.assert_begins("wkl_");
    secret
}

fn login(base_url: &str, secret: &str) -> Answer {
    send(&Request {
        method: "POST".to_owned(),
        url: format!("{base_url}/auth/login"),
        headers: vec!["Content-Type: application/json".to_owned()],
        body: json!({ "link": secret }).to_string(),
    })
}

fn list(scratch: &Scratch) -> Vec<Value> {
    let listed = knowledge(&["token", "list", "--output=json", &scratch.data_dir()]).ok();
    serde_json::from_str(&listed.stdout).expect("a list")
}

#[test]
fn login_link_works_beside_a_server_and_without() {
    let scratch = Scratch::with_org();
    let (before, notice) = links(&scratch, &[]);
    notice.assert_has("for maya of acme, valid once until ");
    let before = secret(&before, "http://127.0.0.1:8080").to_owned();
    let public = "--public-url=https://knowledge.example.com/app/";
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0", public]);
    let url = server.base_url();
    // The running server knows its public URL best.
    let (beside, _) = links(&scratch, &[]);
    let beside = secret(&beside, "https://knowledge.example.com/app");
    let (given, _) = links(&scratch, &["--public-url=http://localhost:3000"]);
    let given = secret(&given, "http://localhost:3000");
    for secret in [&before, beside, given] {
        let answer = login(&url, secret);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["member"]["handle"], "maya");
        assert_eq!(login(&url, secret).status, 401);
    }
    let kinds = |kind: &str| {
        list(&scratch)
            .iter()
            .filter(|entry| entry["kind"] == kind)
            .count()
    };
    assert_eq!((kinds("link"), kinds("session")), (3, 3));
    let used = list(&scratch)
        .into_iter()
        .filter(|entry| entry["kind"] == "link");
    assert!(used.into_iter().all(|entry| entry["state"] == "revoked"));
    assert_eq!(server.terminate(), 0);
    knowledge(&["verify", &scratch.data_dir()]).ok();
}

#[test]
fn login_link_is_shown_as_json_and_revoked() {
    let scratch = Scratch::with_org();
    let (made, _) = links(&scratch, &["--output=json", "--expires-in=1h"]);
    let made: Value = serde_json::from_str(&made).expect("JSON");
    let link = made["url"].as_str().expect("a URL");
    let id = made["credential"]["id"].as_str().expect("an id");
    assert_eq!(made["credential"]["kind"], "link");
    knowledge(&["token", "revoke", id, &scratch.data_dir()]).ok();
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    let url = server.base_url();
    assert_eq!(
        login(&url, secret(link, "http://127.0.0.1:8080")).status,
        401
    );
    // A link of a running server has the port that was assigned to it.
    let (beside, _) = links(&scratch, &[]);
    assert_eq!(login(&url, secret(&beside, &url)).status, 200);
    assert_eq!(server.terminate(), 0);
}

#[test]
fn login_link_rejects_invalid_arguments() {
    let scratch = Scratch::with_org();
    let data_dir = scratch.data_dir();
    let run = |args: &[&str]| knowledge(&[&["login-link", data_dir.as_str()], args].concat());
    assert_eq!(
        run(&["maya", "--expires-in=25h"]).failed(),
        "error: --expires-in must be greater than 0 and at most a day"
    );
    let unknown = run(&["nobody"]).failed();
    unknown.assert_has("members of acme: maya");
    assert_eq!(run(&["maya", "--public-url=nowhere"]).code, 2);
    assert!(list(&scratch).is_empty());
}
