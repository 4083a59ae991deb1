//! Tests of requests and of responses: complete, broken and hostile ones.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use knowledge_http_suite::rows;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use crate::support::guarded;
use crate::support::peer::{Peer, SHORT, client, outcome, pour, read_request};

/// Limit above the kernel buffers of both sides, and far below the length of the response.
const TAKEN_BYTES_MAX: usize = 64 * 1024 * 1024;
const GIBIBYTE: usize = 1024 * 1024 * 1024;

#[tokio::test]
async fn delivery_is_a_signed_post() {
    let request = watch::Sender::new(String::new());
    let seen = request.clone();
    let peer = Peer::start(move |mut stream| {
        let seen = seen.clone();
        async move {
            seen.send_replace(read_request(&mut stream).await);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
        }
    })
    .await;
    assert_eq!(outcome(&client(), &peer.url()).await, "204");
    let seen = request.borrow().clone();
    let (header, body) = seen.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<_> = header.split("\r\n").collect();
    lines[1..].sort_unstable();
    let expected = [
        "POST /hook?token=hidden HTTP/1.1".to_owned(),
        "accept: */*".to_owned(),
        "content-length: 24".to_owned(),
        "content-type: application/json".to_owned(),
        format!("host: 127.0.0.1:{}", peer.port()),
        format!("user-agent: knowledge/{}", env!("CARGO_PKG_VERSION")),
        "webhook-id: 00000000-0000-0000-0000-000000000007".to_owned(),
        "webhook-signature: v1,c2lnbmF0dXJl v1,YW5vdGhlcg==".to_owned(),
        "webhook-timestamp: 1700000000".to_owned(),
    ];
    assert_eq!(lines, expected);
    assert_eq!(body, r#"{"type":"chunk.created"}"#);
}

#[tokio::test]
async fn complete_response_yields_its_status() {
    let client = client();
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200"),
        ("HTTP/1.1 204 No Content\r\n\r\n", "204"),
        // Ends with the connection.
        ("HTTP/1.1 202 Accepted\r\n\r\nfine", "202"),
        ("HTTP/1.0 200 OK\r\n\r\nfine", "200"),
        (
            "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "201",
        ),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: \
             0\r\n\r\n",
            "200",
        ),
        // A protocol upgrade that the client never asked for.
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
            "101",
        ),
        ("HTTP/1.1 304 Not Modified\r\n\r\n", "304"),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"),
        ("HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", "410"),
        (
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n",
            "429 again after 120 s",
        ),
        (
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: \
             999999999999999999999\r\nContent-Length: 0\r\n\r\n",
            "429 again after 604800 s",
        ),
        (
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: Fri, 31 Dec 9999 23:59:59 \
             GMT\r\nContent-Length: 0\r\n\r\n",
            "503 again after 604800 s",
        ),
        (
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 \
             GMT\r\nContent-Length: 0\r\n\r\n",
            "503 again after 0 s",
        ),
        (
            "HTTP/1.1 500 Internal Server Error\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n",
            "500",
        ),
    ] {
        let peer = Peer::answering(answer).await;
        assert_eq!(outcome(&client, &peer.url()).await, expected, "{answer:?}");
    }
}

#[tokio::test]
async fn truncated_response_is_a_failure_whatever_its_status() {
    const CLOSED: &str = "answer_broken: the connection was closed before the end of the response";
    const NO_HTTP: &str = "answer_broken: the response is not HTTP";
    let client = client();
    for (answer, expected) in rows! {
        ("", CLOSED),
        ("HTTP/1.1 2", CLOSED),
        ("HTTP/1.1 200 OK\r\n", CLOSED),
        ("HTTP/1.1 200 OK\r\nContent-Len", CLOSED),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", CLOSED),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", CLOSED),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", CLOSED),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf", CLOSED),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", CLOSED),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsecret\r\n", CLOSED),
        ("SSH-2.0-OpenSSH_9.9 secret\r\n", NO_HTTP),
        ("<html>secret</html>", NO_HTTP),
        ("HTTP/1.1 nine\r\n\r\n", NO_HTTP),
        ("HTTP/1.1 200 OK\r\nsecret header\r\n\r\n", NO_HTTP),
        ("HTTP/1.1 200 OK\r\nContent-Length: secret\r\n\r\n", NO_HTTP),
    } {
        let peer = Peer::answering(answer).await;
        assert_eq!(outcome(&client, &peer.url()).await, expected, "{answer:?}");
    }
}

