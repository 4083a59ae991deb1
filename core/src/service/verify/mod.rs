//! Verification of a store: counters against a recount, indices against their records.
//!
//! Each entry implies expectations: that another entry exists and agrees with it, that it is
//! counted, that a secret opens. `key_families` derives the expectations of each family. The store
//! is read once, in the order of its keys, and the expectations of a page are checked together.
//!
//! Memory is needed for the counters and the roles (some hundred bytes each), for the identifiers
//! of the chats, and for those of deleted endpoints whose deliveries are not purged yet (64 bytes
//! each), but not for anything else: memories, their audit entries, events and deliveries are only
//! read in passing.

mod difference;
mod expectation;
mod key_families;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

pub use self::difference::{Difference, DifferenceCode};
use self::expectation::{Expectation, ExpectationFrom};
use self::key_families::{AuditPosition, Problem};
use crate::access::RoleRef;
use crate::error::Error;
use crate::keys;
use crate::model::{ChatId, EndpointId, ErasureId, OrgId, Organization, RoleId, WorkspaceId};
use crate::service::KnowledgeService;
use crate::service::secrets::sealing::{Sealer, SealingKey};
use crate::store::{Direction, Key, KeyEntry, KeyRange, Store, StoreError, StoreExt, decode_value};

/// Number of entries that one page reads.
const PAGE_ENTRIES: usize = 512;
/// Maximum number of differences that are kept; further ones are only counted.
pub const DIFFERENCES_KEPT_MAX: usize = 1_000;

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Number of entries read.
    pub entries: u64,
    /// Number of sealed secrets opened; `None` without a sealing key.
    pub secrets: Option<u64>,
    /// Differences, at most [`DIFFERENCES_KEPT_MAX`]; empty for an intact store.
    pub differences: Vec<Difference>,
    /// Total number of differences, including those that are not kept.
    pub differences_total: u64,
}

/// # Verification
impl KnowledgeService {
    /// Verifies the whole store, see [`Verify`].
    ///
    /// # Errors
    /// Those of the store. Wrong data are differences, not errors.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// let verification = service.verify().await?;
    /// for difference in &verification.differences {
    ///     eprintln!("{difference}");
    /// }
    /// assert_eq!(verification.differences_total, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn verify(&self) -> Result<Verification, Error> {
        let sealers = vec![self.inner.sealer.clone()];
        let mut verify = Verify::with(Arc::clone(self.store()), sealers).await?;
        while verify.read().await? {}
        Ok(verify.finish())
    }
}

/// A verification in progress.
///
/// It reads a whole store, recounts every counter, checks every index against its records and opens
/// every secret. It changes nothing and needs no open service, so it can also verify a store that a
/// service would not open.
///
/// Each page is a point in time of its own, so concurrent writes may appear as differences. Verify
/// a snapshot, or a store without writers.
///
/// # Examples
///
/// ```
#[doc = include_str!("../example.txt")]
/// use std::sync::Arc;
///
/// use knowledge_core::service::Verify;
///
/// let mut verify = Verify::begin(Arc::clone(service.store()), None).await?;
/// while verify.read().await? {
///     println!("{} entries", verify.entries());
/// }
/// let verification = verify.finish();
/// assert!(verification.differences.is_empty());
/// // Without the sealing key, the secrets remain closed.
/// assert_eq!(verification.secrets, None);
/// # Ok(())
/// # }
/// ```
pub struct Verify {
    store: Arc<dyn Store>,
    /// Range that is still to be read.
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
    /// Starts a verification at the first entry. Without a sealing key, secrets are not opened.
    ///
    /// During a replacement of the key, the secrets of a store need both keys to be opened.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn begin(
        store: Arc<dyn Store>,
        sealing_keys: impl IntoIterator<Item = &SealingKey>,
    ) -> Result<Self, StoreError> {
        let sealers = sealing_keys.into_iter().map(Sealer::new).collect();
        Self::with(store, sealers).await
    }

    async fn with(store: Arc<dyn Store>, sealers: Vec<Sealer>) -> Result<Self, StoreError> {
        Ok(Self {
            verifier: Verifier::begin(&*store, sealers).await?,
            rest: Some(KeyRange::all()),
            store,
        })
    }

    /// Verifies the next entries; returns `false` once there are no more.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn read(&mut self) -> Result<bool, StoreError> {
        let Some(rest) = &self.rest else {
            return Ok(false);
        };
        let page = self
            .store
            .scan(rest, PAGE_ENTRIES, Direction::Forward)
            .await?;
        self.rest = match page.last() {
            Some(last) if page.len() == PAGE_ENTRIES => Some(rest.after(&last.key)),
            _ => None,
        };
        let verifier = &mut self.verifier;
        let expectations = page.iter().flat_map(|entry| verifier.read(entry)).collect();
        verifier.check(&*self.store, expectations).await?;
        Ok(self.rest.is_some())
    }

    /// Returns the number of entries read.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.verifier.found.entries
    }

    /// Compares the recount with the counters and ends the verification.
    #[must_use]
    pub fn finish(self) -> Verification {
        self.verifier.finish()
    }
}

