//! Tests of the dashboard and the alerts: what each expression reads is exported by a real server.

use std::collections::BTreeSet;

use knowledge_http_suite::rows;
use knowledge_server::metrics::{CATALOGUE, Kind};
use regex::Regex;
use serde_json::Value;

use crate::support::{Exposition, Observed};

const DASHBOARD: &str = include_str!("../../../deploy/grafana/knowledge.json");
const MANUAL: &str = include_str!("../../../docs/operations.md");

/// Label that the scraper adds to each series.
const SCRAPER_LABEL: &str = "instance";
/// Label whose values appear with the first response that has them.
const STATUS_LABEL: &str = "status";
/// Name of a metric.
const METRIC: &str = "(?:knowledge|process)_[a-z_]+";
/// Words that expressions use besides metrics and labels.
const WORDS: [&str; 12] = [
    "and",
    "by",
    "delta",
    "histogram_quantile",
    "increase",
    "max",
    "min",
    "or",
    "rate",
    "sum",
    "time",
    "topk",
];

/// One query of a panel, or an alert.
struct Query {
    expression: String,
    legend: String,
}

impl Query {
    fn new(expression: &str, legend: &str) -> Self {
        Self {
            expression: expression.to_owned(),
            legend: legend.to_owned(),
        }
    }

