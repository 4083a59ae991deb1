//! Steps of the removal of an organisation.

use crate::error::Error;
use crate::keys;
use crate::model::{EndpointId, EventId, OrgId, Timestamp};
use crate::service::KnowledgeService;
use crate::service::deliveries::EndpointState;
use crate::service::tasks::ScheduledTask;
use crate::store::{Direction, Key, KeyEntry, RangeRead, StoreExt, Transaction, decode_value};

/// Number of entries that a step deletes, with those that go with each.
const ENTRIES_PER_STEP: usize = 500;

impl KnowledgeService {
    /// Takes a step of the removal of an organisation, and returns the next.
    ///
    /// First everything stored under the organisation is deleted, then its scheduled tasks, then the
    /// record of the removal. A commit that adds something checks an entry of the organisation, so
    /// nothing is added once none is left.
    pub(in crate::service) async fn clear_former_org(
        &self,
        org: OrgId,
        after: Option<String>,
    ) -> Result<Option<ScheduledTask>, Error> {
        if let Some(after) = after {
            return self.clear_tasks_of(org, after).await;
        }
        self.transact(|mut transaction| async move {
            let mark = keys::former_org(org);
            if transaction.get::<Timestamp>(&mark).await?.is_none() {
                return Ok(transaction.done(None));
            }
            // What there is at one point in time.
            let ranges = keys::everything_of(org, None);
            let firsts = ranges.into_iter().map(|range| RangeRead::first(range, 1));
            let firsts: Vec<RangeRead> = firsts.collect();
            transaction.prefetch(Vec::new(), firsts.clone()).await?;
            let (mut room, mut is_empty) = (ENTRIES_PER_STEP, true);
            for first in &firsts {
                let found = transaction.scan(first).await?;
                is_empty &= found.is_empty();
                if found.is_empty() || room == 0 {
                    continue;
                }
                let store = transaction.unchecked().store();
                let found = store.scan(&first.range, room, Direction::Forward).await?;
                room -= found.len();
                for found in &found {
                    forget(&mut transaction, org, found);
                }
            }
            let key = is_empty.then(|| "due".to_owned());
            Ok(transaction.done(Some(ScheduledTask::FormerOrg { org, key })))
        })
        .await
    }

    /// Deletes the scheduled tasks of an organisation among the next ones.
    async fn clear_tasks_of(
        &self,
        org: OrgId,
        after: String,
    ) -> Result<Option<ScheduledTask>, Error> {
        let after = Key::new(after).map_err(|error| Error::internal(error.to_string()))?;
        let rest = &keys::all_of("due").after(&after);
        let step = self.transact(|mut transaction| async move {
            let mark = keys::former_org(org);
            if transaction.get::<Timestamp>(&mark).await?.is_none() {
                return Ok(transaction.done((None, false)));
            }
            let store = transaction.unchecked().store();
            let page = store
                .scan(rest, ENTRIES_PER_STEP, Direction::Forward)
                .await?;
            for found in &page {
                // An unreadable one is kept for repair.
                let task = decode_value::<ScheduledTask>(found).ok();
                let is_own = matches!(task, Some(ScheduledTask::FormerOrg { .. }));
                if !is_own && task.and_then(|task| task.org()) == Some(org) {
                    transaction.check(found.key.clone(), Some(found.entry.version));
                    transaction.delete(found.key.clone());
                }
            }
            let last = page.last().filter(|_| page.len() == ENTRIES_PER_STEP);
            let Some(last) = last else {
                transaction.delete(mark);
                return Ok(transaction.done((None, true)));
            };
            let key = Some(last.key.to_string());
            Ok(transaction.done((Some(ScheduledTask::FormerOrg { org, key }), false)))
        });
        let (rest, is_complete) = step.await?;
        if is_complete {
            tracing::info!(%org, "removal of an organisation is complete");
        }
        Ok(rest)
    }
}

/// Deletes an entry of a removed organisation, with the entries that are found through it only.
fn forget(transaction: &mut Transaction, org: OrgId, found: &KeyEntry) {
    let key = &found.key;
    transaction.check(key.clone(), Some(found.entry.version));
    transaction.delete(key.clone());
    let Some(last) = keys::last_id(key) else {
        return;
    };
    match keys::family_name(&key.to_string()) {
        "credential_id" => {
            let hash = decode_value::<String>(found).ok();
            if let Some(hash) = hash.and_then(|hash| hash.parse().ok()) {
                transaction.delete(keys::credential(hash));
            }
        }
        "outbox_queue" => {
            transaction.delete(keys::outbox(EventId(last)));
            transaction.delete(keys::fan_out(EventId(last)));
        }
        "endpoint" => {
            let state = decode_value::<EndpointState>(found).ok();
            if let Some(due) = state.and_then(|state| state.due) {
                transaction.delete(keys::endpoint_due(due, org, EndpointId(last)));
            }
        }
        "delivery" => {
            if let Some(endpoint) = keys::second_last_id(key) {
                let endpoint = EndpointId(endpoint);
                transaction.delete(keys::undelivered(EventId(last), endpoint));
            }
        }
        _ => {}
    }
}
