//! Verification: every counter against a recount, every index against the records that it leads to.
//!
//! Each entry of the store claims something: that another entry is there and says the same, that something is counted.
//! The store is read once, page by page, and the claims of each page are looked up together, so that memory is needed
//! for the counters alone, whatever the size of the store.

mod claims;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;
use uuid::Uuid;

use super::KnowledgeService;
use super::maintain::Due;
use crate::access::RoleRef;
use crate::error::Error;
use crate::model::{OrgId, RoleId, Timestamp};
use crate::store::{
    Direction, Entry, Key, KeyEntry, KeyRange, Store, StoreError, StoreExt, decode_value, keys,
};

/// How many entries are read at once.
const PAGE_ENTRIES: usize = 512;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The entry that is wrong, or missing.
    pub key: Key,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

/// What [`KnowledgeService::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// How many entries were read.
    pub entries: u64,
    /// Everything that is not as it should be; empty for a store that is whole.
    pub differences: Vec<Difference>,
}

impl KnowledgeService {
    /// Reads the whole store, recounts every counter and looks whether every index agrees with the records. It
    /// changes nothing.
    ///
    /// Each page is a point in time of its own: what others write meanwhile may show as a difference. Run it while
    /// nobody writes.
    ///
    /// # Errors
    /// Those of the store. What is stored wrongly is no error but a difference.
    pub async fn verify(&self) -> Result<Verification, Error> {
        let store = &**self.store();
        let mut verifier = Verifier::begin(store).await?;
        let mut rest = KeyRange::all();
        loop {
            let page = store.scan(&rest, PAGE_ENTRIES, Direction::Forward).await?;
            let claims = page.iter().flat_map(|entry| verifier.read(entry)).collect();
            verifier.check(store, claims).await?;
            match page.last() {
                Some(last) if page.len() == PAGE_ENTRIES => rest = rest.after(&last.key),
                _ => return Ok(verifier.finish()),
            }
        }
    }
}

/// What an entry says about another one.
enum Claim {
    /// It is there.
    Exists(Key),
    /// The one or the other is there.
    EitherExists(Key, Key),
    /// It is not there.
    Absent(Key),
    /// It is there and says this: a value, or an object with these fields among others.
    Says(Key, Value),
    /// It will be looked at then.
    Due(Timestamp, Due),
}

/// A claim, and the entry that makes it.
struct Made {
    by: Key,
    claim: Claim,
}

struct Verifier {
    roles: BTreeSet<(OrgId, RoleId)>,
    redirects: BTreeMap<(OrgId, RoleId), RoleRef>,
    /// The organisations whose deleted roles maintenance will settle.
    settled: BTreeSet<OrgId>,
    /// How many memories have a name at their source, less how many names lead to one.
    names: BTreeMap<OrgId, i64>,
    counted: BTreeMap<Key, i64>,
    counters: BTreeMap<Key, i64>,
    found: Verification,
}

impl Verifier {
    async fn begin(store: &dyn Store) -> Result<Self, StoreError> {
        let place = |key: &Key| {
            let org = OrgId(keys::second_last_id(key)?);
            Some((org, RoleId(keys::last_id(key)?)))
        };
        let roles = store.scan_all(&keys::all_roles()).await?;
        let roles = roles.iter().filter_map(|found| place(&found.key)).collect();
        let mut redirects = BTreeMap::new();
        for found in store.scan_all(&keys::all_role_redirects()).await? {
            if let (Some(place), Ok(target)) = (place(&found.key), decode_value(&found)) {
                redirects.insert(place, target);
            }
        }
        Ok(Self {
            roles,
            redirects,
            settled: BTreeSet::new(),
            names: BTreeMap::new(),
            counted: BTreeMap::new(),
            counters: BTreeMap::new(),
            found: Verification::default(),
        })
    }

    /// Counts an entry and says what it claims.
    fn read(&mut self, entry: &KeyEntry) -> Vec<Made> {
        self.found.entries += 1;
        let made = |claim| Made {
            by: entry.key.clone(),
            claim,
        };
        match self.claims_of(entry) {
            Ok(claims) => claims.into_iter().map(made).collect(),
            Err(problem) => {
                self.differ(&entry.key, problem);
                Vec::new()
            }
        }
    }

    fn count(&mut self, counter: Key, by: i64) {
        *self.counted.entry(counter).or_default() += by;
    }

