//! Standbys of a server, and its sudden end.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::server::{Server, TIME_MAX, lock};

/// Time between two looks at a state that is waited for.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// # Replication
impl Server {
    /// Makes this server a standby of another one of the same version, and starts it on its port.
    ///
    /// Its own data are lost. It has to be stopped or killed.
    ///
    /// # Panics
    /// If the data of the primary cannot be copied, or the standby does not start.
    pub fn follow(&self, primary: &Self) {
        let data = self.data();
        if data.exists() {
            fs::remove_dir_all(&data).expect("a directory can be removed");
        }
        let copied = self
            .command("pg_basebackup")
            .arg(format!("--pgdata={}", data.display()))
            .arg(format!("--dbname={}", primary.socket("postgres")))
            .args(["--checkpoint=fast", "--wal-method=stream", "--no-sync"])
            .output()
            .expect("pg_basebackup can be executed");
        assert!(
            copied.status.success(),
            "pg_basebackup failed: {}",
            String::from_utf8_lossy(&copied.stderr)
        );
        let source = primary.socket("postgres").replace('\'', "''");
        let settings = format!("primary_conninfo = '{source}'\n");
        // In place of the settings of the primary, which may require a standby.
        self.write(&data.join("postgresql.auto.conf"), &settings);
        self.write(&data.join("standby.signal"), "");
        self.start_again();
    }

    /// Makes a standby the primary, and waits until it is.
    ///
    /// # Panics
    /// If it is not within a minute.
    pub async fn promote(&self) {
        let client = self.connect("postgres").await;
        let promoted = client.query_one("SELECT pg_promote(true, 60)", &[]).await;
        let is_promoted: bool = promoted.expect("a standby").get(0);
        assert!(is_promoted, "the standby was not promoted: {}", self.log());
    }

    /// Makes commits wait for a standby, once one has caught up.
    ///
    /// # Panics
    /// If there is none within a minute.
    pub async fn require_standby(&self) {
        let client = self.connect("postgres").await;
        for statement in [
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
            "SELECT pg_reload_conf()",
        ] {
            let executed = client.batch_execute(statement).await;
            executed.expect("settings can be changed");
        }
        let began = Instant::now();
        let count = "SELECT count(*) FROM pg_stat_replication \
            WHERE state = 'streaming' AND sync_state = 'sync'";
        loop {
            let found = client.query_one(count, &[]).await.expect("a count");
            if found.get::<_, i64>(0) > 0 {
                return;
            }
            assert!(began.elapsed() < TIME_MAX, "no standby: {}", self.log());
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Kills all processes of the server, as the end of its machine does.
    ///
    /// # Panics
    /// If they do not end.
    pub fn kill(&self) {
        let Some(mut process) = lock(&self.process).take() else {
            return;
        };
        let server = Pid::from_child(&process);
        let workers = children(server);
        process.kill().expect("the process of this server");
        process.wait().expect("the server ends");
        let began = Instant::now();
        for worker in workers {
            while test_kill_process(worker).is_ok() {
                let _ = kill_process(worker, Signal::KILL);
                assert!(began.elapsed() < TIME_MAX, "a worker does not end");
                sleep(LOOK_INTERVAL);
            }
        }
    }
}

/// Returns the processes that a process has started.
fn children(parent: Pid) -> Vec<Pid> {
    let path = format!("/proc/{0}/task/{0}/children", parent.as_raw_nonzero());
    let found = fs::read_to_string(path).unwrap_or_default();
    let found = found.split_ascii_whitespace();
    found
        .filter_map(|id| Pid::from_raw(id.parse().ok()?))
        .collect()
}
