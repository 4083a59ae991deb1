//! Tests of `knowledge webhook post` and `listen`, which verifies the former's signatures.

use serde_json::{Value, json};

use crate::support::{AssertText, Request, Scratch, get, knowledge, run_block, send, start, words};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

const MESSAGE: &str = r#"{"type": "memory.updated", "timestamp": "2026-01-31T09:30:00.000Z", "data": {"memory_ids": []}}"#;

#[test]
fn listen_prints_signed_messages_and_rejects_others() {
    let scratch = Scratch::new();
    let file = scratch.write("message.json", MESSAGE);
    let secret = format!("--secret={SECRET}");
    let mut listener = start(&words(&format!(
        "webhook listen --listen=127.0.0.1:0 {secret} --count=2 --output=json"
    )));
    let url = format!("{}/updates", listener.base_url());

    knowledge(&["webhook", "post", &url, &file, &secret, "--id=msg_1"]).ok();
    let shown: Value = serde_json::from_str(&listener.line()).expect("a line of JSON");
    let expected = json!({
        "path": "/updates",
        "id": "msg_1",
        "verified": true,
        "type": "memory.updated",
        "timestamp": "2026-01-31T09:30:00.000Z",
        "data": { "memory_ids": [] },
    });
    assert_eq!(shown, expected);

    let other = format!("--secret={OTHER}");
    let refused = knowledge(&["webhook", "post", &url, &file, &other]).failed();
    refused.assert_has("401");
    let shown: Value = serde_json::from_str(&listener.line()).expect("a line of JSON");
    assert_eq!(shown["verified"], false, "{shown}");
    let said = listener.error_with("error: ");
    said.assert_has("1 of 2 deliveries had no valid signature");
    assert_eq!(listener.ended(), 1);
}

#[test]
fn listen_counts_no_pings() {
    let scratch = Scratch::new();
    let secret = format!("--secret={SECRET}");
    let mut listener = start(&words(&format!(
        "webhook listen --listen=127.0.0.1:0 {secret} --count=1"
    )));
    let url = listener.base_url();
    for (name, message) in [
        (
            "ping.json",
            MESSAGE.replace("memory.updated", "webhook.ping"),
        ),
        ("event.json", MESSAGE.to_owned()),
    ] {
        let file = scratch.write(name, &message);
        knowledge(&["webhook", "post", &url, &file, &secret]).ok();
    }
    listener.line().assert_has(" webhook.ping ");
    listener.line().assert_has(" memory.updated ");
    assert_eq!(listener.ended(), 0);
}

/// Whoever reaches the address posts what they like: it must not give commands to the terminal.
#[test]
fn listen_escapes_control_characters_of_unsigned_posts() {
    let secret = format!("--secret={SECRET}");
    for output in ["text", "json"] {
        let mut listener = start(&words(&format!(
            "webhook listen --listen=127.0.0.1:0 {secret} --count=1 --output={output}"
        )));
        let url = format!("{}/", listener.base_url());
        let body = json!({ "type": "\u{1b}]0;owned\u{7}\u{9b}2J", "data": "\u{9b}A" });
        send(&Request {
            method: "POST".to_owned(),
            url,
            headers: vec!["Content-Type: application/json".to_owned()],
            body: body.to_string(),
        });
        let line = listener.line();
        assert!(!line.trim_end().contains(char::is_control), "{line:?}");
        if output == "json" {
            let shown: Value = serde_json::from_str(&line).expect("a line of JSON");
            assert_eq!(shown["type"], body["type"]);
        } else {
            line.assert_begins(r"UNVERIFIED \u{1b}]0;owned\u{7}\u{9b}2J - ");
        }
        assert_eq!(listener.ended(), 1);
    }
}

#[test]
fn listen_responds_with_the_chosen_status() {
    let scratch = Scratch::new();
    let file = scratch.write("message.json", MESSAGE);
    let secret = format!("--secret={SECRET}");
    let mut listener = start(&words(&format!(
        "webhook listen --listen=127.0.0.1:0 --status=503 --count=1 {secret}"
    )));
    let url = listener.base_url();
    let refused = knowledge(&["webhook", "post", &url, &file, &secret]).failed();
    refused.assert_has("503");
    let line = listener.line();
    line.assert_begins("verified memory.updated msg_");
    assert_eq!(listener.ended(), 0);
}

#[test]
fn post_rejects_invalid_secret_before_sending() {
    let arguments = ["webhook", "post", "http://127.0.0.1:9/", "--secret=hunter2"];
    let refused = knowledge(&arguments).refused();
    refused.assert_has("must be whsec_ followed by base64");
}

/// The example of the reference page signs its body with openssl.
#[test]
fn reference_example_signs_an_accepted_message() {
    let scratch = Scratch::with_org();
    let data_dir = scratch.data_dir();
    let server = start(&["serve", &data_dir, "--listen=127.0.0.1:0"]);
    let url = server.base_url();
    let token = knowledge(&["token", "create", "--member=maya", &data_dir]).ok();
    let bearer = format!("Authorization: Bearer {}", token.stdout.trim());
    let workspaces = get(format!("{url}/v1/workspaces"), bearer.clone()).json();
    let workspace = workspaces["data"][0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let created = send(&Request {
        method: "POST".to_owned(),
        url: format!("{url}/v1/workspaces/{workspace}/inbound-webhooks"),
        headers: vec![bearer, "Content-Type: application/json".to_owned()],
        body: json!({ "name": "Status page" }).to_string(),
    });
    assert_eq!(created.status, 201, "{created:?}");
    let webhook = created.json();
    let text = |name: &str| webhook[name].as_str().expect(name);
    let (org, id) = text("url").rsplit_once('/').expect("a path");
    let (_, org) = org.rsplit_once('/').expect("a path");

    let page = get(format!("{url}/docs"), "Accept: text/html".to_owned()).body;
    let (_, article) = page
        .split_once("id=\"postToInboundWebhook\">")
        .expect("the operation");
    let (article, _) = article.split_once("</article>").expect("its end");
    for header in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let row = format!("<tr><th scope=row><code>{header}</code></th>");
        assert!(article.contains(&row), "{header}");
    }
    let (_, example) = article.split_once("<pre>").expect("an example");
    let (example, _) = example.split_once("</pre>").expect("its end");
    let example = ["&quot; \"", "&#39; '", "&lt; <", "&gt; >", "&amp; &"]
        .iter()
        .filter_map(|pair| pair.split_once(' '))
        .fold(example.to_owned(), |text, (name, char)| {
            text.replace(name, char)
        });
    let example = example.replace("curl ", "curl --silent --show-error --fail-with-body ");
    let variables = [
        ("BASE_URL", url.as_str()),
        ("ORG", org),
        ("ID", id),
        ("SECRET", text("signing_secret")),
    ];
    let run = run_block(&example, &scratch, &variables);
    assert!(run.status.success(), "{example}\n{run:?}");
    let shown = knowledge(&["dashboard", "support", "--output=json", &data_dir]).ok();
    let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_ne!(shown["review_backlog_count"], 0);
    assert_eq!(server.terminate(), 0);
}
