//! Audience labels: those in use, those that cover somebody, and whom a change of labels concerns.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Org, Who};
use crate::authorization::Verdict;
use knowledge_core::access::{Action, TokenScope};
use knowledge_core::model::{
    AudienceLabel, AudienceScope, BulkImpact, MemoryChange, MemoryId, MemoryLabels, ReviewStatus,
    WorkspaceId, WorkspaceLabel, WorkspaceLabels,
};

fn label(scope: AudienceScope, name: &str) -> AudienceLabel {
    AudienceLabel::new(scope, name).expect("a label")
}

impl Org {
    /// Returns the organisation without the private workspaces that do not exist for a caller.
    fn known_to(&self, who: &Who) -> Cow<'_, Self> {
        let closed = self.closed_to(who);
        if closed.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut known = self.clone();
        known.workspaces.retain(|id, _| !closed.contains(id));
        Cow::Owned(known)
    }

    /// Returns true if no member is behind a label.
    fn covers_nobody(&self, label: &AudienceLabel) -> bool {
        let name = label.name();
        let (mut members, mut places) = (self.members.values(), self.workspaces.values());
        match label.scope() {
            AudienceScope::Org => name != self.slug,
            AudienceScope::Workspace => !places.any(|place| place.slug == name),
            AudienceScope::Team => {
                !members.any(|member| member.teams.iter().any(|team| team == name))
            }
            AudienceScope::User => !members.any(|member| member.handle == name),
        }
    }

    /// Returns a scope without the workspaces that do not exist for a caller, and without the labels
    /// of workspaces that do not, or that nobody knows.
    pub(crate) fn known_scope(&self, who: &Who, scope: &TokenScope) -> TokenScope {
        let (closed, known) = (self.closed_to(who), self.known_to(who));
        let mut scope = scope.clone();
        if let Some(workspaces) = &mut scope.workspaces {
            workspaces.retain(|id| !closed.contains(id));
        }
        if let Some(labels) = &mut scope.audience {
            let is_place = |label: &AudienceLabel| label.scope() == AudienceScope::Workspace;
            labels.retain(|label| !is_place(label) || !known.covers_nobody(label));
        }
        scope
    }

    /// Returns the label that a change of a caller sets, if it covers nobody.
    pub(crate) fn labels_without_members(
        &self,
        who: &Who,
        change: &MemoryChange,
    ) -> Vec<AudienceLabel> {
        let known = self.known_to(who);
        let set = change.audience_tag.iter();
        set.filter(|label| known.covers_nobody(label))
            .cloned()
            .collect()
    }

    /// Returns whom these changes of labels by a caller would concern.
    pub(crate) fn impact(
        &self,
        by: &Who,
        change: &MemoryChange,
        changed: &[(MemoryId, MemoryLabels, MemoryLabels)],
    ) -> BulkImpact {
        let mut impact = BulkImpact {
            would_change: changed.len() as u32,
            is_complete: true,
            labels_without_members: self.labels_without_members(by, change),
            ..BulkImpact::default()
        };
        let known = self.known_to(by);
        for member in self.members.keys() {
            let who = Who {
                org: self.id,
                member: *member,
                credential: None,
                scope: TokenScope::default(),
                via: None,
                webhook: None,
                request_id: None,
            };
            let rules = known.rules(&who);
            let reads = |id: MemoryId, labels: &MemoryLabels| {
                rules.sight(id, labels) == Verdict::Everything
            };
            let gains = changed
                .iter()
                .any(|(id, before, after)| !reads(*id, before) && reads(*id, after));
            let loses = changed
                .iter()
                .any(|(id, before, after)| reads(*id, before) && !reads(*id, after));
            impact.members_gaining += u32::from(gains);
            impact.members_losing += u32::from(loses);
        }
        impact
    }

    /// Returns the access filter of a workspace for a caller.
    pub(crate) fn access_filter(
        &self,
        who: &Who,
        workspace: WorkspaceId,
        approved_only: bool,
    ) -> Value {
        let rules = self.rules(who);
        let held = rules.actions_in(workspace);
        let member = &self.members[&who.member];
        let mut slugs: Vec<&String> = self.workspaces.values().map(|place| &place.slug).collect();
        slugs.sort_unstable();
        let teams = member.teams.iter();
        let teams = teams.map(|team| label(AudienceScope::Team, team));
        let places = slugs.into_iter();
        let places = places.map(|slug| label(AudienceScope::Workspace, slug));
        let own = [
            label(AudienceScope::Org, &self.slug),
            label(AudienceScope::User, &member.handle),
        ];
        let labels = own.into_iter().chain(teams).chain(places);
        let audiences: Vec<_> = labels.filter(|label| rules.is_covered(label)).collect();
        let mut sensitivities = vec!["public", "internal"];
        for higher in ["confidential", "restricted"] {
            if held.contains(&*format!("memory:read_{higher}")) {
                sensitivities.push(higher);
            }
        }
        let shows_all = held.contains("memory:review") && !approved_only;
        let reviews: &[&str] = if shows_all {
            &["pending", "approved", "rejected"]
        } else {
            &["approved"]
        };
        json!({
            "workspace_id": workspace,
            "audience_tags": audiences,
            "sensitivity_labels": sensitivities,
            "review_statuses": reviews,
            "max_age": 60,
            "format": "plain",
            "filter": null,
        })
    }

    /// Returns the labels of a workspace that a caller sees.
    pub(crate) fn workspace_labels(&self, who: &Who, workspace: WorkspaceId) -> WorkspaceLabels {
        let rules = self.rules(who);
        let has_list = who.scope.audience.is_some();
        let knows_all = rules.holds(Action::MemoryShare, workspace) && !has_list;
        let reviews = rules.holds(Action::MemoryReview, workspace);
        let mut counts: BTreeMap<String, (AudienceLabel, u64)> = BTreeMap::new();
        let mut count = |label: &AudienceLabel, memories: u64| {
            let counted = counts.entry(label.to_string());
            counted.or_insert((label.clone(), 0)).1 += memories;
        };
        for memory in self.memories.values() {
            let labels = &memory.labels;
            let is_seen = reviews || labels.review == ReviewStatus::Approved;
            let is_known = knows_all || rules.is_covered(&labels.audience);
            if labels.workspace_id == workspace && is_seen && is_known {
                count(&labels.audience, 1);
            }
        }
        let member = &self.members[&who.member];
        let teams = member.teams.iter();
        let teams = teams.map(|team| label(AudienceScope::Team, team));
        let own = [
            label(AudienceScope::Org, &self.slug),
            label(AudienceScope::Workspace, &self.workspaces[&workspace].slug),
            label(AudienceScope::User, &member.handle),
        ];
        for label in own.into_iter().chain(teams) {
            if rules.is_covered(&label) {
                count(&label, 0);
            }
        }
        if knows_all || (!has_list && rules.actions().contains(Action::RoleRead.as_str())) {
            for team in self.members.values().flat_map(|member| &member.teams) {
                count(&label(AudienceScope::Team, team), 0);
            }
        }
        let known = self.known_to(who);
        let listed = counts
            .into_values()
            .map(|(label, memories)| WorkspaceLabel {
                has_members: !known.covers_nobody(&label),
                label,
                memories,
            });
        WorkspaceLabels {
            data: listed.collect(),
            is_complete: true,
        }
    }
}
