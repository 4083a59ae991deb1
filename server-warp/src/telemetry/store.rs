//! Store calls as children of the span of the request that makes them.

use std::sync::Arc;

use async_trait::async_trait;
use knowledge_core::store::{Commit, CommitOutcome, Found, Mark, Read, Store, StoreError};
use opentelemetry::trace::{Span, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span as SdkSpan};

use crate::metrics::store_error_label;

/// Store that records a span per call, without keys and values.
pub(super) struct TracedStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) tracer: SdkTracer,
}

impl TracedStore {
    /// Starts a span if the call belongs to a sampled trace.
    fn start(&self, name: &'static str, size: (&'static str, usize)) -> Option<SdkSpan> {
        let parent = Context::current();
        if !parent.span().is_recording() {
            return None;
        }
        let span = SpanBuilder::from_name(name)
            .with_kind(SpanKind::Internal)
            .with_attributes([count(size.0, size.1)]);
        Some(self.tracer.build_with_context(span, &parent))
    }
}

fn count(name: &'static str, count: usize) -> KeyValue {
    KeyValue::new(name, i64::try_from(count).unwrap_or(i64::MAX))
}

/// Ends the span, if any, with the result of the call.
fn end<T>(
    span: Option<SdkSpan>,
    result: &Result<T, StoreError>,
    attribute: impl FnOnce(&T) -> KeyValue,
) {
    let Some(mut span) = span else {
        return;
    };
    match result {
        Ok(found) => span.set_attribute(attribute(found)),
        Err(error) => {
            span.set_attribute(KeyValue::new("error.type", store_error_label(error.kind())));
            span.set_status(Status::error(""));
        }
    }
    span.end();
}

#[async_trait]
impl Store for TracedStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let keys = reads.iter().map(|read| match read {
            Read::Keys(keys) => keys.len(),
            Read::Range { .. } => 0,
        });
        let span = self.start("store.read", ("store.keys", keys.sum()));
        let result = self.store.read(reads).await;
        end(span, &result, |found| {
            let entries = found.iter().map(|found| match found {
                Found::Keys(entries) => entries.iter().flatten().count(),
                Found::Range(entries) => entries.len(),
            });
            count("store.entries", entries.sum())
        });
        result
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let mutations = commit.mutations().len();
        let span = self.start("store.commit", ("store.mutations", mutations));
        let result = self.store.commit(commit).await;
        end(span, &result, |outcome| {
            let outcome = match outcome {
                CommitOutcome::Committed(_) => "committed",
                CommitOutcome::Conflict => "conflict",
            };
            KeyValue::new("store.outcome", outcome)
        });
        result
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        self.store.mark(area)
    }
}
