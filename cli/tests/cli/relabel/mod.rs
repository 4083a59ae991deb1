//! Tests of `knowledge relabel` with the real server: each memory is changed once.

mod stage;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;
use uuid::Uuid;

use self::stage::{RELABEL, Stage};
use crate::support::{AssertText, Proxy, knowledge, start, words};

const CONFIDENTIAL: &str = "--set=sensitivity=confidential";

#[test]
fn relabel_dry_run_counts_and_changes_nothing() {
    let stage = Stage::with_memories(12);
    let run = stage.relabel(&stage.url, &[CONFIDENTIAL, "--dry-run"]).ok();
    assert_eq!(run.stdout, "12 would be changed\n");
    let said =
        "12 memories of support with sensitivity=internal would get sensitivity=confidential";
    run.warns(said);
    let sample = run.stderr.lines().filter(|line| line.contains(" Note "));
    assert_eq!(sample.count(), 5, "{}", run.stderr);
    run.warns("  and 7 more");
    assert_eq!((stage.count("internal"), stage.has_plan()), (12, false));
    let unasked = stage.relabel(&stage.url, &[CONFIDENTIAL]);
    assert_eq!(unasked.code, 2, "{}", unasked.stderr);
    unasked.warns("--yes");
    assert_eq!((stage.count("internal"), stage.has_plan()), (12, false));
    assert_eq!(stage.audited(), BTreeMap::new());
}

#[test]
fn relabel_warns_of_audience_without_members() {
    let stage = Stage::with_memories(3);
    let warning = "warning: no member has team:nosuch now: nobody could read these memories";
    let run = stage.relabel(&stage.url, &["--set=audience=team:nosuch", "--dry-run"]);
    run.ok().warns(warning);
    let run = stage.relabel(
        &stage.url,
        &["--set=audience=workspace:support", "--dry-run"],
    );
    assert!(!run.ok().stderr.contains("warning"));
    assert_eq!((stage.count("internal"), stage.has_plan()), (3, false));
}

