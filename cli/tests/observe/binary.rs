//! Tests of the real binary: settings, log and end.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use knowledge_http_suite::rows;
use serde_json::Value;

use crate::receiver::{Receiver, attribute};
use crate::support::{Call, Exposition, GUARD};

/// A running `knowledge serve` with a JSON log.
pub(crate) struct Serving {
    process: Child,
    lines: mpsc::Receiver<Value>,
    read: Vec<Value>,
}

impl Serving {
    pub(crate) fn start_as(args: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_knowledge"))
            .arg("serve")
            .args(args)
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the binary");
        let errors = BufReader::new(process.stderr.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                let _ = sender.send(line);
            }
        });
        Self {
            process,
            lines,
            read: Vec::new(),
        }
    }

    /// Returns the rest of a log message with this beginning.
    pub(crate) fn message(&mut self, beginning: &str) -> String {
        let rest = |line: &Value| {
            let message = line["message"].as_str()?;
            Some(message.strip_prefix(beginning)?.to_owned())
        };
        if let Some(rest) = self.read.iter().find_map(rest) {
            return rest;
        }
        loop {
            let line = self.lines.recv_timeout(GUARD).expect("the message comes");
            self.read.push(line);
            if let Some(rest) = self.read.last().and_then(rest) {
                return rest;
            }
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.process.id()).expect("an identifier");
        let id = rustix::process::Pid::from_raw(id).expect("not 0");
        rustix::process::kill_process(id, signal).expect("a signal");
    }

    /// Sends SIGTERM; returns the exit code and all lines of the log.
    pub(crate) fn terminate(mut self) -> (Option<i32>, Vec<Value>) {
        self.signal(rustix::process::Signal::TERM);
        let mut lines = std::mem::take(&mut self.read);
        // Reads until the process closes its standard error.
        while let Ok(line) = self.lines.recv_timeout(GUARD) {
            lines.push(line);
        }
        let status = self.process.wait().expect("it ends");
        (status.code(), lines)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_enable_metrics_traces_and_identifiers_in_log() {
    let receiver = Receiver::start().await;
    let endpoint = receiver.url().expect("a URL").to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let data_dir = data_dir.to_str().expect("a path in UTF-8");
    let mut serving = Serving::start_as(
        &["--listen", "127.0.0.1:0", "--data-dir", data_dir],
        &[
            ("KNOWLEDGE_LOG__FORMAT", "json"),
            ("KNOWLEDGE_METRICS__LISTEN", "127.0.0.1:0"),
            ("KNOWLEDGE_TELEMETRY__OTLP_ENDPOINT", &endpoint),
            ("KNOWLEDGE_TELEMETRY__EXPORT_INTERVAL", "1h"),
            ("KNOWLEDGE_PROXY__TRUSTED", "127.0.0.1"),
            ("KNOWLEDGE_WEBHOOKS__IN_FLIGHT_MAX", "7"),
        ],
    );
    let metrics_url = serving.message("metrics on ");
    let base_url = serving.message("listening on ");
    let trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace_id}-00f067aa0ba902b7-01");
    let call = Call::new(http::Method::GET, "/v1/orgs/acme/custom-roles?secret=1");
    let answer = call.header("traceparent", parent).send_to(&base_url).await;
    assert_eq!(answer.status, 401);

    let metrics = Call::new(http::Method::GET, "/metrics");
    let metrics_url = metrics_url.trim_end_matches("/metrics");
    let text = metrics.send_to(metrics_url).await.body;
    let numbers = Exposition::parse(std::str::from_utf8(&text).expect("UTF-8"));
    let labels = [
        ("route", "/v1/orgs/{orgSlug}/custom-roles"),
        ("method", "GET"),
        ("status", "401"),
    ];
    assert_eq!(numbers.value("knowledge_http_requests_total", &labels), 1.0);
    assert_eq!(numbers.value("knowledge_store_open", &[]), 1.0);
    assert!(numbers.value("knowledge_store_commits_total", &[]) >= 1.0);
    let in_flight_max = numbers.value("knowledge_deliveries_in_flight_max", &[]);
    assert_eq!(in_flight_max, 7.0);

    let (code, lines) = tokio::task::spawn_blocking(move || serving.terminate())
        .await
        .expect("it ends");
    assert_eq!(code, Some(0));
    // The process exported the last spans before it ended.
    let spans = receiver.spans();
    assert_eq!(spans[0].name, "GET /v1/orgs/{orgSlug}/custom-roles");
    let access: Vec<&Value> = lines
        .iter()
        .filter(|line| line["target"] == "knowledge_server::access")
        .collect();
    assert_eq!(access.len(), 1, "scrapes are for debugging: {lines:#?}");
    assert_eq!(access[0]["trace_id"], trace_id);
    assert_eq!(access[0]["request_id"], answer.header("request-id"));
    assert!(!format!("{lines:?}").contains("secret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_logs_that_deliveries_are_off() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let data_dir = data_dir.to_str().expect("a path in UTF-8");
    let mut serving = Serving::start_as(
        &["--listen", "127.0.0.1:0", "--data-dir", data_dir],
        &[
            ("KNOWLEDGE_LOG__FORMAT", "json"),
            ("KNOWLEDGE_METRICS__LISTEN", "127.0.0.1:0"),
            ("KNOWLEDGE_WEBHOOKS__DELIVER", "false"),
        ],
    );
    serving.message("webhook delivery is disabled");
    let metrics_url = serving.message("metrics on ");
    serving.message("listening on ");
    let metrics = Call::new(http::Method::GET, "/metrics");
    let metrics_url = metrics_url.trim_end_matches("/metrics");
    let text = metrics.send_to(metrics_url).await.body;
    let numbers = Exposition::parse(std::str::from_utf8(&text).expect("UTF-8"));
    let in_flight_max = numbers.value("knowledge_deliveries_in_flight_max", &[]);
    assert_eq!(in_flight_max, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_level_changes_at_run_time() {
    use rustix::process::Signal;

    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (file, data_dir) = (path("knowledge.toml"), path("data"));
    let put = |level: &str| {
        let text = format!("[log]\nformat = \"json\"\nlevel = \"{level}\"\n");
        std::fs::write(&file, text).expect("write the configuration");
    };
    put("info,knowledge_server::access=off");
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        &data_dir,
        "--config",
        &file,
    ];
    let mut serving = Serving::start_as(&arguments, &[]);
    let base_url = serving.message("listening on ");
    let ask = async |path: &str| {
        let call = Call::new(http::Method::GET, path);
        assert_eq!(call.send_to(&base_url).await.status, 404);
    };
    ask("/one").await;

    put("no=such=level");
    serving.signal(Signal::HUP);
    serving.message("SIGHUP: invalid configuration; log level unchanged");
    ask("/two").await;
    put("info");
    serving.signal(Signal::HUP);
    serving.message("SIGHUP: log level reloaded");
    ask("/three").await;

    let (_, lines) = tokio::task::spawn_blocking(|| serving.terminate())
        .await
        .expect("it ends");
    let of = |target: &str| lines.iter().filter(|line| line["target"] == target).count();
    assert_eq!(of("knowledge_server::access"), 1, "{lines:#?}");
    assert!(lines.iter().any(|line| line["path"] == "/three"));
    let problem = format!("{file}:3:");
    assert!(lines.iter().any(|line| {
        line["problems"]
            .as_str()
            .is_some_and(|text| text.contains(&problem))
    }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opentelemetry_variables_apply() {
    let receiver = Receiver::start().await;
    let endpoint = receiver.url().expect("a URL").to_string();
    let directory = tempfile::tempdir().expect("a directory");
    for disabled in ["false", "true"] {
        let data_dir = directory.path().join(disabled);
        let data_dir = data_dir.to_str().expect("a path in UTF-8");
        let mut serving = Serving::start_as(
            &["--listen", "127.0.0.1:0", "--data-dir", data_dir],
            &rows! {
                ("KNOWLEDGE_LOG__FORMAT", "json"),
                ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
                ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=acme"),
                ("OTEL_SERVICE_NAME", "their-name"),
                ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
                ("OTEL_SDK_DISABLED", disabled),
            },
        );
        let base_url = serving.message("listening on ");
        let call = Call::new(http::Method::GET, "/v1/nothing");
        assert_eq!(call.send_to(&base_url).await.status, 404);
        let (code, _) = tokio::task::spawn_blocking(|| serving.terminate())
            .await
            .expect("it ends");
        assert_eq!(code, Some(0));
        // Only the first server exports spans.
        assert_eq!(receiver.spans().len(), 1, "disabled: {disabled}");
    }
    let export = &receiver.exports()[0];
    assert_eq!(export.headers["x-tenant"], "acme");
    let resource = export.batch.resource_spans[0].resource.as_ref();
    let of = |name| attribute(&resource.expect("a resource").attributes, name);
    assert_eq!(of("service.name").as_deref(), Some("their-name"));
    assert_eq!(of("deployment.environment.name").as_deref(), Some("test"));
}

#[test]
fn variable_with_password_is_rejected_without_revealing_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let data_dir = data_dir.to_str().expect("a path in UTF-8");
    for (variable, text) in rows! {
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:secret@127.0.0.1:1"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/v1/traces?key=secret"),
    } {
        let mut serving = Serving::start_as(
            &["--listen", "127.0.0.1:0", "--data-dir", data_dir],
            &[(variable, text)],
        );
        let mut said = String::new();
        loop {
            match serving.lines.recv_timeout(GUARD) {
                Ok(line) => said += &line.to_string(),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it goes on: {said}"),
            }
            assert!(!said.contains("secret"), "{said}");
        }
        let status = serving.process.wait().expect("it ended");
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("{variable} must be")), "{said}");
    }
}
