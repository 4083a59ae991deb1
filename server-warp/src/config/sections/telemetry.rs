//! `[telemetry]`: traces for OpenTelemetry.

use std::time::Duration;

use super::{A_DAY, TIME_MIN};
use crate::config::kind::{Count, Ratio, Text, Time, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};
use crate::http_client::read_roots;
use crate::telemetry::read_headers;

/// Maximum of queued spans: each takes about a kilobyte.
const QUEUE_SPANS_MAX: u64 = 1_000_000;

const HEADERS_FILE: &str = "telemetry.otlp_headers_file";
const CA_FILE: &str = "telemetry.otlp_ca_file";

/// Maximum time for which a shutdown waits for the collector.
const FLUSH_TIMEOUT_MAX: Duration = Duration::from_secs(60);

pub(super) static SECTION: Section = Section {
    name: "telemetry",
    about: "Traces for OpenTelemetry, sent to a collector by OTLP over HTTP",
    settings: &[
        Setting::new(
            "telemetry.otlp_endpoint",
            &Text(field!(telemetry.otlp_endpoint)),
            "The collector, such as http://127.0.0.1:4318, to which /v1/traces is appended; if \
             unset, that of OTEL_EXPORTER_OTLP_ENDPOINT; without either there are no traces",
        ),
        Setting::new(
            HEADERS_FILE,
            &Text(field!(telemetry.otlp_headers_file)),
            "The file with headers for the collector, such as its token: one `name: value` per \
             line, readable by its owner only",
        ),
        Setting::new(
            CA_FILE,
            &Text(field!(telemetry.otlp_ca_file)),
            "The CA certificates (PEM) for a collector whose address is https",
        ),
        Setting::new(
            "telemetry.sample_ratio",
            &Ratio(field!(telemetry.sample_ratio)),
            "The fraction of traces that are kept, among those that no trusted proxy has decided on",
        ),
        Setting::new(
            "telemetry.service_name",
            &Text(field!(telemetry.service_name)),
            "The service name of traces; if unset, that of OTEL_SERVICE_NAME, or knowledge",
        ),
        Setting::new(
            "telemetry.queue_spans_max",
            &Count {
                at: field!(telemetry.queue_spans_max),
                unit: "spans",
                min: 1,
                max: QUEUE_SPANS_MAX,
            },
            "Maximum of spans that wait for their export; further ones are dropped",
        ),
        Setting::new(
            "telemetry.export_interval",
            &Time {
                at: field!(telemetry.export_interval),
                min: TIME_MIN,
                max: A_DAY,
            },
            "Time between two exports; a full batch is sent immediately",
        ),
        Setting::new(
            "telemetry.export_timeout",
            &Time {
                at: field!(telemetry.export_timeout),
                min: TIME_MIN,
                max: A_DAY,
            },
            "Time for one export, all attempts together",
        ),
        Setting::new(
            "telemetry.flush_timeout",
            &Time {
                at: field!(telemetry.flush_timeout),
                min: TIME_MIN,
                max: FLUSH_TIMEOUT_MAX,
            },
            "Time for exporting the last spans at shutdown",
        ),
    ],
    check: nothing,
    inspect,
};

fn inspect(config: &Config, check: &mut Check<'_>) {
    let telemetry = &config.telemetry;
    if let Some(path) = &telemetry.otlp_headers_file
        && let Err(error) = read_headers(path)
    {
        check.reject(HEADERS_FILE, &[], &format!("cannot be used: {error}"));
    }
    let endpoint = telemetry.otlp_endpoint.as_ref().map(ToString::to_string);
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("https:"))
        && let Err(problem) = read_roots(&telemetry.otlp_ca_file)
    {
        let path = telemetry.otlp_ca_file.display();
        let reason = format!("cannot be used: {path}: {problem}");
        check.reject(CA_FILE, &["telemetry.otlp_endpoint"], &reason);
    }
}
