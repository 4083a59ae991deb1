//! Activity of a workspace: what happened to its memories, by day.
//!
//! The commits that change memories count it. Days are those of UTC, so that every caller reads the
//! same ones.

use std::time::Duration;

use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::{ACTIVITY_DAYS_DEFAULT, ACTIVITY_DAYS_MAX};
use crate::model::{Activity, ActivityDay, ActivityKind, OrgId, Timestamp, WorkspaceId};
use crate::operation::Operation;
use crate::request::Problems;
use crate::service::operation::Prefetch;
use crate::service::quota::day_of;
use crate::service::{Caller, KnowledgeService, Workspaces};
use crate::store::{Direction, Key, KeyRange, RangeRead, StoreExt, decode_value};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of counters of past days that one commit deletes.
const PURGED_COUNTERS_MAX: usize = 1_000;

/// The last days of a workspace's activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bon::Builder)]
#[non_exhaustive]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ActivityDays {
    /// Number of days with today: 1 to 400, by default 28.
    #[cfg_attr(feature = "openapi", schemars(extend("minimum" = 1, "maximum" = 400)))]
    pub days: Option<u64>,
}

impl ActivityDays {
    /// Reports the problems of the request.
    pub(crate) fn check(self, problems: &mut Problems) {
        if self
            .days
            .is_some_and(|days| !(1..=ACTIVITY_DAYS_MAX).contains(&days))
        {
            let message = format!("must be a number from 1 to {ACTIVITY_DAYS_MAX}");
            problems.push("days", ProblemCode::InvalidValue, message);
        }
    }

    /// Returns the beginning of each day, the oldest first.
    fn beginnings(self, now: Timestamp) -> Vec<Timestamp> {
        let days = self.days.unwrap_or(ACTIVITY_DAYS_DEFAULT);
        let today = day_of(now);
        let ago = (0..days).rev();
        ago.map(|days| today.minus(Duration::from_secs(days * DAY.as_secs())))
            .collect()
    }
}

/// Returns the range of the counters of these days.
fn counters_since(org: OrgId, workspace: WorkspaceId, first: Timestamp) -> KeyRange {
    let all = keys::activities(org, workspace);
    KeyRange {
        start: keys::activity_day(org, workspace, first),
        ..all
    }
}

/// # Activity
impl Workspaces<'_> {
    /// Returns what happened to the memories of a workspace on its last days.
    ///
    /// A day is absent from the counts once it is older than
    /// [`Limits::activity_retention`](crate::limits::Limits::activity_retention).
    ///
    /// # Errors
    /// Those of [`Operation::GetActivity`]; [`Error::InvalidRequest`] for no days or too many.
    pub async fn get_activity(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        days: &ActivityDays,
    ) -> Result<Activity, Error> {
        let mut problems = Problems::default();
        days.check(&mut problems);
        problems.into_result()?;
        self.service
            .perform(Operation::GetActivity, caller, |caller| async move {
                let (org, now) = (caller.org(), caller.now);
                let beginnings = days.beginnings(now);
                let first = beginnings.first().copied().unwrap_or(now);
                let kinds = ActivityKind::ALL.len();
                let read = RangeRead {
                    range: counters_since(org, workspace, first),
                    limit: (beginnings.len() + 1) * kinds,
                    direction: Direction::Forward,
                };
                let prefetch = Prefetch::none().and_range(read.clone());
                let mut op = caller.in_workspace(workspace, prefetch).await?;
                let kept = self.service.activity_kept(now);
                let mut activity: Vec<ActivityDay> =
                    beginnings.into_iter().map(ActivityDay::empty).collect();
                for found in op.transaction.scan(&read).await? {
                    let Some((day, kind)) = keys::parse_activity(&found.key) else {
                        return Err(Error::internal(format!("{} is no day", found.key)));
                    };
                    let counted = activity.iter_mut().find(|counted| counted.begins_at == day);
                    if let Some(counted) = counted.filter(|_| day >= kept) {
                        counted.add(kind, decode_value::<i64>(&found)?);
                    }
                }
                op.done(Activity { days: activity })
            })
            .await
    }
}

impl KnowledgeService {
    /// Returns the first day of which the activity is kept.
    fn activity_kept(&self, now: Timestamp) -> Timestamp {
        day_of(now.minus(self.limits().activity_retention))
    }

    /// Deletes the counters of the days of an organisation that are no longer kept.
    ///
    /// The daily purge of the audit log calls it. It reads the first counters of each workspace.
    ///
    /// # Errors
    /// Those of the store.
    pub(in crate::service) async fn purge_activity(
        &self,
        org: OrgId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let kept = self.activity_kept(now);
        for workspace in self.store().scan_all(&keys::workspaces(org)).await? {
            let workspace = WorkspaceId(keys::last_id(&workspace.key).unwrap_or_default());
            let past = keys::activities(org, workspace);
            let past = past.before(&keys::activity_day(org, workspace, kept));
            let past = self
                .store()
                .scan(&past, PURGED_COUNTERS_MAX, Direction::Forward)
                .await?;
            if past.is_empty() {
                continue;
            }
            let past: Vec<Key> = past.into_iter().map(|found| found.key).collect();
            let past = &past;
            self.transact(|mut transaction| async move {
                past.iter().for_each(|key| transaction.delete(key.clone()));
                Ok(transaction.done(()))
            })
            .await?;
        }
        Ok(())
    }
}
