//! Responses as gzip, for clients that accept it.

use std::io::Read;

use flate2::read::GzDecoder;
use http::{Method, StatusCode};
use knowledge_server::net::{CompressionConfig, NetConfig};
use serde_json::{Value, json};

use crate::support::{
    Answer, Call, InProcess, Operation, bulk, dashboard, list_roles, update_role,
};

async fn server(bytes_min: usize) -> InProcess {
    InProcess::behind(NetConfig {
        compression: CompressionConfig {
            enabled: true,
            bytes_min,
        },
        ..NetConfig::default()
    })
    .await
}

fn taking(call: Call, codings: &str) -> Call {
    call.header("accept-encoding", codings)
}

fn is_compressed(answer: &Answer) -> bool {
    answer.headers.contains_key("content-encoding")
}

/// Returns the JSON of a compressed response.
fn unpacked(answer: &Answer) -> Value {
    assert_eq!(answer.header("content-encoding"), "gzip");
    assert_eq!(answer.header("content-type"), "application/json");
    let length: usize = answer.header("content-length").parse().expect("a length");
    assert_eq!(length, answer.body.len());
    let mut json = Vec::new();
    GzDecoder::new(answer.body.as_ref())
        .read_to_end(&mut json)
        .expect("gzip to its end");
    assert!(json.len() > length, "it has become longer");
    serde_json::from_slice(&json).expect("JSON")
}

#[tokio::test]
async fn large_response_is_compressed_if_accepted() {
    let server = server(1_024).await;
    let org = server.org();
    let body = json!({
        "memoryIds": org.main.memories.internal,
        "audienceTag": "team:support",
    });
    let call = bulk(&org.members.owner.token, &body);
    let plain = call.clone().send_to(&server.base_url).await;
    assert!(!is_compressed(&plain));
    assert_eq!(plain.header("vary"), "accept-encoding");
    assert!(
        plain.body.len() > 16 * 1_024,
        "also compressed off the threads of connections"
    );

    let packed = taking(call.clone(), "deflate, gzip;q=0.8, br")
        .send_to(&server.base_url)
        .await;
    assert_eq!(packed.header("vary"), "accept-encoding");
    assert_eq!(packed.header("idempotent-replayed"), "true");
    let mut replayed = plain.json();
    replayed["replayed"] = true.into();
    assert_eq!(unpacked(&packed), replayed);

    for unwilling in ["br", "gzip;q=0", "gzip;q=0.5, identity", ""] {
        let answer = taking(call.clone(), unwilling)
            .send_to(&server.base_url)
            .await;
        assert!(!is_compressed(&answer), "{unwilling}");
        assert_eq!(answer.json(), replayed);
    }
}

#[tokio::test]
async fn small_response_is_compressed_only_if_identity_is_rejected() {
    let server = server(64 * 1_024).await;
    let org = server.org();
    let call = list_roles(&org.members.owner.session, &org.slug);
    let answer = taking(call.clone(), "gzip").send_to(&server.base_url).await;
    assert!(!is_compressed(&answer));
    assert_eq!(answer.header("vary"), "accept-encoding");
    let packed = taking(call, "gzip, identity;q=0")
        .send_to(&server.base_url)
        .await;
    assert_eq!(unpacked(&packed), answer.json());
}

#[tokio::test]
async fn weak_etag_is_valid_for_both_encodings() {
    let server = server(1).await;
    let org = server.org();
    let call = taking(dashboard(&org.members.viewer.token, org.main.id), "gzip");
    let packed = call.clone().send_to(&server.base_url).await;
    unpacked(&packed);
    let etag = packed.header("etag");
    assert!(etag.starts_with("W/"), "{etag}");

    let unchanged = call
        .header("if-none-match", etag)
        .send_to(&server.base_url)
        .await;
    assert_eq!(unchanged.status, StatusCode::NOT_MODIFIED);
    assert_eq!(unchanged.header("etag"), etag);
    // The header that a response without the condition has (RFC 9110, 15.4.5).
    assert_eq!(unchanged.header("vary"), "accept-encoding");
    assert!(!is_compressed(&unchanged));
    assert!(unchanged.body.is_empty());
}

#[tokio::test]
async fn response_with_strong_etag_is_not_compressed() {
    let server = server(1).await;
    let org = server.org();
    let update = |name: &str| {
        let session = &org.members.owner.session;
        let call = update_role(
            session,
            &org.slug,
            org.roles.guest,
            &json!({ "name": name }),
        );
        taking(call, "gzip")
    };
    let answer = update("First").send_to(&server.base_url).await;
    assert!(!is_compressed(&answer));
    // The tag can be sent back.
    let again = update("Second").header("if-match", answer.header("etag"));
    assert_eq!(again.send_to(&server.base_url).await.status, StatusCode::OK);
}

#[tokio::test]
async fn public_response_gets_a_weak_etag_if_compressed() {
    let server = server(1).await;
    let call = Call::new(Method::GET, "/openapi.json");
    let plain = call.clone().send_to(&server.base_url).await;
    let tag = plain.header("etag");
    assert!(tag.starts_with('"'), "{tag}");
    let call = taking(call, "gzip");
    let packed = call.clone().send_to(&server.base_url).await;
    assert_eq!(packed.header("etag"), format!("W/{tag}"));
    assert_eq!(unpacked(&packed), plain.json());
    let unchanged = call
        .clone()
        .header("if-none-match", packed.header("etag"))
        .send_to(&server.base_url)
        .await;
    assert_eq!(unchanged.status, StatusCode::NOT_MODIFIED);
    let head = call.method(Method::HEAD).send_to(&server.base_url).await;
    assert_eq!(head.header("content-encoding"), "gzip");
    assert!(!head.headers.contains_key("content-length"), "{head:?}");
}

#[tokio::test]
async fn response_with_new_secret_is_not_compressed() {
    let server = server(1).await;
    let mut shown = 0;
    for operation in Operation::all(server.org()) {
        let answer = taking(operation.call, "gzip, identity;q=0")
            .send_to(&server.base_url)
            .await;
        if answer.status == StatusCode::CREATED {
            shown += 1;
            assert!(!is_compressed(&answer), "{}", operation.name);
            let secret = &answer.json()["signing_secret"];
            assert!(secret.is_string(), "{}", operation.name);
        }
    }
    assert_eq!(shown, 3);
}

#[tokio::test]
async fn head_has_headers_of_compressed_get_without_length() {
    let server = server(1).await;
    let org = server.org();
    let call = dashboard(&org.members.viewer.token, org.main.id).method(Method::HEAD);
    let plain = call.clone().send_to(&server.base_url).await;
    let length: usize = plain.header("content-length").parse().expect("a length");
    assert!(length > 1);
    let packed = taking(call, "gzip").send_to(&server.base_url).await;
    assert_eq!(packed.status, StatusCode::OK);
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(!packed.headers.contains_key("content-length"), "{packed:?}");
    assert!(packed.body.is_empty());
}

#[tokio::test]
async fn responses_are_not_compressed_by_default() {
    let server = InProcess::behind(NetConfig::default()).await;
    let org = server.org();
    let call = dashboard(&org.members.viewer.token, org.main.id);
    let answer = taking(call, "gzip").send_to(&server.base_url).await;
    assert!(!is_compressed(&answer));
    assert!(!answer.headers.contains_key("vary"));
    assert!(answer.json().is_object());
}