#[tokio::test]
async fn closed_connection_without_response_is_a_failure() {
    let expected = "answer_broken: the connection was closed before the end of the response";
    // The request is unread, so that closing resets the connection.
    let peer = Peer::start(async |stream| {
        stream.readable().await.expect("a request");
        drop(stream);
    })
    .await;
    assert_eq!(outcome(&client(), &peer.url()).await, expected);
}

#[tokio::test]
async fn response_that_exceeds_the_time_limit_is_a_failure() {
    let client = client().timeout(SHORT);
    for (answer, drip) in rows! {
        ("", ""),
        ("", "H"),
        ("HTTP/1.1 200 OK\r\n", "x"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n", ""),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n", "x"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
        ("HTTP/1.1 200 OK\r\n\r\n", "x"),
    } {
        let peer = Peer::start(move |mut stream| async move {
            let mut request = read_request(&mut stream).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            // Drips until the client closes.
            while stream.write_all(drip.as_bytes()).await.is_ok() {
                let more = tokio::time::timeout(Duration::from_millis(20), async {
                    read_request(&mut stream).await
                });
                if let Ok(more) = more.await {
                    request.push_str(&more);
                    break;
                }
            }
        })
        .await;
        let outcome = outcome(&client, &peer.url()).await;
        assert_eq!(
            outcome, "timed_out: the request timed out",
            "{answer:?} {drip:?}"
        );
        // The client closed the connection.
        peer.ends(1).await;
    }
}

#[tokio::test]
async fn unaccepted_connection_times_out() {
    // The kernel accepts connections, but no process does.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let client = client().timeout(SHORT);
    let found = outcome(&client, &url).await;
    assert_eq!(found, "timed_out: the request timed out");
}

/// The peer sends a gigabyte, in each framing; the client reads little of it, and uses the status.
#[tokio::test]
async fn large_response_is_read_only_in_part() {
    for (header, part) in rows! {
        ("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n".to_owned(), vec![b'x'; 64 * 1024]),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            [
                b"10000\r\n".to_vec(),
                vec![b'x'; 64 * 1024],
                b"\r\n".to_vec(),
            ]
            .concat(),
        ),
        ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), vec![b'x'; 64 * 1024]),
    } {
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&taken);
        let framing = header.clone();
        let peer = Peer::start(move |mut stream| {
            let (header, part, counted) = (header.clone(), part.clone(), Arc::clone(&counted));
            async move {
                read_request(&mut stream).await;
                stream.write_all(header.as_bytes()).await.expect("a client");
                counted.store(pour(&mut stream, &part, GIBIBYTE).await, Ordering::SeqCst);
            }
        })
        .await;
        assert_eq!(outcome(&client(), &peer.url()).await, "200", "{framing:?}");
        peer.ends(1).await;
        let taken = taken.load(Ordering::SeqCst);
        assert!(taken < TAKEN_BYTES_MAX, "{taken} of {framing:?}");
    }
}

/// The first 16 KiB of a body must be complete; the rest is not awaited.
#[tokio::test]
async fn response_is_read_up_to_its_limit() {
    let client = client().timeout(Duration::from_secs(60));
    let impatient = client.clone().timeout(SHORT);
    let peer = |length: usize, sent: usize| {
        Peer::start(move |mut stream| async move {
            read_request(&mut stream).await;
            let header = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(header.as_bytes()).await.expect("a client");
            stream.write_all(&vec![b'x'; sent]).await.expect("a client");
            // Open until the client closes.
            read_request(&mut stream).await;
        })
    };
    let whole = peer(16_384, 16_384).await;
    assert_eq!(outcome(&client, &whole.url()).await, "200");
    let held_beyond = peer(1_000_000, 40_000).await;
    assert_eq!(outcome(&client, &held_beyond.url()).await, "200");
    held_beyond.ends(1).await;
    let held_before = peer(16_384, 16_383).await;
    let found = outcome(&impatient, &held_before.url()).await;
    assert_eq!(found, "timed_out: the request timed out");
    held_before.ends(1).await;
}

