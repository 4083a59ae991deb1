//! The span of an exchange with an endpoint, as OpenTelemetry's conventions for HTTP clients want it, but for the URL:
//! its path and its query can be secrets.

use knowledge_core::model::EventType;
use knowledge_core::service::{Attempt, DeliveryRequest};
use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;

/// Makes the spans of deliveries. Each begins a trace of its own, of which its endpoint hears nothing.
#[derive(Clone, Debug)]
pub struct DeliveryTracer(SdkTracer);

impl DeliveryTracer {
    pub(super) fn new(tracer: SdkTracer) -> Self {
        Self(tracer)
    }

    /// Begins the span of an exchange.
    pub(crate) fn begin(&self, request: &DeliveryRequest, event_type: EventType) -> DeliverySpan {
        let url = request.url.as_url();
        let host = url.host_str().unwrap_or_default().to_owned();
        let port = url.port_or_known_default().unwrap_or_default();
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

/// The span of one exchange and of what is recorded of it. It ends when it is dropped, or with what came of it.
#[derive(Debug)]
pub(crate) struct DeliverySpan {
    context: Context,
}

impl DeliverySpan {
    /// In this context, what is done for the delivery is beneath its span.
    pub(crate) fn context(&self) -> Context {
        self.context.clone()
    }

    /// Ends the span with what came of the exchange.
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
