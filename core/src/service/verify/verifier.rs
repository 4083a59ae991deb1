//! Data collected while a store is read.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use uuid::Uuid;

use super::difference::{Difference, DifferenceCode};
use super::expectation::Expectation;
use super::problem::Problem;
use super::verification::{DIFFERENCES_KEPT_MAX, Verification};
use crate::access::RoleRef;
use crate::keys;
use crate::model::{
    AuditLogId, ChatId, EndpointId, ErasureId, OperationId, OrgId, Organization, RoleId,
    WorkspaceId,
};
use crate::service::secrets::sealing::{SealedRecord, Sealer};
use crate::store::{Key, Store, StoreError, StoreExt, decode_value};

/// Data collected while the store is read.
pub(super) struct Verifier {
    pub(super) sealers: Vec<Sealer>,
    roles: BTreeSet<(OrgId, RoleId)>,
    redirects: BTreeMap<(OrgId, RoleId), RoleRef>,
    /// Organisations that have a scheduled task for their role redirects.
    pub(super) settled: BTreeSet<OrgId>,
    /// All organisations, and those whose audit log has a scheduled purge.
    pub(super) orgs: BTreeSet<OrgId>,
    pub(super) audit_purge_scheduled: BTreeSet<OrgId>,
    /// Number of memories with a source key, minus the number of source keys, by organisation.
    pub(super) names: BTreeMap<OrgId, i64>,
    /// Chats, whose messages do not name their workspace.
    pub(super) chats: HashSet<(OrgId, ChatId)>,
    /// Deleted endpoints that have deliveries, and those whose deliveries have a scheduled purge.
    pub(super) former: BTreeSet<(OrgId, EndpointId)>,
    pub(super) cleared: BTreeSet<(OrgId, EndpointId)>,
    /// Chats that have messages, but no record, each with the key of a message.
    pub(super) former_chats: BTreeMap<(OrgId, ChatId), Key>,
    /// Chats whose messages a scheduled task deletes.
    pub(super) cleared_chats: BTreeSet<(OrgId, ChatId)>,
    /// Erasures that are running.
    pub(super) running: BTreeSet<(OrgId, ErasureId)>,
    /// Erasures that the records of their organisations name, so that they hide their scopes.
    pub(super) hiding: BTreeSet<(OrgId, ErasureId)>,
    /// Erasures that a scheduled task continues.
    pub(super) continued: BTreeSet<(OrgId, ErasureId)>,
    /// Organisations that are being removed: what is left of them implies nothing.
    former_orgs: BTreeSet<OrgId>,
    /// Keys of the workspaces that are being removed, and of all removed ones.
    removing: BTreeSet<Key>,
    former_workspaces: BTreeSet<Key>,
    /// Workspaces that the records of their organisations name as private.
    private: BTreeSet<(OrgId, WorkspaceId)>,
    /// Keys of those removed workspaces, and records of organisations, that a scheduled task clears.
    pub(super) removals_continued: BTreeSet<Key>,
    /// Audit page that was read last.
    pub(super) audit: Option<AuditPosition>,
    pub(super) has_meta: bool,
    counted: BTreeMap<Key, i64>,
    pub(super) counters: BTreeMap<Key, i64>,
    pub(super) verification: Verification,
}

