//! Services of the module's host: time, randomness, timers, a log, and panic reports.

use std::cell::{OnceCell, RefCell};
use std::fmt::{self, Write};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::Response;
use js_sys::Promise;
use js_sys::futures::JsFuture;
use knowledge_core::env::{Clock, Env};
use knowledge_core::model::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsValue, UnwrapThrowExt};

use crate::exchange;

#[wasm_bindgen]
extern "C" {
    /// The JavaScript half of the package, `wasm/js/module.js`.
    #[derive(Debug)]
    pub type Host;

    #[wasm_bindgen(method)]
    fn wake(this: &Host, task: u32);
    #[wasm_bindgen(method)]
    fn settle(this: &Host, task: u32, is_fulfilled: bool, value: JsValue);
    #[wasm_bindgen(method)]
    fn respond(this: &Host, task: u32, status: u16, headers: &[u8], body: &[u8]);
    #[wasm_bindgen(method)]
    fn sleep(this: &Host, millis: f64) -> Promise;
    #[wasm_bindgen(method)]
    fn log(this: &Host, level: &str, message: &str);
    #[wasm_bindgen(method)]
    fn panicked(this: &Host, message: &str);
}

thread_local! {
    static HOST: OnceCell<Host> = const { OnceCell::new() };
}

/// Connects an instance of the module to its host. Called once, before anything else.
#[wasm_bindgen]
pub fn attach(host: Host) {
    HOST.with(|cell| {
        // A second call passes the same host: each module has one JavaScript half.
        let _ = cell.set(host);
    });
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.to_string();
        with(|host| host.panicked(&message));
    }));
    let _ = tracing::subscriber::set_global_default(HostLog);
}

fn with<T>(call: impl FnOnce(&Host) -> T) -> T {
    HOST.with(|cell| {
        call(
            cell.get()
                .expect_throw("the module is attached to its host"),
        )
    })
}

/// Notifies the host that a task can continue.
pub(crate) fn wake(task: u32) {
    with(|host| host.wake(task));
}

/// Reports the outcome of a task to the host.
pub(crate) fn settle(task: u32, outcome: Result<JsValue, JsValue>) {
    let is_fulfilled = outcome.is_ok();
    let (Ok(value) | Err(value)) = outcome;
    with(|host| host.settle(task, is_fulfilled, value));
}

/// Reports the response of a task to the host, which reads it during the call: nothing is copied
/// that the caller does not need.
pub(crate) fn respond(task: u32, response: &Response<Bytes>) {
    let status = response.status().as_u16();
    let lines = exchange::header_lines(response.headers());
    with(|host| host.respond(task, status, lines.as_bytes(), response.body()));
}

/// Returns an environment of `Date.now()`, `crypto.getRandomValues()` and `setTimeout()`.
///
/// # Errors
/// The host has no `crypto.getRandomValues()`.
pub(crate) fn env() -> Result<Env, getrandom::Error> {
    // Checked once, here, where an error can be reported: a host that has it never fails later.
    getrandom::u32()?;
    Ok(Env::new(HostClock, fill))
}

struct HostClock;

#[async_trait(?Send)]
impl Clock for HostClock {
    fn now(&self) -> Timestamp {
        // Exact: a whole number of milliseconds, far below 2^53.
        Timestamp::from_millis(js_sys::Date::now() as i64)
    }

    async fn sleep(&self, duration: Duration) {
        let millis = duration.as_secs_f64() * 1e3;
        let slept = with(|host| host.sleep(millis));
        // A timer does not fail; if one did, ending the wait early would be harmless.
        let _ = JsFuture::from(slept).await;
    }
}

/// Number of bytes that are requested from the host at a time.
///
/// A call costs as much as some hundred bytes, and most of the service's needs are 16 bytes.
const POOL_BYTES: usize = 4096;

/// Random bytes that are not used yet, from `next` on.
struct RandomPool {
    bytes: [u8; POOL_BYTES],
    next: usize,
}

thread_local! {
    static POOL: RefCell<RandomPool> = const {
        RefCell::new(RandomPool {
            bytes: [0; POOL_BYTES],
            next: POOL_BYTES,
        })
    };
}

impl RandomPool {
    /// Moves the next bytes into the buffer, which must not be larger than the pool.
    fn take(&mut self, buffer: &mut [u8]) {
        if buffer.len() > POOL_BYTES - self.next {
            fill_from_host(&mut self.bytes);
            self.next = 0;
        }
        let end = self.next + buffer.len();
        let taken = &mut self.bytes[self.next..end];
        buffer.copy_from_slice(taken);
        // A secret is not kept after its use.
        taken.fill(0);
        self.next = end;
    }
}

fn fill(buffer: &mut [u8]) {
    if buffer.len() > POOL_BYTES {
        fill_from_host(buffer);
    } else {
        POOL.with_borrow_mut(|pool| pool.take(buffer));
    }
}

fn fill_from_host(buffer: &mut [u8]) {
    getrandom::fill(buffer).expect("the host has provided random bytes before");
}

/// Log of warnings and errors on the host's console, with details that callers do not see.
struct HostLog;

impl Subscriber for HostLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            _ => "warn",
        };
        with(|host| host.log(level, &line.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// An event in one line: its message, then its fields.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => {
                let fields = std::mem::take(&mut self.0);
                write!(self.0, "{value:?}{fields}")
            }
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
