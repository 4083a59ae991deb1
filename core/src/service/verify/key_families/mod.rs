//! Expectations of entries, by key family.
//!
//! A new family is a line in [`KEY_FAMILIES`] and a function, which reads the entry, counts what is
//! counted and returns the expectations about other entries. A test compares the table with the one
//! in `keys.rs`.

mod deliveries;
mod memories;
mod operations;
mod tenants;
mod workspaces;

use serde::de::DeserializeOwned;
use uuid::Uuid;

pub(super) use self::operations::AuditPosition;
use self::{deliveries as d, memories as m};
use self::{operations as o, tenants as t, workspaces as w};
use super::expectation::Expectation;
use super::{DifferenceCode, Verifier};
use crate::keys;
use crate::model::{MemberId, OrgId, WorkspaceId};
use crate::service::kit::sealing::SealedRecord;
use crate::store::{KeyEntry, decode_value};

/// A problem of an entry by itself.
pub(super) struct Problem {
    pub(super) code: DifferenceCode,
    pub(super) expected: String,
    pub(super) found: String,
}

impl Problem {
    fn new(code: DifferenceCode, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            code,
            expected: expected.into(),
            found: found.into(),
        }
    }

    fn unreadable(found: impl Into<String>) -> Self {
        let expected = "an entry that this program writes";
        Self::new(DifferenceCode::Unreadable, expected, found)
    }
}

type Expectations = Result<Vec<Expectation>, Problem>;
type ReadFamily = fn(&mut Verifier, &KeyEntry, &Parts<'_>) -> Expectations;

/// Key families in alphabetical order, with the number of parts of their keys and their readers.
///
/// The name of the family counts as a part.
const KEY_FAMILIES: &[(&str, usize, ReadFamily)] = &[
    ("audit", 3, o::audit),
    ("audit_actor", 4, o::audit_actor),
    ("chat", 4, w::chat),
    ("chat_message", 4, w::chat_message),
    ("chat_recent", 5, w::chat_recent),
    ("cited_by", 4, m::cited_by),
    ("connector", 4, w::connector),
    ("connector_count", 3, o::counter),
    ("connector_state", 4, w::connector_state),
    ("content", 3, m::content),
    ("credential", 2, t::credential),
    ("credential_id", 3, t::credential_id),
    ("dead_letter", 4, d::dead_letter),
    ("delivery", 4, d::delivery),
    ("delivery_due", 5, d::delivery_due),
    ("delivery_id", 3, d::delivery_id),
    ("disabled_endpoint_count", 2, o::org_counter),
    ("due", 3, o::due),
    ("endpoint", 3, d::endpoint),
    ("endpoint_due", 4, d::endpoint_due),
    ("endpoint_sequence", 3, d::endpoint_sequence),
    ("event", 3, d::event),
    ("expansion", 2, d::expansion),
    ("former_member", 3, t::former_member),
    ("holder", 5, t::holder),
    ("holder_count", 3, o::counter),
    ("idempotency", 5, o::idempotency),
    ("inbound_message", 4, w::inbound_message),
    ("inbound_webhook", 4, w::inbound_webhook),
    ("inbound_webhook_count", 3, o::counter),
    ("inbound_webhook_id", 3, w::inbound_webhook_id),
    ("last_ingest", 3, m::last_ingest),
    ("mcp_key", 4, w::mcp_key),
    ("mcp_key_count", 3, o::counter),
    ("mcp_key_use", 4, w::mcp_key_use),
    ("member", 3, t::member),
    ("member_count", 2, o::counter),
    ("member_handle", 3, t::member_handle),
    ("memory", 3, m::memory),
    ("memory_count", 3, o::counter),
    ("meta", 1, o::meta),
    ("org", 2, t::org),
    ("org_slug", 2, t::org_slug),
    ("outbox", 2, d::outbox),
    ("pending_count", 3, o::counter),
    ("recall", 3, m::recall),
    ("role", 3, t::role),
    ("role_count", 2, o::counter),
    ("role_redirect", 3, t::role_redirect),
    ("role_slug", 3, t::role_slug),
    ("source", 3, m::source),
    ("source_key", 5, m::source_key),
    ("subscription", 4, w::subscription),
    ("subscription_count", 3, o::counter),
    ("subscription_id", 3, w::subscription_id),
    ("undelivered", 3, d::undelivered),
    ("undelivered_count", 2, o::org_counter),
    ("webhook", 4, w::webhook),
    ("webhook_count", 3, o::counter),
    ("workspace", 3, t::workspace),
    ("workspace_memory", 4, m::workspace_memory),
    ("workspace_recall", 4, m::workspace_recall),
    ("workspace_role", 4, t::workspace_role),
    ("workspace_slug", 3, t::workspace_slug),
];

/// Counters that schema 1 kept for the whole store, under keys without further parts.
const GLOBAL_IN_SCHEMA_1: [&str; 2] = ["disabled_endpoint_count", "undelivered_count"];

/// Returns the expectations of an entry, and counts it in the verifier.
pub(super) fn expectations_of(verifier: &mut Verifier, entry: &KeyEntry) -> Expectations {
    let text = std::str::from_utf8(entry.key.as_bytes());
    let text = text.map_err(|_| Problem::unreadable("a key that is not UTF-8"))?;
    let parts = Parts(text.split('/').collect());
    let found = KEY_FAMILIES.binary_search_by(|(family, ..)| (*family).cmp(parts.0[0]));
    let Ok(index) = found else {
        let expected = "a key family that this program knows";
        return Err(Problem::new(
            DifferenceCode::UnknownFamily,
            expected,
            format!("{:?}", parts.0[0]),
        ));
    };
    let (family, count, read) = KEY_FAMILIES[index];
    let is_global = verifier.has_global_counters && GLOBAL_IN_SCHEMA_1.contains(&family);
    if parts.0.len() != count && !(is_global && parts.0.len() == 1) {
        let found = format!("a key of {} parts instead of {count}", parts.0.len());
        return Err(Problem::unreadable(found));
    }
    read(verifier, entry, &parts)
}

/// Parts of a key.
struct Parts<'k>(Vec<&'k str>);

