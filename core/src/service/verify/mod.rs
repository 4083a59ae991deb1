//! Verification: every counter against a recount, every index against the records that it leads to.
//!
//! Each entry of the store claims something: that another entry is there and says the same, that something is counted, that
//! a secret opens. What each family claims stands in `families`. The store is read once, in the order of its keys, and the
//! claims of each page are looked up together.
//!
//! Memory is needed for the counters and the roles (some hundred bytes each), for the identifiers of the chats and for
//! those of deleted endpoints whose deliveries are not cleared yet (64 bytes each), whatever else there is: memories, their
//! audit, events and deliveries are only passed by.

mod claim;
mod difference;
mod families;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use self::claim::Made;
pub use self::difference::{Difference, DifferenceCode};
use self::families::{AuditPlace, Problem};
use super::sealing::{Sealer, SealingKey};
use super::{KnowledgeService, Schema};
use crate::access::RoleRef;
use crate::error::Error;
use crate::model::{ChatId, EndpointId, OrgId, RoleId};
use crate::keys;
use crate::store::{Direction, Key, KeyEntry, KeyRange, Store, StoreError, StoreExt, decode_value};

/// How many entries are read at once.
const PAGE_ENTRIES: usize = 512;
/// How many differences are kept; further ones are counted alone.
pub const DIFFERENCES_KEPT_MAX: usize = 1_000;

/// What verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// How many entries were read.
    pub entries: u64,
    /// How many sealed secrets were opened; nothing where there was no key to open them with.
    pub secrets: Option<u64>,
    /// What is not as it should be, the first [`DIFFERENCES_KEPT_MAX`] of it; empty for a store that is whole.
    pub differences: Vec<Difference>,
    /// How many differences there are, those that are not kept included.
    pub differences_total: u64,
}

impl KnowledgeService {
    /// Verifies the whole store, see [`Verify`].
    ///
    /// # Errors
    /// Those of the store. What is stored wrongly is no error but a difference.
    pub async fn verify(&self) -> Result<Verification, Error> {
        let sealer = Some(self.inner.sealer.clone());
        let mut verify = Verify::with(Arc::clone(self.store()), sealer).await?;
        while verify.read().await? {}
        Ok(verify.finish())
    }
}

/// Reads a whole store, recounts every counter, looks whether every index agrees with the records and opens every secret.
/// It changes nothing, and needs no service to be open: a store that no service would open is verified too.
///
/// Each page is a point in time of its own: what others write meanwhile may show as a difference. Verify while nobody
/// writes, or a snapshot.
pub struct Verify {
    store: Arc<dyn Store>,
    /// What is still to be read.
    rest: Option<KeyRange>,
    verifier: Verifier,
}

impl std::fmt::Debug for Verify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verify")
            .field("rest", &self.rest)
            .field("found", &self.verifier.found)
            .finish_non_exhaustive()
    }
}

impl Verify {
    /// Begins before the first entry. Without a sealing key secrets are not opened.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn begin(
        store: Arc<dyn Store>,
        sealing_key: Option<&SealingKey>,
    ) -> Result<Self, StoreError> {
        Self::with(store, sealing_key.map(Sealer::new)).await
    }

    async fn with(store: Arc<dyn Store>, sealer: Option<Sealer>) -> Result<Self, StoreError> {
        Ok(Self {
            verifier: Verifier::begin(&*store, sealer).await?,
            rest: Some(KeyRange::all()),
            store,
        })
    }

    /// Verifies the next entries; `false` once there are no more.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn read(&mut self) -> Result<bool, StoreError> {
        let Some(rest) = &self.rest else {
            return Ok(false);
        };
        let page = self.store.scan(rest, PAGE_ENTRIES, Direction::Forward);
        let page = page.await?;
        self.rest = match page.last() {
            Some(last) if page.len() == PAGE_ENTRIES => Some(rest.after(&last.key)),
            _ => None,
        };
        let verifier = &mut self.verifier;
        let claims = page.iter().flat_map(|entry| verifier.read(entry)).collect();
        verifier.check(&*self.store, claims).await?;
        Ok(self.rest.is_some())
    }

    /// How many entries were read.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.verifier.found.entries
    }

    /// Compares what was counted with what the counters say, and ends the verification.
    #[must_use]
    pub fn finish(self) -> Verification {
        self.verifier.finish()
    }
}

/// What is known while the store is read.
struct Verifier {
    sealer: Option<Sealer>,
    roles: BTreeSet<(OrgId, RoleId)>,
    redirects: BTreeMap<(OrgId, RoleId), RoleRef>,
    /// The organisations whose deleted roles maintenance will settle.
    settled: BTreeSet<OrgId>,
    /// Every organisation, and those whose audit log maintenance will sweep.
    orgs: BTreeSet<OrgId>,
    swept: BTreeSet<OrgId>,
    /// How many memories have a name at their source, less how many names lead to one.
    names: BTreeMap<OrgId, i64>,
    /// The chats: their messages do not say in which workspace they are.
    chats: HashSet<(OrgId, ChatId)>,
    /// The endpoints that are gone and have deliveries, and those whose deliveries maintenance will clear.
    former: BTreeSet<(OrgId, EndpointId)>,
    cleared: BTreeSet<(OrgId, EndpointId)>,
    /// The audit page that was read last.
    audit: Option<AuditPlace>,
    has_meta: bool,
    /// True if the store is of schema 1, which counts some things for the whole store instead of for
    /// each organisation.
    has_global_counters: bool,
    counted: BTreeMap<Key, i64>,
    counters: BTreeMap<Key, i64>,
    found: Verification,
}

