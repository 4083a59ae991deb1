//! Stores that the service fills, and the commands that work on them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use http::{Method, StatusCode};
use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::model::WorkspaceId;
use knowledge_server::data::Data;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tempfile::TempDir;

use crate::calls::{call, dashboard_path};
use crate::knowledge::Knowledge;
use crate::load::{Call, Job, Served, Target, Until};
use crate::process;
use crate::site::{BATCH, Tenant, with_store};
use crate::spec::Engine;

/// Batches and members that fill a store at the same time.
pub(crate) const FILLERS: usize = 64;
/// Memories, or holders, up to which a store is verified at the end.
const VERIFIED_MAX: usize = 100_000;
/// Settings of the servers, beside those of [`Knowledge::serve`]: the stores are above the quotas.
const VARIABLES: [(&str, &str); 3] = [
    ("KNOWLEDGE_WEBHOOKS__DELIVER", "false"),
    ("KNOWLEDGE_RATE_LIMIT__REQUESTS", "0"),
    ("KNOWLEDGE_LIMITS__AUDIT_BYTES_PER_DAY_MAX", "1TiB"),
];

/// A closed store with memories that wait for review.
pub(crate) struct Stored {
    directory: TempDir,
    pub(crate) memories: usize,
    token: String,
    workspace: WorkspaceId,
}

/// A start of a server.
pub(crate) struct Started {
    /// Time until the server is ready.
    pub(crate) ms: f64,
    /// Processor time until then.
    pub(crate) cpu_us: f64,
    /// Resident memory then, and after dashboard summaries.
    pub(crate) mib: [f64; 2],
}

impl Stored {
    pub(crate) async fn with_memories(engine: Engine, memories: usize) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be created");
        let path = directory.path().join("data");
        let began = Instant::now();
        let (token, workspace) = with_store(engine, &path, async |data| {
            let tenant = new_tenant(data).await;
            tenant.furnish().await;
            let batches = stream::iter((0..memories).step_by(BATCH));
            let batches = batches.for_each_concurrent(FILLERS, async |first| {
                let ingested = tenant.ingest(first..memories.min(first + BATCH)).await;
                assert!(!ingested.is_empty());
            });
            batches.await;
            (tenant.token.clone(), tenant.workspace)
        })
        .await;
        if memories > VERIFIED_MAX {
            let seconds = began.elapsed().as_secs();
            println!("  {} with {memories} memories: {seconds} s", engine.name());
        }
        Self {
            directory,
            memories,
            token,
            workspace,
        }
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Returns the directory of a copy.
    pub(crate) fn raw_dir(&self) -> PathBuf {
        self.directory.path().join("raw")
    }

    pub(crate) async fn serve(&self) -> (Served, Duration) {
        serve(&self.data_dir()).await
    }

    /// Returns the request for the dashboard summary, whose counts are checked once.
    pub(crate) async fn summaries(&self, target: &Target) -> Arc<Job> {
        let get = call(&self.token, Method::GET, dashboard_path(self.workspace));
        let first = target.send(get.clone()).await;
        assert_eq!(first.json()["review_backlog_count"], self.memories);
        Job::repeat(get, StatusCode::OK, first.body)
    }

    /// Starts a server, uses it, and stops it.
    pub(crate) async fn start(&self, summaries: usize) -> Started {
        let (server, time) = self.serve().await;
        let target = &server.target;
        let cpu_us = 1e3 * process::cpu_ms(target.id);
        let resident = process::resident_mib(target.id);
        let job = self.summaries(target).await;
        target.load(1, Until::Count(summaries), &job).await;
        let mib = [resident, process::resident_mib(target.id)];
        server.stop();
        Started {
            ms: 1e3 * time.as_secs_f64(),
            cpu_us,
            mib,
        }
    }

    pub(crate) fn verify(&self, memories: usize) {
        verify(&self.data_dir(), memories);
    }
}

pub(crate) async fn new_tenant(data: &Data) -> Tenant {
    let mut limits = Limits::default();
    limits.memories_per_org_max = u64::MAX;
    limits.members_per_org_max = u64::MAX;
    limits.audit_bytes_per_day_max = u64::MAX;
    let options = data.options(limits);
    let service = data.service(Env::system(), options).await;
    Tenant::create(&service.expect("the service opens")).await
}

/// Starts a server; returns the time until it is ready too.
pub(crate) async fn serve(data_dir: &Path) -> (Served, Duration) {
    let began = Instant::now();
    let server = Served::new(Knowledge::serve_with(data_dir, &VARIABLES));
    let ready = server.target.send(Call::new(Method::GET, "/readyz")).await;
    let time = began.elapsed();
    assert_eq!(ready.status, StatusCode::OK, "the server is ready");
    (server, time)
}

/// Verifies a store with so many memories or holders, unless that takes too long.
pub(crate) fn verify(data_dir: &Path, count: usize) {
    if count <= VERIFIED_MAX {
        let mut verify = knowledge("verify", data_dir);
        succeeded(verify.output().expect("the command runs"));
    }
}

/// Imports a file of new memories; returns the seconds and the processor time in milliseconds.
pub(crate) fn import(data_dir: &Path, file: &Path, count: usize) -> (f64, f64) {
    let began = Instant::now();
    let process = knowledge("import", data_dir)
        .args(["--workspace", "w", "--source", "Wiki", "--output", "json"])
        .arg(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // The kernel keeps the processor time until the status is collected.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(&process)), ended).expect("the command ends");
    let seconds = began.elapsed().as_secs_f64();
    let cpu_ms = process::cpu_ms(process.id());
    let output = succeeded(process.wait_with_output().expect("its output"));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(summary["created"], count, "{summary}");
    (seconds, cpu_ms)
}

fn knowledge(command: &str, data_dir: &Path) -> Command {
    let mut knowledge = Command::new(env!("CARGO_BIN_EXE_knowledge"));
    knowledge.args([command, "--data-dir"]).arg(data_dir);
    knowledge.stdin(Stdio::null());
    knowledge
}

fn succeeded(output: Output) -> Output {
    assert!(output.status.success(), "{output:?}");
    output
}
