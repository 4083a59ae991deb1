//! Table of inputs as other tools and people make them, and what an import says of them.
//!
//! The files are in `kinds/`; shorter inputs stand here. Each row has what `--dry-run` prints, which
//! the import does then.

use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{backlog, import};
use crate::support::{AssertText, Scratch, knowledge};

/// Returns the path of a file.
fn kind(name: &str) -> String {
    format!(
        "{}/tests/cli/import/kinds/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// Returns what a dry run prints of a file, and asserts that the import counts the same.
fn report(file: &str, args: &[&str]) -> String {
    let scratch = Scratch::with_org();
    let dry = import(&scratch, file, &[args, &["--dry-run"]].concat());
    assert_eq!(backlog(&scratch), 0, "a dry run stores nothing");
    let done = import(&scratch, file, args);
    let planned = dry.stdout.strip_prefix("dry run: ").unwrap_or(&dry.stdout);
    assert_eq!(done.stdout, planned, "{}", done.stderr);
    let warnings = dry.stderr.lines();
    let warnings = warnings.filter(|line| line.starts_with("warning: "));
    warnings
        .chain(dry.stdout.lines())
        .fold(String::new(), |text, line| text + line + "\n")
}

fn write(name: &str, bytes: &[u8]) -> (Scratch, String) {
    let scratch = Scratch::new();
    let path = scratch.arg(name);
    fs::write(&path, bytes).expect("written");
    (scratch, path)
}

fn report_of(text: impl AsRef<[u8]>, args: &[&str]) -> String {
    let (_scratch, path) = write("input", text.as_ref());
    report(&path, args)
}

#[test]
fn entry_without_a_user_is_nobodys() {
    insta::assert_snapshot!(report(&kind("no_user.json"), &["--format=mem0"]), @r#"
    warning: no member has user:nobody-here now: nobody can read its memories (1 entry, first in line 9)
    dry run: created 1, updated 0, unchanged 0, rejected 1
      1 rejected: has no user; choose the audience of such entries with --audience, for example user:HANDLE
        line 3
    "#);
    let args = ["--format=mem0", "--audience=user:maya"];
    insta::assert_snapshot!(report(&kind("no_user.json"), &args), @r#"
    warning: no member has user:nobody-here now: nobody can read its memories (1 entry, first in line 9)
    dry run: created 2, updated 0, unchanged 0, rejected 0
    "#);
    insta::assert_snapshot!(report(&kind("mem0_page.json"), &["--format=mem0"]), @r#"
    warning: no member has user:alice now: nobody can read its memories (1 entry, first in line 35)
    dry run: created 1, updated 0, unchanged 0, left out 1 (--include-past brings them in), rejected 1
      1 rejected: has no user; choose the audience of such entries with --audience, for example user:HANDLE
        line 6
      1 left out: expired (expiration_date)
        line 12
    "#);
    for (text, format) in [
        ("content\nThe salary of Maya\n", "csv"),
        ("user_id,content\n,The salary of Maya\n", "csv"),
        (
            r#"[{"id": "1", "content": "The salary of Maya"}]"#,
            "openmemory",
        ),
        (
            r#"[{"id": "1", "content": "The salary of Maya", "user_id": null}]"#,
            "open-webui",
        ),
        (
            r#"{"memory": "The salary of Maya", "agent_id": "a"}"#,
            "mem0",
        ),
    ] {
        let shown = report_of(text, &[&format!("--format={format}")]);
        shown.assert_begins("dry run: created 0, updated 0, unchanged 0, rejected 1\n");
        shown.assert_has("has no user; choose the audience of such entries with --audience");
    }
}

#[test]
fn users_that_a_spreadsheet_changed_are_named() {
    insta::assert_snapshot!(report(&kind("pandas.csv"), &["--format=csv"]), @r#"
    warning: no member has user:00123 now: nobody can read its memories (1 entry, first in line 7)
    dry run: created 1, updated 0, unchanged 0, rejected 5
      2 rejected: the user's identifier is a number that a spreadsheet has changed; export it as text, or assign a handle with --user ID=HANDLE
        line 2 ("17.0")
        line 4 ("1.0053E+17")
      2 rejected: the user's identifier is what programs write for an empty cell; empty the cell, or assign a handle with --user ID=HANDLE
        line 5 ("nan")
        line 6 ("None")
      1 rejected: has no user; choose the audience of such entries with --audience, for example user:HANDLE
        line 3
    "#);
    let args = [
        "--format=csv",
        "--user=17.0=maya",
        "--user=nan=maya",
        "--audience=team:core",
    ];
    insta::assert_snapshot!(report(&kind("pandas.csv"), &args), @r#"
    warning: no member has team:core now: nobody can read its memories (1 entry, first in line 3)
    warning: no member has user:00123 now: nobody can read its memories (1 entry, first in line 7)
    dry run: created 4, updated 0, unchanged 0, rejected 2
      1 rejected: the user's identifier is a number that a spreadsheet has changed; export it as text, or assign a handle with --user ID=HANDLE
        line 4 ("1.0053E+17")
      1 rejected: the user's identifier is what programs write for an empty cell; empty the cell, or assign a handle with --user ID=HANDLE
        line 6 ("None")
    "#);
}

#[test]
fn equal_keys_of_two_people_stay_apart() {
    let scratch = Scratch::with_org();
    let files = [
        ("keys_of_alice.csv", "user:alice"),
        ("keys_of_bob.csv", "user:bob"),
    ];
    for (file, audience) in files {
        let audience = format!("--audience={audience}");
        let done = import(&scratch, &kind(file), &["--format=csv", &audience]).ok();
        done.prints("created 2, updated 0, unchanged 0, rejected 0\n");
    }
    let rows = "user_id,source_key,content\nalice,1,Alice moves\nbob,1,Bob stays\n";
    let file = scratch.write("both.csv", rows);
    let done = import(&scratch, &file, &["--format=csv"]).ok();
    done.prints("created 0, updated 2, unchanged 0, rejected 0\n");
    assert_eq!(backlog(&scratch), 4);
    // In lines with labels and keys of their own, an equal key is the same memory, which moves.
    let line = |text: &str, label: &str| {
        let text = format!(
            r#"{{"title":"Note","content":"{text}","source_key":"1","audience_tag":"{label}"}}"#
        );
        scratch.write("shared.jsonl", &text)
    };
    let file = line("About Maya.", "user:maya");
    import(&scratch, &file, &[]).ok().begins("created 1,");
    let file = line("About Bob.", "user:bob");
    let moved = import(&scratch, &file, &[]).ok();
    moved.prints("created 0, updated 0, unchanged 0, moved 1, rejected 0\n  1 moved: line 1\n");
}

#[test]
fn entries_that_are_over_are_left_out() {
    let args = ["--format=zep", "--audience=user:maya"];
    insta::assert_snapshot!(report(&kind("ended.json"), &args), @r#"
    dry run: created 2, updated 0, unchanged 0, left out 1 (--include-past brings them in), rejected 0
      1 left out: ended (expired_at)
        line 3
    "#);
    insta::assert_snapshot!(report(&kind("expired.json"), &["--format=mem0"]), @r#"
    dry run: created 0, updated 0, unchanged 0, left out 1 (--include-past brings them in), rejected 0
      1 left out: expired (expiration_date)
        line 3
    "#);
    let args = ["--format=mem0", "--include-past"];
    insta::assert_snapshot!(report(&kind("expired.json"), &args), @r#"
    dry run: created 1, updated 0, unchanged 0, rejected 0
    "#);
    insta::assert_snapshot!(report(&kind("openmemory.zip"), &["--format=openmemory"]), @r#"
    warning: no member has user:alice now: nobody can read its memories (1 entry, first in line 33)
    dry run: created 1, updated 0, unchanged 0, left out 1 (--include-past brings them in), rejected 0
      1 left out: deleted (deleted_at)
        line 48
    "#);
    for (text, format) in [
        (
            r#"[{"memory": "Old.", "isForgotten": true}]"#,
            "supermemory",
        ),
        (r#"[{"memory": "Old.", "isLatest": false}]"#, "supermemory"),
        (
            r#"[{"memory": "Old.", "forgetAfter": "2020-01-01T00:00:00Z"}]"#,
            "supermemory",
        ),
        (r#"{"content": "Old.", "state": "archived"}"#, "openmemory"),
        (
            r#"{"content": "Old.", "archived_at": 1600000000}"#,
            "openmemory",
        ),
        (
            r#"{"fact": "Old.", "uuid": "1", "expired_at": "2024-01-01"}"#,
            "graphiti",
        ),
        (
            r#"{"text": "Old.", "id": "1", "is_deleted": true}"#,
            "letta",
        ),
        ("content,Deleted At\nOld.,2020-01-01 10:00:00\n", "csv"),
        ("content,status\nOld.,Archived\n", "csv"),
    ] {
        let args = [&*format!("--format={format}"), "--audience=user:maya"];
        let shown = report_of(text, &args);
        let expected = "dry run: created 0, updated 0, unchanged 0, left out 1 (--include-past \
                        brings them in), rejected 0\n";
        shown.assert_begins(expected);
        let shown = report_of(text, &[&args[..], &["--include-past"]].concat());
        shown.assert_begins("dry run: created 1,");
    }
}

#[test]
fn bad_entry_is_one_bad_entry() {
    insta::assert_snapshot!(report(&kind("nan.json"), &["--format=mem0"]), @r#"
    dry run: created 2, updated 0, unchanged 0, rejected 1
      1 rejected: is invalid JSON
        line 3: expected value
    "#);
    insta::assert_snapshot!(report(&kind("surrogate.jsonl"), &[]), @r#"
    dry run: created 2, updated 0, unchanged 0, rejected 1
      1 rejected: is invalid JSON
        line 2 at column 40
    "#);
    insta::assert_snapshot!(report(&kind("nul.jsonl"), &[]), @r#"
    dry run: created 1, updated 0, unchanged 0, rejected 1
      1 rejected: content must not contain the character U+0000
        line 1
    "#);
    insta::assert_snapshot!(report(&kind("crlf.csv"), &["--format=csv"]), @r#"
    dry run: created 2, updated 0, unchanged 0, rejected 2
      2 rejected: the user's identifier is not a handle; assign one with --user ID=HANDLE
        line 3 ("B B")
        line 6 ("C C")
    "#);
    let good = r#"{"title":"t","content":"c"}"#;
    let other = r#"{"title":"u","content":"c"}"#;
    let both = format!("{good} {other}\n{good}\n{{\"title\":\"cut\",\"con");
    insta::assert_snapshot!(report_of(both, &[]), @r#"
    dry run: created 2, updated 0, unchanged 1, rejected 1
      1 rejected: is invalid JSON
        line 3 at column 19
    "#);
}

#[test]
fn title_that_nobody_typed_is_cleaned() {
    insta::assert_snapshot!(report(&kind("marks.json"), &["--format=mem0"]), @r#"
    dry run: created 3, updated 0, unchanged 0, rejected 0
    "#);
    let typed = "{\"title\":\"a\u{202e}b\",\"content\":\"c\"}";
    insta::assert_snapshot!(report_of(typed, &[]), @r#"
    dry run: created 0, updated 0, unchanged 0, rejected 1
      1 rejected: title must not contain the control character U+202E
        line 1
    "#);
}

#[test]
fn packed_and_encoded_files_are_recognised() {
    insta::assert_snapshot!(report(&kind("excel.csv"), &["--format=csv"]), @r#"
    dry run: created 0, updated 0, unchanged 0, rejected 1
      1 rejected: must have as many fields as the header
        line 3 (3, not 2)
    "#);
    let line = r#"{"title":"Größe","content":"c"}"#;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(line.as_bytes()).expect("memory");
    let gzip = gzip.finish().expect("memory");
    let utf16 = |with_mark: bool| -> Vec<u8> {
        let mark = with_mark.then_some(0xFEFF);
        let units = mark.into_iter().chain(line.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    };
    for bytes in [gzip, utf16(true), utf16(false)] {
        report_of(bytes, &[]).assert_is("dry run: created 1, updated 0, unchanged 0, rejected 0\n");
    }
    let latin: Vec<u8> = line.chars().map(|char| char as u8).collect();
    insta::assert_snapshot!(report_of(&latin, &[]), @r#"
    dry run: created 0, updated 0, unchanged 0, rejected 1
      1 rejected: is not UTF-8; choose its --encoding, for example windows-1252
        line 1
    "#);
    report_of(&latin, &["--encoding=windows-1252"]).assert_begins("dry run: created 1,");
    let refused = |name: &str, bytes: &[u8]| {
        let (_scratch, path) = write(name, bytes);
        import(&Scratch::with_org(), &path, &[]).failed()
    };
    refused("a.xz", b"\xFD7zXZ\0...").assert_ends("is compressed by xz; unpack it first");
    refused("a.db", b"SQLite format 3\0").assert_has("is an SQLite database");
    let archive = import(&Scratch::with_org(), &kind("openmemory.zip"), &[]).failed();
    archive.assert_has("is an archive of several files: memories.json, memories.jsonl.gz;");
    let unknown = knowledge(&[
        "import",
        "x",
        "--workspace=w",
        "--source=s",
        "--encoding=ebcdic",
    ]);
    unknown
        .refused()
        .assert_has("must be the name of an encoding");
}

#[test]
fn other_stores_are_imported_or_named() {
    let args = ["--format=letta", "--audience=user:maya"];
    insta::assert_snapshot!(report(&kind("letta_agent.af"), &args), @r#"
    dry run: created 1, updated 0, unchanged 0, rejected 1
      1 rejected: content must have 1 to 32768 bytes, and at most 61440 once JSON escapes it
        line 83
    "#);
    let graph = "{\"type\":\"entity\",\"name\":\"Maya\",\"entityType\":\"person\",\
                 \"observations\":[\"Leads support.\"]}\n{\"type\":\"relation\",\"from\":\"Maya\",\
                 \"to\":\"Acme\",\"relationType\":\"works at\"}\n";
    let args = ["--format=mcp-memory", "--audience=team:core"];
    report_of(graph, &args).assert_has("created 2, updated 0, unchanged 0, rejected 0");
    let claude = r#"[{"conversations_memory": "Works in Porto.", "account_uuid": "a-1",
        "project_memories": {"p-1": "Plans a move."}}]"#;
    let args = ["--format=claude", "--audience=user:maya"];
    report_of(claude, &args).assert_has("created 2, updated 0, unchanged 0, rejected 0");
    let webui = r#"[{"id": "m-1", "user_id": "u-1", "content": "Likes tea.",
        "updated_at": 1718000000, "created_at": 1718000000}]"#;
    let args = ["--format=open-webui", "--user=u-1=maya"];
    report_of(webui, &args).assert_begins("dry run: created 1,");
    let entries = r#"{"memoryEntries": [{"id": "1", "memory": "Likes tea.", "isLatest": true,
        "isForgotten": false, "forgetAfter": null}]}"#;
    let args = ["--format=supermemory", "--audience=user:maya"];
    report_of(entries, &args).assert_begins("dry run: created 1,");
}
