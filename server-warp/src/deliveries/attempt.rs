//! One delivery attempt: the exchange with the endpoint, and recording its outcome.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use knowledge_core::Error;
use knowledge_core::model::{DeliveryFailureCode, DisabledReason};
use knowledge_core::service::{
    Attempt, AttemptOutcome, ClaimedDelivery, DELIVERY_LEASE, DeliveryLease, DeliveryRequest,
    KnowledgeService,
};
use opentelemetry::trace::FutureExt as _;
use tokio::time::Instant;

use super::Deliveries;
use super::failure::failure;
use crate::explain::explain;
use crate::metrics::{DeliveryMetrics, DispatchStep, GaugeGuard, RecordResult};
use crate::telemetry::DeliverySpan;

/// Delay after a conflict, or after a step that found work but made no progress: another dispatcher
/// is doing the same.
pub(super) const CONFLICT_DELAY: Duration = Duration::from_millis(20);

/// Delay after a failure to record an attempt, doubled after each further one up to the maximum.
const RECORD_RETRY_MIN: Duration = Duration::from_millis(50);
const RECORD_RETRY_MAX: Duration = Duration::from_secs(2);
/// Maximum time in which attempts are recorded together: leases are not renewed meanwhile.
const RECORD_TOGETHER_MAX: Duration = Duration::from_secs(1);

/// Dependencies of delivery attempts.
#[derive(Debug)]
pub(super) struct Attempts {
    pub(super) service: KnowledgeService,
    pub(super) deliveries: Deliveries,
    pub(super) metrics: DeliveryMetrics,
}

/// An attempt that is to be recorded.
#[derive(Debug)]
pub(super) struct EndedAttempt {
    pub(super) claimed: ClaimedDelivery,
    pub(super) attempt: Attempt,
    span: Option<DeliverySpan>,
    _in_flight: GaugeGuard,
}

impl Attempts {
    /// Makes one attempt of a delivery, which is to be recorded.
    pub(super) async fn make(self: Arc<Self>, claimed: ClaimedDelivery) -> Option<EndedAttempt> {
        let in_flight = self.metrics.start_attempt();
        let span = self.deliveries.tracer.as_ref();
        let span = span.map(|tracer| tracer.start(&claimed.request, claimed.event_type));
        let attempt = self.send(&claimed).await;
        self.metrics.record_attempt(&attempt);
        log_failure(&claimed, &attempt);
        Some(EndedAttempt {
            claimed,
            attempt,
            span,
            _in_flight: in_flight,
        })
    }

    /// Records one attempt in a commit of its own. Returns `None`, as nothing is left to record.
    pub(super) async fn record_one(self: Arc<Self>, ended: EndedAttempt) -> Option<EndedAttempt> {
        let EndedAttempt {
            claimed,
            attempt,
            span,
            _in_flight,
        } = ended;
        let Some(span) = span else {
            self.record(&claimed, &attempt).await;
            return None;
        };
        // Store calls for recording become children of the span.
        let context = span.context();
        self.record(&claimed, &attempt).with_context(context).await;
        span.end(&attempt);
        None
    }

    /// Records successful attempts together. Returns the outcomes of those that are recorded.
    ///
    /// Any other one has to be recorded by [`Self::record_one`].
    pub(super) async fn record_together(
        &self,
        ended: &[(DeliveryLease, Attempt)],
    ) -> HashMap<DeliveryLease, AttemptOutcome> {
        let now = self.service.env().now();
        let finish =
            AssertUnwindSafe(self.service.dispatcher().finish_batch(now, ended)).catch_unwind();
        // A failure occurs again one by one, and is then logged, unless the store has recovered.
        let Ok(Ok(Ok(outcomes))) = tokio::time::timeout(RECORD_TOGETHER_MAX, finish).await else {
            return HashMap::new();
        };
        let recorded = ended.iter().zip(outcomes);
        let recorded = recorded.filter_map(|((lease, _), outcome)| Some((*lease, outcome?)));
        recorded.collect()
    }

    /// Reports the outcome of an attempt that was recorded with others.
    pub(super) fn end_recorded(&self, ended: EndedAttempt, outcome: AttemptOutcome) {
        let claimed = &ended.claimed;
        self.metrics.record_result(RecordResult::Recorded(outcome));
        log(&claimed.lease, &claimed.request, outcome);
        if let Some(span) = ended.span {
            span.end(&ended.attempt);
        }
    }

    /// Runs the exchange. A panic counts as a failed attempt, which is retried on schedule.
    async fn send(&self, claimed: &ClaimedDelivery) -> Attempt {
        let began = Instant::now();
        let sent = AssertUnwindSafe(self.deliveries.sender.send(&claimed.request));
        sent.catch_unwind().await.unwrap_or_else(|_| {
            let (event, endpoint) = (claimed.lease.event(), claimed.lease.endpoint());
            tracing::error!(%event, %endpoint, "delivery attempt panicked");
            interrupted(began.elapsed())
        })
    }

