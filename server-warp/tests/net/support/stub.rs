//! A responder whose answers a test controls.

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use knowledge_server::net::{Refusal, Responder};
use tokio::sync::Semaphore;

use super::guarded;

/// The length of the answer to `/large`: more than the buffers of both ends hold.
pub(crate) const LARGE_BYTES: usize = 64 * 1_024 * 1_024;

/// Answers by path: `/echo` with the body, `/wait` once the test releases it, `/never`, `/panic`, `/large`, and
/// everything else with the request as it came.
pub(crate) struct Stub {
    entered: Semaphore,
    released: Semaphore,
    dropped: AtomicUsize,
    ready: AtomicBool,
}

impl Default for Stub {
    fn default() -> Self {
        Self {
            entered: Semaphore::new(0),
            released: Semaphore::new(0),
            dropped: AtomicUsize::new(0),
            ready: AtomicBool::new(true),
        }
    }
}

impl Stub {
    /// Waits until this many more requests have come to `/wait` or `/never`.
    pub(crate) async fn entered(&self, count: u32) {
        let permits = guarded(
            "requests to come into work",
            self.entered.acquire_many(count),
        )
        .await;
        permits.expect("never closed").forget();
    }

    /// Lets this many requests to `/wait` be answered.
    pub(crate) fn release(&self, count: usize) {
        self.released.add_permits(count);
    }

    /// Requests to `/wait` and `/never` that were dropped before they were answered.
    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::SeqCst);
    }

    async fn wait(&self, release: impl Future<Output = ()>) {
        let unfinished = Unfinished(&self.dropped);
        self.entered.add_permits(1);
        release.await;
        std::mem::forget(unfinished);
    }
}

/// Counts a request that is dropped.
struct Unfinished<'a>(&'a AtomicUsize);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Responder for Stub {
    async fn respond(&self, request: Request<Bytes>) -> Response<Bytes> {
        let (parts, body) = request.into_parts();
        match parts.uri.path() {
            "/echo" => return Response::new(body),
            "/large" => return Response::new(vec![b'x'; LARGE_BYTES].into()),
            "/panic" => panic!("as the test wanted"),
            "/never" => self.wait(pending()).await,
            "/wait" => {
                let released = async {
                    self.released
                        .acquire()
                        .await
                        .expect("never closed")
                        .forget();
                };
                self.wait(released).await;
            }
            _ => {}
        }
        let test = parts
            .headers
            .get("test")
            .map_or("", |value| value.to_str().unwrap_or("?"));
        let text = format!(
            "{} {} test={test} body={}",
            parts.method,
            parts.uri,
            body.len()
        );
        Response::new(text.into())
    }

    fn refuse(&self, method: &Method, uri: &Uri, refusal: &Refusal) -> Response<Bytes> {
        let mut response = Response::new(format!("{method} {uri} {refusal:?}").into());
        *response.status_mut() = refusal.status();
        response
    }

    async fn ready(&self) -> Result<(), String> {
        match self.ready.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err("as the test wanted".to_owned()),
        }
    }
}
