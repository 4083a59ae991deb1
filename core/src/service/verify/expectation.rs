//! Expectations that an entry implies about others, and their check.

use std::collections::{HashMap, HashSet, hash_map};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{DifferenceCode, Verifier};
use crate::digest::sha256;
use crate::keys;
use crate::model::{EndpointId, EventId, OrgId, Timestamp};
use crate::service::deliveries::EndpointState;
use crate::service::tasks::ScheduledTask;
use crate::store::{Entry, Key, KeyRange, Store, StoreError, StoreExt, decode_value, read_json};

/// Maximum length of a value in a difference, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// Expectation about another entry.
pub(super) enum Expectation {
    /// The entry exists.
    Exists(Key),
    /// One of the two entries exists.
    EitherExists(Key, Key),
    /// The entry does not exist.
    Absent(Key),
    /// The entry exists and has this value, or is an object with at least these fields.
    Contains(Key, Value),
    /// The first entry has these fields, or only the second one exists.
    ContainsOrExists(Key, Value, Key),
    /// The entry is the content of a memory whose source key has this digest.
    HasName(Key, String),
    /// The task is scheduled for this time.
    Scheduled(Timestamp, ScheduledTask),
    /// The entry is a number, at least this one; a missing entry is 0.
    AtLeast(Key, i64),
    /// The entry is an event that lists this endpoint.
    Lists(Key, EndpointId),
    /// The endpoint exists, or the purge of its deliveries is scheduled.
    Endpoint(OrgId, EndpointId),
    /// The endpoint, if it exists, is due no later than its queue entry at this time requires.
    ReadyBy(OrgId, EndpointId, Timestamp, EventId),
    /// The first entry is an endpoint, its sequence number not above the counter in the second.
    Numbered(Key, Key),
}

/// An expectation, and the entry that implies it.
pub(super) struct ExpectationFrom {
    pub(super) by: Key,
    pub(super) expectation: Expectation,
}

impl Expectation {
    pub(super) fn about(&self) -> Vec<Key> {
        match self {
            Self::Exists(key)
            | Self::Absent(key)
            | Self::Contains(key, _)
            | Self::HasName(key, _)
            | Self::AtLeast(key, _)
            | Self::Lists(key, _) => vec![key.clone()],
            Self::EitherExists(one, other)
            | Self::ContainsOrExists(one, _, other)
            | Self::Numbered(one, other) => {
                vec![one.clone(), other.clone()]
            }
            Self::Endpoint(org, endpoint) | Self::ReadyBy(org, endpoint, ..) => {
                vec![keys::endpoint(*org, *endpoint)]
            }
            Self::Scheduled(..) => Vec::new(),
        }
    }
}

impl Verifier {
    pub(super) async fn check(
        &mut self,
        store: &dyn Store,
        expectations: Vec<ExpectationFrom>,
    ) -> Result<(), StoreError> {
        let about: Vec<Key> = expectations
            .iter()
            .flat_map(|expected_from| expected_from.expectation.about())
            .collect();
        let mut found = store.get(&about).await?.into_iter();
        // Of each time once: a bulk update schedules a task for each memory at the same time.
        let mut scheduled = HashMap::new();
        for ExpectationFrom { by, expectation } in expectations {
            if let Expectation::Scheduled(at, task) = &expectation {
                let tasks = match scheduled.entry(*at) {
                    hash_map::Entry::Occupied(tasks) => tasks.into_mut(),
                    hash_map::Entry::Vacant(tasks) => tasks.insert(Tasks::at(store, *at).await?),
                };
                if !tasks.include(task) {
                    let expected = format!("a scheduled task at {at}");
                    self.differ(DifferenceCode::NotDue, &by, None, expected, "nothing");
                }
                continue;
            }
            self.compare(&by, expectation, || found.next().flatten());
        }
        Ok(())
    }

