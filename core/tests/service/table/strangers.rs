//! Tests of what a request costs, and what its response reveals, before its caller is authenticated.

use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_TYPE, HeaderValue};
use knowledge_core::api::{Api, Authentication, OPERATIONS, OperationSpec};
use knowledge_core::service;

use super::callers::Caller;
use super::reads::reads;
use super::requests::Call;
use crate::make::{DAY, in_workspaces, new_mcp_key};
use crate::world::World;

/// Shortest length of a body that is parsed only for a known credential, in bytes.
const LONG: usize = 4 * 1_024 + 1;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// Returns the operations whose callers have a credential.
fn operations() -> impl Iterator<Item = &'static OperationSpec> {
    let has_credential = |spec: &&OperationSpec| spec.authentication != Authentication::Signature;
    OPERATIONS.iter().filter(has_credential)
}

/// Returns the maximum length of a body, in bytes.
fn body_bytes_max(world: &World) -> usize {
    world.service.limits().body_bytes_max
}

/// Sends a request and returns the status of the response, with the number of store reads.
async fn respond(world: &World, request: Request<Bytes>) -> (u16, u64) {
    let before = world.faults.counts().reads;
    let api = Api::new(world.service.clone());
    let status = api.handle(request).await.status().as_u16();
    (status, world.faults.counts().reads - before)
}

/// Returns the request with another body.
fn with_body(
    request: Request<Bytes>,
    (body, content_type): &(Bytes, &'static str),
) -> Request<Bytes> {
    let (mut head, _) = request.into_parts();
    let content_type = HeaderValue::from_static(content_type);
    head.headers.insert(CONTENT_TYPE, content_type);
    Request::from_parts(head, body.clone())
}

/// Returns long bodies that a known caller is rejected for, with the status.
fn rejected_bodies(world: &World) -> [((Bytes, &'static str), u16); 4] {
    let blank = |bytes| Bytes::from(vec![b' '; bytes]);
    let bytes_max = body_bytes_max(world);
    let mut objects = r#"{"":0},"#.repeat(bytes_max / 7 - 1);
    objects.insert(0, '[');
    objects.push_str("0]");
    [
        ((objects.into(), JSON), 400),
        ((blank(LONG), JSON), 400),
        ((blank(LONG), TEXT), 415),
        ((blank(bytes_max + 1), JSON), 413),
    ]
}

#[tokio::test]
async fn stranger_costs_one_read_whatever_the_body() {
    for spec in operations() {
        let world = World::new().await;
        let known = Caller::admin(&world).await;
        let call = Call::new(&world, spec.operation, &known).await;
        let (forged, swapped) = (known.forged(&world), known.swapped());
        let mut bodies = rejected_bodies(&world).map(|(body, _)| body).to_vec();
        bodies.push((call.padded_body(LONG).into(), JSON));
        bodies.extend([JSON, TEXT].map(|of| (Bytes::from_static(b"no JSON"), of)));
        bodies.push((Bytes::new(), JSON));
        world.time.pass(2 * DAY);
        let operation = spec.operation;
        for body in &bodies {
            let respond = async |caller: Option<&Caller>| {
                respond(&world, with_body(call.request(caller), body)).await
            };
            assert_eq!(respond(Some(&forged)).await, (401, 1), "{operation:?}");
            assert_eq!(
                respond(Some(&known)).await,
                (401, 1),
                "{operation:?}: expired"
            );
            assert_eq!(respond(Some(&swapped)).await, (401, 0), "{operation:?}");
            assert_eq!(respond(None).await, (401, 0), "{operation:?}");
        }
    }
}

#[tokio::test]
async fn long_body_takes_no_more_reads() {
    for spec in operations() {
        for bytes in [LONG - 1, LONG] {
            let world = World::new().await;
            let caller = Caller::custom(&world).await;
            let call = Call::new(&world, spec.operation, &caller).await;
            let body = call.padded_body(bytes);
            let reads = reads(&world, &call.with_body(body), &caller).await;
            let expected = u64::from(spec.reads);
            assert_eq!(reads, expected, "{:?}, {bytes} B", spec.operation);
        }
    }
}

/// A known credential is not enough: the scoped one that it depends on has been revoked.
#[tokio::test]
async fn authentication_precedes_a_long_body() {
    let world = World::new().await;
    let workspace = world.workspace.id;
    let scope = in_workspaces(&[workspace]);
    let token = world.token(world.owner_id, scope).await;
    let by = service::Caller::from(token.secret);
    let new = new_mcp_key("workspace:research");
    let key = world.by(&by).create_mcp_key(&new).await;
    let key = key.unwrap().secret.unwrap();
    let status = async |body: &(Bytes, &'static str)| {
        let request = Request::post(format!("/v1/workspaces/{workspace}/recalls"))
            .header("authorization", format!("Bearer {}", key.expose()));
        let request = request.body(Bytes::new()).unwrap();
        respond(&world, with_body(request, body)).await.0
    };
    for (body, expected) in rejected_bodies(&world) {
        assert_eq!(status(&body).await, expected);
    }
    let operator = world.service.provisioning();
    let revoked = operator.revoke(world.org.id, token.record.id);
    revoked.await.unwrap();
    for (body, _) in rejected_bodies(&world) {
        assert_eq!(status(&body).await, 401);
    }
}