    /// Records the attempt. If that is impossible, it is recorded as a failure, so that the retries
    /// go on and end.
    async fn record(&self, claimed: &ClaimedDelivery, attempt: &Attempt) {
        let mut finished = self.finish(claimed, attempt).await;
        if finished.is_none() {
            let failure = interrupted(attempt.duration);
            finished = self.finish(claimed, &failure).await;
        }
        match finished {
            Some(finished) => {
                self.metrics.record_result(RecordResult::Recorded(finished));
                log(&claimed.lease, &claimed.request, finished);
            }
            // The lease expires, and the delivery is attempted again.
            None => self.metrics.record_result(RecordResult::Unrecorded),
        }
    }

    /// Completes the delivery, retrying as long as necessary. Meanwhile the lease is renewed; if it
    /// is lost, that is the result. Returns `None` if a defect prevents recording, since a retry
    /// would fail in the same way, and after the time of a lease if a move holds the organisation,
    /// which must not take up the places of others.
    async fn finish(&self, claimed: &ClaimedDelivery, attempt: &Attempt) -> Option<AttemptOutcome> {
        let lease = &claimed.lease;
        let (event, endpoint) = (lease.event(), lease.endpoint());
        let (began, mut wait) = (Instant::now(), RECORD_RETRY_MIN);
        loop {
            let now = self.service.env().now();
            let finish = self.service.dispatcher().finish(now, lease, attempt);
            let error = match AssertUnwindSafe(finish).catch_unwind().await {
                Ok(Ok(finished)) => return Some(finished),
                // Not an error: another writer was faster.
                Ok(Err(Error::Conflict)) => {
                    tokio::time::sleep(CONFLICT_DELAY).await;
                    continue;
                }
                Ok(Err(error)) => error,
                Err(_) => Error::internal("recording a delivery attempt panicked"),
            };
            self.metrics.record_failure(DispatchStep::Record);
            let detail = explain(&error);
            if matches!(error, Error::Internal { .. }) {
                tracing::error!(%event, %endpoint, detail, "delivery attempt cannot be recorded");
                return None;
            }
            if began.elapsed() >= DELIVERY_LEASE
                && matches!(self.service.dispatcher().is_on_hold(lease).await, Ok(true))
            {
                return None;
            }
            if wait == RECORD_RETRY_MIN {
                tracing::warn!(
                    %event, %endpoint, detail,
                    "recording a delivery attempt failed; retrying"
                );
            }
            tokio::time::sleep(wait).await;
            wait = RECORD_RETRY_MAX.min(wait * 2);
        }
    }
}

/// Returns an attempt that a panic of this server interrupted; its effect is unknown.
fn interrupted(duration: Duration) -> Attempt {
    let message = "an internal error of the sender interrupted the exchange";
    Attempt {
        duration,
        outcome: Err(failure(DeliveryFailureCode::AnswerBroken, message)),
    }
}

/// Logs why a host was not connected to, which its tenant does not see.
fn log_failure(claimed: &ClaimedDelivery, attempt: &Attempt) {
    use DeliveryFailureCode::{AddressRefused, DnsFailed};
    if let Err(failure) = &attempt.outcome
        && matches!(failure.code, AddressRefused | DnsFailed)
    {
        let endpoint = claimed.lease.endpoint();
        let host = claimed.request.url.host();
        let (code, detail) = (failure.code, &failure.message);
        tracing::debug!(%endpoint, host, %code, detail, "host not permitted or not resolved");
    }
}

/// Logs outcomes that may need an operator's attention. Only the host of the URL is logged, because
/// its path and query may contain secrets.
fn log(lease: &DeliveryLease, request: &DeliveryRequest, finished: AttemptOutcome) {
    let (event, endpoint) = (lease.event(), lease.endpoint());
    let host = request.url.host();
    match finished {
        AttemptOutcome::Dead(reason) => {
            tracing::info!(%event, %endpoint, host, "delivery dead-lettered");
            if let Some(reason) = reason {
                let reason = match reason {
                    DisabledReason::Gone => "responded with 410",
                    DisabledReason::Failing => "every attempt failed",
                };
                tracing::info!(%endpoint, host, reason, "endpoint disabled");
            }
        }
        AttemptOutcome::LeaseLost => {
            tracing::debug!(%event, %endpoint, "lease lost; discarding the outcome of the attempt");
        }
        AttemptOutcome::Delivered | AttemptOutcome::Retry(_) => {}
    }
}
