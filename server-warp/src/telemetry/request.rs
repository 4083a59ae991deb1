//! Span of a request, following OpenTelemetry's conventions for HTTP servers.

use std::net::IpAddr;

use http::Request;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{Link, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracer;

use crate::logged_path::logged_path;
use crate::metrics::{ROUTE_UNMATCHED, ResponseSummary, method_label};

/// Tracer of requests.
#[derive(Clone, Debug)]
pub struct RequestTracer {
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
}

impl RequestTracer {
    pub(super) fn new(tracer: SdkTracer) -> Self {
        Self {
            tracer,
            propagator: TraceContextPropagator::new(),
        }
    }

    /// Starts the span of a request.
    ///
    /// The span in a `traceparent` is its parent if the origin is trusted, and otherwise a link: a
    /// parent decides on sampling, and so does a trace ID that a stranger chooses.
    pub(crate) fn start<B>(
        &self,
        request: &Request<B>,
        scheme: &'static str,
        request_id: &str,
        origin: RequestOrigin,
    ) -> RequestSpan {
        let received = self
            .propagator
            .extract_with_context(&Context::new(), &HeaderExtractor(request.headers()));
        let (parent, links) = if origin.is_trusted {
            (received, Vec::new())
        } else {
            let linked = received.span().span_context().clone();
            // Omitted if it is not valid.
            (Context::new(), vec![Link::with_context(linked)])
        };
        let method = method_label(request.method()).to_owned();
        let span = SpanBuilder::from_name(method.clone())
            .with_kind(SpanKind::Server)
            .with_links(links)
            .with_attributes([
                KeyValue::new("http.request.method", method),
                KeyValue::new("url.path", logged_path(request.uri().path()).into_owned()),
                KeyValue::new("url.scheme", scheme),
                KeyValue::new("client.address", origin.client.to_string()),
                KeyValue::new("knowledge.request.id", request_id.to_owned()),
            ]);
        let span = self.tracer.build_with_context(span, &parent);
        RequestSpan {
            context: parent.with_span(span),
        }
    }
}

/// Origin of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOrigin {
    /// Address of the client.
    pub(crate) client: IpAddr,
    /// True if the sender may decide on sampling.
    pub(crate) is_trusted: bool,
}

/// Span of one request. It ends with the response or when it is dropped.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    context: Context,
}

impl RequestSpan {
    /// Returns the context that makes further spans children of this one.
    pub(crate) fn context(&self) -> Context {
        self.context.clone()
    }

    /// Returns the trace ID, for the log.
    pub(crate) fn trace_id(&self) -> String {
        self.context.span().span_context().trace_id().to_string()
    }

    /// Ends the span with the response.
    pub(crate) fn record_response(&self, response: &ResponseSummary<'_>) {
        let span = self.context.span();
        let status = response.status;
        if response.route != ROUTE_UNMATCHED {
            span.update_name(format!(
                "{} {}",
                method_label(response.method),
                response.route
            ));
            span.set_attribute(KeyValue::new("http.route", response.route));
        }
        let bytes = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        span.set_attributes([
            KeyValue::new("http.response.status_code", i64::from(status.as_u16())),
            KeyValue::new("http.request.body.size", bytes(response.bytes_in)),
            KeyValue::new("http.response.body.size", bytes(response.bytes_out)),
        ]);
        // Client errors are not errors of the server.
        if status.is_server_error() {
            span.set_attribute(KeyValue::new("error.type", status.as_str().to_owned()));
            span.set_status(Status::error(""));
        }
        span.end();
    }

    /// Ends the span of a request that was dropped without a response.
    pub(crate) fn record_drop(&self) {
        let span = self.context.span();
        span.set_attribute(KeyValue::new("error.type", "dropped"));
        span.set_status(Status::error("dropped without a response"));
        span.end();
    }
}
