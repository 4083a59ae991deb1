//! Comparison of expectations with the entries that they are about.

use std::collections::{HashMap, HashSet, hash_map};
use std::sync::Arc;
use std::vec;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::difference::DifferenceCode::{self, Count, Mismatch, Missing, NotDue, Unexpected};
use super::expectation::{Expectation, ExpectationFrom};
use super::verifier::Verifier;
use crate::digest::sha256;
use crate::keys;
use crate::model::{EndpointId, EventId, Timestamp};
use crate::service::deliveries::EndpointState;
use crate::service::tasks::ScheduledTask;
use crate::store::{Entry, Key, KeyRange, Store, StoreError, StoreExt, decode_value, read_json};

/// Maximum length of a value in a difference, in characters.
const SHOWN_CHARS_MAX: usize = 200;

impl Verifier {
    /// Checks expectations, all together.
    pub(super) async fn check(
        &mut self,
        store: &dyn Store,
        expectations: Vec<ExpectationFrom>,
    ) -> Result<(), StoreError> {
        let about: Vec<Key> = expectations
            .iter()
            .flat_map(|expected_from| expected_from.expectation.about())
            .collect();
        let mut entries = store.get(&about).await?.into_iter();
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
                    self.differ(NotDue, &by, None, expected, "nothing");
                }
                continue;
            }
            let mut comparison = Comparison {
                verifier: self,
                because: &by,
                entries: &mut entries,
            };
            comparison.check(expectation);
        }
        Ok(())
    }
}

/// Comparison of one expectation with the entries that it is about.
struct Comparison<'c> {
    verifier: &'c mut Verifier,
    /// Key of the entry that implies the expectation.
    because: &'c Key,
    /// Entries under the keys of this expectation, then those of the following ones.
    entries: &'c mut vec::IntoIter<Option<Entry>>,
}

impl Comparison<'_> {
    fn check(&mut self, expectation: Expectation) {
        match expectation {
            Expectation::Exists(key) => self.exists(&key),
            Expectation::EitherExists(one, other) => self.either_exists(&one, &other),
            Expectation::Absent(key) => self.absent(&key),
            Expectation::Contains(key, fields) => {
                let entry = self.next();
                self.contains(&key, &fields, entry);
            }
            Expectation::ContainsEither(key, one, other) => {
                let entry = self.next();
                let found = entry.as_ref();
                let found = found.and_then(|entry| read_json::<Value>(&entry.value).ok());
                let is_other = found.is_some_and(|found| has_fields(&found, &other));
                let fields = if is_other { other } else { one };
                self.contains(&key, &fields, entry);
            }
            Expectation::ContainsWithout(key, fields, without) => {
                let entry = self.next();
                match entry.as_ref().and_then(|entry| field(entry, without)) {
                    Some(found) => {
                        self.differ(Mismatch, &key, format!("no field {without}"), shown(&found));
                    }
                    None => self.contains(&key, &fields, entry),
                }
            }
            Expectation::ContainsOrExists(key, fields, _) => {
                let (first, second) = (self.next(), self.next());
                if first.is_some() || second.is_none() {
                    self.contains(&key, &fields, first);
                }
            }
            Expectation::HasName(key, digest) => self.has_name(&key, &digest),
            Expectation::AtLeast(key, least) => self.at_least(&key, least),
            Expectation::Numbered(_, counter) => {
                let state = self.next();
                let sequence = state.and_then(|state| field(&state, "sequence")?.as_i64());
                self.at_least(&counter, sequence.unwrap_or(1));
            }
            Expectation::Lists(key, endpoint) => self.lists(&key, endpoint),
            Expectation::Endpoint(org, endpoint) => {
                if self.next().is_none() {
                    self.verifier.former.insert((org, endpoint));
                }
            }
            Expectation::ReadyBy(org, endpoint, at, event) => {
                let key = keys::endpoint(org, endpoint);
                self.ready_by(&key, at, event);
            }
            Expectation::Scheduled(..) => unreachable!("scheduled tasks are looked up by time"),
        }
    }

    /// Takes the entry under the next key of the expectation.
    fn next(&mut self) -> Option<Entry> {
        self.entries.next().flatten()
    }

    fn differ(
        &mut self,
        code: DifferenceCode,
        key: &Key,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        let because = Some(self.because);
        self.verifier.differ(code, key, because, expected, found);
    }

    fn exists(&mut self, key: &Key) {
        if self.next().is_none() {
            self.differ(Missing, key, "an entry", "nothing");
        }
    }

    fn either_exists(&mut self, one: &Key, other: &Key) {
        let (first, second) = (self.next(), self.next());
        if first.or(second).is_none() {
            let expected = format!("an entry, or one under {other}");
            self.differ(Missing, one, expected, "nothing");
        }
    }

    fn absent(&mut self, key: &Key) {
        if self.next().is_some() {
            self.differ(Unexpected, key, "nothing", "an entry");
        }
    }

    fn contains(&mut self, key: &Key, fields: &Value, entry: Option<Entry>) {
        let (code, found) = match entry.map(|entry| read_json(&entry.value)) {
            None => (Missing, "nothing".to_owned()),
            Some(Err(_)) => (Mismatch, "no JSON".to_owned()),
            Some(Ok(value)) if has_fields(&value, fields) => return,
            Some(Ok(value)) => (Mismatch, shown(&same_fields(&value, fields))),
        };
        self.differ(code, key, fields.to_string(), found);
    }

    fn has_name(&mut self, key: &Key, digest: &str) {
        let expected = format!("a source key with the SHA-256 {digest}");
        let Some(entry) = self.next() else {
            self.differ(Missing, key, expected, "nothing");
            return;
        };
        let content: Option<Value> = read_json(&entry.value).ok();
        let name = content.and_then(|content| content["source_key"].as_str().map(sha256));
        if name.as_deref() != Some(digest) {
            let found = name.unwrap_or_else(|| "none".to_owned());
            self.differ(Mismatch, key, expected, found);
        }
    }

    fn at_least(&mut self, key: &Key, least: i64) {
        let number = self.next().map_or(Some(0), |entry| number(&entry));
        if number.is_none_or(|number| number < least) {
            let expected = format!("{least} or more");
            let found = number.map_or_else(|| "no number".to_owned(), |number| number.to_string());
            self.differ(Count, key, expected, found);
        }
    }

    fn lists(&mut self, key: &Key, endpoint: EndpointId) {
        let listed = self.next().and_then(|event| field(&event, "endpoints"));
        let wanted = json!(endpoint);
        let is_listed = listed
            .as_ref()
            .and_then(Value::as_array)
            .is_some_and(|listed| listed.contains(&wanted));
        if !is_listed {
            let code = if listed.is_some() { Mismatch } else { Missing };
            let expected = format!("an event that lists the endpoint {endpoint}");
            let listed = listed.map_or_else(|| "nothing".to_owned(), |all| shown(&all));
            self.differ(code, key, expected, listed);
        }
    }

    fn ready_by(&mut self, endpoint: &Key, at: Timestamp, event: EventId) {
        let state = self.next().and_then(|entry| read_json(&entry.value).ok());
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
            let expected = format!("due at {latest} at the latest");
            let found = due.map_or_else(|| "none".to_owned(), |due| due.to_string());
            self.differ(Mismatch, endpoint, expected, found);
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
