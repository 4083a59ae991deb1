//! A sender that does what the test says.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use knowledge_core::model::{DeliveryFailure, DeliveryFailureCode};
use knowledge_core::service::{Attempt, DeliveryAnswer, DeliveryRequest, DeliverySender};
use tokio::sync::watch;

use super::{GUARD, within};

type Script = dyn Fn(usize, DeliveryRequest) -> BoxFuture<'static, Attempt> + Send + Sync;

/// Keeps what it is to send, and comes to what its script says.
pub(crate) struct FakeSender {
    script: Box<Script>,
    sent: watch::Sender<Vec<DeliveryRequest>>,
}

impl FakeSender {
    /// The script is told the how-manieth request it is, from 0 on.
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

    /// What was to be sent so far.
    pub(crate) fn sent(&self) -> Vec<DeliveryRequest> {
        self.sent.borrow().clone()
    }

    /// Waits until this many requests were to be sent.
    pub(crate) async fn sends(&self, count: usize) -> Vec<DeliveryRequest> {
        self.sends_within(GUARD, count).await
    }

    /// The same, where the time is virtual and much of it passes.
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

/// An answer with this status.
pub(crate) fn answered(status: u16) -> Attempt {
    Attempt {
        duration: Duration::from_millis(7),
        outcome: Ok(DeliveryAnswer {
            status,
            retry_after: None,
        }),
    }
}

/// No answer, for this reason.
pub(crate) fn failed(code: DeliveryFailureCode) -> Attempt {
    Attempt {
        duration: Duration::from_millis(7),
        outcome: Err(DeliveryFailure {
            code,
            message: "as the test wanted".to_owned(),
        }),
    }
}