impl Verifier {
    async fn begin(store: &dyn Store, sealer: Option<Sealer>) -> Result<Self, StoreError> {
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
        // One that cannot be read is a difference of its own.
        let schema = store.get_as::<Schema>(&keys::meta()).await.ok().flatten();
        let has_global_counters = schema.is_some_and(|meta| meta.value.schema == 1);
        let found = Verification {
            secrets: sealer.as_ref().map(|_| 0),
            ..Verification::default()
        };
        Ok(Self {
            sealer,
            roles,
            redirects,
            settled: BTreeSet::new(),
            orgs: BTreeSet::new(),
            swept: BTreeSet::new(),
            names: BTreeMap::new(),
            chats: HashSet::new(),
            former: BTreeSet::new(),
            cleared: BTreeSet::new(),
            audit: None,
            has_meta: false,
            has_global_counters,
            counted: BTreeMap::new(),
            counters: BTreeMap::new(),
            found,
        })
    }

    /// Counts an entry and says what it claims.
    fn read(&mut self, entry: &KeyEntry) -> Vec<Made> {
        self.found.entries += 1;
        let made = |claim| Made {
            by: entry.key.clone(),
            claim,
        };
        match families::claims_of(self, entry) {
            Ok(claims) => claims.into_iter().map(made).collect(),
            Err(Problem {
                code,
                expected,
                found,
            }) => {
                self.differ(code, &entry.key, None, expected, found);
                Vec::new()
            }
        }
    }

    fn undelivered_counter(&self, org: OrgId) -> Key {
        if self.has_global_counters {
            keys::global_undelivered_count()
        } else {
            keys::undelivered_count(org)
        }
    }

    fn disabled_endpoint_counter(&self, org: OrgId) -> Key {
        if self.has_global_counters {
            keys::global_disabled_endpoint_count()
        } else {
            keys::disabled_endpoint_count(org)
        }
    }

    fn count(&mut self, counter: Key, by: i64) {
        *self.counted.entry(counter).or_default() += by;
    }

    fn differ(
        &mut self,
        code: DifferenceCode,
        key: &Key,
        because: Option<&Key>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.found.differences_total += 1;
        if self.found.differences.len() < DIFFERENCES_KEPT_MAX {
            self.found.differences.push(Difference {
                code,
                key: key.clone(),
                because: because.cloned(),
                expected: expected.into(),
                found: found.into(),
            });
        }
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

    fn finish(mut self) -> Verification {
        use DifferenceCode::{Count, Missing, NotDue};

        if !self.has_meta && self.found.entries > 0 {
            self.differ(Missing, &keys::meta(), None, "an entry", "nothing");
        }
        let redirects: Vec<_> = self.redirects.keys().copied().collect();
        for (org, role) in redirects {
            if !self.settled.contains(&org) {
                let key = keys::role_redirect(org, role);
                let expected = "a due entry that settles the deleted roles of the organisation";
                self.differ(NotDue, &key, None, expected, "nothing");
            }
        }
        let (orgs, swept) = (
            std::mem::take(&mut self.orgs),
            std::mem::take(&mut self.swept),
        );
        for org in orgs.difference(&swept) {
            let expected = "a due entry that sweeps the audit log of the organisation";
            self.differ(NotDue, &keys::org(*org), None, expected, "nothing");
        }
        let (former, cleared) = (
            std::mem::take(&mut self.former),
            std::mem::take(&mut self.cleared),
        );
        for (org, endpoint) in former.difference(&cleared) {
            let key = keys::endpoint(*org, *endpoint);
            let expected = "an endpoint, or a due entry that clears its deliveries";
            self.differ(NotDue, &key, None, expected, "nothing");
        }
        for (org, missing) in std::mem::take(&mut self.names) {
            if missing != 0 {
                let expected = "as many source keys as memories that have one";
                let found = format!("{missing} fewer");
                self.differ(Count, &keys::org(org), None, expected, found);
            }
        }
        let counted = std::mem::take(&mut self.counted);
        let counters = std::mem::take(&mut self.counters);
        let every: BTreeSet<&Key> = counted.keys().chain(counters.keys()).collect();
        for key in every {
            let count = |of: &BTreeMap<Key, i64>| of.get(key).copied().unwrap_or(0);
            let (wanted, found) = (count(&counted), count(&counters));
            if wanted != found {
                self.differ(Count, key, None, wanted.to_string(), found.to_string());
            }
        }
        self.found
    }
}
