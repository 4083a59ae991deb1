//! List of the audience labels of a workspace: those in use, and those that cover somebody.
//!
//! It reads counters, and no memory. A caller that does not see the labels of every memory gets the
//! labels that cover it, so that nothing depends on what is hidden from it.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::{Action, ActionSet};
use crate::error::Error;
use crate::keys;
use crate::limits::WORKSPACE_LABELS_MAX;
use crate::model::{
    AudienceLabel, AudienceScope, OrgId, WorkspaceId, WorkspaceLabel, WorkspaceLabels,
};
use crate::operation::Operation;
use crate::service::access::principal::Principal;
use crate::service::memories::audiences::{people_read, without_members};
use crate::service::operation::{Authorized, Prefetch};
use crate::service::{Caller, Memories};
use crate::store::{Key, KeyRange, RangeRead, Transaction, decode_value};

/// # Audience labels
impl Memories<'_> {
    /// Lists the audience labels of a workspace, each with its number of memories.
    ///
    /// Holders of `memory:share` without a list of audience labels see every label in use; others
    /// see those that cover them. The labels of the organisation, of the workspace, of the member
    /// and of teams with members are listed even if no memory has them; teams of others only for
    /// holders of `memory:share` or `role:read`. Memories that await review or were rejected count
    /// only for holders of `memory:review`.
    ///
    /// # Errors
    /// Those of [`Operation::ListLabels`].
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// let labels = service.memories().labels(&owner, workspace).await?;
    /// let used = labels.data.iter().filter(|label| label.memories > 0);
    /// assert_eq!(used.map(|label| label.memories).sum::<u64>(), 2);
    /// assert!(labels.data.iter().all(|label| label.has_members));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn labels(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
    ) -> Result<WorkspaceLabels, Error> {
        self.service
            .perform(Operation::ListLabels, caller, |caller| async move {
                let org = caller.org();
                let teams = counters_read(keys::team_member_counts(org));
                let prefetch = Prefetch::none()
                    .and_ranges([RangeRead::all(keys::workspace_slugs(org)), teams])
                    .and_ranges(used_reads(org, workspace));
                let next = |transaction: &Transaction| people_reads(transaction, org, workspace);
                let op = caller.in_workspace_then(workspace, prefetch, &next);
                let mut op = op.await?;
                let held = op.held_in(workspace);
                let covering = covering(&mut op).await?;
                let mut list = LabelList {
                    org,
                    workspace,
                    knows_all: held.contains(Action::MemoryShare)
                        && !op.principal.has_audience_list(),
                    labels: BTreeMap::new(),
                    is_complete: true,
                };
                list.add_used(&mut op, held, &covering).await?;
                list.add_reachable(&mut op, covering).await?;
                let listed = list.end(&mut op).await?;
                op.done(listed)
            })
            .await
    }
}

/// Returns the read of counters of labels or teams.
fn counters_read(counters: KeyRange) -> RangeRead {
    RangeRead::first(counters, WORKSPACE_LABELS_MAX + 1)
}

/// Returns the reads of the counters of the labels in use: by all memories, and by approved ones.
fn used_reads(org: OrgId, workspace: WorkspaceId) -> [RangeRead; 2] {
    let all = keys::label_counts(org, workspace);
    let approved = keys::approved_label_counts(org, workspace);
    [counters_read(all), counters_read(approved)]
}

/// Returns the reads that tell which of the labels in use cover anybody, if their counters were
/// prefetched.
///
/// One more read follows if a label names another member, whose handle stays when it is removed.
fn people_reads(transaction: &Transaction, org: OrgId, workspace: WorkspaceId) -> Prefetch {
    let used = used_reads(org, workspace);
    let found = used.iter();
    let found = found.filter_map(|read| transaction.prefetched().scan(read));
    let texts = found.flatten();
    let texts = texts.filter_map(|found| keys::last_text(&found.key));
    let labels = texts.filter_map(|text| text.parse::<AudienceLabel>().ok());
    let people = labels.filter_map(|label| people_read(org, &label));
    let people: BTreeSet<Key> = people.collect();
    Prefetch::keys(people)
}

/// Returns the labels that cover the caller.
pub(super) async fn covering(op: &mut Authorized<'_>) -> Result<Vec<AudienceLabel>, Error> {
    let slugs = RangeRead::all(keys::workspace_slugs(op.org()));
    let mut places: BTreeMap<String, WorkspaceId> = BTreeMap::new();
    for found in op.transaction.scan(&slugs).await? {
        if let Some(slug) = keys::last_text(&found.key) {
            places.insert(slug.to_owned(), decode_value::<WorkspaceId>(&found)?);
        }
    }
    let caller: &Principal = &op.principal;
    let label = |scope: AudienceScope, name: &str| AudienceLabel::new(scope, name).ok();
    let own = [
        label(AudienceScope::Org, &caller.org.slug),
        label(AudienceScope::User, &caller.member.handle),
    ];
    let teams = caller.member.teams.iter();
    let teams = teams.map(|team| label(AudienceScope::Team, team));
    let of_places = places.keys();
    let of_places = of_places.map(|slug| label(AudienceScope::Workspace, slug));
    let labels = own.into_iter().chain(teams).chain(of_places).flatten();
    let covers =
        |label: &AudienceLabel| caller.is_covered_by(label, |slug| places.get(slug).copied());
    Ok(labels.filter(covers).collect())
}

