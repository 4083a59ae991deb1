//! What an entry claims of another one, and whether that holds.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{DifferenceCode, Verifier};
use crate::digest::sha256;
use crate::model::{EndpointId, OrgId, Timestamp};
use crate::service::deliveries::EndpointState;
use crate::service::maintain::Due;
use crate::keys;
use crate::store::{Entry, Key, KeyRange, Store, StoreError, StoreExt, decode_value};

/// The longest value that a difference shows, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// What an entry says about another one.
pub(super) enum Claim {
    /// It is there.
    Exists(Key),
    /// The one or the other is there.
    EitherExists(Key, Key),
    /// It is not there.
    Absent(Key),
    /// It is there and says this: a value, or an object with these fields among others.
    Says(Key, Value),
    /// It is the content of a memory whose name at its source has this digest.
    HasName(Key, String),
    /// It will be looked at then.
    Due(Timestamp, Due),
    /// It is a number, at least this one; nothing is 0.
    AtLeast(Key, i64),
    /// It is an event that lists this endpoint.
    Lists(Key, EndpointId),
    /// The endpoint is there, or what it left is being cleared.
    Endpoint(OrgId, EndpointId),
    /// If the endpoint is there, its turn comes for what waits there since or until then.
    Turn(OrgId, EndpointId, Timestamp),
    /// It is an endpoint with a number that was given: one that is not above the second entry.
    Numbered(Key, Key),
}

/// A claim, and the entry that makes it.
pub(super) struct Made {
    pub(super) by: Key,
    pub(super) claim: Claim,
}

impl Claim {
    fn about(&self) -> Vec<Key> {
        match self {
            Self::Exists(key)
            | Self::Absent(key)
            | Self::Says(key, _)
            | Self::HasName(key, _)
            | Self::AtLeast(key, _)
            | Self::Lists(key, _) => vec![key.clone()],
            Self::EitherExists(one, other) | Self::Numbered(one, other) => {
                vec![one.clone(), other.clone()]
            }
            Self::Endpoint(org, endpoint) | Self::Turn(org, endpoint, _) => {
                vec![keys::endpoint(*org, *endpoint)]
            }
            Self::Due(..) => Vec::new(),
        }
    }
}

impl Verifier {
    pub(super) async fn check(
        &mut self,
        store: &dyn Store,
        claims: Vec<Made>,
    ) -> Result<(), StoreError> {
        let about: Vec<Key> = claims.iter().flat_map(|made| made.claim.about()).collect();
        let mut found = store.get(&about).await?.into_iter();
        for Made { by, claim } in claims {
            if let Claim::Due(at, due) = &claim {
                if !is_due(store, *at, due).await? {
                    let expected = format!("a due entry at {at}");
                    self.differ(DifferenceCode::NotDue, &by, None, expected, "nothing");
                }
                continue;
            }
            self.compare(&by, claim, || found.next().flatten());
        }
        Ok(())
    }

    /// Looks whether a claim holds; `found` gives what stands under its keys, one by one.
    fn compare(&mut self, by: &Key, claim: Claim, mut found: impl FnMut() -> Option<Entry>) {
        use DifferenceCode::{Mismatch, Missing, Unexpected};

        let because = Some(by);
        match claim {
            Claim::Exists(key) => {
                if found().is_none() {
                    self.differ(Missing, &key, because, "an entry", "nothing");
                }
            }
            Claim::EitherExists(one, other) => {
                let (first, second) = (found(), found());
                if first.or(second).is_none() {
                    let expected = format!("an entry, or one under {other}");
                    self.differ(Missing, &one, because, expected, "nothing");
                }
            }
            Claim::Absent(key) => {
                if found().is_some() {
                    self.differ(Unexpected, &key, because, "nothing", "an entry");
                }
            }
            Claim::Says(key, wanted) => match found() {
                None => self.differ(Missing, &key, because, wanted.to_string(), "nothing"),
                Some(entry) => {
                    let said = said(&entry, &wanted);
                    if said.as_ref() != Some(&wanted) {
                        let said = said.map_or_else(|| "no JSON".to_owned(), |said| shown(&said));
                        self.differ(Mismatch, &key, because, wanted.to_string(), said);
                    }
                }
            },
            Claim::HasName(key, digest) => {
                let expected = format!("a source key with the SHA-256 {digest}");
                let Some(entry) = found() else {
                    self.differ(Missing, &key, because, expected, "nothing");
                    return;
                };
                let content: Option<Value> = serde_json::from_slice(&entry.value).ok();
                let name = content.and_then(|content| content["source_key"].as_str().map(sha256));
                if name.as_ref() != Some(&digest) {
                    let found = name.unwrap_or_else(|| "none".to_owned());
                    self.differ(Mismatch, &key, because, expected, found);
                }
            }
            Claim::AtLeast(key, least) => {
                let number = found().map_or(Some(0), |entry| number(&entry));
                self.at_least(key, because, least, number);
            }
            Claim::Numbered(_, counter) => {
                let (state, counted) = (found(), found());
                let given = state.and_then(|state| field(&state, "sequence")?.as_i64());
                let counted = counted.map_or(Some(0), |entry| number(&entry));
                self.at_least(counter, because, given.unwrap_or(1), counted);
            }
            Claim::Lists(key, endpoint) => {
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
            Claim::Endpoint(org, endpoint) => {
                if found().is_none() {
                    self.former.insert((org, endpoint));
                }
            }
            Claim::Turn(org, endpoint, at) => {
                let state = found().and_then(|entry| serde_json::from_slice(&entry.value).ok());
                let Some(EndpointState {
                    due, not_before, ..
                }) = state
                else {
                    return;
                };
                let latest = not_before.map_or(at, |not_before| not_before.max(at));
                if due.is_none_or(|due| due > latest) {
                    let key = keys::endpoint(org, endpoint);
                    let expected = format!("a turn at {latest} at the latest");
                    let found = due.map_or_else(|| "none".to_owned(), |due| due.to_string());
                    self.differ(Mismatch, &key, because, expected, found);
                }
            }
            Claim::Due(..) => unreachable!("it is looked up by its time"),
        }
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
    serde_json::from_slice(&entry.value).ok()
}

fn field(entry: &Entry, name: &str) -> Option<Value> {
    let found: Value = serde_json::from_slice(&entry.value).ok()?;
    found.get(name).cloned()
}

/// What an entry says about that which is wanted: of an object the same fields.
fn said(entry: &Entry, wanted: &Value) -> Option<Value> {
    let found: Value = serde_json::from_slice(&entry.value).ok()?;
    Some(same_fields(&found, wanted))
}

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

/// Whether the index of due times has, at exactly this time, an entry for the same thing.
async fn is_due(store: &dyn Store, at: Timestamp, wanted: &Due) -> Result<bool, StoreError> {
    let then = KeyRange::new(
        keys::due(at, Uuid::nil()),
        keys::due(at, Uuid::max()).successor(),
    );
    let found = store.scan_all(&then).await?;
    // One that cannot be read is a difference of its own.
    let mut found = found.iter().filter_map(|found| decode_value(found).ok());
    Ok(found.any(|found| match (found, wanted) {
        (
            Due::Expire { records, counter },
            Due::Expire {
                records: wanted,
                counter: counted,
            },
        ) => counter == *counted && wanted.iter().all(|key| records.contains(key)),
        (found, wanted) => found == *wanted,
    }))
}
