//! Metadata of the store, counters, audit log, idempotency records and scheduled tasks.

use serde_json::json;

use super::parts::value;
use crate::format::UNFINISHED_SCHEMA;
use crate::keys;
use crate::model::{AuditLogId, ErasureId, ErasureStatus, MemberId, OrgId};
use crate::service::audit::entry::ENTRY_BITS;
use crate::service::audit::pages::{AuditPage, PAGE_ENTRIES};
use crate::service::erasures::{ERASURE_OPERATION, StoredErasure};
use crate::service::meta::{Meta, Schema};
use crate::service::operation::idempotency::IdempotencyRecord;
use crate::service::secrets::sealing::{SealedRecord, Sealer};
use crate::service::tasks::ScheduledTask;
use crate::service::verify::difference::DifferenceCode;
use crate::service::verify::expectation::Expectation;
use crate::service::verify::problem::{Expectations, Problem};
use crate::service::verify::verifier::{AuditPosition, Verifier};
use crate::service::{SCHEMA, SealingKeys};
use crate::store::{Key, KeyEntry};

pub(super) fn meta(verifier: &mut Verifier, entry: &KeyEntry, written: Schema) -> Expectations {
    verifier.has_meta = true;
    let Schema { schema } = written;
    if schema == UNFINISHED_SCHEMA {
        let (code, expected) = (DifferenceCode::Unfinished, "a complete store");
        return Err(Problem::new(code, expected, "an interrupted restore"));
    }
    if schema != SCHEMA {
        let found = format!("schema {schema} of another program");
        return Err(Problem::unreadable(found));
    }
    let stored: Meta = value(entry)?;
    let SealingKeys { present, next } = SealingKeys::parse(&stored.sealing_key);
    let given: Vec<_> = verifier.sealers.iter().map(Sealer::fingerprint).collect();
    let mut needed = std::iter::once(present).chain(next);
    if let Some(missing) = needed.find(|key| !given.is_empty() && !given.contains(&&**key)) {
        let expected = format!("the sealing key {missing}");
        let found = format!("the given key {}", given.join(", "));
        return Err(Problem::new(DifferenceCode::Sealed, expected, found));
    }
    Ok(Vec::new())
}

pub(super) fn counter(verifier: &mut Verifier, entry: &KeyEntry, count: i64) -> Expectations {
    verifier.counters.insert(entry.key.clone(), count);
    Ok(Vec::new())
}

/// Reads an audit page. The pages of one operation follow each other without a gap.
pub(super) fn audit(
    verifier: &mut Verifier,
    _: &KeyEntry,
    page: AuditPage,
    org: OrgId,
    first: AuditLogId,
) -> Expectations {
    let entries = page.len();
    let operation = page.operation_id;
    let position = AuditPosition {
        org,
        operation,
        next: first.plus(entries as u128),
    };
    let before = verifier.audit.replace(position);
    let before = before.filter(|before| before.org == org);
    let is_first = first.0.as_u128() << (u128::BITS - ENTRY_BITS) == 0;
    let follows = before
        .as_ref()
        .is_some_and(|before| before.operation == operation && before.next == first);
    if !is_first && !follows {
        let expected = format!("the preceding page of operation {operation}");
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
        let (expected, found) = ("distinct identifiers", "identifiers of the preceding page");
        return Err(Problem::new(DifferenceCode::AuditSequence, expected, found));
    }
    let mut expectations = Vec::new();
    if let Some(actor) = page.actor_id {
        expectations.push(Expectation::present_or_former(org, actor));
        if is_first {
            let by_actor = keys::audit_actor(org, actor, first);
            expectations.push(Expectation::Exists(by_actor));
        }
    }
    Ok(expectations)
}

