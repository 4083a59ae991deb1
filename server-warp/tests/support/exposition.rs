//! A strict reader of the Prometheus text format 0.0.4, which panics on any violation.

use std::collections::{BTreeMap, BTreeSet};

use knowledge_server::metrics::CATALOGUE;

/// Labels by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// All metrics of a scrape.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    pub(crate) families: BTreeMap<String, Family>,
}

/// One metric.
#[derive(Debug)]
pub(crate) struct Family {
    kind: String,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    name: String,
    labels: Labels,
    value: f64,
}

impl Exposition {
    pub(crate) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has no end");
        let mut read = Self::default();
        let mut current: Option<(String, Family)> = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a name and a help");
                read.close(current.take());
                assert_name(name);
                assert_described(name, help);
                let family = Family {
                    kind: String::new(),
                    samples: Vec::new(),
                };
                current = Some((name.to_owned(), family));
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a name and a type");
                let (open, family) = current.as_mut().expect("HELP before TYPE");
                assert!(open == name && family.kind.is_empty() && family.samples.is_empty());
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                let described = CATALOGUE.iter().find(|metric| metric.name == name);
                assert_eq!(described.map(|metric| metric.kind.name()), Some(kind));
                family.kind = kind.to_owned();
            } else {
                let (name, family) = current.as_mut().expect("HELP and TYPE before samples");
                let sample = sample(line);
                assert!(!family.kind.is_empty(), "TYPE before samples: {line}");
                let suffixes: &[&str] = match family.kind.as_str() {
                    "histogram" => &["_bucket", "_sum", "_count"],
                    _ => &[""],
                };
                let is_of_family = |suffix: &&str| sample.name == format!("{name}{suffix}");
                assert!(suffixes.iter().any(is_of_family), "{line} within {name}");
                family.samples.push(sample);
            }
        }
        read.close(current);
        read
    }

    /// Returns the value of one series; 0 if it does not exist yet, as for Prometheus.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted: Labels = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let family = name
            .strip_suffix("_count")
            .or_else(|| name.strip_suffix("_sum"))
            .filter(|family| self.families.contains_key(*family))
            .unwrap_or(name);
        let Some(family) = self.families.get(family) else {
            return 0.0;
        };
        let found = family
            .samples
            .iter()
            .find(|sample| sample.name == name && sample.labels == wanted);
        found.map_or(0.0, |sample| sample.value)
    }

    /// Returns the labels of each series of this name, such as that of the buckets of a histogram.
    pub(crate) fn labels(&self, name: &str) -> impl Iterator<Item = &Labels> {
        let samples = self.families.values().flat_map(|family| &family.samples);
        let samples = samples.filter(move |sample| sample.name == name);
        samples.map(|sample| &sample.labels)
    }

    /// Returns the number of series of a metric.
    pub(crate) fn series(&self, name: &str) -> usize {
        self.families
            .get(name)
            .map_or(0, |family| family.samples.len())
    }

    fn close(&mut self, family: Option<(String, Family)>) {
        let Some((name, family)) = family else {
            return;
        };
        assert!(!family.samples.is_empty(), "{name} has no samples");
        let mut seen = BTreeSet::new();
        for sample in &family.samples {
            assert!(
                seen.insert((&sample.name, &sample.labels)),
                "{sample:?} twice"
            );
            let is_finite = sample.value.is_finite();
            assert!(is_finite, "{sample:?}");
            assert!(sample.value >= 0.0 || family.kind == "gauge", "{sample:?}");
        }
        if family.kind == "histogram" {
            assert_histogram(&name, &family);
        }
        assert!(
            self.families.insert(name.clone(), family).is_none(),
            "{name} twice"
        );
    }
}

/// Asserts that buckets ascend to one without a bound, which equals the count.
fn assert_histogram(name: &str, family: &Family) {
    let mut by_labels: BTreeMap<Labels, Vec<&Sample>> = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        labels.remove("le");
        by_labels.entry(labels).or_default().push(sample);
    }
    for (labels, samples) in by_labels {
        let of = |suffix: &str| {
            let full = format!("{name}{suffix}");
            samples.iter().filter(move |sample| sample.name == full)
        };
        let mut last = (f64::NEG_INFINITY, 0.0);
        for bucket in of("_bucket") {
            let bound = match bucket.labels["le"].as_str() {
                "+Inf" => f64::INFINITY,
                bound => bound.parse().expect("a bound"),
            };
            assert!(bound > last.0 && bucket.value >= last.1, "{bucket:?}");
            last = (bound, bucket.value);
        }
        let counts: Vec<f64> = of("_count").map(|sample| sample.value).collect();
        assert_eq!(counts, [last.1], "{name} {labels:?}");
        assert_eq!((last.0, of("_sum").count()), (f64::INFINITY, 1), "{name}");
    }
}

/// Asserts that the metric is in the catalogue, and so in the documentation.
fn assert_described(name: &str, help: &str) {
    let described = CATALOGUE.iter().find(|metric| metric.name == name);
    assert_eq!(described.map(|metric| metric.help), Some(help), "{name}");
}

fn assert_name(name: &str) {
    let is_plain = |char: char| char.is_ascii_lowercase() || char == '_' || char.is_ascii_digit();
    assert!(
        name.starts_with(|char: char| char.is_ascii_lowercase()) && name.chars().all(is_plain),
        "{name}"
    );
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').expect("a series and a value");
    let (name, labels) = match series.split_once('{') {
        None => (series, Labels::new()),
        Some((name, rest)) => (name, labels(rest.strip_suffix('}').expect("a brace"))),
    };
    assert_name(name);
    Sample {
        name: name.to_owned(),
        labels,
        value: value
            .parse()
            .unwrap_or_else(|_| panic!("no number: {line}")),
    }
}

fn labels(mut text: &str) -> Labels {
    let mut labels = Labels::new();
    loop {
        let (name, rest) = text.split_once("=\"").expect("a name and a value");
        assert_name(name);
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next().expect("the value ends") {
                (end, '"') => break end,
                (_, '\\') => match chars.next().expect("what is escaped").1 {
                    'n' => value.push('\n'),
                    char @ ('"' | '\\') => value.push(char),
                    char => panic!("{char} is not to be escaped"),
                },
                (_, char) => value.push(char),
            }
        };
        assert!(
            labels.insert(name.to_owned(), value).is_none(),
            "{name} twice"
        );
        text = &rest[end + 1..];
        if text.is_empty() {
            return labels;
        }
        text = text.strip_prefix(',').expect("a comma between labels");
    }
}
