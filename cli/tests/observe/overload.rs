//! Thousands of clients of the real binary: those that never finish a request, and too many that do.
//!
//! No test measures speed. Memory is that of the whole process, as the system counts it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures::future::join_all;
use knowledge_core::access::CredentialKind;
use knowledge_testing::requests::{new_organization, new_token};
use knowledge_testing::seed::Seed;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use self::knowledge::{Knowledge, open};
use self::process::{HALF_A_HEADER, resident_mib};
use crate::support::GUARD;

#[path = "../support/knowledge.rs"]
#[expect(dead_code, reason = "the tests of crashes need more of it")]
mod knowledge;
#[path = "../../benches/support/process.rs"]
#[expect(dead_code, reason = "the benchmarks need more of it")]
mod process;

/// Number of clients, unless the process may open fewer files.
const CLIENTS: usize = 2_000;
/// Number of files that both processes have open besides the connections of clients.
const OTHER_FILES: usize = 500;
/// Number of addresses that the clients have, each with less than its share of connections.
const ADDRESSES: usize = 20;
/// Maximum growth of the resident memory for each client. Buffers of a connection and the state of a
/// request fit; a body that is buffered for its announced length, or a response, would not.
const MIB_PER_CLIENT_MAX: f64 = 0.0625;
/// Maximum growth of the resident memory when as many clients come again. The memory of the first
/// ones is used again, even if the allocator has not returned it to the system.
const REPEATED_GROWTH_MIB_MAX: f64 = 9.5;
/// Number of times that the clients come.
const WAVES: usize = 2;
/// Number of requests that are answered while other clients hang.
const REQUESTS: usize = 100;
/// Number of requests of each client in an overload.
const REQUESTS_PER_CLIENT: usize = 3;

/// Times in which all clients can connect and the others are served, also on a busy machine.
const HEADER_TIME: Duration = Duration::from_secs(10);
const BODY_TIME: Duration = Duration::from_secs(14);
const TIMES: [(&str, &str); 3] = [
    ("KNOWLEDGE_SERVER__HEADER_READ_TIMEOUT", "10s"),
    ("KNOWLEDGE_SERVER__BODY_READ_TIMEOUT", "14s"),
    ("KNOWLEDGE_SERVER__LINGER_TIMEOUT", "1s"),
];
const WITHOUT_RATE_LIMIT: (&str, &str) = ("KNOWLEDGE_RATE_LIMIT__REQUESTS", "0");

const HALF_A_BODY: &[u8] =
    b"PATCH /v1/memories/bulk HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\nhalf";

/// Raises the limit of open files, which the server inherits; returns the number of clients.
fn clients() -> usize {
    let files = process::raise_open_files().map_or(usize::MAX, |files| {
        usize::try_from(files).expect("a number of files")
    });
    let clients = CLIENTS.min(files.saturating_sub(OTHER_FILES) / 2);
    assert!(clients > ADDRESSES, "the process may open too few files");
    clients
}

/// Checks the resident memory before the clients, and at its greatest with each wave of them.
fn check_memory(clients: usize, before: f64, waves: [f64; WAVES]) {
    println!("{before} MiB before, {waves:?} with {clients} clients");
    let [first, second] = waves;
    let growth = first - before;
    assert!(growth < MIB_PER_CLIENT_MAX * clients as f64, "{growth}");
    let repeated = second - first;
    assert!(repeated < REPEATED_GROWTH_MIB_MAX, "{repeated}");
}

async fn guarded<F: Future>(what: &str, future: F) -> F::Output {
    let completed = tokio::time::timeout(GUARD, future).await;
    completed.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Connects from one of the addresses of the clients, by its number.
async fn connect(address: SocketAddr, client: usize) -> TcpStream {
    let last = u8::try_from(2 + client % ADDRESSES).expect("few addresses");
    let socket = TcpSocket::new_v4().expect("a socket");
    let own = SocketAddr::from(([127, 0, 0, last], 0));
    socket.bind(own).expect("an address of the interface");
    guarded("a connection", socket.connect(address))
        .await
        .expect("connect")
}

/// Sends a request and reads the header of the response, and its body by its length.
async fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.expect("send");
    let mut received = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&received).to_ascii_lowercase();
        if let Some((header, body)) = text.split_once("\r\n\r\n") {
            let length = header.split("content-length: ").nth(1).unwrap_or("0");
            let length = length.lines().next().and_then(|length| length.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        let read = stream.read_buf(&mut received).await.expect("receive");
        assert_ne!(read, 0, "closed before a response: {text}");
    }
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or_default()
}

