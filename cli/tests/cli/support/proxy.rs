//! A proxy between a client and a server that disturbs chosen requests as networks do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Time limit of a test that would hang.
const GUARD: Duration = Duration::from_secs(120);

/// The disturbance of an exchange.
#[derive(Clone, Debug)]
enum Mishap {
    /// The server does not get the request; this is the response.
    Answer(String),
    /// The server responds, and the client's connection is closed without the response.
    Drop,
    /// The server responds, and the client gets nothing until release.
    Hold,
}

/// A proxy on a free port of the loopback interface.
pub(crate) struct Proxy {
    address: String,
    shared: Arc<Shared>,
}

struct Shared {
    server: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Disturbances by method and number of the request among those of the method.
    mishaps: Vec<(String, usize, Mishap)>,
    /// The methods of all requests so far.
    seen: Vec<String>,
    is_held: bool,
    is_released: bool,
}

impl Proxy {
    /// Starts a proxy in front of the server with this base URL.
    pub(crate) fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = server.strip_prefix("http://").expect("a URL").to_owned();
        let shared = Arc::new(Shared {
            server,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&serving);
                // Any failure closes the client's connection.
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn with(self, method: &str, number: usize, mishap: Mishap) -> Self {
        let mut state = self.shared.state.lock().expect("no panic");
        state.mishaps.push((method.to_owned(), number, mishap));
        drop(state);
        self
    }

    /// Responds itself to the request of this number.
    pub(crate) fn answer(self, method: &str, number: usize, answer: &str) -> Self {
        self.with(method, number, Mishap::Answer(answer.to_owned()))
    }

    /// Drops the response to the request of this number.
    pub(crate) fn drop_answer(self, method: &str, number: usize) -> Self {
        self.with(method, number, Mishap::Drop)
    }

    /// Delays the response to the request of this number.
    pub(crate) fn hold_answer(self, method: &str, number: usize) -> Self {
        self.with(method, number, Mishap::Hold)
    }

    /// Waits until the server has sent the delayed response.
    pub(crate) fn wait_until_held(&self) {
        let state = self.shared.state.lock().expect("no panic");
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, GUARD, |state| !state.is_held);
        assert!(waited.expect("no panic").0.is_held, "nothing was held back");
    }

    /// Releases all delayed responses.
    pub(crate) fn release(&self) {
        self.shared.state.lock().expect("no panic").is_released = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.release();
    }
}

impl Shared {
    /// Serves one request after another, each on a new connection to the server.
    fn serve(&self, mut client: TcpStream) -> Option<()> {
        client.set_read_timeout(Some(GUARD)).ok()?;
        let mut reader = BufReader::new(client.try_clone().ok()?);
        loop {
            let (method, request) = read_request(&mut reader)?;
            let mishap = self.mishap(&method);
            if let Some(Mishap::Answer(answer)) = &mishap {
                client.write_all(answer.as_bytes()).ok()?;
                continue;
            }
            let mut server = TcpStream::connect(&self.server).ok()?;
            server.set_read_timeout(Some(GUARD)).ok()?;
            server.write_all(&request).ok()?;
            let mut answer = Vec::new();
            server.read_to_end(&mut answer).ok()?;
            match mishap {
                Some(Mishap::Drop) => return None,
                Some(Mishap::Hold) => self.hold()?,
                _ => {}
            }
            client.write_all(&answer).ok()?;
            return None; // The answer says that the connection ends.
        }
    }

    fn mishap(&self, method: &str) -> Option<Mishap> {
        let mut state = self.state.lock().ok()?;
        state.seen.push(method.to_owned());
        let number = state.seen.iter().filter(|seen| *seen == method).count();
        let mut mishaps = state.mishaps.iter();
        let found = mishaps.find(|(of, at, _)| of == method && *at == number);
        found.map(|(_, _, mishap)| mishap.clone())
    }

    fn hold(&self) -> Option<()> {
        let mut state = self.state.lock().ok()?;
        state.is_held = true;
        self.changed.notify_all();
        let waited = self
            .changed
            .wait_timeout_while(state, GUARD, |state| !state.is_released);
        waited.ok().map(drop)
    }
}

/// Reads the next request and its method; its connection ends with it.
fn read_request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    let mut method = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if method.is_empty() {
            line.split(' ').next()?.clone_into(&mut method);
        }
        let name = line
            .split(':')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        match name.as_str() {
            "content-length" => length = line.split(':').nth(1)?.trim().parse().ok()?,
            "connection" => continue,
            _ => {}
        }
        if line == "\r\n" {
            head.push_str("Connection: close\r\n\r\n");
            break;
        }
        head.push_str(&line);
    }
    let mut request = head.into_bytes();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.extend(body);
    Some((method, request))
}
