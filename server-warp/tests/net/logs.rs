//! Tests of the log, in a child process, since a process has only one log.

use std::net::IpAddr;

use knowledge_server::logging::{self, LogConfig, LogError, LogFormat};
use knowledge_server::net::{NetConfig, ProxyConfig};
use serde_json::Value;

use crate::support::{Child, Running, config, get, post};

#[test]
fn log_has_one_json_line_per_request_and_panic() {
    let errors = Child::start("logs::child_that_logs").finish();
    let lines: Vec<Value> = errors
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let access: Vec<&Value> = lines
        .iter()
        .filter(|line| line["target"] == "knowledge_server::access")
        .collect();
    assert_eq!(access.len(), 4, "{errors}");

    let request = access[0];
    assert_eq!(request["level"], "INFO");
    assert_eq!(request["message"], "request");
    assert_eq!(request["method"], "POST");
    assert_eq!(request["path"], "/echo");
    assert_eq!(request["client"], "2001:db8::7");
    assert_eq!(request["status"], 200);
    assert_eq!(request["bytes_in"], 5);
    assert_eq!(request["bytes_out"], 5);
    assert!(request["duration_ms"].as_f64().expect("a number") >= 0.0);
    assert!(request["timestamp"].is_string());
    uuid::Uuid::parse_str(request["request_id"].as_str().expect("a text")).expect("a UUID");

    assert_eq!(
        (&access[1]["path"], &access[1]["status"]),
        (&"/panic".into(), &500.into())
    );
    let panic = lines
        .iter()
        .find(|line| line["message"] == "panicked")
        .expect("the hook's line");
    assert_eq!(panic["panic"], "as the test wanted");
    let answered = lines
        .iter()
        .find(|line| line["message"] == "request handler panicked")
        .expect("the server's line");
    assert_eq!(answered["request_id"], access[1]["request_id"]);
    // Other lines on behalf of a request name it too.
    assert_eq!(panic["span"]["request_id"], access[1]["request_id"]);
    assert_eq!(panic["span"]["name"], "request");

    assert_eq!(access[2]["path"], "/login/wkl_…");
    assert_eq!(access[3]["message"], "request dropped without a response");
    assert_eq!(access[3]["path"], "/never");
    assert_eq!(access[3]["client"], "127.0.0.1");
    assert!(access[3]["request_id"].is_string());
    assert!(
        !errors.contains("secret"),
        "neither queries nor credentials are logged: {errors}"
    );
}

#[tokio::test]
#[ignore = "run by log_has_one_json_line_per_request_and_panic in a process of its own"]
async fn child_that_logs() {
    if !Child::is_this() {
        return;
    }
    let unreadable = LogConfig {
        level: "no=such=level".to_owned(),
        ..LogConfig::default()
    };
    assert!(matches!(
        logging::init(&unreadable),
        Err(LogError::Level { .. })
    ));
    let json = LogConfig {
        format: LogFormat::Json,
        ..LogConfig::default()
    };
    logging::init(&json).expect("the first to set it up");
    assert!(matches!(logging::init(&json), Err(LogError::AlreadySetUp)));

    let proxy = ProxyConfig {
        trusted: vec![IpAddr::from([127, 0, 0, 1]).into()],
        ..ProxyConfig::default()
    };
    let mut server = Running::start(NetConfig { proxy, ..config() }).await;
    let forwarded = "\r\nX-Forwarded-For: 2001:db8::7\r\n\r\n";
    let request = post("/echo?secret", "hello").replacen("\r\n\r\n", forwarded, 1);
    server.ask(request).await;
    server.ask(get("/healthz")).await;
    server.ask(get("/panic")).await;
    server.ask(get("/login/wkl_secret")).await;
    let mut client = server.connect().await;
    client.send(get("/never")).await;
    server.stub.entered(1).await;
    drop(client);
    server.stop();
    server.stopped().await;
}