/// Requests the list of workspaces, as strangers.
async fn serves_others(address: SocketAddr) {
    let get = "GET /v1/workspaces HTTP/1.1\r\nHost: test\r\n\r\n";
    for number in 0..REQUESTS {
        let mut other = connect(address, number).await;
        let response = guarded("a response", ask(&mut other, get)).await;
        assert_eq!(status(&response), "401", "{response}");
    }
}

/// Connects clients that never finish, serves others, and waits until all of them are closed;
/// returns the greatest resident memory.
async fn hang(server: &Knowledge, address: SocketAddr, clients: usize) -> f64 {
    let mut hanging = Vec::with_capacity(clients);
    for number in 0..clients {
        let began = Instant::now();
        let mut stream = connect(address, number).await;
        let (text, time) = match number % 2 {
            0 => (HALF_A_HEADER, HEADER_TIME),
            _ => (HALF_A_BODY, BODY_TIME),
        };
        stream.write_all(text).await.expect("send");
        hanging.push((stream, began, time));
    }
    serves_others(address).await;
    let (last, ..) = hanging.last().expect("there are clients");
    let is_open = last
        .try_read(&mut [0])
        .is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(is_open, "the others were served too late");
    let during = resident_mib(server.id());

    let ended = hanging
        .into_iter()
        .map(|(mut stream, began, time)| async move {
            let mut received = Vec::new();
            let read = guarded("the end of a connection", stream.read_to_end(&mut received)).await;
            let elapsed = began.elapsed();
            assert!(elapsed >= time, "closed after {elapsed:?}");
            let response = String::from_utf8_lossy(&received).into_owned();
            if time == HEADER_TIME {
                assert!(response.is_empty(), "{response}");
            } else {
                assert_eq!(status(&response), "503", "{response} {read:?}");
            }
        });
    join_all(ended).await;
    serves_others(address).await;
    during.max(resident_mib(server.id()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_hang_are_closed_and_others_are_served() {
    let clients = clients();
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let settings = [&TIMES[..], &[WITHOUT_RATE_LIMIT]].concat();
    let server = Knowledge::serve_with(&data_dir, &settings);
    let address: SocketAddr = server.address().parse().expect("an address");
    serves_others(address).await;
    let before = resident_mib(server.id());
    let mut waves = [0.0; WAVES];
    for wave in &mut waves {
        *wave = hang(&server, address, clients).await;
    }
    check_memory(clients, before, waves);
}

/// Sends requests on this many connections at once; returns the greatest resident memory.
async fn overload(server: &Knowledge, address: SocketAddr, clients: usize, get: &str) -> f64 {
    let asked = (0..clients).map(|number| async move {
        let mut stream = connect(address, number).await;
        let mut served = 0;
        for _ in 0..REQUESTS_PER_CLIENT {
            let response = guarded("a response", ask(&mut stream, get)).await;
            match status(&response) {
                "200" => served += 1,
                _ => {
                    assert_eq!(status(&response), "503", "{response}");
                    assert!(response.contains("\r\nretry-after: "), "{response}");
                }
            }
        }
        (stream, served)
    });
    let (streams, served): (Vec<_>, Vec<_>) = join_all(asked).await.into_iter().unzip();
    let during = resident_mib(server.id());
    drop(streams);
    let served: usize = served.into_iter().sum();
    let requests = clients * REQUESTS_PER_CLIENT;
    println!("{served} of {requests} requests were served");
    assert!(served > 0);
    during
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overload_is_answered_and_leaves_no_memory() {
    let clients = clients();
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let token = {
        let service = open(&data_dir).await;
        let seed = Seed::new(&service, &new_organization("acme", "owner")).await;
        let seed = seed.expect("an organisation");
        let issued = seed
            .issue(&new_token(seed.founder.id, CredentialKind::Bearer))
            .await;
        issued.expect("a token").secret.expose().to_owned()
    };
    let server = Knowledge::serve_with(&data_dir, &[WITHOUT_RATE_LIMIT]);
    let address: SocketAddr = server.address().parse().expect("an address");
    let get = &*format!(
        "GET /v1/workspaces HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let mut first = connect(address, 0).await;
    for _ in 0..REQUESTS {
        assert_eq!(status(&ask(&mut first, get).await), "200");
    }
    let before = resident_mib(server.id());
    let mut waves = [0.0; WAVES];
    for wave in &mut waves {
        let during = overload(&server, address, clients, get).await;
        assert_eq!(status(&ask(&mut first, get).await), "200");
        *wave = during.max(resident_mib(server.id()));
    }
    check_memory(clients, before, waves);
}