#[test]
fn relabel_finds_sources_by_name() {
    let stage = Stage::with_memories(12);
    let data_dir = stage.scratch.data_dir();
    let list = ["source", "list", "--output=json", &data_dir];
    let listed: Value = serde_json::from_str(&knowledge(&list).ok().stdout).expect("JSON");
    assert_eq!(
        (&listed[0]["name"], &listed[1]),
        (&"Wiki".into(), &Value::Null)
    );
    let table = knowledge(&["source", "list", &data_dir]).ok().stdout;
    let id = listed[0]["id"].as_str().expect("an id");
    assert!(table.contains("Wiki") && table.contains(id), "{table}");
    for source in ["--where=source=Wiki", &format!("--where=source={id}")] {
        let run = stage.relabel(&stage.url, &[CONFIDENTIAL, source, "--dry-run"]);
        assert_eq!(run.ok().stdout, "12 would be changed\n", "{source}");
    }
    let unknown = stage.relabel(&stage.url, &[CONFIDENTIAL, "--where=source=Wikis", "--yes"]);
    unknown.fails(r#"error: unknown source "Wikis"; sources of this token: Wiki"#);
    assert_eq!((stage.count("internal"), stage.has_plan()), (12, false));
}

#[test]
fn relabel_changes_matching_memories_once_and_skips_unchanged() {
    let stage = Stage::with_memories(250);
    let args = words("--set=audience=team:core --yes --batch=100 --output=json");
    let run = stage.relabel(&stage.url, &args).ok();
    let summary: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let expected =
        serde_json::json!({"dry_run": false, "matched": 250, "changed": 250, "refused": []});
    assert_eq!(summary, expected);
    // The filter still matches them, but there is nothing to do.
    let again = stage.relabel(&stage.url, &args[..3]).ok();
    assert_eq!(again.stdout, "changed 0, not changed 0\n");
    again.warns("250 more already have these labels");
    assert!(!stage.has_plan());
    assert_audited_once(stage, 250);
}

/// Asserts that this many memories have one audit entry each.
#[track_caller]
fn assert_audited_once(stage: Stage, memories: usize) {
    let audited = stage.audited();
    assert_eq!(audited.len(), memories, "{audited:?}");
    assert!(audited.values().all(|count| *count == 1), "{audited:?}");
}

/// Kills a relabelling during the response to its third call, which the server has executed.
fn interrupt(stage: &Stage, proxy: &Proxy) {
    let args = [CONFIDENTIAL, "--yes", "--batch=50"];
    let relabelling = stage.start_relabelling(&proxy.url(), &args);
    proxy.wait_until_held();
    relabelling.kill();
    proxy.release();
    assert!(stage.has_plan());
    assert_eq!(stage.count("confidential"), 150);
}

#[test]
fn relabel_completes_a_killed_run_without_repeating_changes() {
    let stage = Stage::with_memories(320);
    let proxy = Proxy::start(&stage.url).hold_answer("PATCH", 3);
    interrupt(&stage, &proxy);
    let dry = stage
        .relabel(&proxy.url(), &[CONFIDENTIAL, "--dry-run"])
        .ok();
    let left = "an earlier run was interrupted; memories remaining: 220 of 320";
    dry.warns(left);
    let other = stage
        .relabel(&proxy.url(), &["--set=review=approved", "--yes"])
        .failed();
    other.assert_has("is not a plan of this relabelling");
    // It requires no second confirmation, since the run has to be completed.
    let run = stage.relabel(&proxy.url(), &[CONFIDENTIAL]).ok();
    assert_eq!(run.stdout, "changed 320, not changed 0\n");
    assert_eq!(
        (stage.count("confidential"), stage.count("internal")),
        (320, 0)
    );
    assert!(!stage.has_plan());
    drop(proxy);
    assert_audited_once(stage, 320);
}

#[test]
fn relabel_plan_does_not_depend_on_idempotency_retention() {
    let stage = Stage::served(320, "[limits]\nidempotency_retention = \"1ms\"\n");
    let proxy = Proxy::start(&stage.url).hold_answer("PATCH", 3);
    interrupt(&stage, &proxy);
    let run = stage.relabel(&proxy.url(), &[CONFIDENTIAL]).ok();
    assert_eq!(run.stdout, "changed 320, not changed 0\n");
    drop(proxy);
    assert_audited_once(stage, 320);
}

#[test]
fn relabel_retries_a_busy_server() {
    let stage = Stage::with_memories(30);
    let busy = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
    let many = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
    let proxy = Proxy::start(&stage.url)
        .answer("PATCH", 1, busy)
        .answer("GET", 2, many)
        .drop_answer("PATCH", 3);
    let run = stage
        .relabel(&proxy.url(), &[CONFIDENTIAL, "--yes", "--batch=10"])
        .ok();
    assert_eq!(run.stdout, "changed 30, not changed 0\n");
    drop(proxy);
    assert_audited_once(stage, 30);
}

#[test]
fn relabel_discards_a_plan_whose_first_call_is_invalid() {
    let stage = Stage::served(30, "[limits]\nbulk_memories_max = 10\n");
    let unknown = format!("--set=source={}", Uuid::nil());
    for (options, said) in [
        ([unknown.as_str(), "--batch=10"], "sourceId must be"),
        ([CONFIDENTIAL, "--batch=11"], "memoryIds must"),
    ] {
        let run = stage.relabel(&stage.url, &[&options[..], &["--yes"]].concat());
        let message = run.failed();
        assert!(
            message.contains(said) && message.contains("nothing was changed; use other options"),
            "{message}"
        );
        assert!(!stage.has_plan());
    }
    // Another token may succeed, so the plan is kept.
    let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
    let proxy = Proxy::start(&stage.url).answer("PATCH", 1, refusal);
    let batch = [CONFIDENTIAL, "--batch=10", "--yes"];
    let message = stage.relabel(&proxy.url(), &batch).failed();
    message.assert_has("run the command again to resume");
    assert!(stage.has_plan());
    let run = stage.relabel(&proxy.url(), &batch).ok();
    assert_eq!(run.stdout, "changed 30, not changed 0\n");
    drop(proxy);
    assert_audited_once(stage, 30);
}

#[test]
fn relabel_lists_unchanged_memories() {
    let mut stage = Stage::with_memories(25);
    let data_dir = stage.scratch.data_dir();
    let narrow = [
        "token",
        "create",
        "--member=maya",
        "--action=memory:read",
        "--action=memory:update",
        &data_dir,
    ];
    let all = stage.token.clone();
    stage.use_token(&knowledge(&narrow).ok().stdout);
    let run = stage.relabel(
        &stage.url,
        &["--set=sensitivity=public", "--yes", "--batch=10"],
    );
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (1, "changed 0, not changed 25\n")
    );
    assert!(
        run.stderr.contains(" forbidden\n") && run.stderr.contains("and 5 more"),
        "{}",
        run.stderr
    );
    run.stderr
        .assert_ends("error: 25 memories were not changed\n");
    assert!(!stage.has_plan(), "nothing is left to do");
    stage.use_token(&all);
    assert_eq!(stage.count("internal"), 25);
}

