//! Tests of `knowledge import`.

mod exports;
mod kinds;
mod served;

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::{AssertText, Finished, Scratch, knowledge, start};

fn import(scratch: &Scratch, file: &str, more: &[&str]) -> Finished {
    let data_dir = scratch.data_dir();
    let mut args = vec![
        "import",
        file,
        "--workspace=support",
        "--source=Handbook",
        &data_dir,
    ];
    args.extend(more);
    knowledge(&args)
}

fn lines(count: usize) -> String {
    (0..count).fold(String::new(), |mut lines, index| {
        let line = json!({ "title": format!("Page {index}"), "content": format!("What page {index} says.") });
        writeln!(lines, "{line}").expect("a string");
        lines
    })
}

fn backlog(scratch: &Scratch) -> u64 {
    let shown = knowledge(&["dashboard", "support", "--output=json", &scratch.data_dir()]).ok();
    let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    shown["review_backlog_count"].as_u64().expect("a count")
}

#[test]
fn import_of_same_file_changes_nothing() {
    let scratch = Scratch::with_org();
    let file = scratch.write("pages.jsonl", &lines(250));
    let first = import(&scratch, &file, &[]).ok();
    first.prints("created 250, updated 0, unchanged 0, rejected 0\n");
    let second = import(&scratch, &file, &["--output=json"]).ok();
    let summary: Value = serde_json::from_str(&second.stdout).expect("JSON");
    let expected = json!({
        "created": 0, "updated": 0, "unchanged": 250, "moved": 0, "label_kept": 0, "erased": 0,
        "forbidden": 0, "left_out": 0, "rejected": 0, "reasons": [],
        "labels_without_members": {},
    });
    assert_eq!(summary, expected);
    assert_eq!(backlog(&scratch), 250);
}

#[test]
fn import_with_known_key_updates_its_memory() {
    let scratch = Scratch::with_org();
    let line = |content: &str| format!(r#"{{"title":"t","content":"{content}","source_key":"k"}}"#);
    let file = scratch.write("one.jsonl", &line("old"));
    assert!(
        import(&scratch, &file, &[])
            .ok()
            .stdout
            .starts_with("created 1,")
    );
    let file = scratch.write("one.jsonl", &line("new"));
    let updated = import(&scratch, &file, &[]).ok();
    updated.prints("created 0, updated 1, unchanged 0, rejected 0\n");
    assert_eq!(backlog(&scratch), 1);
}

const MIXED: &str = r#"{"title":"One","content":"Good.","audience_tag":"team:platform","sensitivity_label":"public"}
not JSON

{"title":"","content":"No title."}
{"title":"Two","content":"Good.","sensitivity_label":"secret"}
{"title":"Three","content":"Good.","source_key":"three"}
{"title":"Three again","content":"Good.","source_key":"three"}
{"title":"One","content":"Good.","audience_tag":"team:platform"}
{"title":"Four","content":"Good.","tags":["a"]}
{"title":"Five","content":"Good."}"#;

#[test]
fn import_reports_invalid_lines_and_ingests_the_others() {
    let scratch = Scratch::with_org();
    let file = scratch.write("mixed.jsonl", MIXED);
    let done = import(&scratch, &file, &[]).ok();
    done.begins("created 3, updated 0, unchanged 1, rejected 5\n");
    let told: Vec<_> = done
        .stderr
        .lines()
        .filter(|line| line.starts_with("line "))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    line 2: is invalid JSON at column 2
    line 4: title must have 1 to 128 characters, not only white space, and no control characters
    line 5: sensitivity_label must be one of public, internal, confidential, restricted
    line 7: source_key is already used in line 6
    line 9: unknown field `tags`, expected one of `title`, `content`, `source_key`, `audience_tag`, `sensitivity_label` (column 40)
    "#);
}

#[test]
fn import_strict_ends_at_first_invalid_line() {
    let scratch = Scratch::with_org();
    let good = lines(130);
    let file = scratch.write("bad.jsonl", &format!("{good}bad\n{}", lines(140)));
    let done = import(&scratch, &file, &["--strict"]);
    done.begins("created 130, updated 0, unchanged 0, rejected 1\n");
    let message = done.failed();
    message.assert_is("error: stopped at line 131; the lines before it were imported");
    assert_eq!(backlog(&scratch), 130);
}

#[test]
fn import_resumes_after_a_kill() {
    let scratch = Scratch::with_org();
    let all = lines(1_000);
    let (some, _) = all.split_at(all.len() / 2);
    // From an open pipe, the import waits for more, and is killed during that.
    let data_dir = scratch.data_dir();
    let source = [
        "import",
        "-",
        "--workspace=support",
        "--source=Handbook",
        &data_dir,
    ];
    let mut running = start(&source);
    running.tell(some);
    running.tell("bad\n");
    running.error_with("line "); // Everything before it was read.
    running.kill();
    let file = scratch.write("all.jsonl", &all);
    let resumed = import(&scratch, &file, &["--output=json"]).ok();
    let summary: Value = serde_json::from_str(&resumed.stdout).expect("JSON");
    let number = |field: &str| summary[field].as_u64().expect(field);
    assert!(number("unchanged") >= 400, "{summary}");
    assert_eq!(number("created") + number("unchanged"), 1_000, "{summary}");
    assert_eq!(backlog(&scratch), 1_000);
}

#[test]
fn import_names_missing_resources() {
    let scratch = Scratch::with_org();
    let file = scratch.write("pages.jsonl", &lines(1));
    let data_dir = scratch.data_dir();
    let run = |args: &[&str]| {
        let mut all = vec!["import", &data_dir, "--source=Handbook"];
        all.extend(args);
        knowledge(&all).failed()
    };
    let message = run(&[&file, "--workspace=suport"]);
    message.assert_is("error: there is no such workspace; workspaces of acme: sales, support");
    let message = run(&[&file, "--workspace=support", "--as=nobody"]);
    message.assert_is("error: there is no such member; members of acme: maya");
    let message = run(&[&file, "--workspace=support", "--org=other"]);
    message.assert_is(r#"error: unknown organisation "other"; known organisations: acme"#);
    let message = run(&[&scratch.arg("missing"), "--workspace=support"]);
    message.assert_ends("No such file or directory (os error 2)");
}

/// The names of fields are the file's: they must not give commands to the terminal.
#[test]
fn import_escapes_control_characters_of_unknown_fields() {
    let scratch = Scratch::with_org();
    let field = "\u{1b}]0;owned\u{7}\u{9b}2J\nline 2: imported";
    let entry = json!({ "title": "t", "content": "c", field: "x" });
    let file = scratch.write("fields.jsonl", &format!("{entry}\n"));
    for more in [&["--dry-run"][..], &[], &["--strict"]] {
        let done = import(&scratch, &file, more);
        let shown = format!("{}{}", done.stdout, done.stderr);
        shown.assert_has(r"unknown field `\u{1b}]0;owned\u{7}\u{9b}2J line 2: imported`");
        let is_command = |char: char| char.is_control() && char != '\n';
        assert!(!shown.contains(is_command), "{shown:?}");
    }
}
