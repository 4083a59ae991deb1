//! Receivers that verify deliveries and sign messages, in this process and in other languages.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::support::{Request, send};

/// Time limit of a test that would hang.
const GUARD: Duration = Duration::from_secs(60);
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/libraries");

/// A receiver of deliveries on a port of this machine, which also posts messages.
pub(crate) struct Receiver {
    port: u64,
    said: mpsc::Receiver<Value>,
    side: Side,
}

enum Side {
    /// A thread of this process, with the secrets by path.
    Here(Arc<Mutex<HashMap<String, String>>>),
    /// A program that reads one order per line, and ends when dropped.
    There(Child, ChildStdin),
}

/// Returns the lines of JSON that a program prints, as they come.
pub(crate) fn printed(process: &mut Child) -> mpsc::Receiver<Value> {
    let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let (says, said) = mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let line = serde_json::from_str(&line).expect("a line of JSON");
            if says.send(line).is_err() {
                return;
            }
        }
    });
    said
}

impl Receiver {
    /// Starts a receiver with the library from the Rust registry.
    pub(crate) fn rust() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let secrets = Arc::new(Mutex::new(HashMap::new()));
        let (says, said) = mpsc::channel();
        let known = Arc::clone(&secrets);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (known, says) = (Arc::clone(&known), says.clone());
                std::thread::spawn(move || serve(stream, &known, &says));
            }
        });
        Self {
            port: port.into(),
            said,
            side: Side::Here(secrets),
        }
    }

    /// Starts a receiver with the library from npm.
    pub(crate) fn node() -> Self {
        installed("TEST_NODE_PACKAGES");
        Self::program(Command::new("node").arg(format!("{FILES}/node/receiver.mjs")))
    }

    /// Starts a receiver with the library from the Python registry.
    pub(crate) fn python() -> Self {
        let python = installed("TEST_PYTHON");
        Self::program(Command::new(python).arg(format!("{FILES}/python/receiver.py")))
    }

    fn program(command: &mut Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = process.stdin.take().expect("a pipe");
        let said = printed(&mut process);
        let mut receiver = Self {
            port: 0,
            said,
            side: Side::There(process, input),
        };
        receiver.port = receiver.next()["port"].as_u64().expect("a port");
        receiver
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Sets the secret that verifies requests to this path.
    pub(crate) fn verify_with(&mut self, path: &str, secret: &str) {
        match &mut self.side {
            Side::Here(secrets) => {
                let mut secrets = secrets.lock().expect("no panic");
                secrets.insert(path.to_owned(), secret.to_owned());
            }
            Side::There(_, input) => tell(input, &json!({ "path": path, "secret": secret })),
        }
    }

    /// Returns the next report.
    pub(crate) fn next(&mut self) -> Value {
        let said = self.said.recv_timeout(GUARD);
        said.unwrap_or_else(|error| panic!("the receiver says nothing: {error}"))
    }

    /// Posts a body, signed with this secret, and returns the status.
    pub(crate) fn post(&mut self, url: &str, secret: &str, id: &str, body: &str) -> u64 {
        let Side::There(_, input) = &mut self.side else {
            return post(url, secret, id, body);
        };
        let order = json!({ "url": url, "secret": secret, "id": id, "body": body });
        tell(input, &order);
        let said = self.next();
        said["posted"].as_u64().unwrap_or_else(|| panic!("{said}"))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Side::There(process, _) = &mut self.side {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Returns the directory of a library, as the command that installs it reports it.
pub(crate) fn installed(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "{variable} is not set: `cargo xtask ci --only test` installs the libraries and sets it"
        )
    })
}

fn tell(input: &mut ChildStdin, order: &Value) {
    writeln!(input, "{order}").expect("tell the receiver");
}

/// Signs and posts with the library for Rust.
fn post(url: &str, secret: &str, id: &str, body: &str) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = i64::try_from(now.expect("after 1970").as_secs()).expect("a time");
    let signature = Webhook::new(secret)
        .and_then(|webhook| webhook.sign(id, now, body.as_bytes()))
        .expect("a signature");
    let answer = send(&Request {
        method: "POST".to_owned(),
        url: url.to_owned(),
        headers: vec![
            "Content-Type: application/json".to_owned(),
            format!("webhook-id: {id}"),
            format!("webhook-timestamp: {now}"),
            format!("webhook-signature: {signature}"),
        ],
        body: body.to_owned(),
    });
    answer.status.into()
}

/// Receives one delivery, verifies it and reports the result.
fn serve(mut stream: TcpStream, secrets: &Mutex<HashMap<String, String>>, says: &Sender<Value>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("a request");
    let path = line.split(' ').nth(1).expect("a path").to_owned();
    let mut headers = HeaderMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).expect("a header");
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        headers.insert(name, HeaderValue::from_str(value).expect("a value"));
    }
    let length = headers["content-length"].to_str().expect("digits");
    let mut body = vec![0; length.parse().expect("a length")];
    reader.read_exact(&mut body).expect("a body");
    let secret = secrets.lock().expect("no panic")[&path].clone();
    let verified = Webhook::new(&secret).and_then(|webhook| webhook.verify(&body, &headers));
    let (status, error) = match &verified {
        Ok(()) => ("204 No Content", None),
        Err(error) => ("401 Unauthorized", Some(error.to_string())),
    };
    let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).expect("answer");
    let payload: Value = serde_json::from_slice(&body).expect("JSON");
    let id = headers["webhook-id"].to_str().expect("an identifier");
    // After the end of the test, no one listens any more.
    let _ = says.send(json!({
        "path": path, "id": id, "verified": error.is_none(), "payload": payload, "error": error,
    }));
}
