//! A responder whose responses a test controls.

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use knowledge_core::api::KnownCaller;
use knowledge_core::model::OrgId;
use knowledge_server::net::{Rejection, Responder};
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::guarded;

/// Length of the response to `/large`, more than the buffers of both ends hold.
pub(crate) const LARGE_BYTES: usize = 64 * 1_024 * 1_024;

/// A responder with one behaviour per path.
///
/// `/echo` returns the body, `/wait` responds once released; there are `/never`, `/panic` and
/// `/large`; other paths return the request. The header field `organization` identifies the caller.
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
    /// Waits for this many more requests to `/wait` or `/never`.
    pub(crate) async fn entered(&self, count: u32) {
        let permits = guarded(
            "requests to come into work",
            self.entered.acquire_many(count),
        )
        .await;
        permits.expect("never closed").forget();
    }

    /// Returns true if a request to `/wait` or `/never` has come that nobody waited for.
    pub(crate) fn has_entered(&self) -> bool {
        self.entered.available_permits() > 0
    }

    /// Releases this many requests to `/wait`.
    pub(crate) fn release(&self, count: usize) {
        self.released.add_permits(count);
    }

    /// Returns the number of requests to `/wait` and `/never` that were dropped without a response.
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

/// A guard that counts a dropped request.
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

    fn reject(&self, method: &Method, uri: &Uri, rejection: &Rejection) -> Response<Bytes> {
        let mut response = Response::new(format!("{method} {uri} {rejection:?}").into());
        *response.status_mut() = rejection.status();
        response
    }

    async fn identify(&self, request: &mut Request<Bytes>) -> Option<KnownCaller> {
        let number = request.headers().get("organization")?.to_str().ok()?;
        let id = Uuid::from_u128(number.parse().ok()?);
        Some(KnownCaller {
            organization: OrgId(id),
            principal: id,
            acts_for: None,
        })
    }

    async fn ready(&self) -> Result<(), String> {
        match self.ready.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err("as the test wanted".to_owned()),
        }
    }
}
