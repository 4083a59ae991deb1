//! Tests of the admin socket, from both ends.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use knowledge_core::api::AdminApi;
use knowledge_core::env::Env;
use knowledge_core::service::{KnowledgeService, Options, SealingKey};
use knowledge_core::store::MemoryStore;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;

async fn api() -> AdminApi {
    let env = Env::system();
    let options = Options::new(SealingKey::generate(&env));
    let service = KnowledgeService::open(Arc::new(MemoryStore::new()), env, options).await;
    AdminApi::new(service.unwrap())
}

async fn bind(path: &Path) -> Result<AdminSocket, SocketError> {
    AdminSocket::bind(path, api().await).await
}

/// Serves until the returned sender is dropped.
fn run(socket: AdminSocket) -> (oneshot::Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async {
        let _ = stopped.await;
    };
    (stop, tokio::spawn(socket.run(shutdown)))
}

fn get(path: &str) -> Request<Bytes> {
    Request::get(path).body(Bytes::new()).unwrap()
}

#[tokio::test]
async fn admin_socket_serves_only_its_owner_and_goes_with_server() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("data.sock");
    let (stop, running) = run(bind(&path).await.unwrap());
    let metadata = fs::metadata(&path).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let client = AdminClient::connect(&path).await.unwrap();
    let answer = client.send(get("/admin/v1/orgs")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.body(), r#"{"data":[],"next_cursor":null}"#);
    let public = client.send(get("/v1/sources")).await.unwrap();
    assert_eq!(public.status(), StatusCode::NOT_FOUND);
    drop(stop);
    running.await.unwrap();
    assert!(!path.exists());
    let gone = client.send(get("/admin/v1/orgs")).await;
    assert!(matches!(gone, Err(ClientError::Unreachable { .. })));
}

#[tokio::test]
async fn admin_socket_rejects_oversized_request() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("data.sock");
    let (_stop, _running) = run(bind(&path).await.unwrap());
    let client = AdminClient::connect(&path).await.unwrap();
    let body = Bytes::from(vec![b' '; 1024 * 1024 + 1]);
    let request = Request::post("/admin/v1/orgs").body(body).unwrap();
    let answer = client.send(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn admin_socket_replaces_only_a_dead_socket() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("data.sock");
    // The file of a killed process, without a listener.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let first = bind(&path).await.unwrap();
    let second = bind(&path).await.unwrap_err();
    assert!(matches!(second, SocketError::InUse { .. }), "{second}");
    drop(first);
    fs::write(&path, "a letter").unwrap();
    let letter = bind(&path).await.unwrap_err();
    assert!(matches!(letter, SocketError::NotASocket { .. }), "{letter}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "a letter");
}

#[tokio::test]
async fn admin_socket_keeps_file_of_another_server() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("data.sock");
    let first = bind(&path).await.unwrap();
    fs::remove_file(&path).unwrap();
    let (_stop, _running) = run(bind(&path).await.unwrap());
    drop(first);
    AdminClient::connect(&path).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn admin_socket_path_may_exceed_socket_address_length() {
    let scratch = tempfile::tempdir().unwrap();
    let deep = scratch.path().join("d".repeat(200)).join("e".repeat(200));
    fs::create_dir_all(&deep).unwrap();
    let path = deep.join("data.sock");
    let (stop, running) = run(bind(&path).await.unwrap());
    let client = AdminClient::connect(&path).await.unwrap();
    let answer = client.send(get("/admin/v1/orgs")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    drop(stop);
    running.await.unwrap();
    assert!(!path.exists());
    let long = bind(&deep.join("f".repeat(200))).await.unwrap_err();
    assert!(matches!(long, SocketError::PathTooLong { .. }), "{long}");
}

/// A counter: without end until its client goes, up to a number in the query, or broken off there.
struct Counting(std::sync::Mutex<Option<oneshot::Sender<ClientGone>>>);

#[async_trait]
impl LongOperation for Counting {
    fn path(&self) -> &'static str {
        "/admin/v1/counting"
    }

    async fn respond(&self, request: Request<Bytes>) -> Response<AdminBody> {
        let (writer, body) = AdminBody::channel();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let is_broken = query.starts_with("broken");
        let end = query.split('=').nth(1).and_then(|end| end.parse().ok());
        let gone_notice = self.0.lock().unwrap().take();
        tokio::spawn(async move {
            for number in 0..end.unwrap_or(u64::MAX) {
                let line = format!("{number:>65535}\n");
                if let Err(gone) = writer.write(line.into()).await {
                    gone_notice.map(|gone_notice| gone_notice.send(gone));
                    return;
                }
            }
            if is_broken {
                writer.fail(io::Error::other("broken on purpose")).await;
            } else {
                writer.finish().await.unwrap();
            }
        });
        Response::new(body)
    }
}

#[tokio::test]
async fn admin_response_is_complete_or_reported_as_broken() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("data.sock");
    let (tell, gone_notice) = oneshot::channel();
    let counting = Counting(std::sync::Mutex::new(Some(tell)));
    let socket = bind(&path).await.unwrap().with(Arc::new(counting));
    let (_stop, _running) = run(socket);
    let client = AdminClient::connect(&path).await.unwrap();

    // The counting never ends; the client goes away, and the writer is notified.
    let answer = client.stream(get("/admin/v1/counting")).await.unwrap();
    let mut pieces = answer.into_body();
    let first = pieces.next().await.unwrap().unwrap();
    assert!(!first.is_empty());
    drop(pieces);
    assert_eq!(gone_notice.await.unwrap(), ClientGone);

    let answer = client
        .stream(get("/admin/v1/counting?whole=100"))
        .await
        .unwrap();
    let mut pieces = answer.into_body();
    let mut bytes = 0;
    while let Some(piece) = pieces.next().await.unwrap() {
        bytes += piece.len();
    }
    assert_eq!(bytes, 100 * 65_536);

    let answer = client
        .stream(get("/admin/v1/counting?broken=3"))
        .await
        .unwrap();
    let broken = answer.into_body().rest().await.unwrap_err();
    assert!(matches!(broken, ClientError::Broken(_)), "{broken}");
}

/// A service that reports each request, and responds on demand.
struct Waiting(std::sync::Mutex<Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>>);

#[async_trait]
impl LongOperation for Waiting {
    fn path(&self) -> &'static str {
        "/admin/v1/waiting"
    }

    async fn respond(&self, _request: Request<Bytes>) -> Response<AdminBody> {
        let (asked, go) = self.0.lock().unwrap().take().unwrap();
        asked.send(()).unwrap();
        let _ = go.await;
        let (writer, body) = AdminBody::channel();
        tokio::spawn(async move { writer.finish().await });
        Response::new(body)
    }
}

#[tokio::test]
async fn admin_server_accepts_no_requests_while_draining() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("data.sock");
    let (tell, asked) = oneshot::channel();
    let (let_go, go) = oneshot::channel();
    let waiting = Waiting(std::sync::Mutex::new(Some((tell, go))));
    let (stop, running) = run(bind(&path).await.unwrap().with(Arc::new(waiting)));
    let client = AdminClient::connect(&path).await.unwrap();
    let in_flight = tokio::spawn(async move { client.send(get("/admin/v1/waiting")).await });
    asked.await.unwrap();
    drop(stop);
    while path.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let late = AdminClient::connect(&path).await;
    assert!(matches!(late, Err(ClientError::Unreachable { .. })));
    let_go.send(()).unwrap();
    let answer = in_flight.await.unwrap().unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    running.await.unwrap();
}