    /// Returns what is wrong with the query for a server that exports these metrics.
    fn problems(&self, exported: &Exposition) -> Vec<String> {
        let mut problems = Vec::new();
        let grouping = regex(r"\bby \(([^)]*)\)");
        let mut grouped: BTreeSet<&str> = BTreeSet::new();
        for group in grouping.captures_iter(&self.expression) {
            grouped.extend(group.extract::<1>().1[0].split(", "));
        }
        let selector = format!(r"((?:rate|increase)\()?\b({METRIC})(?:\{{([^}}]*)\}})?");
        let selector = regex(&selector);
        for found in selector.captures_iter(&self.expression) {
            let (name, is_rate) = (&found[2], found.get(1).is_some());
            let matchers = found.get(3).map_or("", |matchers| matchers.as_str());
            problems.extend(problems_of_series(exported, name, is_rate, matchers));
            for label in &grouped {
                if !has_label(exported, name, label) {
                    problems.push(format!("{name} has no label {label}"));
                }
            }
            for label in names_in(&self.legend) {
                let is_shown = match grouped.is_empty() {
                    true => has_label(exported, name, &label),
                    false => grouped.contains(&*label),
                };
                if !is_shown {
                    problems.push(format!("the legend has no label {label}"));
                }
            }
        }
        let rest = selector.replace_all(&self.expression, "");
        if rest == self.expression {
            problems.push("no metric".to_owned());
        }
        let rest = grouping.replace_all(&rest, "by");
        let rest = regex(r"\[[^\]]*\]").replace_all(&rest, "");
        let unknown = regex("[a-z_]+");
        let unknown = unknown.find_iter(&rest).map(|word| word.as_str());
        let unknown = unknown.filter(|word| !WORDS.contains(word));
        problems.extend(unknown.map(|word| format!("unknown word {word}")));
        let count = |char| self.expression.matches(char).count();
        if count('(') != count(')') {
            problems.push("parentheses are not balanced".to_owned());
        }
        problems
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern")
}

/// Returns the labels that a legend shows.
fn names_in(legend: &str) -> Vec<String> {
    let names = regex(r"\{\{([a-z_]+)\}\}");
    let names = names.captures_iter(legend);
    names.map(|name| name[1].to_owned()).collect()
}

/// Returns true if every series of this name has the label.
fn has_label(exported: &Exposition, name: &str, label: &str) -> bool {
    let mut series = exported.labels(name).peekable();
    series.peek().is_some()
        && series.all(|labels| label == SCRAPER_LABEL || labels.contains_key(label))
}

fn problems_of_series(
    exported: &Exposition,
    name: &str,
    is_rate: bool,
    matchers: &str,
) -> Vec<String> {
    let part = regex("_(bucket|sum|count)$");
    let listed = CATALOGUE.iter().find(|metric| {
        let is_part = metric.kind == Kind::Histogram && part.replace(name, "") == metric.name;
        metric.name == name || is_part
    });
    let Some(metric) = listed.filter(|_| exported.labels(name).next().is_some()) else {
        return vec![format!("there is no series {name}")];
    };
    let mut problems = Vec::new();
    if is_rate == (metric.kind == Kind::Gauge) {
        problems.push(format!("{name} is a {}", metric.kind.name()));
    }
    let matcher = regex(r#"([a-z_]+)(=~|=)"([^"]*)""#);
    for found in matcher.captures_iter(matchers) {
        let (label, value) = (&found[1], &found[3]);
        if !has_label(exported, name, label) {
            problems.push(format!("{name} has no label {label}"));
        } else if ![SCRAPER_LABEL, STATUS_LABEL].contains(&label) {
            let value = match &found[2] {
                "=" => regex::escape(value),
                _ => value.to_owned(),
            };
            for value in value.split('|') {
                let value = regex(&format!("^(?:{value})$"));
                let mut series = exported.labels(name);
                if !series.any(|labels| value.is_match(&labels[label])) {
                    problems.push(format!("{name} has no {label} {value}"));
                }
            }
        }
    }
    problems
}

/// Returns the queries of all panels, with the titles of their panels.
fn queries() -> Vec<(String, Query)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let mut queries = Vec::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64()), "{panel}");
        let title = panel["title"].as_str().expect("a title");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let text = |field: &str| target[field].as_str().expect("a text");
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
            queries.push((
                title.to_owned(),
                Query::new(text("expr"), text("legendFormat")),
            ));
        }
    }
    queries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dashboard_queries_only_exported_series() {
    let (server, _directory) = Observed::start_with_everything().await;
    let exported = server.scrape().await;
    let queries = queries();
    for (title, query) in &queries {
        let problems = query.problems(&exported);
        assert!(problems.is_empty(), "{title}: {problems:?}");
        // So that the choice of servers applies to each.
        let metrics = regex(METRIC).find_iter(&query.expression).count();
        let chosen = query.expression.matches("{instance=~\"$instance\"").count();
        assert_eq!(chosen, metrics, "{title}: {}", query.expression);
    }
    for name in [
        "knowledge_memories",
        "knowledge_review_backlog_memories",
        "knowledge_tls_certificate_expiry_timestamp_seconds",
    ] {
        let is_shown = queries
            .iter()
            .any(|(_, query)| query.expression.contains(name));
        assert!(is_shown, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_query_only_exported_series() {
    let (server, _directory) = Observed::start_with_everything().await;
    let exported = server.scrape().await;
    let alerts = MANUAL.lines().map(str::trim);
    let alerts: Vec<_> = alerts
        .filter_map(|line| line.strip_prefix("expr: "))
        .collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    for alert in alerts {
        let problems = Query::new(alert, "").problems(&exported);
        assert!(problems.is_empty(), "{alert}: {problems:?}");
    }
}

/// A check that finds nothing would pass as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_queries_are_found() {
    let (server, _directory) = Observed::start_with_everything().await;
    let exported = server.scrape().await;
    for (expression, legend, problem) in rows! {
        ("knowledge_memory", "", "there is no series knowledge_memory"),
        ("knowledge_memories", "{{org}}", "the legend has no label org"),
        ("knowledge_store_commits_total", "", "knowledge_store_commits_total is a counter"),
        ("rate(knowledge_memories[5m])", "", "knowledge_memories is a gauge"),
        ("sum by (org) (knowledge_memories)", "", "knowledge_memories has no label org"),
        ("knowledge_memories{org=\"a\"}", "", "knowledge_memories has no label org"),
        (
            "rate(knowledge_delivery_attempts_total{outcome=~\"dead|lost\"}[5m])",
            "",
            "knowledge_delivery_attempts_total has no outcome ^(?:lost)$",
        ),
        ("total(knowledge_memories)", "", "unknown word total"),
        ("sum(knowledge_memories", "", "parentheses are not balanced"),
        ("time()", "", "no metric"),
    } {
        let problems = Query::new(expression, legend).problems(&exported);
        assert_eq!(problems, [problem], "{expression}");
    }
}