pub(super) fn audit_actor(
    _: &mut Verifier,
    _: &KeyEntry,
    (): (),
    org: OrgId,
    actor: MemberId,
    first: AuditLogId,
) -> Expectations {
    let page = keys::audit(org, first);
    let says = json!({ "actor_id": actor });
    Ok(vec![
        Expectation::Contains(page, says),
        Expectation::present_or_former(org, actor),
    ])
}

pub(super) fn idempotency(
    _: &mut Verifier,
    entry: &KeyEntry,
    record: IdempotencyRecord,
    org: OrgId,
    member: MemberId,
    operation: &str,
) -> Expectations {
    // The pages from which a replay is rebuilt.
    let pages = (0..u128::from(record.items)).step_by(PAGE_ENTRIES);
    let says = json!({ "operation_id": record.operation_id });
    let page = |offset| {
        let key = keys::audit(org, record.first_audit_id.plus(offset));
        Expectation::Contains(key, says.clone())
    };
    let task = ScheduledTask::record(entry.key.clone());
    let others = [
        Expectation::present_or_former(org, member),
        Expectation::Scheduled(record.expires_at, task),
    ];
    let erasure = ErasureId(record.operation_id.0);
    let erasure = (operation == ERASURE_OPERATION).then(|| keys::erasure(org, erasure));
    let erasure = erasure.map(Expectation::Exists);
    Ok(pages.map(page).chain(others).chain(erasure).collect())
}

pub(super) fn erasure(
    verifier: &mut Verifier,
    _: &KeyEntry,
    erasure: StoredErasure,
    org: OrgId,
) -> Expectations {
    let (receipt, is_running) = (&erasure.receipt, erasure.work.is_some());
    let chat = erasure.work.as_ref().and_then(|work| work.chat);
    verifier.cleared_chats.extend(chat.map(|chat| (org, chat)));
    if is_running {
        verifier.running.insert((org, receipt.id));
    }
    if is_running != (receipt.status == ErasureStatus::Running) {
        let expected = "a status that agrees with the progress";
        let (code, found) = (DifferenceCode::Mismatch, receipt.status.to_string());
        return Err(Problem::new(code, expected, found));
    }
    Ok(vec![Expectation::present_or_former(
        org,
        receipt.created_by,
    )])
}

pub(super) fn erasure_key(
    verifier: &mut Verifier,
    _: &KeyEntry,
    stored: SealedRecord<()>,
    org: OrgId,
) -> Expectations {
    verifier.open(&stored, org.0)?;
    Ok(Vec::new())
}

pub(super) fn due(verifier: &mut Verifier, _: &KeyEntry, task: ScheduledTask) -> Expectations {
    match task {
        ScheduledTask::Redirects(org) => {
            verifier.settled.insert(org);
        }
        ScheduledTask::Audit(org) => {
            verifier.audit_purge_scheduled.insert(org);
        }
        ScheduledTask::Expire { records, counter } => {
            let mut keys = records.into_iter().chain(counter);
            if let Some(bad) = keys.find(|key| Key::new(key).is_err()) {
                return Err(Problem::unreadable(format!("{bad:?} instead of a key")));
            }
        }
        ScheduledTask::FormerEndpoint { org, endpoint } => {
            verifier.cleared.insert((org, endpoint));
        }
        ScheduledTask::FormerChat { org, chat } => {
            verifier.cleared_chats.insert((org, chat));
        }
        ScheduledTask::Erasure { org, erasure } => {
            verifier.continued.insert((org, erasure));
        }
        ScheduledTask::FormerWorkspace { org, workspace, .. } => {
            let removed = keys::workspace(org, workspace);
            verifier.removals_continued.insert(removed);
        }
        ScheduledTask::FormerOrg { org, .. } => {
            verifier.removals_continued.insert(keys::former_org(org));
        }
        ScheduledTask::Connector { .. }
        | ScheduledTask::Event { .. }
        | ScheduledTask::Retention { .. }
        | ScheduledTask::FormerMember { .. } => {}
    }
    Ok(Vec::new())
}
