//! Tests of `knowledge config check`: all problems of a configuration, each with its position.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::problems;
use crate::support::{Scratch, knowledge, knowledge_in};

/// Returns the output of `knowledge config check` for a file with this text.
fn check(text: &str) -> Vec<String> {
    let scratch = Scratch::new();
    let file = scratch.write("knowledge.toml", text);
    let stderr = knowledge(&["config", "check", &file]).refused();
    problems(&scratch, &stderr)
}

#[test]
fn config_check_confirms_success_in_a_line() {
    let scratch = Scratch::new();
    let file = scratch.write(
        "knowledge.toml",
        "[server]\nlisten = \"[::1]:8080\"\n[limits]\nbody_bytes_max = 65_536\n",
    );
    let run = knowledge(&["config", "check", &file]).ok();
    let said = (run.stdout.as_str(), run.stderr.as_str());
    assert_eq!(said, ("the configuration is valid\n", ""));
}

#[test]
fn config_check_reports_all_problems_with_their_lines() {
    let scratch = Scratch::new();
    let file = scratch.write(
        "knowledge.toml",
        r#"# Names that are not known, then values of another kind.
listen = "127.0.0.1:80"
[server]
lisen = "127.0.0.1:80"
listen = "localhost"
request_timeout = 30
[sever]
[storage]
cache_bytes = "2 potatoes"
bulk_memories_max = 5
verify_entries = "yes"
data_dir = ["a", "b"]
[limits]
bulk_memories_max = 5_000
content_bytes_max = -1
connectors_per_workspace_max = "7"
[log]
format = "xml"
colour = 2026-11-21
"#,
    );
    let environment = [
        ("KNOWLEDGE_LIMITS__BULK_MEMORIES_MAX", "0"),
        ("KNOWLEDGE_SERVER__PORT", "80"),
        ("KNOWLEDGE_LOG_LEVEL", "info"),
        ("KNOWLEDGE_SERVICE_HOST", "somebody else's"),
    ];
    let args = ["config", "check", &file, "--max-connections=many"];
    let stderr = knowledge_in(&environment, &args).refused();
    insta::assert_snapshot!(problems(&scratch, &stderr).join("\n"), @r#"
    knowledge.toml:2:1: listen is outside any section; did you mean server.listen?
    knowledge.toml:4:1: unknown setting server.lisen; did you mean server.listen?
    knowledge.toml:5:10: server.listen must be an address with a port, such as 127.0.0.1:8080 or [::1]:8080, not the text "localhost"
    knowledge.toml:6:19: server.request_timeout must be a time from 1ms to 24h, with its unit (ms, s, m, h, d), not the number 30
    knowledge.toml:7:2: unknown section sever; did you mean server?
    knowledge.toml:9:15: storage.cache_bytes must be a size from 1MiB to 1TiB, in bytes or with a unit (KiB, MiB, GiB), not the text "2 potatoes"
    knowledge.toml:10:1: unknown setting storage.bulk_memories_max; did you mean limits.bulk_memories_max?
    knowledge.toml:11:18: storage.verify_entries must be true or false, not the text "yes"
    knowledge.toml:12:12: storage.data_dir must be a path, not the list of the text "a", the text "b"
    knowledge.toml:14:21: limits.bulk_memories_max must be a number of memories from 1 to 1100, not the number 5000
    knowledge.toml:15:21: limits.content_bytes_max must be a size from 1 to 32KiB, in bytes or with a unit (KiB, MiB, GiB), not the number -1
    knowledge.toml:16:32: limits.connectors_per_workspace_max must be a number of connectors from 0 to 2147483647, not the text "7"
    knowledge.toml:18:10: log.format must be auto, text or json, not the text "xml"
    knowledge.toml:19:1: unknown setting log.colour
    KNOWLEDGE_LIMITS__BULK_MEMORIES_MAX: limits.bulk_memories_max must be a number of memories from 1 to 1100, not "0"
    KNOWLEDGE_LOG_LEVEL: unknown variable; did you mean KNOWLEDGE_LOG__LEVEL?
    KNOWLEDGE_SERVER__PORT: unknown variable
    --max-connections: server.connections_max must be a number of connections from 1 to 2147483647, not "many"
    "#);
}

#[test]
fn config_check_reports_invalid_toml_with_its_line() {
    insta::assert_snapshot!(check("[server]\nlisten = \n\n[log\nlevel = \"info\"\n").join("\n"), @r#"
    knowledge.toml:2:10: not TOML: string values must be quoted, expected literal string
    knowledge.toml:4:5: not TOML: unclosed table, expected `]`
    "#);
    insta::assert_snapshot!(
        check("[log]\nlevel = \"info\"\nformat = \"text\"\nlevel = \"warn\"\n").join("\n"), @"knowledge.toml:4:1: not TOML: duplicate key");
}

#[test]
fn config_check_locates_contradictory_settings() {
    insta::assert_snapshot!(check("[server]\nbody_bytes_held_max = 1000\n").join("\n"), @"knowledge.toml:2:23: server.body_bytes_held_max must be at least limits.body_bytes_max, 1MiB");
    insta::assert_snapshot!(check("[limits]\nbody_bytes_max = \"512MiB\"\n").join("\n"), @"knowledge.toml:2:18: server.body_bytes_held_max must be at least limits.body_bytes_max, 512MiB");
    insta::assert_snapshot!(check("[limits]\naudit_retention = \"1h\"\n").join("\n"), @"knowledge.toml:2:19: limits.audit_retention must be at least limits.idempotency_retention, 24h");
    insta::assert_snapshot!(check("[log]\nlevel = \"info,blah\"\n").join("\n"), @r#"knowledge.toml:2:9: log.level must be a level or directives by target, not "info,blah": "blah" is not a level; levels are error, warn, info, debug, trace and off"#);
    insta::assert_snapshot!(check("[log]\nlevel = \"loud=x=y\"\n").join("\n"), @r#"knowledge.toml:2:9: log.level must be a level or directives by target, not "loud=x=y": error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5"#);
}

#[test]
fn config_check_counts_columns_in_characters() {
    let found = check("log = { \"größe\" = 1, level = 7 }\n");
    insta::assert_snapshot!(found.join("\n"), @r#"
    knowledge.toml:1:9: unknown setting log.größe
    knowledge.toml:1:30: log.level must be text, not the number 7
    "#);
}

#[test]
fn config_check_names_an_unreadable_file() {
    let scratch = Scratch::new();
    let missing = scratch.arg("missing.toml");
    let of = |file: &str| {
        let stderr = knowledge(&["config", "check", file]).refused();
        problems(&scratch, &stderr).join("\n")
    };
    insta::assert_snapshot!(of(&missing), @"missing.toml: cannot be read: No such file or directory (os error 2)");
    std::fs::write(scratch.path("latin.toml"), b"# \xe4").expect("write a file");
    insta::assert_snapshot!(of(&scratch.arg("latin.toml")), @"latin.toml: cannot be read: stream did not contain valid UTF-8");
    let named = [("KNOWLEDGE_CONFIG", missing.as_str())];
    let stderr = knowledge_in(&named, &["token", "list"]).refused();
    insta::assert_snapshot!(problems(&scratch, &stderr).join("\n"), @"missing.toml: cannot be read: No such file or directory (os error 2)");
}

#[test]
fn config_check_requires_usable_files() {
    let scratch = Scratch::new();
    let key = scratch.write("sealing.key", &"ab".repeat(32));
    let data = scratch.write("data", "");
    let file = scratch.write(
        "knowledge.toml",
        &format!("[storage]\nsealing_key_file = {key:?}\ndata_dir = {data:?}\n"),
    );
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("permissions");
    let check = || knowledge(&["config", "check", &file]);
    let found = problems(&scratch, &check().refused()).join("\n");
    insta::assert_snapshot!(found, @r#"
    knowledge.toml:2:20: storage.sealing_key_file cannot be used: sealing key: sealing.key may be read by other users than its owner (mode 0644); run chmod 600 sealing.key
    knowledge.toml:3:12: storage.data_dir must be a directory; data is not
    "#);

    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("permissions");
    std::fs::remove_file(&data).expect("remove a file");
    check().ok();
    assert!(!scratch.path("data").exists(), "a check makes nothing");

    scratch.write("sealing.key", "too short");
    let found = problems(&scratch, &check().refused()).join("\n");
    insta::assert_snapshot!(found, @"knowledge.toml:2:20: storage.sealing_key_file cannot be used: sealing.key contains no sealing key; it must have 32 bytes, as base64 or as 64 hexadecimal digits");
}

#[test]
fn config_check_rejects_a_directory_that_cannot_be_created() {
    let scratch = Scratch::new();
    scratch.write("file", "");
    let check = |directory: &str| {
        let text = format!("[storage]\ndata_dir = {:?}\n", scratch.arg(directory));
        knowledge(&["config", "check", &scratch.write("knowledge.toml", &text)])
    };
    let found = problems(&scratch, &check("file/inner/data").refused()).join("\n");
    insta::assert_snapshot!(found, @"knowledge.toml:2:12: storage.data_dir must be a directory; file is not");
    std::os::unix::fs::symlink("nowhere", scratch.path("link")).expect("a link");
    let found = problems(&scratch, &check("link").refused()).join("\n");
    insta::assert_snapshot!(found, @"knowledge.toml:2:12: storage.data_dir must be a directory; link is not");
    check("new/inner/data").ok();
    assert!(!scratch.path("new").exists(), "a check makes nothing");
}

#[test]
fn config_check_reports_values_rules_and_files_together() {
    let text = "[storage]\nsealing_key_file = \"/nowhere/key\"\n\
        [limits]\naudit_retention = \"1h\"\nbody_bytes_max = \"512MiB\"\n\
        [server]\nbody_bytes_held_max = \"a lot\"\n";
    insta::assert_snapshot!(check(text).join("\n"), @r#"
    knowledge.toml:7:23: server.body_bytes_held_max must be a size from 1 to 1TiB, in bytes or with a unit (KiB, MiB, GiB), not the text "a lot"
    knowledge.toml:4:19: limits.audit_retention must be at least limits.idempotency_retention, 24h
    knowledge.toml:2:20: storage.sealing_key_file cannot be used: the sealing key file /nowhere/key is missing; restore it, or set --sealing-key-file to the right one
    "#);
}

#[test]
fn config_check_reports_each_unusable_file() {
    let scratch = Scratch::new();
    let headers = scratch.write("headers", "no header");
    std::fs::set_permissions(&headers, Permissions::from_mode(0o600)).expect("permissions");
    let text = format!(
        "[tls]\ncertificate_file = \"/nowhere/cert\"\nprivate_key_file = \"/nowhere/key\"\n\
        [telemetry]\notlp_endpoint = \"https://127.0.0.1:4318\"\notlp_ca_file = \"/nowhere/ca\"\n\
        otlp_headers_file = {headers:?}\n"
    );
    let file = scratch.write("knowledge.toml", &text);
    let stderr = knowledge(&["config", "check", &file]).refused();
    insta::assert_snapshot!(problems(&scratch, &stderr).join("\n"), @r"
    knowledge.toml:2:20: tls.certificate_file cannot be used: the certificate /nowhere/cert: No such file or directory (os error 2)
    knowledge.toml:3:20: tls.private_key_file cannot be used: the private key /nowhere/key: no such file
    knowledge.toml:7:21: telemetry.otlp_headers_file cannot be used: the headers for the collector: headers: line 1 is not `name: value`
    knowledge.toml:6:16: telemetry.otlp_ca_file cannot be used: /nowhere/ca: I/O error: No such file or directory (os error 2)
    ");
}
