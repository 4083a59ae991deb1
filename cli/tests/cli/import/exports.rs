//! Tests of `knowledge import` with the exports of other tools, and of `--dry-run`.

use serde_json::{Value, json};

use super::served::Served;
use super::{backlog, import};
use crate::support::{AssertText, Finished, Scratch, knowledge};

/// Returns the path of an export.
fn export(name: &str) -> String {
    format!(
        "{}/tests/cli/import/exports/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// Returns the memories as text.
fn memories(served: &Served) -> String {
    let memories = served.memories();
    let memories: Vec<String> = memories.iter().map(|memory| memory.join("\n")).collect();
    memories.join("\n---\n")
}

fn rejections(done: &Finished) -> String {
    let lines = done.stderr.lines();
    let lines: Vec<&str> = lines.filter(|line| line.starts_with("line ")).collect();
    lines.join("\n")
}

#[test]
fn mem0_export_keeps_user_time_and_metadata() {
    let served = Served::new();
    let args = [
        "--format=mem0",
        "--user=u-17=maya",
        "--audience=workspace:support",
    ];
    let done = import(&served.scratch, &export("mem0_get_all.json"), &args).ok();
    done.begins("created 3, updated 0, unchanged 0, rejected 2\n");
    insta::assert_snapshot!(rejections(&done), @r#"
    line 24: the user's identifier is not a handle; assign one with --user ID=HANDLE ("Jo Smith")
    line 36: has no field memory
    "#);
    let again = import(&served.scratch, &export("mem0_get_all.json"), &args).ok();
    again.begins("created 0, updated 0, unchanged 3, rejected 2\n");
    insta::assert_snapshot!(memories(&served), @r#"
    Is allergic to peanuts
    user:maya
    Is allergic to peanuts

    created_at: 2024-07-05T15:30:00Z
    agent_id: cook
    run_id: dinner-4
    ---
    Prefers aisle seats on long flights
    user:maya
    Prefers aisle seats on long flights

    created_at: 2024-07-01T12:00:00.123456-07:00
    categories: travel, preferences
    metadata: {"confirmed":true,"trip":"lisbon"}
    ---
    Refunds above 500 euros need a second approval
    workspace:support
    Refunds above 500 euros need a second approval

    created_at: 2024-07-07T10:00:00Z
    agent_id: support
    "#);
    served.end();
}

#[test]
fn zep_and_letta_exports_need_an_audience() {
    let served = Served::new();
    for (format, files) in [
        ("zep", ["zep_edges.json", "zep_thread.json"]),
        ("letta", ["letta_agent.af", "letta_passages.jsonl"]),
    ] {
        let format = format!("--format={format}");
        for file in files {
            let unlabelled = import(&served.scratch, &export(file), &[&format]).refused();
            unlabelled.assert_has("--audience");
            let args = [&format, "--audience=user:maya"];
            import(&served.scratch, &export(file), &args).ok();
        }
    }
    insta::assert_snapshot!(memories(&served), @r#"
    Maya works at Acme as a support lead
    user:maya
    Maya works at Acme as a support lead

    created_at: 2025-03-01T08:15:30Z
    valid_at: 2023-05-01T00:00:00Z
    name: WORKS_AT
    ---
    Please send invoices to finance@example.com.
    user:maya
    Please send invoices to finance@example.com.
    And not to me.

    created_at: 2025-04-02T07:00:00Z
    role: user
    name: Maya
    metadata: {"channel":"email"}
    ---
    The Lisbon office closes at noon on Fridays.
    user:maya
    The Lisbon office closes at noon on Fridays.

    created_at: 2025-06-11T09:00:00Z
    tags: office, hours
    metadata: {"page":3}
    ---
    human
    user:maya
    Maya leads the support team.
    She writes short emails.

    description: What is known about the user
    "#);
    served.end();
}

#[test]
fn csv_columns_are_fields_of_memories() {
    let served = Served::new();
    let done = import(&served.scratch, &export("memories.csv"), &["--format=csv"]).ok();
    done.begins("created 2, updated 0, unchanged 0, rejected 1\n");
    insta::assert_snapshot!(rejections(&done), @"line 5: must have as many fields as the header (2, not 8)");
    insta::assert_snapshot!(memories(&served), @r"
    Refunds
    workspace:support
    Above 500 euros, a second person approves.

    created_at: 2024-02-01
    author: Jonas
    ---
    Speaks Portuguese,
    user:maya
    Speaks Portuguese,
    and some Danish.

    created_at: 2024-03-01
    ");
    served.end();
}

#[test]
fn equal_texts_for_two_audiences_are_two_memories() {
    let scratch = Scratch::with_org();
    let rows = "content,user_id\nLikes tea.,maya\nLikes tea.,bob\nLikes tea.,bob\n";
    let file = scratch.write("users.csv", rows);
    let done = import(&scratch, &file, &["--format=csv"]).ok();
    done.prints("created 2, updated 0, unchanged 1, rejected 0\n");
    // Blocks have no key of their own.
    for audience in ["--audience=user:maya", "--audience=user:bob"] {
        let args = ["--format=letta", audience];
        let done = import(&scratch, &export("letta_agent.af"), &args).ok();
        done.begins("created 1, updated 0, unchanged 0, rejected 1\n");
    }
    assert_eq!(backlog(&scratch), 4);
}

#[test]
fn labels_that_no_member_has_are_named() {
    let scratch = Scratch::with_org();
    let rows = "content,user_id\nLikes tea.,maya\nLikes tea.,bob\n";
    let file = scratch.write("users.csv", rows);
    for more in [&["--dry-run"][..], &[]] {
        let done = import(&scratch, &file, &[&["--format=csv"][..], more].concat()).ok();
        done.warns(
            "warning: no member has user:bob now: nobody can read its memories (1 entry, first in \
             line 3)",
        );
        assert!(!done.stderr.contains("user:maya"), "{}", done.stderr);
    }
}

#[test]
fn import_without_a_valid_entry_fails() {
    let scratch = Scratch::with_org();
    let refused = import(&scratch, &export("letta_passages.jsonl"), &[]);
    refused.begins("created 0, updated 0, unchanged 0, rejected 2\n");
    refused.fails("error: no entry is valid; for the export of another tool, choose its --format");
    let refused = import(&scratch, &export("zep_edges.json"), &["--format=mem0"]);
    assert_eq!(refused.failed(), "error: no entry is valid");
    assert_eq!(backlog(&scratch), 0);
}

#[test]
fn import_of_an_empty_input_is_no_error() {
    let scratch = Scratch::with_org();
    for (text, format) in [
        ("", "jsonl"),
        ("[]", "mem0"),
        ("", "csv"),
        ("title,content\n", "csv"),
    ] {
        let file = scratch.write("empty", text);
        let format = format!("--format={format}");
        let done = import(&scratch, &file, &[&format]).ok();
        done.prints("created 0, updated 0, unchanged 0, rejected 0\n");
        let preview = import(&scratch, &file, &[&format, "--dry-run"]).ok();
        preview.prints("dry run: created 0, updated 0, unchanged 0, rejected 0\n");
    }
    assert_eq!(backlog(&scratch), 0);
}

#[test]
fn invalid_json_ends_an_import_after_the_entries_before() {
    let scratch = Scratch::with_org();
    let file = scratch.write("cut.json", "[{\"memory\": \"One.\"},\n{\"memory\": \"Tw");
    let cut = import(&scratch, &file, &["--format=mem0", "--audience=user:maya"]);
    cut.begins("created 1, updated 0, unchanged 0, rejected 1\n");
    cut.fails("error: the input ends in line 2, before its end in JSON");
    assert_eq!(backlog(&scratch), 1);
}

#[test]
fn csv_quote_without_end_fails_the_import() {
    let scratch = Scratch::with_org();
    let csv = "user_id,content\nmaya,note of maya\nmaya,\"broken quote\nbob,secret of bob\n";
    let file = scratch.write("quote.csv", csv);
    let expected = "error: line 3 has a quote without an end, and nothing after it can be read";
    let preview = import(&scratch, &file, &["--format=csv", "--dry-run"]);
    preview.prints("dry run: created 1, updated 0, unchanged 0, rejected 0\n");
    assert_eq!(preview.failed(), expected);
    let done = import(&scratch, &file, &["--format=csv"]);
    done.prints("created 1, updated 0, unchanged 0, rejected 0\n");
    assert_eq!(done.failed(), expected);
    assert_eq!(backlog(&scratch), 1);
}

#[test]
fn dry_run_says_what_would_come_and_what_not() {
    let scratch = Scratch::with_org();
    let args = ["--format=mem0", "--dry-run", "--user=u-17=maya"];
    let run = import(&scratch, &export("mem0_get_all.json"), &args).ok();
    insta::assert_snapshot!(run.stdout, @r#"
    dry run: created 2, updated 0, unchanged 0, rejected 3
      1 rejected: the user's identifier is not a handle; assign one with --user ID=HANDLE
        line 24 ("Jo Smith")
      1 rejected: has no user; choose the audience of such entries with --audience, for example user:HANDLE
        line 30
      1 rejected: has no field memory
        line 36
    "#);
    run.stderr.assert_begins("reading: 2 memories");
    assert_eq!(rejections(&run), "");
    let file = scratch.write("mixed.jsonl", super::MIXED);
    let run = import(&scratch, &file, &["--dry-run", "--output=json"]).ok();
    let shown: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(
        (&shown["created"], &shown["unchanged"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(
        (&shown["rejected"], &shown["dry_run"]),
        (&json!(5), &json!(true))
    );
    let expected = json!({
        "outcome": "rejected", "reason": "is invalid JSON", "count": 1,
        "examples": [{"line": 2, "message": "is invalid JSON at column 2"}],
    });
    assert_eq!(shown["reasons"][0], expected);

    let nothing = import(&scratch, &export("zep_edges.json"), &args);
    assert_eq!(
        nothing.stdout.lines().next(),
        Some("dry run: created 0, updated 0, unchanged 0, rejected 2")
    );
    assert_eq!(nothing.failed(), "error: no entry is valid");
    // Not even the source was created.
    let sources = knowledge(&["source", "list", "--output=json", &scratch.data_dir()]);
    assert_eq!(
        (sources.ok().stdout.as_str(), backlog(&scratch)),
        ("[]\n", 0)
    );
}