/// List of labels in the making.
struct LabelList {
    org: OrgId,
    workspace: WorkspaceId,
    /// True if the caller sees the labels of every memory.
    knows_all: bool,
    /// Labels by their text, each with its number of memories and true if it is known to cover
    /// somebody.
    labels: BTreeMap<String, (AudienceLabel, u64, bool)>,
    is_complete: bool,
}

impl LabelList {
    fn add(&mut self, label: AudienceLabel, memories: i64, has_members: bool) {
        let (_, count, covers) = self
            .labels
            .entry(label.to_string())
            .or_insert((label, 0, false));
        *count += u64::try_from(memories).unwrap_or(0);
        *covers |= has_members;
    }

    /// Adds the labels that memories have.
    async fn add_used(
        &mut self,
        op: &mut Authorized<'_>,
        held: ActionSet,
        covering: &[AudienceLabel],
    ) -> Result<(), Error> {
        let (org, workspace) = (self.org, self.workspace);
        let reviews = held.contains(Action::MemoryReview);
        if self.knows_all {
            let counters = if reviews {
                keys::label_counts(org, workspace)
            } else {
                keys::approved_label_counts(org, workspace)
            };
            for (text, memories) in self.counters(op, counters).await? {
                if let Ok(label) = text.parse::<AudienceLabel>() {
                    self.add(label, memories, false);
                }
            }
            return Ok(());
        }
        let counters = covering.iter().map(|label| {
            let label = label.to_string();
            if reviews {
                keys::label_count(org, workspace, &label)
            } else {
                keys::approved_label_count(org, workspace, &label)
            }
        });
        let counters: Vec<Key> = counters.collect();
        let counts = op.transaction.get_many::<i64>(&counters).await?;
        for (label, memories) in covering.iter().zip(counts) {
            let memories = memories.unwrap_or(0);
            if memories > 0 {
                self.add(label.clone(), memories, true);
            }
        }
        Ok(())
    }

    /// Adds labels that cover somebody, whether or not memories have them.
    async fn add_reachable(
        &mut self,
        op: &mut Authorized<'_>,
        covering: Vec<AudienceLabel>,
    ) -> Result<(), Error> {
        let here = op.workspace().slug.clone();
        for label in covering {
            let is_elsewhere = label.scope() == AudienceScope::Workspace && label.name() != here;
            if !is_elsewhere || self.labels.contains_key(&label.to_string()) {
                self.add(label, 0, true);
            }
        }
        let caller = &op.principal;
        let reads_members = caller.org_actions().contains(Action::RoleRead);
        if self.knows_all || (reads_members && !caller.has_audience_list()) {
            let teams = keys::team_member_counts(self.org);
            for (team, _) in self.counters(op, teams).await? {
                if let Ok(label) = AudienceLabel::new(AudienceScope::Team, &team) {
                    self.add(label, 0, true);
                }
            }
        }
        Ok(())
    }

    /// Returns the counters of a range that are not 0, by the last part of their keys.
    async fn counters(
        &mut self,
        op: &mut Authorized<'_>,
        range: KeyRange,
    ) -> Result<Vec<(String, i64)>, Error> {
        let mut found = op.transaction.scan(&counters_read(range)).await?;
        self.is_complete &= found.len() <= WORKSPACE_LABELS_MAX;
        found.truncate(WORKSPACE_LABELS_MAX);
        let mut counters = Vec::with_capacity(found.len());
        for found in &found {
            let count = decode_value::<i64>(found)?;
            if let Some(name) = keys::last_text(&found.key).filter(|_| count > 0) {
                counters.push((name.to_owned(), count));
            }
        }
        Ok(counters)
    }

    /// Returns the list, once it is known which other labels cover somebody.
    async fn end(self, op: &mut Authorized<'_>) -> Result<WorkspaceLabels, Error> {
        let unknown = self.labels.values();
        let unknown = unknown.filter(|(_, _, has_members)| !has_members);
        let unknown: Vec<AudienceLabel> = unknown.map(|(label, _, _)| label.clone()).collect();
        let nobody = without_members(&mut op.transaction, &op.principal, &unknown).await?;
        let nobody: BTreeSet<String> = nobody.iter().map(ToString::to_string).collect();
        let labels = self.labels.into_iter();
        let listed = labels.map(|(text, (label, memories, _))| WorkspaceLabel {
            has_members: !nobody.contains(&text),
            label,
            memories,
        });
        Ok(WorkspaceLabels {
            data: listed.collect(),
            is_complete: self.is_complete,
        })
    }
}
