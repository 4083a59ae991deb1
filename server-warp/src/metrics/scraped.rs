//! Metrics that are read when somebody asks for them, from where their numbers are kept.

use std::fmt;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, LabelPair, Metric, MetricFamily, MetricType};

use super::catalogue::{Description, Kind};

/// What is read from.
type Read = Box<dyn Fn(&mut Readings) + Send + Sync>;

/// Some metrics that one reading gives.
pub(super) struct Scraped {
    descs: Vec<Desc>,
    read: Read,
}

impl fmt::Debug for Scraped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scraped").finish_non_exhaustive()
    }
}

impl Scraped {
    pub(super) fn new(
        descriptions: &[Description],
        read: impl Fn(&mut Readings) + Send + Sync + 'static,
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

impl Collector for Scraped {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut readings = Readings::default();
        (self.read)(&mut readings);
        readings.0
    }
}

/// What a reading has given so far.
#[derive(Default)]
pub(super) struct Readings(Vec<MetricFamily>);

impl Readings {
    /// One counter or gauge.
    #[expect(
        clippy::cast_precision_loss,
        reason = "the format has floating-point numbers alone; what is lost is far behind the point of any use"
    )]
    pub(super) fn number(&mut self, description: &Description, value: u64) {
        self.real(description, value as f64);
    }

    /// The same from a number that is none of those that are counted.
    pub(super) fn real(&mut self, description: &Description, value: f64) {
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
            Kind::Histogram => unreachable!("a histogram is more than one number"),
        }
        self.push(description, metric);
    }

    /// A gauge that is always 1, for what its labels say.
    pub(super) fn fact(&mut self, description: &Description, labels: &[&str]) {
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

    /// A histogram, from cumulative counts.
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
