//! A disk that fills up and is freed again, under the store on disk.
//!
//! The test writes the store's reading of the free space. It runs in a child process, since a
//! process has only one log.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Method, StatusCode};
use knowledge_server::logging::{self, LogConfig, LogFormat};
use knowledge_storage_sled::{SledOptions, SledStore};
use serde_json::{Value, json};

use crate::support::{Answer, Call, InProcess, bulk_with_key, dashboard, list_roles, update_role};

/// Variable that marks a deliberate run of the ignored test.
const CHILD: &str = "KNOWLEDGE_TEST_FULL_DISK";
const FREE_BYTES_MIN: u64 = 64 * 1_024 * 1_024;

#[test]
fn full_disk_stops_only_changes_and_only_while_it_lasts() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let output = Command::new(std::env::current_exe().expect("this binary"))
        .args([
            "--exact",
            "full_disk::child_fills_the_disk",
            "--ignored",
            "--nocapture",
        ])
        .env(CHILD, &path)
        .output()
        .expect("run the child");
    let log = String::from_utf8(output.stderr).expect("a log in UTF-8");
    assert!(output.status.success(), "{log}");
    let lines: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let of = |level: &str, message: &str| {
        let is_it = |line: &&Value| {
            line["level"] == level
                && line["message"]
                    .as_str()
                    .is_some_and(|it| it.contains(message))
        };
        let found: Vec<_> = lines.iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{message}: {log}");
        found[0].clone()
    };
    // Each change of state is logged once, however many commits are rejected.
    let full = of("ERROR", "disk full; rejecting commits");
    assert_eq!(full["path"], path.to_str().expect("a path in UTF-8"));
    assert_eq!(full["free_bytes"], FREE_BYTES_MIN - 1);
    assert_eq!(full["free_bytes_min"], FREE_BYTES_MIN);
    let room = of("INFO", "disk space available again; accepting commits");
    assert_eq!(room["path"], full["path"]);
}

fn assert_refused(answer: &Answer) {
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    assert_eq!(answer.header("retry-after"), "1");
    let body = answer.json();
    assert_eq!(body["error"], "unavailable");
    // The log names the disk; responses do not.
    assert!(!body.to_string().contains("disk"), "{body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by full_disk_stops_only_changes_and_only_while_it_lasts in a process of its own"]
async fn child_fills_the_disk() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    logging::init(&LogConfig {
        format: LogFormat::Json,
        ..LogConfig::default()
    })
    .expect("the first to set it up");
    let free = Arc::new(AtomicU64::new(u64::MAX));
    let told = Arc::clone(&free);
    let options = SledOptions::default()
        .free_bytes_min(FREE_BYTES_MIN)
        .free_bytes_with(move |_| Ok(told.load(Ordering::SeqCst)));
    let store = Arc::new(SledStore::open(&path, options).expect("open the store"));
    let server = InProcess::over(store.clone()).await;
    let org = server.org();
    let (token, session) = (&org.members.owner.token, &org.members.owner.session);
    let memories = &org.main.memories.internal;
    let relabel = |key: &str, tag: &str| {
        bulk_with_key(
            token,
            key,
            &json!({ "memoryIds": memories, "audienceTag": tag }),
        )
    };
    let send = async |call: Call| call.send_to(&server.base_url).await;

    let before = send(relabel("before", "team:before")).await;
    assert_eq!(before.status, StatusCode::OK);

    free.store(FREE_BYTES_MIN - 1, Ordering::SeqCst);
    for _ in 0..3 {
        assert_refused(&send(relabel("during", "team:during")).await);
    }
    let rename = update_role(
        session,
        &org.slug,
        org.roles.guest,
        &json!({ "name": "During" }),
    );
    assert_refused(&send(rename.clone()).await);

    // Acknowledged changes are stored, and rejected ones are not.
    assert_eq!(
        send(dashboard(token, org.main.id)).await.status,
        StatusCode::OK
    );
    let roles = send(list_roles(session, &org.slug)).await;
    assert_eq!(roles.status, StatusCode::OK);
    assert!(!roles.json().to_string().contains("During"));
    let replayed = send(relabel("before", "team:before")).await;
    assert_eq!(replayed.status, StatusCode::OK);
    assert_eq!(replayed.json()["results"], before.json()["results"]);
    assert_eq!(
        send(Call::new(Method::GET, "/readyz")).await.status,
        StatusCode::OK
    );
    assert_eq!(store.close_reason(), None);

    // With free space again, the same requests with the same keys succeed without a restart.
    free.store(FREE_BYTES_MIN, Ordering::SeqCst);
    let after = send(relabel("during", "team:during")).await;
    assert_eq!(after.status, StatusCode::OK);
    assert_eq!(after.json()["replayed"], false);
    assert_eq!(after.json()["summary"]["succeeded"], memories.len());
    assert_eq!(
        after.json()["results"][0]["memory"]["audienceTag"],
        "team:during"
    );
    assert_eq!(send(rename).await.status, StatusCode::OK);
    let verified = server.service.verify().await.expect("read the store");
    assert_eq!(verified.differences, []);
}
