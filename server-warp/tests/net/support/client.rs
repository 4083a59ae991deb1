//! A client that sends exactly the given bytes.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::guarded;

/// Returns the text of a GET of this path.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n")
}

/// Returns the text of a POST with a body of known length.
pub(crate) fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Returns the header of a POST with a chunked body.
pub(crate) fn start_chunked(path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
}

/// A received response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// Returns a header by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(found, _)| found == name);
        header.map(|(_, value)| value.as_str())
    }

    /// Asserts the status and the body.
    #[track_caller]
    pub(crate) fn assert_is(&self, status: u16, body: &str) {
        assert_eq!((self.status, self.body.as_str()), (status, body));
    }

    /// Asserts the status and a header.
    #[track_caller]
    pub(crate) fn assert_has(&self, status: u16, header: &str, value: &str) {
        assert_eq!((self.status, self.header(header)), (status, Some(value)));
    }

    /// Returns the requests left of the rate limit, as text.
    pub(crate) fn remaining(&self) -> &str {
        let text = self.header("ratelimit").expect("a limit");
        let rest = text.split(";r=").nth(1).expect("what is left");
        rest.split(';').next().expect("a number")
    }
}

/// One connection.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
    received: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = guarded("a connection", TcpStream::connect(address))
            .await
            .expect("connect");
        Self::over(stream)
    }

    /// Connects from another address of the loopback interface, 127.0.0.`last`.
    pub(crate) async fn connect_from(last: u8, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .bind(SocketAddr::from(([127, 0, 0, last], 0)))
            .expect("an address of the interface");
        let stream = guarded("a connection", socket.connect(address))
            .await
            .expect("connect");
        Self::over(stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Creates a client on an open connection.
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            received: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        guarded(
            "the bytes to be taken",
            self.stream.write_all(bytes.as_ref()),
        )
        .await
        .expect("send");
    }

    /// Reads the next response.
    pub(crate) async fn answer(&mut self) -> Answer {
        self.read_answer(true).await
    }

    /// Reads the next response to a HEAD, whose header announces a body that does not follow.
    pub(crate) async fn answer_to_head(&mut self) -> Answer {
        self.read_answer(false).await
    }

    /// Waits until the server closes the connection; returns true if it sent nothing before.
    pub(crate) async fn closed_silently(&mut self) -> bool {
        loop {
            if self.receive().await == 0 {
                return self.received.is_empty();
            }
        }
    }

    /// Reads once, expecting the end: 0 bytes, or an error if it was not announced.
    pub(crate) async fn read_end(&mut self) -> std::io::Result<usize> {
        guarded("the end", self.stream.read_buf(&mut self.received)).await
    }

    async fn read_answer(&mut self, with_body: bool) -> Answer {
        let end = loop {
            let end = self
                .received
                .windows(4)
                .position(|window| window == b"\r\n\r\n");
            if let Some(end) = end {
                break end;
            }
            assert_ne!(
                self.receive().await,
                0,
                "closed before an answer: {:?}",
                self.received
            );
        };
        let head: Vec<u8> = self.received.drain(..end + 4).collect();
        let head = String::from_utf8(head).expect("a header in ASCII");
        let mut lines = head.trim_end().split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut answer = Answer {
            status: status.expect("a status"),
            headers,
            body: String::new(),
        };
        let length = answer
            .header("content-length")
            .map_or(0, |text| text.parse().expect("a length"));
        if with_body {
            while self.received.len() < length {
                assert_ne!(
                    self.receive().await,
                    0,
                    "closed within an answer: {answer:?}"
                );
            }
            answer.body = String::from_utf8(self.received.drain(..length).collect())
                .expect("a body in UTF-8");
        }
        answer
    }

    /// Receives some bytes; 0 once the connection is closed or reset.
    async fn receive(&mut self) -> usize {
        guarded("bytes or a close", self.stream.read_buf(&mut self.received))
            .await
            .unwrap_or(0)
    }
}