    /// Checks an expectation; `found` returns the entries under its keys, one by one.
    fn compare(
        &mut self,
        by: &Key,
        expectation: Expectation,
        mut found: impl FnMut() -> Option<Entry>,
    ) {
        use DifferenceCode::{Mismatch, Missing, Unexpected};

        let because = Some(by);
        match expectation {
            Expectation::Exists(key) => {
                if found().is_none() {
                    self.differ(Missing, &key, because, "an entry", "nothing");
                }
            }
            Expectation::EitherExists(one, other) => {
                let (first, second) = (found(), found());
                if first.or(second).is_none() {
                    let expected = format!("an entry, or one under {other}");
                    self.differ(Missing, &one, because, expected, "nothing");
                }
            }
            Expectation::Absent(key) => {
                if found().is_some() {
                    self.differ(Unexpected, &key, because, "nothing", "an entry");
                }
            }
            Expectation::Contains(key, wanted) => self.contains(&key, because, &wanted, found()),
            Expectation::ContainsOrExists(key, wanted, _) => {
                let (first, second) = (found(), found());
                if first.is_some() || second.is_none() {
                    self.contains(&key, because, &wanted, first);
                }
            }
            Expectation::HasName(key, digest) => {
                let expected = format!("a source key with the SHA-256 {digest}");
                let Some(entry) = found() else {
                    self.differ(Missing, &key, because, expected, "nothing");
                    return;
                };
                let content: Option<Value> = read_json(&entry.value).ok();
                let name = content.and_then(|content| content["source_key"].as_str().map(sha256));
                if name.as_ref() != Some(&digest) {
                    let found = name.unwrap_or_else(|| "none".to_owned());
                    self.differ(Mismatch, &key, because, expected, found);
                }
            }
            Expectation::AtLeast(key, least) => {
                let number = found().map_or(Some(0), |entry| number(&entry));
                self.at_least(key, because, least, number);
            }
            Expectation::Numbered(_, counter) => {
                let (state, counted) = (found(), found());
                let given = state.and_then(|state| field(&state, "sequence")?.as_i64());
                let counted = counted.map_or(Some(0), |entry| number(&entry));
                self.at_least(counter, because, given.unwrap_or(1), counted);
            }
            Expectation::Lists(key, endpoint) => {
                let listed = found().and_then(|event| field(&event, "endpoints"));
                let wanted = json!(endpoint);
                let is_listed = listed
                    .as_ref()
                    .and_then(Value::as_array)
                    .is_some_and(|listed| listed.contains(&wanted));
                if !is_listed {
                    let code = if listed.is_some() { Mismatch } else { Missing };
                    let expected = format!("an event that lists the endpoint {endpoint}");
                    let listed = listed.map_or_else(|| "nothing".to_owned(), |all| shown(&all));
                    self.differ(code, &key, because, expected, listed);
                }
            }
            Expectation::Endpoint(org, endpoint) => {
                if found().is_none() {
                    self.former.insert((org, endpoint));
                }
            }
            Expectation::ReadyBy(org, endpoint, at, event) => {
                let state = found().and_then(|entry| read_json(&entry.value).ok());
                let Some(EndpointState {
                    due,
                    not_before,
                    leases,
                    ..
                }) = state
                else {
                    return;
                };
                // While the delivery is leased, it waits for the expiry.
                let lease_end = leases.of(event).map(|lease| lease.until);
                let waits = [not_before, lease_end].into_iter().flatten();
                let latest = waits.fold(at, Timestamp::max);
                if due.is_none_or(|due| due > latest) {
                    let key = keys::endpoint(org, endpoint);
                    let expected = format!("due at {latest} at the latest");
                    let found = due.map_or_else(|| "none".to_owned(), |due| due.to_string());
                    self.differ(Mismatch, &key, because, expected, found);
                }
            }
            Expectation::Scheduled(..) => unreachable!("scheduled tasks are looked up by time"),
        }
    }

