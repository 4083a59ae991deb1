//! Tests of the deployment files: they use only settings and commands that exist.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use knowledge_server::deliveries::{IN_FLIGHT_MAX_DEFAULT, open_files_max};
use knowledge_server::net::{
    CONNECTIONS_MAX_DEFAULT, OPEN_FILES_RESERVED, SHUTDOWN_TIMEOUT_DEFAULT,
};
use knowledge_server::telemetry::FLUSH_TIMEOUT_DEFAULT;

use crate::binary::Serving;

const DOCKERFILE: &str = include_str!("../../../deploy/Dockerfile");
const COMPOSE: &str = include_str!("../../../deploy/compose.yaml");
const UNIT: &str = include_str!("../../../deploy/knowledge.service");
const DOCKERIGNORE: &str = include_str!("../../../.dockerignore");
const WORKSPACE: &str = include_str!("../../../Cargo.toml");

/// Returns the values of a key of the unit.
fn of_unit(key: &str) -> Vec<&'static str> {
    let values = UNIT.lines().filter_map(|line| line.split_once('='));
    values
        .filter(|(found, _)| *found == key)
        .map(|(_, value)| value)
        .collect()
}

/// Returns each `KNOWLEDGE_…=value` in a file.
fn variables(text: &'static str) -> Vec<(&'static str, &'static str)> {
    text.split_ascii_whitespace()
        .map(|word| word.trim_start_matches("Environment="))
        .filter(|word| word.starts_with("KNOWLEDGE_"))
        .filter_map(|word| word.split_once('='))
        .collect()
}

