//! Counters of the audience labels in use, and of the members behind them.
//!
//! The commits that change memories and members keep them. A counter that is 0 counts as absent;
//! maintenance deletes it.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::keys;
use crate::model::{MemoryLabels, OrgId, ReviewStatus};
use crate::service::KnowledgeService;
use crate::store::{Direction, Key, KeyEntry, StoreExt as _, Transaction, decode_value};

/// Maximum number of counters that a step of the clean-up reads.
const COUNTERS_PER_COMMIT: usize = 1_000;

/// Counts memories whose labels change, for the labels before and after; `None` where the memories
/// do not exist.
pub(crate) fn count_labels(
    transaction: &mut Transaction,
    org: OrgId,
    (before, after): (Option<&MemoryLabels>, Option<&MemoryLabels>),
    memories: i64,
) {
    let counted = |labels: &MemoryLabels| (labels.audience.clone(), labels.review);
    if before.map(counted) == after.map(counted) {
        return;
    }
    for (labels, delta) in [(before, -memories), (after, memories)] {
        let Some(labels) = labels else {
            continue;
        };
        let (workspace, label) = (labels.workspace_id, labels.audience.to_string());
        transaction.add(keys::label_count(org, workspace, &label), delta);
        if labels.review == ReviewStatus::Approved {
            transaction.add(keys::approved_label_count(org, workspace, &label), delta);
        }
    }
}

/// Counts the members of teams, for a member whose teams change; it may name a team twice.
pub(crate) fn count_teams(
    transaction: &mut Transaction,
    org: OrgId,
    before: &[String],
    after: &[String],
) {
    let before: BTreeSet<&String> = before.iter().collect();
    let after: BTreeSet<&String> = after.iter().collect();
    for team in after.difference(&before) {
        transaction.add(keys::team_member_count(org, team), 1);
    }
    for team in before.difference(&after) {
        transaction.add(keys::team_member_count(org, team), -1);
    }
}

impl KnowledgeService {
    /// Deletes the counters of an organisation that are 0, of labels and of teams.
    ///
    /// # Errors
    /// Those of the store.
    pub(in crate::service) async fn purge_unused_labels(&self, org: OrgId) -> Result<(), Error> {
        for counters in [
            keys::org_label_counts(org),
            keys::org_approved_label_counts(org),
            keys::team_member_counts(org),
        ] {
            let mut rest = Some(counters);
            while let Some(range) = rest.take() {
                let store = self.store();
                let found = store
                    .scan(&range, COUNTERS_PER_COMMIT, Direction::Forward)
                    .await?;
                let last = found.last().filter(|_| found.len() == COUNTERS_PER_COMMIT);
                rest = last.map(|last| range.after(&last.key));
                let mut unused = Vec::new();
                for counter in found {
                    if decode_value::<i64>(&counter)? == 0 {
                        unused.push(counter);
                    }
                }
                self.delete_unused(&unused).await?;
            }
        }
        Ok(())
    }

    /// Deletes those of these counters that are still 0.
    async fn delete_unused(&self, counters: &[KeyEntry]) -> Result<(), Error> {
        if counters.is_empty() {
            return Ok(());
        }
        self.transact(|mut transaction| async move {
            let keys: Vec<Key> = counters.iter().map(|counter| counter.key.clone()).collect();
            let counts = transaction.get_many::<i64>(&keys).await?;
            for (key, count) in keys.into_iter().zip(counts) {
                if count == Some(0) {
                    transaction.delete(key);
                }
            }
            Ok(transaction.done(()))
        })
        .await
    }
}
