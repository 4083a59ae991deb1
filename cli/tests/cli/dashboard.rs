//! Tests of `knowledge dashboard`.
//!
//! Unit tests cover the layout, with data that does not change.

use serde_json::Value;

use crate::support::{AssertText, Scratch, knowledge, words};

#[test]
fn dashboard_has_no_colours_without_a_terminal() {
    let scratch = Scratch::with_org();
    let drawn = knowledge(&["dashboard", "support", &scratch.data_dir()]).ok();
    insta::assert_snapshot!(drawn.stdout, @r#"
    Customer Support  support · workspace:support
    0 memories to review · last ingest never

    First steps
      ○ Connect a source
      ○ Bring in the first memory
      ○ Create an MCP key
      ○ Invite a teammate  (suggested)
      ○ Ask the first question  (suggested)
      ○ Add a webhook  (suggested)
      ○ Clear the review backlog  (suggested)

    Connectors
      none

    MCP keys
      none

    Recent chats
      none
    "#);
    assert_eq!(drawn.stderr, "");
}

#[test]
fn dashboard_accepts_identifier_and_prints_json() {
    let scratch = Scratch::with_org();
    let show = |workspace: &str| {
        let shown = knowledge(&words(&format!(
            "dashboard {workspace} --output=json --as=maya {}",
            scratch.data_dir()
        )));
        serde_json::from_str::<Value>(&shown.ok().stdout).expect("JSON")
    };
    let shown = show("sales");
    assert_eq!(shown["workspace"]["audience"], "workspace:sales");
    let id = shown["workspace"]["id"].as_str().expect("an id");
    assert_eq!(show(id), shown);
}

#[test]
fn dashboard_without_a_store_creates_nothing() {
    let scratch = Scratch::new();
    let message = knowledge(&["dashboard", "support", &scratch.data_dir()]).failed();
    message.assert_begins("error: there is no store in ");
    assert!(!scratch.path("data").exists());
    assert!(!scratch.path("data.key").exists());
}