#[test]
fn relabel_connects_over_trusted_tls() {
    let mut stage = Stage::with_memories(3);
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let certificate = stage.scratch.write("server.pem", &made.cert.pem());
    let key = stage
        .scratch
        .write("server.key", &made.signing_key.serialize_pem());
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("permissions");
    let config = format!("[tls]\ncertificate_file = {certificate:?}\nprivate_key_file = {key:?}\n");
    let config = format!("--config={}", stage.scratch.write("tls.toml", &config));
    let data_dir = stage.scratch.data_dir();
    stage.stop();
    let server = start(&["serve", &data_dir, "--listen=127.0.0.1:0", &config]);
    let line = server.error_with("listening on https://");
    let (_, url) = line.split_once("listening on ").expect("the mark");
    let url = url.split('"').next().unwrap_or_default().trim().to_owned();
    let trusting = format!("--ca-file={certificate}");
    let run = stage
        .relabel(&url, &[CONFIDENTIAL, "--yes", &trusting])
        .ok();
    assert_eq!(run.stdout, "changed 3, not changed 0\n");
    let message = stage.relabel(&url, &[CONFIDENTIAL]).failed();
    message.assert_has("certificate");
    let hint = "name the certificate of its authority with --ca-file";
    message.assert_ends(hint);
    let health = ["healthcheck", "--url", &url];
    let message = knowledge(&health).failed();
    message.assert_ends(hint);
    knowledge(&[&health[..], &[&trusting]].concat()).ok();
    assert_eq!(server.terminate(), 0);
    let message = stage.relabel(&url, &[CONFIDENTIAL, &trusting]).failed();
    message.assert_has("Connection refused");
    let empty = format!("--ca-file={}", stage.scratch.write("empty.pem", ""));
    let message = stage
        .relabel(&url, &[CONFIDENTIAL, "--yes", &empty])
        .failed();
    message.assert_has("it contains no certificate");
}

#[test]
fn relabel_reads_server_and_token_from_environment() {
    let stage = Stage::with_memories(3);
    let run = |token: &str| {
        Command::new(env!("CARGO_BIN_EXE_knowledge"))
            .args(RELABEL)
            .args([CONFIDENTIAL, "--yes"])
            .env("KNOWLEDGE_URL", &stage.url)
            .env("KNOWLEDGE_TOKEN", token)
            .env("XDG_STATE_HOME", stage.scratch.path("state"))
            .output()
            .expect("run the binary")
    };
    let refused = run("wkt_nonsense");
    let message = String::from_utf8(refused.stderr).expect("text");
    message.assert_has("KNOWLEDGE_TOKEN contains no valid token");
    let done = run(&stage.token);
    assert!(done.status.success(), "{done:?}");
    let plans = fs::read_dir(stage.scratch.path("state/knowledge/relabel")).expect("the directory");
    assert_eq!(plans.count(), 0, "a plan that is done is removed");
    assert_eq!(stage.count("confidential"), 3);
}

#[test]
fn relabel_names_invalid_arguments() {
    let stage = Stage::with_memories(1);
    let twice = stage.relabel(&stage.url, &["--where=sensitivity=public", CONFIDENTIAL]);
    assert_eq!(twice.code, 2);
    twice.warns("--where sensitivity=… must not be repeated");
    let wrong = stage.relabel(&stage.url, &["--set=sensitivity=secret"]);
    assert_eq!(wrong.code, 2);
    wrong.warns("sensitivity must be one of public, internal");
    let server = stage.relabel("127.0.0.1:8080", &[CONFIDENTIAL]);
    assert_eq!(server.code, 2);
    server.warns("--server");
    let options = stage.options(&stage.url);
    let args: Vec<&str> = options.iter().map(String::as_str).collect();
    let elsewhere = [
        "relabel",
        "--workspace=attic",
        "--where=review=pending",
        CONFIDENTIAL,
    ];
    let message = knowledge(&[&elsewhere, &args[..]].concat()).failed();
    message.assert_ends("workspaces of this token: sales, support");
    fs::set_permissions(
        stage.scratch.path("token"),
        fs::Permissions::from_mode(0o644),
    )
    .expect("permissions");
    let exposed = stage.relabel(&stage.url, &[CONFIDENTIAL]).failed();
    exposed.assert_has("chmod 600");
}
