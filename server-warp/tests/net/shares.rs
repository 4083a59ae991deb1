//! Tests of the shares that organisations have of the work in progress.

use knowledge_server::net::{BODY_BYTES_SMALL, NetConfig};

use crate::support::{Client, Running, config};

/// Returns a request of an organisation that waits for its release, with a body of this length.
fn wait(organization: u32, body_bytes: usize) -> String {
    format!(
        "POST /wait HTTP/1.1\r\nHost: h\r\nOrganization: {organization}\r\nTest: {organization}\r\n\
         Content-Length: {body_bytes}\r\n\r\n{}",
        "x".repeat(body_bytes)
    )
}

async fn sent(server: &Running, request: String) -> Client {
    let mut client = server.connect().await;
    client.send(request).await;
    client
}

#[tokio::test]
async fn large_requests_of_one_organization_do_not_delay_another() {
    let large = BODY_BYTES_SMALL + 1_000;
    let server = Running::start(NetConfig {
        body_bytes_in_work_max: 1_500,
        ..config()
    })
    .await;
    let mut flood = Vec::new();
    for _ in 0..10 {
        flood.push(sent(&server, wait(1, large)).await);
    }
    server.stub.entered(1).await;
    // Neither another organisation nor a small request of this one waits for the flood.
    let mut other = sent(&server, wait(2, large)).await;
    server.stub.entered(1).await;
    let mut small = sent(&server, wait(1, BODY_BYTES_SMALL)).await;
    server.stub.entered(1).await;
    server.stub.release(3);
    assert_eq!(other.answer().await.status, 200);
    assert_eq!(small.answer().await.status, 200);
    // The rest of the flood is handled one by one.
    for _ in 1..flood.len() {
        server.stub.entered(1).await;
        assert!(!server.stub.has_entered(), "two large requests at once");
        server.stub.release(1);
    }
    for client in &mut flood {
        assert_eq!(client.answer().await.status, 200);
    }
}

#[tokio::test]
async fn one_organization_leaves_places_to_others() {
    let server = Running::start(NetConfig {
        requests_in_work_max: 8,
        ..config()
    })
    .await;
    let mut flood = Vec::new();
    for _ in 0..5 {
        flood.push(sent(&server, wait(1, 0)).await);
    }
    server.stub.entered(5).await;
    let mut sixth = sent(&server, wait(1, 0)).await;
    assert_eq!(sixth.answer().await.status, 503);
    let mut other = sent(&server, wait(2, 0)).await;
    server.stub.entered(1).await;
    server.stub.release(6);
    assert_eq!(other.answer().await.body, "POST /wait test=2 body=0");
    for mut client in flood {
        assert_eq!(client.answer().await.status, 200);
    }
}