impl Verifier {
    /// Reads what the entries of other families are compared with.
    pub(super) async fn begin(store: &dyn Store, sealers: Vec<Sealer>) -> Result<Self, StoreError> {
        let role_of = |key: &Key| {
            let org = OrgId(keys::second_last_id(key)?);
            Some((org, RoleId(keys::last_id(key)?)))
        };
        let roles = store.scan_all(&keys::all_roles()).await?;
        let roles = roles
            .iter()
            .filter_map(|found| role_of(&found.key))
            .collect();
        let mut redirects = BTreeMap::new();
        for found in store.scan_all(&keys::all_role_redirects()).await? {
            if let (Some(role), Ok(target)) = (role_of(&found.key), decode_value(&found)) {
                redirects.insert(role, target);
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
        let (mut removing, mut private) = (BTreeSet::new(), BTreeSet::new());
        // An unreadable one is a difference of its own.
        for found in store.scan_all(&keys::orgs()).await? {
            if let Ok(org) = decode_value::<Organization>(&found) {
                let workspaces = org.removing.iter();
                removing.extend(workspaces.map(|id| keys::workspace(org.id, *id)));
                private.extend(org.private.iter().map(|id| (org.id, *id)));
            }
        }
        let verification = Verification {
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
            private,
            removals_continued: BTreeSet::new(),
            audit: None,
            has_meta: false,
            counted: BTreeMap::new(),
            counters: BTreeMap::new(),
            verification,
        })
    }

    /// Returns true if the record of the organisation names the workspace as private.
    pub(super) fn is_private(&self, org: OrgId, workspace: WorkspaceId) -> bool {
        self.private.contains(&(org, workspace))
    }

    /// Returns true for a key of an organisation that is being removed.
    pub(super) fn is_of_former_org(&self, key: &Key) -> bool {
        !self.former_orgs.is_empty()
            && keys::org_of(key).is_some_and(|org| self.former_orgs.contains(&org))
            && keys::family_name(&key.to_string()) != "former_org"
    }

    /// Returns true for an expectation of something that is being removed.
    pub(super) fn is_removed(&self, expectation: &Expectation) -> bool {
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
    pub(super) fn is_former(&self, org: OrgId, workspace: WorkspaceId) -> bool {
        let removed = keys::workspace(org, workspace);
        self.former_workspaces.contains(&removed)
    }

    /// Adds to the recount of a counter.
    pub(super) fn count(&mut self, counter: Key, by: i64) {
        *self.counted.entry(counter).or_default() += by;
    }

    /// Adds a difference to the result.
    pub(super) fn differ(
        &mut self,
        code: DifferenceCode,
        key: &Key,
        because: Option<&Key>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.verification.differences_total += 1;
        if self.verification.differences.len() < DIFFERENCES_KEPT_MAX {
            self.verification.differences.push(Difference {
                code,
                key: key.clone(),
                because: because.cloned(),
                expected: expected.into(),
                found: found.into(),
            });
        }
    }

    /// Resolves a reference to the current role, if it leads to one.
    pub(super) fn resolve(&self, org: OrgId, mut role: RoleRef) -> Option<RoleRef> {
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

    /// Opens the secrets of a record for its owner, if there are sealing keys.
    ///
    /// The secret before the last rotation is included, because it still signs for a while.
    pub(super) fn open<T>(&mut self, stored: &SealedRecord<T>, owner: Uuid) -> Result<(), Problem> {
        let Some(opened) = &mut self.verification.secrets else {
            return Ok(());
        };
        for secret in stored.secrets() {
            if !self
                .sealers
                .iter()
                .any(|sealer| sealer.open(secret, owner).is_ok())
            {
                let (code, expected) = (
                    DifferenceCode::Sealed,
                    "a secret that the sealing key opens",
                );
                return Err(Problem::new(
                    code,
                    expected,
                    "a secret that it does not open",
                ));
            }
            *opened += 1;
        }
        Ok(())
    }

    /// Compares the recount with the counters, adds the tasks that should be scheduled and are not,
    /// and returns the result.
    pub(super) fn finish(mut self) -> Verification {
        self.check_meta();
        self.check_role_redirects();
        self.check_audit_purges();
        self.check_former_endpoints();
        self.check_former_chats();
        self.check_erasures();
        self.check_removals();
        self.check_source_keys();
        self.check_counters();
        self.verification
    }

    fn check_meta(&mut self) {
        if !self.has_meta && self.verification.entries > 0 {
            let code = DifferenceCode::Missing;
            self.differ(code, &keys::meta(), None, "an entry", "nothing");
        }
    }

    fn check_role_redirects(&mut self) {
        for (org, role) in std::mem::take(&mut self.redirects).into_keys() {
            if !self.settled.contains(&org) && !self.former_orgs.contains(&org) {
                let expected = "a scheduled task that resolves the role redirects";
                self.not_scheduled(&keys::role_redirect(org, role), expected);
            }
        }
    }

    fn check_audit_purges(&mut self) {
        let orgs = std::mem::take(&mut self.orgs);
        let scheduled = std::mem::take(&mut self.audit_purge_scheduled);
        for org in orgs.difference(&scheduled) {
            let expected = "a scheduled task that purges the audit log";
            self.not_scheduled(&keys::org(*org), expected);
        }
    }

    fn check_former_endpoints(&mut self) {
        let former = std::mem::take(&mut self.former);
        let cleared = std::mem::take(&mut self.cleared);
        for (org, endpoint) in former.difference(&cleared) {
            let expected = "an endpoint, or a scheduled task that purges its deliveries";
            self.not_scheduled(&keys::endpoint(*org, *endpoint), expected);
        }
    }

    fn check_former_chats(&mut self) {
        for ((org, chat), message) in std::mem::take(&mut self.former_chats) {
            if !self.cleared_chats.contains(&(org, chat)) {
                let expected =
                    format!("the chat {chat}, or a scheduled task that deletes its messages");
                let code = DifferenceCode::Missing;
                self.differ(code, &message, None, expected, "nothing");
            }
        }
    }

    fn check_erasures(&mut self) {
        let running = std::mem::take(&mut self.running);
        let hiding = std::mem::take(&mut self.hiding);
        for (org, erasure) in running.difference(&hiding) {
            let (key, because) = (keys::org(*org), keys::erasure(*org, *erasure));
            let expected = format!("the scope of the running erasure {erasure}");
            let code = DifferenceCode::Mismatch;
            self.differ(code, &key, Some(&because), expected, "nothing");
        }
        let continued = std::mem::take(&mut self.continued);
        for (org, erasure) in running.difference(&continued) {
            let expected = "a scheduled task that continues the erasure";
            self.not_scheduled(&keys::erasure(*org, *erasure), expected);
        }
    }

    fn check_removals(&mut self) {
        let workspaces = std::mem::take(&mut self.removing).into_iter();
        let orgs = std::mem::take(&mut self.former_orgs).into_iter();
        for removed in workspaces.chain(orgs.map(keys::former_org)) {
            if !self.removals_continued.contains(&removed) {
                let expected = "a scheduled task that continues the removal";
                self.not_scheduled(&removed, expected);
            }
        }
    }

    fn check_source_keys(&mut self) {
        for (org, missing) in std::mem::take(&mut self.names) {
            if missing != 0 {
                let expected = "a source key for each memory that has one";
                let found = format!("{missing} fewer");
                self.differ(
                    DifferenceCode::Count,
                    &keys::org(org),
                    None,
                    expected,
                    found,
                );
            }
        }
    }

    fn check_counters(&mut self) {
        let counted = std::mem::take(&mut self.counted);
        let counters = std::mem::take(&mut self.counters);
        let all: BTreeSet<&Key> = counted.keys().chain(counters.keys()).collect();
        for key in all {
            let count = |of: &BTreeMap<Key, i64>| of.get(key).copied().unwrap_or(0);
            let (expected, found) = (count(&counted), count(&counters));
            if expected != found {
                let (expected, found) = (expected.to_string(), found.to_string());
                self.differ(DifferenceCode::Count, key, None, expected, found);
            }
        }
    }

    /// Adds the difference that no task is scheduled for an entry.
    fn not_scheduled(&mut self, key: &Key, expected: &str) {
        self.differ(DifferenceCode::NotDue, key, None, expected, "nothing");
    }
}

/// Position of the audit page read last, and of the next page of its operation.
pub(super) struct AuditPosition {
    pub(super) org: OrgId,
    pub(super) operation: OperationId,
    pub(super) next: AuditLogId,
}
