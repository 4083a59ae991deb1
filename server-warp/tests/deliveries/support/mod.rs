//! Those who are sent to, and what waits for them.

pub(crate) mod peer;

use std::future::Future;
use std::time::Duration;

/// Ends a test that would hang.
pub(crate) const GUARD: Duration = Duration::from_secs(120);

/// The result of a future that must come.
pub(crate) async fn guarded<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(GUARD, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited too long for {what}"),
    }
}
