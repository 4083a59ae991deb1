//! People behind audience labels: labels that cover nobody, and whom a change of labels concerns.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::access::{ActionSet, RoleRef};
use crate::error::Error;
use crate::keys;
use crate::model::{
    AudienceLabel, AudienceScope, BulkImpact, Member, MemberId, MemoryId, MemoryLabels, OrgId,
    WorkspaceId,
};
use crate::service::access::monitor::{Monitor, Subject, Visibility};
use crate::service::access::principal::Principal;
use crate::service::access::roles::follow_role;
use crate::service::operation::Authorized;
use crate::store::{Entry, Key, RangeRead, Transaction, decode, decode_value};

/// Maximum number of members that are read at once.
const MEMBERS_AT_ONCE: usize = 500;
/// Number of roles in workspaces that are read at once, at least those of one member.
const ROLES_AT_ONCE: usize = 5_000;
/// Maximum number of members that a dry run considers.
const MEMBERS_CONSIDERED_MAX: usize = 10_000;
/// Maximum number of decisions of a dry run: one for each member and each distinct change.
///
/// A decision is two looks at labels in memory, in the order of a microsecond each, and a member
/// takes a read of its role in each workspace of the changes and in each private one that their
/// labels name. The workspaces are no more than the distinct changes, and each of these names at
/// most two private ones, so that a dry run reads at most three roles for each decision. Most
/// updates change what is alike in one workspace: 10,000 members take 10,000 decisions and reads.
const DECISIONS_MAX: usize = 200_000;

/// Returns the key of the record that tells whether a label covers anybody; the slug of the
/// organisation tells it for a label of an organisation.
pub(crate) fn people_read(org: OrgId, label: &AudienceLabel) -> Option<Key> {
    let name = label.name();
    match label.scope() {
        AudienceScope::Org => None,
        AudienceScope::Workspace => Some(keys::workspace_slug(org, name)),
        AudienceScope::Team => Some(keys::team_member_count(org, name)),
        AudienceScope::User => Some(keys::member_handle(org, name)),
    }
}

/// Returns those of these labels that cover nobody: they name another organisation, a workspace
/// that does not exist for the caller, a team without members, or a handle that no member has.
///
/// The commit checks what was read.
///
/// # Errors
/// Those of the store.
pub(crate) async fn without_members(
    transaction: &mut Transaction,
    caller: &Principal,
    labels: &[AudienceLabel],
) -> Result<Vec<AudienceLabel>, Error> {
    let org = caller.org_id();
    let places = labels.iter().filter_map(|label| people_read(org, label));
    let places: Vec<Key> = places.collect();
    let found = if places.is_empty() {
        Vec::new()
    } else {
        transaction.get_many::<Entry>(&places).await?
    };
    let mut found = places.iter().zip(&found);
    let (mut nobody, mut handles, mut members) = (Vec::new(), Vec::new(), Vec::new());
    for label in labels {
        let covers = if label.scope() == AudienceScope::Org {
            label.name() == caller.org.slug
        } else if let Some((key, Some(entry))) = found.next() {
            match label.scope() {
                AudienceScope::Org => true,
                AudienceScope::Workspace => {
                    let workspace = decode::<WorkspaceId>(key, entry)?.value;
                    caller.knows(workspace) && !caller.org.removing.contains(&workspace)
                }
                AudienceScope::Team => decode::<i64>(key, entry)?.value > 0,
                AudienceScope::User => {
                    let member = decode::<MemberId>(key, entry)?.value;
                    members.push(keys::member(org, member));
                    handles.push(label);
                    true
                }
            }
        } else {
            false
        };
        if !covers {
            nobody.push(label.clone());
        }
    }
    // The handle of a former member stays taken.
    if !members.is_empty() {
        let found = transaction.get_many::<Entry>(&members).await?;
        let former = handles.into_iter().zip(&found);
        let former = former.filter(|(_, member)| member.is_none());
        nobody.extend(former.map(|(label, _)| label.clone()));
    }
    Ok(nobody)
}

/// A memory whose labels a dry run would change.
pub(crate) struct LabelChange {
    pub(crate) id: MemoryId,
    pub(crate) before: MemoryLabels,
    pub(crate) after: MemoryLabels,
}

/// Changes that a dry run would make. Of those with the same labels and the same author it keeps
/// one, because they concern the same members.
struct Preview {
    monitor: Monitor,
    changes: Vec<LabelChange>,
    /// Workspaces of the memories, and the private ones that their labels name.
    workspaces: Vec<WorkspaceId>,
    /// Actions of the roles that were read.
    actions: HashMap<RoleRef, ActionSet>,
}

