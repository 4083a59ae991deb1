//! A sender with a scripted outcome for each request.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use knowledge_core::model::{DeliveryFailure, DeliveryFailureCode};
use knowledge_core::service::{Attempt, DeliveryRequest, DeliveryResponse, DeliverySender};
use tokio::sync::watch;

use super::{GUARD, within};

type Script = dyn Fn(usize, DeliveryRequest) -> BoxFuture<'static, Attempt> + Send + Sync;

/// A sender that records its requests and returns the outcomes of its script.
pub(crate) struct FakeSender {
    script: Box<Script>,
    sent: watch::Sender<Vec<DeliveryRequest>>,
}

impl FakeSender {
    /// Creates a sender whose script gets the number of the request, from 0 on.
    pub(crate) fn new<F>(
        script: impl Fn(usize, DeliveryRequest) -> F + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: Future<Output = Attempt> + Send + 'static,
    {
        Arc::new(Self {
            script: Box::new(move |number, request| Box::pin(script(number, request))),
            sent: watch::Sender::default(),
        })
    }

    /// Returns the requests so far.
    pub(crate) fn sent(&self) -> Vec<DeliveryRequest> {
        self.sent.borrow().clone()
    }

    /// Waits until there are this many requests.
    pub(crate) async fn sends(&self, count: usize) -> Vec<DeliveryRequest> {
        self.sends_within(GUARD, count).await
    }

    /// Waits like `sends`, for tests in which much virtual time passes.
    pub(crate) async fn sends_within(&self, guard: Duration, count: usize) -> Vec<DeliveryRequest> {
        let mut sent = self.sent.subscribe();
        let waited = sent.wait_for(|sent| sent.len() >= count);
        let what = format!("{count} requests");
        let sent = within(guard, &what, waited).await;
        sent.expect("the sender is there").clone()
    }
}

#[async_trait]
impl DeliverySender for FakeSender {
    async fn send(&self, request: &DeliveryRequest) -> Attempt {
        let mut number = 0;
        self.sent.send_modify(|sent| {
            number = sent.len();
            sent.push(request.clone());
        });
        (self.script)(number, request.clone()).await
    }
}

/// Returns an attempt with this status.
pub(crate) fn answered(status: u16) -> Attempt {
    Attempt {
        duration: Duration::from_millis(7),
        outcome: Ok(DeliveryResponse {
            status,
            retry_after: None,
        }),
    }
}

/// Returns an attempt that failed for this reason.
pub(crate) fn failed(code: DeliveryFailureCode) -> Attempt {
    Attempt {
        duration: Duration::from_millis(7),
        outcome: Err(DeliveryFailure {
            code,
            message: "as the test wanted".to_owned(),
        }),
    }
}
