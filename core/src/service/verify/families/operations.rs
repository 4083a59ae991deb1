//! The store as a whole, its counters, and what operations leave: audit, replays, what is due.

use serde_json::json;

use super::{Claims, Parts, Problem, present_or_former, value};
use crate::dump::UNFINISHED_SCHEMA;
use crate::model::{AuditLogId, MemberId, OperationId, OrgId};
use crate::service::audit::ENTRY_BITS;
use crate::service::audit_pages::{AuditPage, PAGE_ENTRIES};
use crate::service::idempotency::IdempotencyRecord;
use crate::service::maintain::Due;
use crate::service::verify::claim::Claim;
use crate::service::verify::{DifferenceCode, Verifier};
use crate::service::{Meta, SCHEMA, Schema};
use crate::keys;
use crate::store::{Key, KeyEntry};

/// Where the audit page stands that was read last, and where the next one of its operation would.
pub(in crate::service::verify) struct AuditPlace {
    org: OrgId,
    operation: OperationId,
    next: AuditLogId,
}

pub(super) fn meta(verifier: &mut Verifier, entry: &KeyEntry, _: &Parts<'_>) -> Claims {
    verifier.has_meta = true;
    let Schema { schema } = value(entry)?;
    if schema == UNFINISHED_SCHEMA {
        let (code, expected) = (DifferenceCode::Unfinished, "a whole store");
        return Err(Problem::new(code, expected, "an interrupted restore"));
    }
    if schema > SCHEMA {
        let found = format!("schema {schema}, of a later program");
        return Err(Problem::unreadable(found));
    }
    let stored: Meta = value(entry)?;
    if let Some(sealer) = &verifier.sealer
        && sealer.fingerprint() != stored.sealing_key
    {
        let expected = format!("the sealing key {}", stored.sealing_key);
        let found = format!("the key {} to verify with", sealer.fingerprint());
        return Err(Problem::new(DifferenceCode::Sealed, expected, found));
    }
    Ok(Vec::new())
}

pub(super) fn counter(verifier: &mut Verifier, entry: &KeyEntry, _: &Parts<'_>) -> Claims {
    let count = value(entry)?;
    verifier.counters.insert(entry.key.clone(), count);
    Ok(Vec::new())
}

/// Reads a counter of an organisation that was one for the whole store in schema 1. There, one of an
/// organisation was written by an interrupted upgrade, and will be written again.
pub(super) fn org_counter(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    if verifier.has_global_counters && parts.0.len() > 1 {
        value::<i64>(entry)?;
        return Ok(Vec::new());
    }
    counter(verifier, entry, parts)
}

/// Pages are read in the order of their identifiers: one operation's follow each other without a gap.
pub(super) fn audit(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, first) = (parts.org()?, AuditLogId(parts.last_id()?));
    let page: AuditPage = value(entry)?;
    let entries = page.len();
    let operation = page.operation_id;
    let place = AuditPlace {
        org,
        operation,
        next: first.plus(entries as u128),
    };
    let before = verifier.audit.replace(place);
    let before = before.filter(|before| before.org == org);
    let is_first = first.0.as_u128() << (u128::BITS - ENTRY_BITS) == 0;
    let follows = before
        .as_ref()
        .is_some_and(|before| before.operation == operation && before.next == first);
    if !is_first && !follows {
        let expected = format!("the page before it, of operation {operation}");
        let found = before.map_or_else(
            || "nothing".to_owned(),
            |before| {
                format!(
                    "one of operation {} up to {}",
                    before.operation, before.next
                )
            },
        );
        return Err(Problem::new(DifferenceCode::AuditSequence, expected, found));
    }
    if before.is_some_and(|before| before.next > first) {
        let (expected, found) = ("identifiers of its own", "some of the page before it");
        return Err(Problem::new(DifferenceCode::AuditSequence, expected, found));
    }
    let mut claims = vec![Claim::Exists(keys::org(org))];
    if let Some(actor) = page.actor_id {
        claims.push(present_or_former(org, actor));
        if is_first {
            let by_actor = keys::audit_actor(org, actor, first);
            claims.push(Claim::Exists(by_actor));
        }
    }
    Ok(claims)
}

pub(super) fn audit_actor(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, actor) = (parts.org()?, MemberId(parts.id(2)?));
    // Schema 1 wrote the operation, which the page says too.
    let operation: Option<OperationId> = value(entry)?;
    let page = keys::audit(org, AuditLogId(parts.id(3)?));
    let says = match operation {
        Some(operation) => json!({ "operation_id": operation, "actor_id": actor }),
        None => json!({ "actor_id": actor }),
    };
    Ok(vec![Claim::Says(page, says), present_or_former(org, actor)])
}

pub(super) fn idempotency(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, member) = (parts.org()?, MemberId(parts.id(2)?));
    let record: IdempotencyRecord = value(entry)?;
    // What a replay is rebuilt from.
    let pages = (0..u128::from(record.items)).step_by(PAGE_ENTRIES);
    let says = json!({ "operation_id": record.operation_id });
    let page = |offset| {
        let key = keys::audit(org, record.first_audit_id.plus(offset));
        Claim::Says(key, says.clone())
    };
    let due = Due::record(entry.key.clone());
    let others = [
        present_or_former(org, member),
        Claim::Due(record.expires_at, due),
    ];
    Ok(pages.map(page).chain(others).collect())
}

pub(super) fn due(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    parts.last_id()?;
    match value(entry)? {
        Due::Redirects(org) => {
            verifier.settled.insert(org);
        }
        Due::Audit(org) => {
            verifier.swept.insert(org);
        }
        Due::Expire { records, counter } => {
            let mut keys = records.into_iter().chain(counter);
            if let Some(bad) = keys.find(|key| Key::new(key.clone()).is_err()) {
                return Err(Problem::unreadable(format!("{bad:?} instead of a key")));
            }
        }
        Due::FormerEndpoint { org, endpoint } => {
            verifier.cleared.insert((org, endpoint));
        }
        Due::Connector { .. } | Due::Event { .. } | Due::FormerMember { .. } => {}
    }
    Ok(Vec::new())
}
