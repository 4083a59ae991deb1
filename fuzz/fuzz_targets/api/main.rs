//! Sequences of requests to the HTTP interface.
//!
//! Every response must have a documented form, and none may be a server error.

#![no_main]

mod request;
mod world;

use arbitrary::Unstructured;
use bytes::Bytes;
use futures::executor::block_on;
use http::{Method, Response, StatusCode};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

use self::world::World;

/// Maximum number of requests per input.
const REQUESTS_MAX: usize = 16;

fuzz_target!(|data: &[u8]| {
    block_on(async {
        let world = World::new().await.expect("the world is created");
        let mut input = Unstructured::new(data);
        for _ in 0..REQUESTS_MAX {
            if input.is_empty() {
                return;
            }
            let Ok(request) = request::request(&mut input, &world) else {
                return;
            };
            let method = request.method().clone();
            let response = world.api.handle(request).await;
            check(&method, &response);
        }
    });
});

fn check(method: &Method, response: &Response<Bytes>) {
    let status = response.status();
    assert!(!status.is_server_error(), "{status}: {:?}", response.body());
    assert!(response.headers().contains_key("request-id"));
    if method == Method::HEAD
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED
    {
        assert!(response.body().is_empty());
        return;
    }
    if response.body().is_empty() {
        let header = |name| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let error = header("error-code").zip(header("error-message"));
        assert!(error.is_some_and(|(code, message)| !code.is_empty() && !message.is_empty()));
        return;
    }
    let body: Value = serde_json::from_slice(response.body()).expect("a body is JSON");
    assert_eq!(response.headers()["content-type"], "application/json");
    if status.is_success() {
        assert!(body.is_object());
    } else {
        assert!(
            body["error"].is_string() && body["message"].is_string() && body["details"].is_object()
        );
    }
}