/// Data collected while the store is read.
struct Verifier {
    sealers: Vec<Sealer>,
    roles: BTreeSet<(OrgId, RoleId)>,
    redirects: BTreeMap<(OrgId, RoleId), RoleRef>,
    /// Organisations that have a scheduled task for their role redirects.
    settled: BTreeSet<OrgId>,
    /// All organisations, and those whose audit log has a scheduled purge.
    orgs: BTreeSet<OrgId>,
    audit_purge_scheduled: BTreeSet<OrgId>,
    /// Number of memories with a source key, minus the number of source keys, by organisation.
    names: BTreeMap<OrgId, i64>,
    /// Chats, whose messages do not name their workspace.
    chats: HashSet<(OrgId, ChatId)>,
    /// Deleted endpoints that have deliveries, and those whose deliveries have a scheduled purge.
    former: BTreeSet<(OrgId, EndpointId)>,
    cleared: BTreeSet<(OrgId, EndpointId)>,
    /// Chats that have messages, but no record, each with the key of a message.
    former_chats: BTreeMap<(OrgId, ChatId), Key>,
    /// Chats whose messages a scheduled task deletes.
    cleared_chats: BTreeSet<(OrgId, ChatId)>,
    /// Erasures that are running.
    running: BTreeSet<(OrgId, ErasureId)>,
    /// Erasures that the records of their organisations name, so that they hide their scopes.
    hiding: BTreeSet<(OrgId, ErasureId)>,
    /// Erasures that a scheduled task continues.
    continued: BTreeSet<(OrgId, ErasureId)>,
    /// Organisations that are being removed: what is left of them implies nothing.
    former_orgs: BTreeSet<OrgId>,
    /// Keys of the workspaces that are being removed, and of all removed ones.
    removing: BTreeSet<Key>,
    former_workspaces: BTreeSet<Key>,
    /// Keys of those removed workspaces, and records of organisations, that a scheduled task clears.
    removals_continued: BTreeSet<Key>,
    /// Audit page that was read last.
    audit: Option<AuditPosition>,
    has_meta: bool,
    counted: BTreeMap<Key, i64>,
    counters: BTreeMap<Key, i64>,
    found: Verification,
}

impl Verifier {
    async fn begin(store: &dyn Store, sealers: Vec<Sealer>) -> Result<Self, StoreError> {
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
        let former_orgs = store.scan_all(&keys::all_former_orgs()).await?;
        let former_orgs = former_orgs
            .iter()
            .filter_map(|found| keys::org_of(&found.key));
        let former_workspaces = store.scan_all(&keys::all_former_workspaces()).await?;
        let former_workspaces = former_workspaces.iter().filter_map(|found| {
            let workspace = decode_value::<WorkspaceId>(found).ok()?;
            Some(keys::workspace(keys::org_of(&found.key)?, workspace))
        });
        let mut removing = BTreeSet::new();
        // An unreadable one is a difference of its own.
        for found in store.scan_all(&keys::orgs()).await? {
            if let Ok(org) = decode_value::<Organization>(&found) {
                let workspaces = org.removing.iter();
                removing.extend(workspaces.map(|id| keys::workspace(org.id, *id)));
            }
        }
        let found = Verification {
            secrets: (!sealers.is_empty()).then_some(0),
            ..Verification::default()
        };
        Ok(Self {
            sealers,
            roles,
            redirects,
            settled: BTreeSet::new(),
            orgs: BTreeSet::new(),
            audit_purge_scheduled: BTreeSet::new(),
            names: BTreeMap::new(),
            chats: HashSet::new(),
            former: BTreeSet::new(),
            cleared: BTreeSet::new(),
            former_chats: BTreeMap::new(),
            cleared_chats: BTreeSet::new(),
            running: BTreeSet::new(),
            hiding: BTreeSet::new(),
            continued: BTreeSet::new(),
            former_orgs: former_orgs.collect(),
            removing,
            former_workspaces: former_workspaces.collect(),
            removals_continued: BTreeSet::new(),
            audit: None,
            has_meta: false,
            counted: BTreeMap::new(),
            counters: BTreeMap::new(),
            found,
        })
    }