#[tokio::test]
async fn response_is_never_decompressed() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![0; 8 * 1024 * 1024]).unwrap();
    let bomb = bomb.finish().unwrap();
    // Decoding an invalid gzip body would fail.
    for body in [bomb, b"no gzip".to_vec()] {
        let header = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let peer = Peer::answering([header.into_bytes(), body].concat()).await;
        assert_eq!(outcome(&client(), &peer.url()).await, "200");
    }
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let target = Peer::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    for status in [301, 302, 303, 307, 308] {
        for location in [
            "http://169.254.169.254/latest/meta-data/".to_owned(),
            target.url(),
            format!("//127.0.0.1:{}/", target.port()),
        ] {
            let answer = format!(
                "HTTP/1.1 {status} Elsewhere\r\nLocation: {location}\r\nRefresh: 0; \
                 url={location}\r\nContent-Length: 0\r\n\r\n"
            );
            let peer = Peer::answering(answer).await;
            assert_eq!(outcome(&client(), &peer.url()).await, status.to_string());
        }
    }
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn response_header_is_bounded() {
    for (line, expected) in [
        // One header without an end.
        (
            vec![b'x'; 16 * 1024],
            "answer_broken: the header of the response is too large",
        ),
        // Headers without an end.
        (
            b"a: b\r\n".repeat(1_000),
            "answer_broken: the header of the response is too large",
        ),
    ] {
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&taken);
        let peer = Peer::start(move |mut stream| {
            let (line, counted) = (line.clone(), Arc::clone(&counted));
            async move {
                read_request(&mut stream).await;
                let begin = b"HTTP/1.1 200 OK\r\nx: ";
                stream.write_all(begin).await.expect("a client");
                counted.store(pour(&mut stream, &line, GIBIBYTE).await, Ordering::SeqCst);
            }
        })
        .await;
        assert_eq!(outcome(&client(), &peer.url()).await, expected);
        peer.ends(1).await;
        let taken = taken.load(Ordering::SeqCst);
        assert!(taken < TAKEN_BYTES_MAX, "{taken}");
    }
}

/// A connection is reused only if the response on it was read completely.
#[tokio::test]
async fn connection_is_reused_only_after_complete_response() {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Second {
        Missing,
        Begun,
        Closed,
        Reused,
    }
    let second = watch::Sender::new(Second::Missing);
    let seen = second.clone();
    let peer = Peer::start(move |mut stream| {
        let seen = seen.clone();
        async move {
            read_request(&mut stream).await;
            let short = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            stream.write_all(short).await.expect("a client");
            if read_request(&mut stream).await.is_empty() {
                return;
            }
            seen.send_replace(Second::Begun);
            let long = [
                b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n".to_vec(),
                vec![b'x'; 100_000],
            ];
            let _ = stream.write_all(&long.concat()).await;
            let more = read_request(&mut stream).await;
            seen.send_replace(match more.is_empty() {
                true => Second::Closed,
                false => Second::Reused,
            });
        }
    })
    .await;
    let client = client();
    let mut second = second.subscribe();
    // A background task returns the connection, so it may take more than two attempts.
    guarded("a connection to be used again", async {
        while *second.borrow() == Second::Missing {
            assert_eq!(outcome(&client, &peer.url()).await, "200");
        }
    })
    .await;
    let ended = second.wait_for(|second| *second != Second::Begun);
    let ended = *guarded("the connection to end", ended).await.unwrap();
    assert_eq!(ended, Second::Closed);
}
