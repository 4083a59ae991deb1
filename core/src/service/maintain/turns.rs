//! Turns of the organisations whose tasks are due.
//!
//! The index of the tasks is ordered by time alone. A call looks at more of them than it runs, and
//! runs the first of each organisation, then the second ones, and so on. If more are due than it
//! looks at, one organisation has at most its share, and the next call looks at those behind. So a
//! backlog of one organisation, whatever its length, delays the tasks of others by turns only.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::keys;
use crate::model::{OrgId, Timestamp};
use crate::service::KnowledgeService;
use crate::service::tasks::ScheduledTask;
use crate::store::{Direction, Key, KeyEntry, StoreExt, decode_value};

/// Maximum number of tasks that one call runs, which bounds its work.
const TASKS_PER_CALL: usize = 500;
/// Number of tasks that one scan reads.
const TASKS_PER_SCAN: usize = 500;
/// Maximum number of scans of one call.
const SCANS_PER_CALL: usize = 16;
/// Maximum number of tasks of one organisation that a call runs while more are due than it looks at.
const SHARE_OF_ORGANIZATION: usize = 100;

/// Tasks of one call, in the order in which they are run.
pub(super) struct DueTasks {
    pub(super) tasks: Vec<KeyEntry>,
    /// Due time of the oldest task in the store.
    pub(super) oldest: Option<Timestamp>,
    /// Last task that the call looked at, if more follow.
    last: Option<Key>,
    /// True if the call looked at tasks that it does not run, or not at the oldest.
    has_others: bool,
}

impl KnowledgeService {
    /// Returns the tasks whose turn it is.
    pub(super) async fn next_tasks(&self, now: Timestamp) -> Result<DueTasks, Error> {
        let progress = self.inner.task_turns.get();
        let all = keys::due_until(now);
        let (store, mut oldest) = (self.store(), None);
        let mut rest = match &progress.after {
            Some(after) => {
                let first = store.scan(&all, 1, Direction::Forward).await?;
                oldest = first.first().and_then(|found| keys::due_at(&found.key));
                all.after(after)
            }
            None => all,
        };
        let (mut found, mut last) = (Vec::new(), None);
        for _ in 0..SCANS_PER_CALL {
            let page = store
                .scan(&rest, TASKS_PER_SCAN, Direction::Forward)
                .await?;
            last = page.last().map(|last| last.key.clone());
            last = last.filter(|_| page.len() == TASKS_PER_SCAN);
            found.extend(page);
            let Some(last) = &last else {
                break;
            };
            rest = rest.after(last);
        }
        let first = found.first().and_then(|found| keys::due_at(&found.key));
        let count = found.len();
        let share = if last.is_some() {
            SHARE_OF_ORGANIZATION
        } else {
            TASKS_PER_CALL
        };
        let (tasks, served) = interleaved(found, share, progress.served);
        self.inner.task_turns.set_served(served);
        Ok(DueTasks {
            has_others: tasks.len() < count || progress.after.is_some(),
            tasks,
            oldest: oldest.or(first),
            last,
        })
    }

    /// Notes that a call has run its tasks, and returns true if there is more to do now.
    ///
    /// Tasks that cannot be run stay, so that there is nothing to do once no other was completed.
    pub(super) fn end_turn(&self, due: DueTasks, completed: usize) -> bool {
        let mut progress = self.inner.task_turns.lock();
        progress.has_completed |= completed > 0;
        progress.after = due.last;
        if progress.after.is_some() {
            return true;
        }
        std::mem::take(&mut progress.has_completed) && due.has_others
    }
}

/// Returns the first task of each organisation, beginning after the one that was served last, then
/// the second ones, and so on, with the organisation of the last of them.
fn interleaved(
    found: Vec<KeyEntry>,
    share: usize,
    served: Option<OrgId>,
) -> (Vec<KeyEntry>, Option<OrgId>) {
    let mut queues: BTreeMap<Option<OrgId>, Vec<KeyEntry>> = BTreeMap::new();
    for found in found {
        let task = decode_value::<ScheduledTask>(&found).ok();
        let org = task.and_then(|task| task.org());
        queues.entry(org).or_default().push(found);
    }
    let later = match served {
        Some(served) => queues.split_off(&Some(served)),
        None => BTreeMap::new(),
    };
    // The organisation that was served last comes last.
    let mut order: Vec<_> = later.into_iter().chain(queues).collect();
    if order.first().is_some_and(|(org, _)| *org == served) {
        order.rotate_left(1);
    }
    let (mut tasks, mut last) = (Vec::new(), served);
    let mut queues: Vec<_> = order
        .into_iter()
        .map(|(org, queue)| (org, queue.into_iter().take(share)))
        .collect();
    while tasks.len() < TASKS_PER_CALL && !queues.is_empty() {
        queues.retain_mut(|(org, queue)| {
            let next = queue.next().filter(|_| tasks.len() < TASKS_PER_CALL);
            let is_left = next.is_some();
            if let Some(next) = next {
                tasks.push(next);
                last = *org;
            }
            is_left
        });
    }
    (tasks, last)
}