impl<'k> Parts<'k> {
    fn id(&self, index: usize) -> Result<Uuid, Problem> {
        let part = self.0[index];
        let id = part.parse();
        id.map_err(|_| Problem::unreadable(format!("{part:?} instead of an identifier")))
    }

    fn last_id(&self) -> Result<Uuid, Problem> {
        self.id(self.0.len() - 1)
    }

    fn last(&self) -> &'k str {
        self.0[self.0.len() - 1]
    }

    fn org(&self) -> Result<OrgId, Problem> {
        self.id(1).map(OrgId)
    }

    fn workspace(&self) -> Result<WorkspaceId, Problem> {
        self.id(2).map(WorkspaceId)
    }

    /// Checks that the parts at these indices are the identifiers in the value.
    fn agree(&self, said: &[(usize, Uuid)]) -> Result<(), Problem> {
        for (index, said) in said {
            let found = self.id(*index)?;
            if found != *said {
                let code = DifferenceCode::Mismatch;
                let expected = format!("{found}, as in the key");
                return Err(Problem::new(code, expected, said.to_string()));
            }
        }
        Ok(())
    }
}

fn value<T: DeserializeOwned>(entry: &KeyEntry) -> Result<T, Problem> {
    decode_value(entry).map_err(|error| Problem::unreadable(error.to_string()))
}

/// Expects a member or a former one.
///
/// The audit log keeps referring to a removed member, and other records do until they are purged.
fn present_or_former(org: OrgId, member: MemberId) -> Expectation {
    Expectation::EitherExists(keys::member(org, member), keys::former_member(org, member))
}

impl Verifier {
    /// Opens the secrets of a record for its owner, if there is a sealing key.
    ///
    /// The secret before the last rotation is included, because it still signs for a while.
    fn open<T>(&mut self, stored: &SealedRecord<T>, owner: Uuid) -> Result<(), Problem> {
        let (Some(sealer), Some(opened)) = (&self.sealer, &mut self.found.secrets) else {
            return Ok(());
        };
        for secret in stored.secrets() {
            if sealer.open(secret, owner).is_err() {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the documented families, each with the number of parts of its keys.
    fn documented() -> Vec<(String, usize)> {
        let layout = include_str!("../../../keys.rs");
        let rows = layout
            .lines()
            .filter_map(|line| line.strip_prefix("//! | `"));
        let row = |row: &str| {
            let (family, rest) = row.split_once("` |").expect("a family in its quotes");
            let parts = rest.split('|').next().expect("a column of parts").trim();
            let parts = parts.split(',').filter(|part| !part.trim().is_empty());
            (family.to_owned(), 1 + parts.count())
        };
        rows.map(row).collect()
    }

    #[test]
    fn key_families_are_all_verified() {
        let mut documented = documented();
        documented.sort();
        let verified: Vec<_> = KEY_FAMILIES
            .iter()
            .map(|(family, parts, _)| ((*family).to_owned(), *parts))
            .collect();
        assert_eq!(verified, documented);
    }

    #[test]
    fn key_families_in_code_are_all_documented() {
        let layout = include_str!("../../../keys.rs");
        let built = layout.split("Builder::new(\"").skip(1);
        let built = built.map(|rest| rest.split('"').next().unwrap_or_default());
        let macros = layout
            .split("\nfamilies! {\n")
            .nth(1)
            .expect("the macro is used");
        let macros = macros.lines().take_while(|line| *line != "}");
        let macros = macros.map(|line| line.trim().split('(').next().unwrap_or_default());
        let mut seen = 0;
        for family in built.chain(macros) {
            let known = KEY_FAMILIES.iter().any(|(known, ..)| *known == family);
            assert!(known, "{family}");
            seen += 1;
        }
        assert!(seen > KEY_FAMILIES.len() / 2, "{seen}");
    }
}
