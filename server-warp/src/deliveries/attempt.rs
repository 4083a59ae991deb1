//! One attempt: the exchange with the endpoint, and the record of what came of it.

use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::model::DisabledReason;
use knowledge_core::service::{
    Attempt, ClaimedDelivery, DeliveryLease, DeliveryRequest, Finished, KnowledgeService,
};
use opentelemetry::trace::FutureExt;

use super::Deliveries;
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
        let attempt = self.deliveries.sender.send(&claimed.request).await;
        self.metrics.exchanged(&attempt);
        let Some(span) = span else {
            return self.record(&claimed, &attempt).await;
        };
        // What the store does to record it is beneath the span.
        let context = span.context();
        self.record(&claimed, &attempt).with_context(context).await;
        span.end(&attempt);
    }

    /// Records it, for as long as it takes. The lease is renewed meanwhile; where it is lost, that is the answer.
    async fn record(&self, claimed: &ClaimedDelivery, attempt: &Attempt) {
        let lease = &claimed.lease;
        let mut wait = RECORD_RETRY_MIN;
        loop {
            let now = self.service.env().now();
            match self.service.finish_delivery(now, lease, attempt).await {
                Ok(finished) => {
                    self.metrics.recorded(Recorded::As(finished));
                    return log(lease, &claimed.request, finished);
                }
                Err(error) => {
                    self.metrics.failed(DispatchStep::Record);
                    let (event, endpoint) = (lease.event(), lease.endpoint());
                    let detail = explain(&error);
                    if matches!(error, Error::Internal { .. }) {
                        // Another try would end alike. The lease lapses, and the delivery is attempted again.
                        self.metrics.recorded(Recorded::Not);
                        tracing::error!(%event, %endpoint, detail, "an attempt cannot be recorded");
                        return;
                    }
                    if wait == RECORD_RETRY_MIN {
                        tracing::warn!(%event, %endpoint, detail, "an attempt is not recorded yet");
                    }
                }
            }
            tokio::time::sleep(wait).await;
            wait = RECORD_RETRY_MAX.min(wait * 2);
        }
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
