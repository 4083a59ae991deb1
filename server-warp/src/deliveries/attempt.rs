//! One attempt: the exchange with the endpoint, and the record of what came of it.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use knowledge_core::Error;
use knowledge_core::model::{DeliveryFailureCode, DisabledReason};
use knowledge_core::service::{
    Attempt, ClaimedDelivery, DeliveryLease, DeliveryRequest, Finished, KnowledgeService,
};
use opentelemetry::trace::FutureExt as _;
use tokio::time::Instant;

use super::Deliveries;
use super::dispatcher::PAUSE;
use super::failure::failure;
use crate::explain::explain;
use crate::metrics::{DeliveryMetrics, DispatchStep, Recorded};

/// How long the first failure to record an attempt is waited after, and every later one at most.
const RECORD_RETRY_MIN: Duration = Duration::from_millis(50);
const RECORD_RETRY_MAX: Duration = Duration::from_secs(2);

/// What attempts are made with.
#[derive(Clone, Debug)]
pub(super) struct Attempts {
    pub(super) service: KnowledgeService,
    pub(super) deliveries: Deliveries,
    pub(super) metrics: DeliveryMetrics,
}

impl Attempts {
    /// Makes one attempt of a delivery and records it.
    pub(super) async fn make(self, claimed: ClaimedDelivery) {
        let _in_flight = self.metrics.exchange_begins();
        let span = self.deliveries.tracer.as_ref();
        let span = span.map(|tracer| tracer.begin(&claimed.request, claimed.event_type));
        let attempt = self.send(&claimed).await;
        self.metrics.exchanged(&attempt);
        let Some(span) = span else {
            return self.record(&claimed, &attempt).await;
        };
        // What the store does to record it is beneath the span.
        let context = span.context();
        self.record(&claimed, &attempt).with_context(context).await;
        span.end(&attempt);
    }

    /// Makes the exchange. A defect that panics is a failure like others: the schedule says when to try again.
    async fn send(&self, claimed: &ClaimedDelivery) -> Attempt {
        let began = Instant::now();
        let sent = AssertUnwindSafe(self.deliveries.sender.send(&claimed.request));
        sent.catch_unwind().await.unwrap_or_else(|_| {
            let (event, endpoint) = (claimed.lease.event(), claimed.lease.endpoint());
            tracing::error!(%event, %endpoint, "an exchange with an endpoint panicked");
            broken_off(began.elapsed())
        })
    }

    /// Records it. What cannot be recorded as it is counts as a failure, so that the schedule holds and has an end.
    async fn record(&self, claimed: &ClaimedDelivery, attempt: &Attempt) {
        let mut finished = self.finish(claimed, attempt).await;
        if finished.is_none() {
            let failure = broken_off(attempt.duration);
            finished = self.finish(claimed, &failure).await;
        }
        match finished {
            Some(finished) => {
                self.metrics.recorded(Recorded::As(finished));
                log(&claimed.lease, &claimed.request, finished);
            }
            // The lease lapses, and the delivery is attempted again.
            None => self.metrics.recorded(Recorded::Not),
        }
    }

    /// Ends the attempt, for as long as it takes. The lease is renewed meanwhile; where it is lost, that is the answer.
    /// Nothing where a defect is in the way: another try would end alike.
    async fn finish(&self, claimed: &ClaimedDelivery, attempt: &Attempt) -> Option<Finished> {
        let lease = &claimed.lease;
        let (event, endpoint) = (lease.event(), lease.endpoint());
        let mut wait = RECORD_RETRY_MIN;
        loop {
            let now = self.service.env().now();
            let finish = self.service.finish_delivery(now, lease, attempt);
            let error = match AssertUnwindSafe(finish).catch_unwind().await {
                Ok(Ok(finished)) => return Some(finished),
                // Nothing is wrong: others were faster.
                Ok(Err(Error::Conflict)) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Ok(Err(error)) => error,
                Err(_) => Error::internal("recording an attempt panicked"),
            };
            self.metrics.failed(DispatchStep::Record);
            let detail = explain(&error);
            if matches!(error, Error::Internal { .. }) {
                tracing::error!(%event, %endpoint, detail, "an attempt cannot be recorded");
                return None;
            }
            if wait == RECORD_RETRY_MIN {
                tracing::warn!(%event, %endpoint, detail, "an attempt is not recorded yet");
            }
            tokio::time::sleep(wait).await;
            wait = RECORD_RETRY_MAX.min(wait * 2);
        }
    }
}

/// What an attempt comes to that a defect of this server broke off: whether it was received is not known.
fn broken_off(duration: Duration) -> Attempt {
    let message = "the exchange was broken off by a defect of the sender";
    Attempt {
        duration,
        outcome: Err(failure(DeliveryFailureCode::AnswerBroken, message)),
    }
}

/// Says what an operator may have to look after. Path and query of a URL can be secrets: its host is named alone.
fn log(lease: &DeliveryLease, request: &DeliveryRequest, finished: Finished) {
    let (event, endpoint) = (lease.event(), lease.endpoint());
    let host = request.url.as_url().host_str().unwrap_or_default();
    match finished {
        Finished::Dead(reason) => {
            tracing::info!(%event, %endpoint, host, "a delivery was given up: it is a dead letter now");
            if let Some(reason) = reason {
                let why = match reason {
                    DisabledReason::Gone => "it answered 410",
                    DisabledReason::Failing => "it has been failing for days",
                };
                tracing::info!(%endpoint, host, why, "an endpoint was switched off");
            }
        }
        Finished::LeaseLost => {
            tracing::debug!(%event, %endpoint, "a lease was lost: the attempt counts for nothing");
        }
        Finished::Delivered | Finished::Retry(_) => {}
    }
}
