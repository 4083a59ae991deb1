//! Events that a receiver gets, and what the database has of those that it does not get.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use crate::support::{GUARD, Received, Receiver, Site};

/// Maximum number of operations without an event that a failure describes.
const DESCRIBED_MAX: usize = 20;

/// Waits until each of these operations is announced, as long as events arrive, and returns all
/// operations that are announced.
///
/// # Panics
/// If nothing arrives for two minutes, with the state of what is missing.
pub(crate) async fn all_announced(
    receiver: &Receiver,
    site: &Site,
    wanted: &BTreeSet<String>,
) -> BTreeSet<String> {
    let (mut announced, mut count) = (BTreeSet::new(), 0);
    while !wanted.is_subset(&announced) {
        let Some(received) = receiver.receives_more(count, 2 * GUARD).await else {
            let missing: Vec<_> = wanted.difference(&announced).collect();
            let described = describe(&site.dumped("missing.jsonl"), &missing);
            panic!(
                "{} of {} operations have no event after {count} requests: {described}",
                missing.len(),
                wanted.len()
            );
        };
        count += received.len();
        announced.extend(received.iter().map(operation));
    }
    announced
}

/// Returns the operation that a request announces.
fn operation(received: &Received) -> String {
    let operation = received.json()["data"]["operation_id"]
        .as_str()
        .map(str::to_owned);
    operation.unwrap_or_else(|| panic!("{received:?}"))
}

/// Describes the records of the dispatch: the endpoints, and what concerns these operations.
fn describe(dump: &str, operations: &[&String]) -> String {
    let lines = dump.lines().map(serde_json::from_str::<Value>);
    let records = lines.map(|line| line.expect("JSON"));
    let records: BTreeMap<String, Value> = records
        .filter_map(|record| Some((record["key"].as_str()?.to_owned(), record["value"].clone())))
        .collect();
    let of_family = |family: &str| {
        let begin = format!("{family}/");
        let is_member = move |(key, _): &(&String, &Value)| key.starts_with(&begin);
        records.iter().filter(is_member)
    };
    let mut text = String::new();
    for family in ["endpoint", "endpoint_due"] {
        for (key, value) in of_family(family) {
            let _ = write!(text, "\n{key} {value}");
        }
    }
    let pending = ["outbox", "delivery_due"].map(|family| of_family(family).count());
    let _ = write!(text, "\nevents and deliveries pending: {pending:?}");
    for operation in operations.iter().take(DESCRIBED_MAX) {
        let _ = write!(text, "\noperation {operation}");
        let events = of_family("outbox").chain(of_family("event"));
        let events = events.filter(|(_, value)| value.to_string().contains(operation.as_str()));
        for (key, _) in events {
            let event = key.rsplit('/').next().unwrap_or_default();
            let _ = write!(text, "\n  {key}");
            let deliveries = of_family("delivery").chain(of_family("delivery_due"));
            for (key, value) in deliveries.filter(|(key, _)| key.ends_with(event)) {
                let _ = write!(text, "\n    {key} {value}");
            }
        }
    }
    text
}