    fn contains(&mut self, key: &Key, because: Option<&Key>, wanted: &Value, found: Option<Entry>) {
        let (code, actual) = match found.map(|entry| read_json(&entry.value)) {
            None => (DifferenceCode::Missing, "nothing".to_owned()),
            Some(Err(_)) => (DifferenceCode::Mismatch, "no JSON".to_owned()),
            Some(Ok(actual)) if has_fields(&actual, wanted) => return,
            Some(Ok(actual)) => (
                DifferenceCode::Mismatch,
                shown(&same_fields(&actual, wanted)),
            ),
        };
        self.differ(code, key, because, wanted.to_string(), actual);
    }

    fn at_least(&mut self, key: Key, because: Option<&Key>, least: i64, found: Option<i64>) {
        if found.is_none_or(|found| found < least) {
            let expected = format!("{least} or more");
            let found = found.map_or_else(|| "no number".to_owned(), |found| found.to_string());
            self.differ(DifferenceCode::Count, &key, because, expected, found);
        }
    }
}

fn number(entry: &Entry) -> Option<i64> {
    read_json(&entry.value).ok()
}

fn field(entry: &Entry, name: &str) -> Option<Value> {
    let found: Value = read_json(&entry.value).ok()?;
    found.get(name).cloned()
}

/// Returns true for the wanted value, or an object with at least its fields.
fn has_fields(found: &Value, wanted: &Value) -> bool {
    let (Value::Object(found), Value::Object(wanted)) = (found, wanted) else {
        return found == wanted;
    };
    wanted.iter().all(|(name, wanted)| {
        let found = found.get(name);
        found.is_some_and(|found| has_fields(found, wanted))
    })
}

/// Returns the found value, reduced to the wanted fields if it is an object.
fn same_fields(found: &Value, wanted: &Value) -> Value {
    let (Value::Object(wanted), true) = (wanted, found.is_object()) else {
        return found.clone();
    };
    let field = |(name, wanted): (&String, &Value)| {
        Some((name.clone(), same_fields(found.get(name)?, wanted)))
    };
    Value::Object(wanted.iter().filter_map(field).collect::<Map<_, _>>())
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(SHOWN_CHARS_MAX).collect()
}

/// Tasks that are scheduled for the same time.
#[derive(Default)]
struct Tasks {
    /// All but those that let records expire.
    others: HashSet<ScheduledTask>,
    /// Those that let a record expire.
    expiring: HashMap<String, Vec<Arc<Expiry>>>,
}

/// Fields of [`ScheduledTask::Expire`].
struct Expiry {
    records: Vec<String>,
    counter: Option<String>,
}

impl Tasks {
    async fn at(store: &dyn Store, at: Timestamp) -> Result<Self, StoreError> {
        let then = KeyRange::new(
            keys::due(at, Uuid::nil()),
            keys::due(at, Uuid::max()).successor(),
        );
        let mut tasks = Self::default();
        for found in store.scan_all(&then).await? {
            match decode_value(&found) {
                Ok(ScheduledTask::Expire { records, counter }) => {
                    let expiry = Arc::new(Expiry { records, counter });
                    for record in &expiry.records {
                        let of_record = tasks.expiring.entry(record.clone()).or_default();
                        of_record.push(Arc::clone(&expiry));
                    }
                }
                Ok(task) => drop(tasks.others.insert(task)),
                // An unreadable one is a difference of its own.
                Err(_) => {}
            }
        }
        Ok(tasks)
    }

    /// Returns true if this task is among them, or one that lets more records expire.
    fn include(&self, wanted: &ScheduledTask) -> bool {
        let ScheduledTask::Expire { records, counter } = wanted else {
            return self.others.contains(wanted);
        };
        let first = records.first().and_then(|first| self.expiring.get(first));
        first.is_some_and(|found| {
            let includes = |all: &[String]| records.iter().all(|record| all.contains(record));
            let is_it = |of: &Arc<Expiry>| of.counter == *counter && includes(&of.records);
            found.iter().any(is_it)
        })
    }
}