    fn differ(&mut self, key: &Key, problem: impl Into<String>) {
        self.found.differences.push(Difference {
            key: key.clone(),
            problem: problem.into(),
        });
    }

    /// The role that a reference means now, if it means one.
    fn resolve(&self, org: OrgId, mut role: RoleRef) -> Option<RoleRef> {
        // A way longer than there are redirects has gone in a circle.
        for _ in 0..=self.redirects.len() {
            match role {
                RoleRef::Custom(id) if !self.roles.contains(&(org, id)) => {
                    role = *self.redirects.get(&(org, id))?;
                }
                found => return Some(found),
            }
        }
        None
    }

    async fn check(&mut self, store: &dyn Store, claims: Vec<Made>) -> Result<(), StoreError> {
        let about = claims.iter().flat_map(|made| match &made.claim {
            Claim::Exists(key) | Claim::Absent(key) | Claim::Says(key, _) => vec![key.clone()],
            Claim::EitherExists(one, other) => vec![one.clone(), other.clone()],
            Claim::Due(..) => Vec::new(),
        });
        let about: Vec<Key> = about.collect();
        let mut found = store.get(&about).await?.into_iter();
        for Made { by, claim } in claims {
            match claim {
                Claim::Exists(key) => {
                    if found.next().flatten().is_none() {
                        self.differ(&key, format!("missing, wanted by {by}"));
                    }
                }
                Claim::EitherExists(one, other) => {
                    let (first, second) = (found.next().flatten(), found.next().flatten());
                    if first.or(second).is_none() {
                        self.differ(&one, format!("missing, as {other} is, wanted by {by}"));
                    }
                }
                Claim::Absent(key) => {
                    if found.next().flatten().is_some() {
                        self.differ(&key, format!("must not be there, because of {by}"));
                    }
                }
                Claim::Says(key, wanted) => {
                    let entry = found.next().flatten();
                    if !entry.is_some_and(|entry| says(&entry, &wanted)) {
                        self.differ(&key, format!("must say {wanted}, because of {by}"));
                    }
                }
                Claim::Due(at, due) => {
                    if !is_due(store, at, &due).await? {
                        self.differ(&by, format!("is not looked at when due at {at}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Verification {
        let redirects: Vec<_> = self.redirects.keys().copied().collect();
        for (org, role) in redirects {
            if !self.settled.contains(&org) {
                let key = keys::role_redirect(org, role);
                self.differ(
                    &key,
                    "its holders will not be settled: nothing says that it is due",
                );
            }
        }
        for (org, missing) in std::mem::take(&mut self.names) {
            if missing != 0 {
                let problem = format!(
                    "{missing} more memories have a source key than source keys lead to one"
                );
                self.differ(&keys::org(org), problem);
            }
        }
        let counted = std::mem::take(&mut self.counted);
        let counters = std::mem::take(&mut self.counters);
        let every: BTreeSet<&Key> = counted.keys().chain(counters.keys()).collect();
        for key in every {
            let count = |of: &BTreeMap<Key, i64>| of.get(key).copied().unwrap_or(0);
            let (wanted, found) = (count(&counted), count(&counters));
            if wanted != found {
                self.differ(key, format!("counts {found}, a recount gives {wanted}"));
            }
        }
        self.found
    }
}

/// Whether an entry says `wanted`.
fn says(entry: &Entry, wanted: &Value) -> bool {
    let Ok(found) = serde_json::from_slice::<Value>(&entry.value) else {
        return false;
    };
    match wanted {
        Value::Object(fields) => fields
            .iter()
            .all(|(name, wanted)| found.get(name) == Some(wanted)),
        wanted => found == *wanted,
    }
}

/// Whether the index of due times has, at exactly this time, an entry for the same thing.
async fn is_due(store: &dyn Store, at: Timestamp, wanted: &Due) -> Result<bool, StoreError> {
    let then = KeyRange::new(
        keys::due(at, Uuid::nil()),
        keys::due(at, Uuid::max()).successor(),
    );
    for found in store.scan_all(&then).await? {
        let is_it = match (decode_value(&found)?, wanted) {
            (
                Due::Expire { records, counter },
                Due::Expire {
                    records: wanted,
                    counter: counted,
                },
            ) => counter == *counted && wanted.iter().all(|key| records.contains(key)),
            (found, wanted) => found == *wanted,
        };
        if is_it {
            return Ok(true);
        }
    }
    Ok(false)
}
