//! Metrics whose values are read on each scrape.

use std::future::Future;
use std::time::Duration;

use knowledge_core::Error;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, LabelPair, Metric, MetricFamily, MetricType};

use super::catalogue::{Description, Kind};
use crate::explain::explain;
use crate::partial_debug::partial_debug;

/// Time that a scrape waits for one read of the store. On timeout it shows everything else.
const STORE_READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads the store for a scrape. A failure is logged, and the result is `None`.
pub(super) async fn read_store<T>(
    what: &'static str,
    read: impl Future<Output = Result<T, Error>>,
) -> Option<T> {
    match tokio::time::timeout(STORE_READ_TIMEOUT, read).await {
        Ok(Ok(read)) => return Some(read),
        Ok(Err(error)) => {
            let detail = explain(&error);
            tracing::warn!(what, detail, "reading the store for metrics failed");
        }
        Err(_) => tracing::warn!(what, "reading the store for metrics timed out"),
    }
    None
}

/// Function that reads the values.
type Read = Box<dyn Fn(&mut Samples) + Send + Sync>;

/// Collector of metrics that are read together.
pub(super) struct ScrapeCollector {
    descs: Vec<Desc>,
    read: Read,
}

partial_debug!(ScrapeCollector);

impl ScrapeCollector {
    pub(super) fn new(
        descriptions: &[Description],
        read: impl Fn(&mut Samples) + Send + Sync + 'static,
    ) -> Self {
        let desc = |description: &Description| {
            Desc::new(
                description.name.to_owned(),
                description.help.to_owned(),
                description
                    .labels
                    .iter()
                    .map(|&label| label.to_owned())
                    .collect(),
                std::collections::HashMap::new(),
            )
            .expect("the catalogue holds valid names")
        };
        Self {
            descs: descriptions.iter().map(desc).collect(),
            read: Box::new(read),
        }
    }
}

impl Collector for ScrapeCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut samples = Samples::default();
        (self.read)(&mut samples);
        samples.0
    }
}

/// Values read so far.
#[derive(Default)]
pub(super) struct Samples(Vec<MetricFamily>);

impl Samples {
    /// Adds an integer counter or gauge.
    #[expect(
        clippy::cast_precision_loss,
        reason = "the format has only floating-point numbers; the lost precision does not matter"
    )]
    pub(super) fn integer(&mut self, description: &Description, value: u64) {
        self.float(description, value as f64);
    }

    /// Adds a floating-point counter or gauge.
    pub(super) fn float(&mut self, description: &Description, value: f64) {
        let mut metric = Metric::default();
        match description.kind {
            Kind::Counter => {
                let mut counter = proto::Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            }
            Kind::Gauge => {
                let mut gauge = proto::Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
            Kind::Histogram => unreachable!("a histogram has more than one value"),
        }
        self.push(description, metric);
    }

    /// Adds a gauge that is always 1 and carries its information in labels.
    pub(super) fn info(&mut self, description: &Description, labels: &[&str]) {
        let mut gauge = proto::Gauge::default();
        gauge.set_value(1.0);
        let mut metric = Metric::default();
        metric.set_gauge(gauge);
        let pairs = description.labels.iter().zip(labels);
        let pairs = pairs.map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        });
        metric.set_label(pairs.collect());
        self.push(description, metric);
    }

    /// Adds a histogram from cumulative counts.
    pub(super) fn histogram(
        &mut self,
        description: &Description,
        buckets: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        let bucket = |(bound, cumulative)| {
            let mut bucket = proto::Bucket::default();
            bucket.set_upper_bound(bound);
            bucket.set_cumulative_count(cumulative);
            bucket
        };
        let mut histogram = proto::Histogram::default();
        histogram.set_bucket(buckets.map(bucket).collect());
        histogram.set_sample_count(count);
        histogram.set_sample_sum(sum);
        let mut metric = Metric::default();
        metric.set_histogram(histogram);
        self.push(description, metric);
    }

    fn push(&mut self, description: &Description, metric: Metric) {
        let mut family = MetricFamily::default();
        family.set_name(description.name.to_owned());
        family.set_help(description.help.to_owned());
        family.set_field_type(match description.kind {
            Kind::Counter => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
            Kind::Histogram => MetricType::HISTOGRAM,
        });
        family.set_metric(vec![metric]);
        self.0.push(family);
    }
}