/// Returns whom these changes would concern, of the members of the organisation.
///
/// It reads the members in the order in which they were added, as many as [`members_considered`]
/// says; the result tells whether these are all. A member counts with all that it may do now, not
/// as one of its credentials restricts it. A private workspace that does not exist for the caller
/// has no people here.
///
/// # Errors
/// Those of the store; [`Error::Conflict`] for a role that is being deleted.
pub(crate) async fn impact(
    op: &mut Authorized<'_>,
    changes: Vec<LabelChange>,
    labels_without_members: Vec<AudienceLabel>,
) -> Result<BulkImpact, Error> {
    let mut impact = BulkImpact {
        would_change: u32::try_from(changes.len()).unwrap_or(u32::MAX),
        members_gaining: 0,
        members_losing: 0,
        is_complete: true,
        labels_without_members,
    };
    if changes.is_empty() {
        return Ok(impact);
    }
    let org = op.org();
    let mut preview = Preview::of(op, changes).await?;
    let at_once = (ROLES_AT_ONCE / preview.workspaces.len()).clamp(1, MEMBERS_AT_ONCE);
    let mut left = members_considered(preview.changes.len());
    let mut rest = Some(keys::members(org));
    while let Some(range) = rest.take() {
        if left == 0 {
            let more = op.transaction.scan(&RangeRead::first(range, 1)).await?;
            impact.is_complete = more.is_empty();
            break;
        }
        let limit = at_once.min(left);
        let read = RangeRead::first(range.clone(), limit);
        let found = op.transaction.scan(&read).await?;
        let last = found.last().filter(|_| found.len() == limit);
        rest = last.map(|last| range.after(&last.key));
        left -= found.len();
        let members = found.iter().map(decode_value);
        let members = members.collect::<Result<Vec<Member>, _>>()?;
        preview
            .count(&mut op.transaction, members, &mut impact)
            .await?;
    }
    Ok(impact)
}

/// Returns the number of members that a dry run considers with this many distinct changes.
fn members_considered(changes: usize) -> usize {
    (DECISIONS_MAX / changes.max(1)).clamp(1, MEMBERS_CONSIDERED_MAX)
}

impl Preview {
    async fn of(op: &mut Authorized<'_>, changes: Vec<LabelChange>) -> Result<Self, Error> {
        let before = changes.iter();
        let before = before.map(|change| Subject::new(change.id, &change.before));
        let before: Vec<Subject<'_>> = before.collect();
        let after = changes.iter();
        let after = after.map(|change| Subject::new(change.id, &change.after));
        let both: Vec<Subject<'_>> = before.iter().copied().chain(after).collect();
        let mut monitor = op.monitor(&both).await?;
        monitor
            .find_authors(&mut op.transaction, &before, false)
            .await?;
        let places = changes.iter().map(|change| change.before.workspace_id);
        let workspaces: BTreeSet<WorkspaceId> = places.chain(monitor.private_named()).collect();
        let mut known: HashSet<(MemoryLabels, Option<MemberId>)> = HashSet::new();
        let mut distinct: Vec<LabelChange> = Vec::new();
        for change in changes {
            if known.insert((change.before.clone(), monitor.author(change.id))) {
                distinct.push(change);
            }
        }
        Ok(Self {
            monitor,
            changes: distinct,
            workspaces: workspaces.into_iter().collect(),
            actions: HashMap::new(),
        })
    }

    /// Counts those of these members that gain or lose sight of a memory.
    async fn count(
        &mut self,
        transaction: &mut Transaction,
        members: Vec<Member>,
        impact: &mut BulkImpact,
    ) -> Result<(), Error> {
        let org = self.monitor.org();
        let places = members.iter().flat_map(|member| {
            let workspaces = self.workspaces.iter();
            workspaces.map(move |workspace| keys::workspace_role(org, member.id, *workspace))
        });
        let places: Vec<Key> = places.collect();
        let found: Vec<Option<RoleRef>> = transaction.unchecked().get_many(&places).await?;
        let own = found.chunks(self.workspaces.len());
        for (member, own) in members.into_iter().zip(own) {
            let mut held = Vec::with_capacity(own.len());
            let places = self.workspaces.iter().zip(own);
            let without_role = places.filter(|(_, role)| role.is_none());
            let without_role = without_role.map(|(workspace, _)| *workspace).collect();
            for (index, role) in own.iter().enumerate() {
                let role = role.unwrap_or(member.role);
                let actions = self.actions_of(transaction, org, role).await?;
                held.push((self.workspaces[index], actions));
            }
            self.monitor.stand_in(member, held, without_role);
            let reads = |id: MemoryId, labels: &MemoryLabels| {
                self.monitor.visibility(id, labels) == Some(Visibility::Everything)
            };
            let (mut gains, mut loses) = (false, false);
            for LabelChange { id, before, after } in &self.changes {
                let (read, will_read) = (reads(*id, before), reads(*id, after));
                gains |= !read && will_read;
                loses |= read && !will_read;
            }
            impact.members_gaining += u32::from(gains);
            impact.members_losing += u32::from(loses);
        }
        Ok(())
    }

    /// Returns the actions of a role, or of the one that replaced it.
    async fn actions_of(
        &mut self,
        transaction: &mut Transaction,
        org: OrgId,
        role: RoleRef,
    ) -> Result<ActionSet, Error> {
        if let Some(known) = self.actions.get(&role) {
            return Ok(*known);
        }
        let followed = follow_role(transaction, org, role).await?;
        let actions = followed.ok_or(Error::Conflict)?.actions();
        self.actions.insert(role, actions);
        Ok(actions)
    }
}
