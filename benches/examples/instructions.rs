//! Calls whose instructions are counted: `cargo xtask ci --only instructions`.
//!
//! Each case runs within the function [`measured`], which callgrind counts by itself, and is named on
//! standard output before. The store is in memory, and clock and random numbers are fixed, so that a
//! case takes nearly the same number of instructions each time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Request, Response};
use knowledge_benches::Tenant;
use knowledge_core::access::CredentialKind;
use knowledge_core::api::Api;
use knowledge_core::model::{BulkUpdate, EventType};
use knowledge_core::service::{
    Attempt, DeliveryRequest, DeliveryResponse, DeliverySender, DispatchLimits, IdempotencyKey,
};
use knowledge_core::store::MemoryStore;
use knowledge_testing::requests::new_token;
use knowledge_testing::seed::confirm;

/// Number of memories in the workspace.
const MEMORIES: usize = 1_200;
/// Number of memories of a bulk update.
const BULK_MEMORIES: usize = 1_000;

/// The function whose instructions are counted.
#[inline(never)]
fn measured(call: &mut dyn FnMut()) {
    call();
}

/// Runs a future, which never waits.
fn run<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the store answers at once")
}

struct Caller {
    api: Api,
    tenant: Tenant,
    token: String,
}

impl Caller {
    fn new() -> Self {
        let tenant = run(Tenant::fill(Arc::new(MemoryStore::new()), MEMORIES));
        let token = new_token(tenant.seed.founder.id, CredentialKind::Bearer);
        let token = run(tenant.seed.issue(&token)).expect("a token is issued");
        Self {
            api: Api::new(tenant.seed.service.clone()),
            token: token.secret.expose().to_owned(),
            tenant,
        }
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        let request = Request::builder().method(method).uri(path);
        request.header("authorization", format!("Bearer {}", self.token))
    }

    fn send(&self, request: Request<Bytes>) -> Response<Bytes> {
        run(self.api.handle(request))
    }

    /// Counts the instructions of a request, and asserts its status.
    fn count(&self, case: &str, request: Request<Bytes>, status: u16) -> Response<Bytes> {
        println!("{case}");
        let (mut request, mut response) = (Some(request), None);
        measured(&mut || response = request.take().map(|request| self.send(request)));
        let response = response.expect("the request is answered");
        assert_eq!(response.status(), status, "{case}: {:?}", response.body());
        response
    }

    fn dashboard(&self) -> Request<Bytes> {
        let path = format!("/v1/workspaces/{}/dashboard-summary", self.tenant.workspace);
        let request = self.request(Method::GET, &path).body(Bytes::new());
        request.expect("a request")
    }

    fn recognised(&self) -> Request<Bytes> {
        let path = format!("/v1/workspaces/{}/retention", self.tenant.workspace);
        let request = self.request(Method::GET, &path).body(Bytes::new());
        request.expect("a request")
    }

    fn bulk(&self, (key, update): &(IdempotencyKey, BulkUpdate)) -> Request<Bytes> {
        let body = serde_json::to_vec(update).expect("an update serialises");
        let request = self.request(Method::PATCH, "/v1/memories/bulk");
        let request = request
            .header("content-type", "application/json")
            .header("idempotency-key", key.as_str());
        request.body(body.into()).expect("a request")
    }
}

/// A receiver that answers at once.
struct Receiver;

#[async_trait]
impl DeliverySender for Receiver {
    async fn send(&self, _: &DeliveryRequest) -> Attempt {
        let response = DeliveryResponse {
            status: 204,
            retry_after: None,
        };
        Attempt {
            duration: Duration::from_millis(1),
            outcome: Ok(response),
        }
    }
}

/// Counts the fan-out of one event, and the claim and the result of its delivery.
fn count_delivery(caller: &Caller) {
    let seed = &caller.tenant.seed;
    let (service, workspace) = (&seed.service, caller.tenant.workspace);
    let webhook = seed.webhook(
        workspace,
        EventType::MemoryUpdated,
        "https://example.com/hooks",
    );
    let webhook = run(webhook).expect("a webhook is created");
    run(confirm(service, webhook.id.into())).expect("the ping is claimed");
    let dispatched = || {
        let now = service.env().now();
        let report = run(service
            .dispatcher()
            .dispatch(&Receiver, now, DispatchLimits::default()));
        report.expect("the store works").delivered
    };
    let update = caller.tenant.next_update(1);
    assert_eq!(caller.send(caller.bulk(&update)).status(), 200);
    println!("delivery");
    let mut delivered = 0;
    measured(&mut || delivered = dispatched());
    assert_eq!(delivered, 1);
}

fn main() {
    let caller = Caller::new();
    caller.send(caller.recognised());
    caller.count("recognise and authorise", caller.recognised(), 200);
    let made = caller.count("dashboard made", caller.dashboard(), 200);
    let unchanged = caller.count("dashboard unchanged", caller.dashboard(), 200);
    assert_eq!(made.body(), unchanged.body());
    for (case, size) in [("bulk of 1", 1), ("bulk of 1,000", BULK_MEMORIES)] {
        let update = caller.tenant.next_update(size);
        caller.count(case, caller.bulk(&update), 200);
    }
    let update = caller.tenant.next_update(BULK_MEMORIES);
    let first = caller.send(caller.bulk(&update));
    let again = caller.count("replay of 1,000", caller.bulk(&update), 200);
    assert_eq!(first.body().len(), again.body().len() + 1);
    count_delivery(&caller);
}
