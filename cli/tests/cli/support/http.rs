//! One request on one connection, and its response.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Time limit of a test that would hang.
const GUARD: Duration = Duration::from_secs(30);

/// A request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The whole URL.
    pub(crate) url: String,
    /// Header lines, as `Name: value`.
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a GET with one header.
pub(crate) fn get(url: String, header: String) -> Answer {
    send(&Request {
        method: "GET".to_owned(),
        url,
        headers: vec![header],
        body: String::new(),
    })
}

/// Sends the request, and returns the response.
pub(crate) fn send(request: &Request) -> Answer {
    let (host, path) = request
        .url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .expect("a URL with a path");
    let mut stream = TcpStream::connect(host).expect("connect");
    stream.set_read_timeout(Some(GUARD)).expect("a time-out");
    let mut text = format!(
        "{} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n",
        request.method,
        request.body.len()
    );
    for header in &request.headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text.push_str(&request.body);
    stream.write_all(text.as_bytes()).expect("send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a header");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Answer {
        status: status.expect("a status"),
        body: body.to_owned(),
    }
}
