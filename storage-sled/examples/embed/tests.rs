//! Tests of the example.

use knowledge_core::model::{EventType, NewWebhook};
use knowledge_core::service::PageRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const README: &str = include_str!("../../../core/README.md");
const EXAMPLE: &str = include_str!("main.rs");

#[tokio::test]
async fn example_runs_twice_in_one_directory() {
    let directory = tempfile::tempdir().unwrap();
    run(directory.path()).await.unwrap();
    let path = directory.path().join("sealing.key");
    let key = fs::read(&path).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    run(directory.path()).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), key);
}

#[tokio::test]
async fn store_without_its_key_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    run(directory.path()).await.unwrap();
    let path = directory.path().join("sealing.key");
    fs::remove_file(&path).unwrap();
    let refused = run(directory.path()).await.unwrap_err();
    assert!(refused.to_string().contains("sealing.key"), "{refused}");
    assert!(!path.exists());
}

/// Accepts one delivery of an event, after any ping, and returns its request.
async fn receive(endpoint: &TcpListener) -> String {
    loop {
        let request = receive_one(endpoint).await;
        if request.contains("memory_id") {
            return request;
        }
    }
}

async fn receive_one(endpoint: &TcpListener) -> String {
    let (mut connection, _) = endpoint.accept().await.unwrap();
    let (mut request, mut buffer) = (String::new(), [0; 4_096]);
    while !(request.contains("memory_id") || request.contains("endpoint_id")) {
        let length = connection.read(&mut buffer).await.unwrap();
        assert!(length > 0, "{request}");
        request.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
    }
    let response = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    connection.write_all(response).await.unwrap();
    request
}

/// Adds a memory, which is an event, and waits for its delivery.
async fn deliver_one(directory: &Path, endpoint: &TcpListener, title: &str) -> String {
    let addresses = AddressPolicy {
        allow: vec!["127.0.0.0/8".parse().unwrap()],
        allow_http: true,
    };
    let application = Application::start(directory, addresses).await.unwrap();
    let service = &application.service;
    let tenant = Tenant::find_or_create(service).await.unwrap();
    let (owner, workspace) = (&tenant.owner, tenant.workspace);
    let page = PageRequest::default();
    let webhooks = service.webhooks().list(owner, workspace, &page);
    if webhooks.await.unwrap().data.is_empty() {
        let address = endpoint.local_addr().unwrap();
        let webhook = NewWebhook::builder()
            .event_type(EventType::ChunkCreated)
            .url(format!("http://{address}/hook").parse().unwrap())
            .build();
        let created = service.webhooks().create(owner, workspace, &webhook);
        created.await.unwrap();
    }
    let memories = [NewMemory::builder()
        .title(title.to_owned())
        .content("It changed.")
        .build()];
    let ingested = service
        .memories()
        .ingest(owner, workspace, tenant.source, &memories);
    let (ingested, request) = tokio::join!(ingested, receive(endpoint));
    ingested.unwrap();
    application.stop().await;
    request
}

/// The second start signs with the secret that the first one sealed.
#[tokio::test]
async fn deliveries_arrive_after_both_starts() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for title in ["First", "Second"] {
        let delivered = timeout(
            Duration::from_secs(30),
            deliver_one(directory.path(), &endpoint, title),
        );
        let request = delivered.await.expect("a delivery arrives");
        assert!(request.starts_with("POST /hook HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("webhook-signature: v1,"), "{request}");
    }
}

#[test]
fn readme_shows_the_loops_of_the_example() {
    let mut blocks = README.split("```text\n").skip(1);
    let block = blocks.find(|block| block.contains("async fn deliver"));
    let (block, _) = block
        .and_then(|block| block.split_once("```"))
        .expect("a block");
    assert!(
        EXAMPLE.contains(block),
        "copy it from the example:\n{block}"
    );
}