    /// Counts an entry and returns its expectations.
    fn read(&mut self, entry: &KeyEntry) -> Vec<ExpectationFrom> {
        self.found.entries += 1;
        let expected_from = |expectation| ExpectationFrom {
            by: entry.key.clone(),
            expectation,
        };
        if self.is_of_former_org(&entry.key) {
            return Vec::new();
        }
        match key_families::expectations_of(self, entry) {
            Ok(mut expectations) => {
                expectations.retain(|expectation| !self.is_removed(expectation));
                expectations.into_iter().map(expected_from).collect()
            }
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

    /// Returns true for a key of an organisation that is being removed.
    fn is_of_former_org(&self, key: &Key) -> bool {
        !self.former_orgs.is_empty()
            && keys::org_of(key).is_some_and(|org| self.former_orgs.contains(&org))
            && keys::family_name(&key.to_string()) != "former_org"
    }

    /// Returns true for an expectation of something that is being removed.
    fn is_removed(&self, expectation: &Expectation) -> bool {
        match expectation {
            Expectation::Exists(key) if self.removing.contains(key) => true,
            _ if self.former_orgs.is_empty() => false,
            _ => {
                let mut about = expectation.about().into_iter();
                about.any(|key| self.is_of_former_org(&key))
            }
        }
    }

    /// Returns true for a workspace that was removed.
    fn is_former(&self, org: OrgId, workspace: WorkspaceId) -> bool {
        let removed = keys::workspace(org, workspace);
        self.former_workspaces.contains(&removed)
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

    /// Resolves a reference to the current role, if it leads to one.
    fn resolve(&self, org: OrgId, mut role: RoleRef) -> Option<RoleRef> {
        // More steps than there are redirects mean a cycle.
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
        use DifferenceCode::{Count, Mismatch, Missing, NotDue};

        if !self.has_meta && self.found.entries > 0 {
            self.differ(Missing, &keys::meta(), None, "an entry", "nothing");
        }
        let redirects: Vec<_> = self.redirects.keys().copied().collect();
        for (org, role) in redirects {
            if !self.settled.contains(&org) && !self.former_orgs.contains(&org) {
                let key = keys::role_redirect(org, role);
                let expected = "a scheduled task that resolves the role redirects";
                self.differ(NotDue, &key, None, expected, "nothing");
            }
        }
        let (orgs, audit_purge_scheduled) = (
            std::mem::take(&mut self.orgs),
            std::mem::take(&mut self.audit_purge_scheduled),
        );
        for org in orgs.difference(&audit_purge_scheduled) {
            let expected = "a scheduled task that purges the audit log";
            self.differ(NotDue, &keys::org(*org), None, expected, "nothing");
        }
        let (former, cleared) = (
            std::mem::take(&mut self.former),
            std::mem::take(&mut self.cleared),
        );
        for (org, endpoint) in former.difference(&cleared) {
            let key = keys::endpoint(*org, *endpoint);
            let expected = "an endpoint, or a scheduled task that purges its deliveries";
            self.differ(NotDue, &key, None, expected, "nothing");
        }
        let (former, cleared) = (
            std::mem::take(&mut self.former_chats),
            std::mem::take(&mut self.cleared_chats),
        );
        for ((org, chat), key) in former {
            if cleared.contains(&(org, chat)) {
                continue;
            }
            let expected =
                format!("the chat {chat}, or a scheduled task that deletes its messages");
            self.differ(Missing, &key, None, expected, "nothing");
        }
        let (running, continued) = (
            std::mem::take(&mut self.running),
            std::mem::take(&mut self.continued),
        );
        let hiding = std::mem::take(&mut self.hiding);
        for (org, erasure) in running.difference(&hiding) {
            let (key, because) = (keys::org(*org), keys::erasure(*org, *erasure));
            let expected = format!("the scope of the running erasure {erasure}");
            self.differ(Mismatch, &key, Some(&because), expected, "nothing");
        }
        for (org, erasure) in running.difference(&continued) {
            let key = keys::erasure(*org, *erasure);
            let expected = "a scheduled task that continues the erasure";
            self.differ(NotDue, &key, None, expected, "nothing");
        }
        let removing = std::mem::take(&mut self.removing);
        let former = self.former_orgs.iter().copied().map(keys::former_org);
        let removals: Vec<Key> = removing.into_iter().chain(former).collect();
        for key in removals {
            if !self.removals_continued.contains(&key) {
                let expected = "a scheduled task that continues the removal";
                self.differ(NotDue, &key, None, expected, "nothing");
            }
        }
        for (org, missing) in std::mem::take(&mut self.names) {
            if missing != 0 {
                let expected = "a source key for each memory that has one";
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
