//! Tests of the keys themselves: invalid ones, and requests that use up none.

use http::{HeaderValue, Request};
use knowledge_core::service::IdempotencyKey;

use super::callers::Caller;
use super::idempotency::{creating, handle, send, stage};
use super::requests::Call;
use crate::world::World;

/// Replaces the values of the header.
fn with_keys(mut request: Request<bytes::Bytes>, keys: &[&str]) -> Request<bytes::Bytes> {
    request.headers_mut().remove("idempotency-key");
    for key in keys {
        let key = HeaderValue::from_bytes(key.as_bytes()).unwrap();
        request.headers_mut().append("idempotency-key", key);
    }
    request
}

#[tokio::test]
async fn invalid_key_is_rejected_after_authentication() {
    let long = "k".repeat(256);
    for operation in creating() {
        let (world, caller, call) = stage(operation).await;
        let before = world.contents().await;
        let invalid: [&[&str]; 6] = [&[""], &["a b"], &["\"open"], &["ü"], &[&long], &["a", "a"]];
        for keys in invalid {
            let request = with_keys(call.request(Some(&caller)), keys);
            let answer = handle(&world, request).await;
            let found = (answer.status.as_u16(), answer.code.as_deref());
            assert_eq!(
                found,
                (400, Some("invalid_request")),
                "{operation:?}: {keys:?}"
            );
            let stranger = caller.forged(&world);
            let request = with_keys(call.request(Some(&stranger)), keys);
            assert_eq!(handle(&world, request).await.status, 401, "{operation:?}");
        }
        assert!(world.contents().await == before, "{operation:?}");
    }
}

#[tokio::test]
async fn quoted_key_is_the_bare_one() {
    for operation in creating() {
        let (world, caller, call) = stage(operation).await;
        let first = send(&world, &call, &caller).await.succeeded(call.spec);
        let request = with_keys(call.request(Some(&caller)), &["\"key\""]);
        assert_eq!(
            handle(&world, request).await,
            first.replayed(),
            "{operation:?}"
        );
    }
    assert!("\"key\"".parse::<IdempotencyKey>() == "key".parse());
}

#[tokio::test]
async fn rejected_request_does_not_use_up_its_key() {
    for operation in creating() {
        let (world, caller, call) = stage(operation).await;
        let body = call.json().to_string().replace("null", "");
        let call = call.with_body("{\"unknown\":1}");
        let rejected = send(&world, &call, &caller).await;
        assert_eq!(rejected.status, 400, "{operation:?}");
        let call = call.with_body(body);
        let first = send(&world, &call, &caller).await.succeeded(call.spec);
        assert!(!first.is_replay, "{operation:?}");
    }
}

/// A request without a key stores no record, and repeats what it does.
#[tokio::test]
async fn request_without_key_has_no_record() {
    for operation in creating() {
        let world = World::new().await;
        let caller = Caller::admin(&world).await;
        let call = Call::new(&world, operation, &caller).await;
        let records = world.family("idempotency").await;
        let first = send(&world, &call, &caller).await.succeeded(call.spec);
        let again = send(&world, &call, &caller).await;
        assert!(!first.is_replay && !again.is_replay, "{operation:?}");
        assert_eq!(world.family("idempotency").await, records, "{operation:?}");
    }
}