/// Returns the instructions of the image with this name, each on one line.
fn instructions(name: &str) -> Vec<String> {
    let whole = DOCKERFILE.replace("\\\n", " ");
    let lines = whole.lines().filter_map(|line| line.split_once(' '));
    lines
        .filter(|(found, _)| *found == name)
        .map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

fn knowledge(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_knowledge"));
    command.args(args).envs(variables.iter().copied());
    command.output().expect("run the binary")
}

fn assert_known(variables: &[(&str, &str)]) {
    let shown = knowledge(&["config", "show", "--output", "json"], variables);
    let errors = String::from_utf8_lossy(&shown.stderr);
    assert!(shown.status.success(), "{variables:?}: {errors}");
}

#[test]
fn compose_file_uses_known_settings() {
    let lines = COMPOSE
        .lines()
        .filter_map(|line| line.trim().split_once(": "));
    let variables: Vec<_> = lines
        .filter(|(name, _)| name.starts_with("KNOWLEDGE_"))
        .collect();
    assert_eq!(variables.len(), 3, "{variables:?}");
    assert_known(&variables);
    let command = COMPOSE
        .lines()
        .find_map(|line| line.trim().strip_prefix("command: "));
    let command: Vec<String> = serde_json::from_str(command.expect("a command")).expect("a list");
    let mut shown = vec!["config", "show"];
    shown.extend(command.iter().skip(1).map(String::as_str));
    assert_eq!(command[0], "serve");
    assert!(knowledge(&shown, &variables).status.success(), "{shown:?}");
}

#[test]
fn image_sets_only_existing_settings() {
    let variables = variables(DOCKERFILE);
    assert_eq!(variables.len(), 4, "{variables:?}");
    assert_known(&variables);
    let ports: Vec<&str> = variables
        .iter()
        .filter_map(|(_, value)| value.strip_prefix("0.0.0.0:"))
        .collect();
    assert_eq!(instructions("EXPOSE"), [ports.join(" ")]);
    let volume = instructions("VOLUME").concat();
    let data_dir = variables
        .iter()
        .find(|(name, _)| name.ends_with("DATA_DIR"));
    assert!(data_dir.is_some_and(|(_, path)| Path::new(path).starts_with(&volume)));
}

#[test]
fn image_runs_only_existing_commands() {
    let health = instructions("HEALTHCHECK").concat();
    assert!(
        health.ends_with(r#"CMD ["knowledge", "healthcheck"]"#),
        "{health}"
    );
    assert_eq!(instructions("ENTRYPOINT"), [r#"["knowledge"]"#]);
    assert_eq!(instructions("CMD"), [r#"["serve"]"#]);
    for command in ["healthcheck", "serve"] {
        assert!(
            knowledge(&[command, "--help"], &[]).status.success(),
            "{command}"
        );
    }
    assert_eq!(instructions("STOPSIGNAL"), ["SIGTERM"]);
    let user = instructions("USER").concat();
    assert!(
        !user.is_empty() && !user.starts_with('0') && user != "root",
        "{user}"
    );
}

#[test]
fn image_is_built_from_all_workspace_members() {
    let quoted = |line: &str| -> Vec<String> {
        let parts = line.split('"').skip(1).step_by(2);
        parts.map(str::to_owned).collect()
    };
    let line = |start: &str| {
        let line = WORKSPACE.lines().find(|line| line.starts_with(start));
        quoted(line.unwrap_or_else(|| panic!("{start} in Cargo.toml")))
    };
    for member in line("members = ") {
        let directory = member.split('/').next().expect("a first part");
        let kept = DOCKERIGNORE
            .lines()
            .any(|line| line == format!("!{directory}"));
        assert!(kept, "{directory} is not sent to the builder");
    }
    let version = format!("RUST_VERSION={}", line("rust-version = ")[0]);
    assert!(instructions("ARG").contains(&version), "{version}");
    let build = instructions("RUN").join("\n");
    assert!(build.contains("--package knowledge-cli --bin knowledge"));
}

#[test]
fn unit_sets_only_existing_settings() {
    let named = variables(UNIT);
    assert_eq!(named.len(), of_unit("Environment").len());
    // The file exists only on a machine with the unit.
    let variables: Vec<_> = named
        .into_iter()
        .filter(|(name, _)| *name != "KNOWLEDGE_CONFIG")
        .collect();
    assert_known(&variables);
}

#[test]
fn unit_allows_the_server_its_time_and_files() {
    let number = |key: &str| -> u64 { of_unit(key).concat().parse().expect("a number") };
    let needed = SHUTDOWN_TIMEOUT_DEFAULT + FLUSH_TIMEOUT_DEFAULT;
    assert!(number("TimeoutStopSec") > needed.as_secs());
    let deliveries = open_files_max(IN_FLIGHT_MAX_DEFAULT);
    let files = CONNECTIONS_MAX_DEFAULT + OPEN_FILES_RESERVED + deliveries;
    assert!(number("LimitNOFILE") >= files as u64);
}

/// The server gets the unit's settings and systemd's directories.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_starts_with_unit_settings_and_is_healthy() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().to_str().expect("a path in UTF-8");
    let config = directory.path().join("knowledge.toml");
    fs::copy("../deploy/knowledge.toml", &config).expect("copy");
    let key = directory.path().join("sealing-key");
    let secret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    knowledge_server::private_file::create(&key, secret).expect("write");
    let mut settings: Vec<(&str, String)> = variables(UNIT)
        .into_iter()
        .map(|(name, value)| {
            let value = value.replace("%S", root).replace("%d", root);
            (name, value.replace("/etc/knowledge", root))
        })
        .collect();
    for (name, value) in &mut settings {
        if *name == "KNOWLEDGE_METRICS__LISTEN" {
            "127.0.0.1:0".clone_into(value);
        }
    }
    let settings: Vec<_> = settings
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();

    let [check] = of_unit("ExecStartPre")[..] else {
        panic!("one command before the start");
    };
    let args: Vec<_> = check.split(' ').skip(1).collect();
    let checked = knowledge(&args, &settings);
    assert!(checked.status.success(), "{checked:?}");
    assert_eq!(of_unit("ExecStart"), ["/usr/local/bin/knowledge serve"]);

    let mut serving = Serving::start_as(&["--listen", "127.0.0.1:0"], &settings);
    let base_url = serving.message("listening on ");
    let health = |url: &str| knowledge(&["healthcheck", "--url", url], &[]);
    let healthy = health(&base_url);
    assert!(healthy.status.success(), "{healthy:?}");
    let metrics_url = serving.message("metrics on ");
    let healthy = health(metrics_url.trim_end_matches("/metrics"));
    assert!(healthy.status.success(), "{healthy:?}");
    assert!(directory.path().join("knowledge/data").is_dir());
    let (code, _) = tokio::task::spawn_blocking(|| serving.terminate())
        .await
        .expect("it ends");
    assert_eq!(code, Some(0));
    let gone = health(&base_url);
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
    assert!(String::from_utf8_lossy(&gone.stderr).contains(&base_url));
}
