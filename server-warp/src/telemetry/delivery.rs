//! Span of an exchange with an endpoint, following OpenTelemetry's conventions for HTTP clients.
//!
//! It omits the URL, whose path and query may contain secrets.

use knowledge_core::model::EventType;
use knowledge_core::service::{Attempt, DeliveryRequest};
use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;

/// Tracer of deliveries. Each span starts a trace of its own, which is not propagated to the
/// endpoint.
#[derive(Clone, Debug)]
pub struct DeliveryTracer(SdkTracer);

impl DeliveryTracer {
    pub(super) fn new(tracer: SdkTracer) -> Self {
        Self(tracer)
    }

    /// Starts the span of an exchange.
    pub(crate) fn start(&self, request: &DeliveryRequest, event_type: EventType) -> DeliverySpan {
        let (host, port) = (request.url.host().to_owned(), request.url.port());
        let span = SpanBuilder::from_name("POST")
            .with_kind(SpanKind::Client)
            .with_attributes([
                KeyValue::new("http.request.method", "POST"),
                KeyValue::new("server.address", host),
                KeyValue::new("server.port", i64::from(port)),
                KeyValue::new("knowledge.event.type", event_type.as_str()),
                KeyValue::new("knowledge.delivery.id", request.id.to_string()),
            ]);
        let root = Context::new();
        let span = self.0.build_with_context(span, &root);
        DeliverySpan {
            context: root.with_span(span),
        }
    }
}

/// Span of one exchange and of recording its result. It ends with the result or when it is dropped.
#[derive(Debug)]
pub(crate) struct DeliverySpan {
    context: Context,
}

impl DeliverySpan {
    /// Returns the context that makes further spans children of this one.
    pub(crate) fn context(&self) -> Context {
        self.context.clone()
    }

    /// Ends the span with the result of the exchange.
    pub(crate) fn end(&self, attempt: &Attempt) {
        let span = self.context.span();
        let error = match &attempt.outcome {
            Ok(answer) => {
                let status = i64::from(answer.status);
                span.set_attribute(KeyValue::new("http.response.status_code", status));
                (!matches!(answer.status, 200..=299)).then(|| answer.status.to_string())
            }
            Err(failure) => Some(failure.code.as_str().to_owned()),
        };
        if let Some(error) = error {
            span.set_attribute(KeyValue::new("error.type", error));
            span.set_status(Status::error(""));
        }
        span.end();
    }
}
