//! Fixtures: a store with an organisation, servers that deliver from it, and receivers.

mod fake;
mod hooked;
pub(crate) mod peer;
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod receiver;
mod serving;
mod world;

#[path = "../../support/exposition.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod exposition;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use knowledge_server::config::WebhookSettings;
use knowledge_server::deliveries::DeliveryClient;

pub(crate) use self::fake::{FakeSender, answered, failed};
pub(crate) use self::hooked::{Asked, HookedStore, of_fan_out, of_lease};
pub(crate) use self::receiver::Receiver;
pub(crate) use self::serving::Serving;
pub(crate) use self::world::{EVENTS_PER_INGEST, VirtualClock, World, addresses, open};

/// Time limit of a test that would hang.
pub(crate) const GUARD: Duration = Duration::from_secs(120);

/// Returns the server's client, with deliveries to this machine allowed.
pub(crate) fn delivery_client() -> Arc<DeliveryClient> {
    let settings = WebhookSettings {
        addresses: addresses(),
        ..WebhookSettings::default()
    };
    Arc::new(DeliveryClient::new(&settings).expect("a client"))
}

/// Awaits a future that must complete.
pub(crate) async fn guarded<F: Future>(what: &str, future: F) -> F::Output {
    within(GUARD, what, future).await
}

/// Awaits like `guarded`, for tests in which much virtual time passes.
pub(crate) async fn within<F: Future>(guard: Duration, what: &str, future: F) -> F::Output {
    match tokio::time::timeout(guard, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited too long for {what}"),
    }
}

/// Waits until a condition is true.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    guarded(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
