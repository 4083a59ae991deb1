//! Tests of `knowledge import` beside a running server.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use super::{backlog, import, lines};
use crate::support::{AssertText, Request, Scratch, Server, get, knowledge, send, start, words};

/// A directory whose server is running.
pub(super) struct Served {
    pub(super) scratch: Scratch,
    server: Server,
    url: String,
    token: String,
}

impl Served {
    pub(super) fn new() -> Self {
        let scratch = Scratch::with_org();
        let data_dir = scratch.data_dir();
        let server = start(&words(&format!(
            "serve {data_dir} --listen=127.0.0.1:0 --log-level=info"
        )));
        let url = server.base_url();
        let token = knowledge(&["token", "create", "--member=maya", &data_dir]).ok();
        let token = token.stdout.trim().to_owned();
        Self {
            scratch,
            server,
            url,
            token,
        }
    }

    fn get(&self, path: &str) -> Value {
        let header = format!("Authorization: Bearer {}", self.token);
        let answer = get(format!("{}/v1/{path}", self.url), header);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Erases everything from the only source.
    fn erase_source(&self) {
        let sources = self.get("sources");
        let source = &sources["data"][0]["id"];
        let answer = send(&Request {
            method: "POST".to_owned(),
            url: format!("{}/v1/erasures", self.url),
            headers: vec![
                format!("Authorization: Bearer {}", self.token),
                "Content-Type: application/json".to_owned(),
                "Idempotency-Key: erase-source".to_owned(),
            ],
            body: format!(r#"{{"sourceId":{source}}}"#),
        });
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// Returns the memories that the owner may read: title, audience label and text.
    pub(super) fn memories(&self) -> Vec<[String; 3]> {
        let workspaces = self.get("workspaces");
        // Those of one millisecond are in no order.
        let mut workspaces = workspaces["data"].as_array().expect("a list").iter();
        let support = workspaces.find(|workspace| workspace["slug"] == "support");
        let id = support.expect("the workspace is listed")["id"].as_str();
        let id = id.expect("an identifier");
        let listed = self.get(&format!("workspaces/{id}/memories"));
        let listed = listed["data"].as_array().expect("a list").iter();
        let mut memories: Vec<[String; 3]> = listed
            .map(|memory| {
                let id = memory["id"].as_str().expect("an identifier");
                let memory = self.get(&format!("memories/{id}"));
                let text = |name: &str| memory[name].as_str().expect(name).to_owned();
                ["title", "audienceTag", "content"].map(text)
            })
            .collect();
        memories.sort();
        memories
    }

    pub(super) fn end(self) {
        assert_eq!(self.server.terminate(), 0);
    }
}

#[test]
fn import_works_beside_a_running_server() {
    let served = Served::new();
    let file = served.scratch.write("pages.jsonl", &lines(250));
    let first = import(&served.scratch, &file, &[]).ok();
    first.prints("created 250, updated 0, unchanged 0, rejected 0\n");
    served
        .server
        .error_with("/admin/v1/orgs/acme/members/maya/workspaces/support/ingest");
    assert_eq!(backlog(&served.scratch), 250, "over the socket");
    let Served {
        scratch, server, ..
    } = served;
    assert_eq!(server.terminate(), 0);
    let again = import(&scratch, &file, &[]).ok();
    again.prints("created 0, updated 0, unchanged 250, rejected 0\n");
    assert_eq!(backlog(&scratch), 250, "over the store");
}

#[test]
fn import_counts_erased_keys_apart_until_they_are_revived() {
    let served = Served::new();
    let file = served.scratch.write("pages.jsonl", &lines(2));
    import(&served.scratch, &file, &[]).ok();
    served.erase_source();
    let again = import(&served.scratch, &file, &[]).ok();
    again.prints(
        "created 0, updated 0, unchanged 0, erased 2 (--revive brings them in), rejected 0\n  2 \
         erased: lines 1, 2\n",
    );
    let again = import(&served.scratch, &file, &["--output=json"]).ok();
    let summary: Value = serde_json::from_str(&again.stdout).expect("JSON");
    assert_eq!(summary["erased"], 2);
    assert_eq!(backlog(&served.scratch), 0);
    let revived = import(&served.scratch, &file, &["--revive"]).ok();
    revived.prints("created 2, updated 0, unchanged 0, rejected 0\n");
    served.end();
}

/// Returns the largest resident size of an import in KiB, and its summary.
#[cfg(target_os = "linux")]
fn peak(served: &Served, file: &str) -> (u64, String) {
    let data_dir = served.scratch.data_dir();
    let args = [
        "import",
        file,
        "--workspace=support",
        "--source=Handbook",
        &data_dir,
    ];
    let mut running = start(&args);
    let status = format!("/proc/{}/status", running.pid());
    let mut peak = 0;
    // The status of a process that has ended has no sizes.
    while let Some(size) = fs::read_to_string(&status).ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    }) {
        peak = size;
        std::thread::sleep(Duration::from_millis(5));
    }
    let summary = running.line();
    assert_eq!(running.ended(), 0);
    (peak, summary)
}

#[cfg(target_os = "linux")]
#[test]
fn import_over_the_socket_takes_bounded_memory() {
    let served = Served::new();
    let text = "Nobody reads all of this page. ".repeat(50);
    let pages = |count: usize| {
        let page =
            |index| format!("{{\"title\":\"Page {index}\",\"content\":\"{index} {text}\"}}\n");
        (0..count).map(page).collect::<String>()
    };
    let few = served.scratch.write("few.jsonl", &pages(500));
    let (of_few, summary) = peak(&served, &few);
    summary.assert_begins("created 500,");
    let pages = pages(10_000);
    let many = served.scratch.write("many.jsonl", &pages);
    let (of_many, summary) = peak(&served, &many);
    summary.assert_begins("created 9,500, updated 0, unchanged 500,");
    assert!(pages.len() > 15 * 1024 * 1024);
    assert!(
        of_many < of_few + 8 * 1024,
        "{of_few} KiB, then {of_many} KiB"
    );
    served.end();
}
