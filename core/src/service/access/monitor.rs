//! Reference monitor of memories: the one place that decides who sees and changes which memory.
//!
//! Every read, citation, change and deletion of a memory asks [`Monitor::decide`]. A memory exists
//! for a caller if its credential works in the workspace, the audience label covers the caller or
//! the caller holds `memory:share`, and the review is over or does not concern the caller. For
//! nobody exists what a running erasure takes away. Whatever does not exist for a caller answers as
//! if it did not exist at all.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::access::{Action, ActionSet, TokenScope};
use crate::error::Error;
use crate::keys;
use crate::model::{
    AudienceScope, Member, MemberId, MemoryChange, MemoryContent, MemoryId, MemoryLabels, OrgId,
    ReviewStatus, WorkspaceId,
};
use crate::service::access::principal::{Denial, Principal};
use crate::service::audit::entry::AuditOutcome;
use crate::store::{Entry, Key, RangeRead, Transaction, decode};

/// Part of a memory that a caller may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Visibility {
    /// Labels without the content.
    Labels,
    /// Labels and content.
    Everything,
}

/// A memory that a decision is about.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'l> {
    pub(crate) id: MemoryId,
    /// Present labels.
    pub(crate) labels: &'l MemoryLabels,
    /// Content, which names the member that added it; `None` if it has not been read.
    pub(crate) content: Option<&'l MemoryContent>,
}

impl<'l> Subject<'l> {
    /// Creates the subject of a memory whose content has not been read.
    pub(crate) fn new(id: MemoryId, labels: &'l MemoryLabels) -> Self {
        Self {
            id,
            labels,
            content: None,
        }
    }
}

/// Use of a memory that a caller asks for.
#[derive(Clone, Copy)]
pub(crate) enum Use<'c> {
    /// To see its labels, and its content if that is permitted.
    Read,
    /// To cite it in a recall.
    Cite,
    /// To change its labels.
    Relabel(&'c MemoryChange),
    /// To change its title or its text, and labels.
    Rewrite(&'c MemoryChange),
    /// To delete it.
    Delete,
    /// To erase it.
    Erase,
}

/// A caller with all that decisions on some memories depend on.
pub(crate) struct Monitor {
    caller: Principal,
    /// Actions of the caller in the workspaces of the memories; none outside its scope.
    held: Vec<(WorkspaceId, ActionSet)>,
    /// Private workspaces that do not exist for the caller.
    hidden: Vec<WorkspaceId>,
    /// Workspaces that the audience labels of the memories name, in the order of their slugs.
    named: Vec<(String, WorkspaceId)>,
    /// Origins of the memories, of those for which they matter.
    origins: BTreeMap<MemoryId, Origin>,
}

/// Number of contents that are read at once to find the origins of memories.
const ORIGINS_AT_ONCE: usize = 100;

/// Number of workspaces of an organisation whose slugs an operation prefetches.
const SLUGS_PREFETCHED: usize = 64;

/// Returns the read of the slugs of an organisation's workspaces.
pub(crate) fn slugs_read(org: OrgId) -> RangeRead {
    RangeRead::first(keys::workspace_slugs(org), SLUGS_PREFETCHED)
}

/// Returns the slugs of the workspaces that the audience labels of these memories name, in order.
fn named_slugs<'l>(labels: impl IntoIterator<Item = &'l MemoryLabels>) -> Vec<&'l str> {
    let audiences = labels.into_iter().map(|labels| &labels.audience);
    let named = audiences.filter(|audience| audience.scope() == AudienceScope::Workspace);
    let mut slugs: Vec<&str> = named.map(|audience| audience.name()).collect();
    // Most memories have the label of their neighbour.
    slugs.dedup();
    slugs.sort_unstable();
    slugs.dedup();
    slugs
}

/// Returns the keys of the workspaces that the audience labels of these memories name.
pub(crate) fn named_workspaces<'l>(
    org: OrgId,
    labels: impl IntoIterator<Item = &'l MemoryLabels>,
) -> impl Iterator<Item = Key> {
    let slugs = named_slugs(labels).into_iter();
    slugs.map(move |slug| keys::workspace_slug(org, slug))
}

/// Returns the actions held in a workspace, of those held in each; none if it is not among them.
pub(crate) fn actions_held(held: &[(WorkspaceId, ActionSet)], workspace: WorkspaceId) -> ActionSet {
    let place = held.iter().find(|(id, _)| *id == workspace);
    place.map_or(ActionSet::EMPTY, |(_, actions)| *actions)
}

/// Part of the content of a memory that decisions depend on.
#[derive(Deserialize)]
struct Origin {
    created_by: MemberId,
    /// Member that last changed the title or text, unless it is the one that added the memory.
    #[serde(default)]
    updated_by: Option<MemberId>,
    /// Service accounts that did so for these members.
    #[serde(default)]
    created_via: Option<MemberId>,
    #[serde(default)]
    updated_via: Option<MemberId>,
    #[serde(default)]
    source_key: Option<String>,
}

impl Monitor {
    /// Reads what decisions on these memories depend on.
    ///
    /// `held` are the actions of the caller in the workspaces that are known already. The
    /// workspaces that the audience labels name are looked up, and the origins of memories that
    /// await review or were rejected, for a caller that may not review them, or that a running
    /// erasure may take away. The commit does not check these reads: origins never change, and the
    /// removal of a workspace changes the record of the organisation, which it checks.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn new(
        transaction: &mut Transaction,
        caller: &Principal,
        mut held: Vec<(WorkspaceId, ActionSet)>,
        subjects: &[Subject<'_>],
    ) -> Result<Self, Error> {
        let mut workspaces: Vec<WorkspaceId> = Vec::new();
        for Subject { labels, .. } in subjects {
            let id = labels.workspace_id;
            let is_known = held.iter().any(|(known, _)| *known == id);
            if !is_known && !workspaces.contains(&id) {
                workspaces.push(id);
            }
        }
        held.extend(caller.actions_in(transaction, &workspaces).await?);
        let slugs = named_slugs(subjects.iter().map(|subject| subject.labels));
        let mut named = Vec::with_capacity(slugs.len());
        if !slugs.is_empty() {
            let org = caller.org_id();
            let places = slugs.iter().map(|slug| keys::workspace_slug(org, slug));
            let places: Vec<Key> = places.collect();
            let found = transaction.unchecked().get_many::<Entry>(&places).await?;
            for ((slug, key), entry) in slugs.into_iter().zip(&places).zip(&found) {
                if let Some(entry) = entry {
                    named.push((slug.to_owned(), decode::<WorkspaceId>(key, entry)?.value));
                }
            }
        }
        let mut monitor = Self {
            caller: caller.clone(),
            held,
            hidden: caller.closed.clone(),
            named,
            origins: BTreeMap::new(),
        };
        monitor.find_origins(transaction, subjects).await?;
        Ok(monitor)
    }

    /// Finds the origins of the memories for which they matter: those under review, if the caller
    /// may not review them, and those that a running erasure may take away.
    async fn find_origins(
        &mut self,
        transaction: &mut Transaction,
        subjects: &[Subject<'_>],
    ) -> Result<(), Error> {
        // An assistant with an MCP key knows nothing that awaits review.
        let is_assistant = self.caller.has_audience_list();
        let needs_origin = |subject: &&Subject<'_>| {
            let labels = subject.labels;
            let is_decided =
                is_assistant || self.is_past_review(labels) || !self.is_in_reach(labels);
            let mut erasing = self.caller.org.erasing.values();
            !is_decided || erasing.any(|scope| scope.needs_origin(labels.source_id))
        };
        let needed: Vec<Subject<'_>> = subjects.iter().filter(needs_origin).copied().collect();
        self.read_origins(transaction, &needed, false).await
    }

    /// Finds who wrote these memories, of those that the caller may review.
    ///
    /// If it is `checked`, the commit checks that nobody has changed the text meanwhile: the
    /// decision is about the text that was there.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn find_authors(
        &mut self,
        transaction: &mut Transaction,
        subjects: &[Subject<'_>],
        checked: bool,
    ) -> Result<(), Error> {
        let is_reviewable = |subject: &&Subject<'_>| {
            self.held(subject.labels).contains(Action::MemoryReview)
                && self.is_in_reach(subject.labels)
                && (checked || !self.origins.contains_key(&subject.id))
        };
        let reviewable = subjects.iter().filter(is_reviewable);
        let reviewable: Vec<Subject<'_>> = reviewable.copied().collect();
        self.read_origins(transaction, &reviewable, checked).await
    }

    /// Reads the origins of these memories.
    async fn read_origins(
        &mut self,
        transaction: &mut Transaction,
        subjects: &[Subject<'_>],
        checked: bool,
    ) -> Result<(), Error> {
        let org = self.caller.org_id();
        let mut unknown = Vec::new();
        for subject in subjects {
            match subject.content {
                Some(content) => {
                    let origin = Origin {
                        created_by: content.created_by,
                        updated_by: Some(content.updated_by),
                        created_via: content.created_via,
                        updated_via: content.updated_via,
                        source_key: content.source_key.clone(),
                    };
                    self.origins.insert(subject.id, origin);
                }
                None => unknown.push((subject.id, keys::content(org, subject.id))),
            }
        }
        let mut unread = Vec::new();
        for (id, content) in unknown {
            let Some(origin) = transaction.prefetched().get::<Origin>(&content)? else {
                unread.push((id, content));
                continue;
            };
            self.origins.insert(id, origin);
            if checked {
                transaction.get::<Entry>(&content).await?;
            }
        }
        // Contents that only this decision reads are not prefetched: each further read of the
        // transaction would repeat them.
        for batch in unread.chunks(ORIGINS_AT_ONCE) {
            let contents: Vec<Key> = batch.iter().map(|(_, content)| content.clone()).collect();
            let found = if checked {
                transaction.get_many::<Entry>(&contents).await?
            } else {
                transaction.unchecked().get_many::<Entry>(&contents).await?
            };
            for ((id, content), entry) in batch.iter().zip(&found) {
                if let Some(entry) = entry {
                    let origin = decode::<Origin>(content, entry)?.value;
                    self.origins.insert(*id, origin);
                }
            }
        }
        Ok(())
    }

    /// Returns the actions that the caller holds in the workspace of a memory.
    fn held(&self, labels: &MemoryLabels) -> ActionSet {
        actions_held(&self.held, labels.workspace_id)
    }

    /// Returns true if the audience of a memory covers the caller.
    fn is_covered(&self, labels: &MemoryLabels) -> bool {
        let named = |slug: &str| {
            let place = |(known, _): &(String, WorkspaceId)| known.as_str().cmp(slug);
            let found = self.named.binary_search_by(place);
            found.ok().map(|index| self.named[index].1)
        };
        self.caller.is_covered_by(&labels.audience, named)
    }

    /// Returns true if the workspace and the audience of a memory let it exist for the caller.
    fn is_in_reach(&self, labels: &MemoryLabels) -> bool {
        let shares =
            || self.held(labels).contains(Action::MemoryShare) && !self.caller.has_audience_list();
        self.caller.works_in(labels.workspace_id) && (self.is_covered(labels) || shares())
    }

    /// Returns true if the review of a memory is over, or the caller may take part in it.
    fn is_past_review(&self, labels: &MemoryLabels) -> bool {
        labels.review == ReviewStatus::Approved || self.held(labels).contains(Action::MemoryReview)
    }

    /// Returns true if decisions on a memory depend on its origin, and not on its labels only.
    pub(crate) fn has_origin(&self, id: MemoryId) -> bool {
        self.origins.contains_key(&id)
    }

    fn is_own(&self, id: MemoryId) -> bool {
        let origin = self.origins.get(&id);
        let is_author = origin.is_some_and(|origin| origin.created_by == self.caller.member_id());
        is_author && !self.caller.has_audience_list()
    }

    /// Returns true if the member of the caller added a memory, or last changed its text, or if
    /// the service account that calls did so for a member.
    ///
    /// It is known of memories whose origin was found.
    fn is_written_by_caller(&self, id: MemoryId) -> bool {
        let callers = [Some(self.caller.member_id()), self.caller.via()];
        self.origins.get(&id).is_some_and(|origin| {
            let writers = [Some(origin.created_by), origin.updated_by];
            let accounts = [origin.created_via, origin.updated_via];
            let mut all = writers.into_iter().chain(accounts).flatten();
            all.any(|writer| callers.contains(&Some(writer)))
        })
    }

    /// Returns the member that added a memory, if its origin was found.
    pub(crate) fn author(&self, id: MemoryId) -> Option<MemberId> {
        self.origins.get(&id).map(|origin| origin.created_by)
    }

    /// Returns the organisation of the caller.
    pub(crate) fn org(&self) -> OrgId {
        self.caller.org_id()
    }

    /// Returns the private workspaces that the audience labels of the memories name.
    pub(crate) fn private_named(&self) -> impl Iterator<Item = WorkspaceId> {
        let named = self.named.iter().map(|(_, workspace)| *workspace);
        named.filter(|workspace| self.caller.org.private.contains(workspace))
    }

    /// Lets another member of the organisation take the place of the caller, with an unrestricted
    /// credential and these actions in the workspaces of the memories.
    ///
    /// It holds no role in the workspaces `without_role`: the private ones do not exist for it,
    /// unless it is an owner, nor do those that do not exist for the caller. Origins stay: those
    /// that no longer matter decide nothing.
    pub(crate) fn stand_in(
        &mut self,
        member: Member,
        held: Vec<(WorkspaceId, ActionSet)>,
        without_role: Vec<WorkspaceId>,
    ) {
        self.caller.member = member;
        let is_owner = self.caller.is_owner();
        let private = &self.caller.org.private;
        let closed = without_role.into_iter();
        let closed = closed.filter(|place| !is_owner && private.contains(place));
        self.caller.closed = self.hidden.iter().copied().chain(closed).collect();
        self.caller.credential = None;
        self.caller.via = None;
        self.caller.scope = TokenScope::default();
        self.held = held;
    }

    /// Returns true if a change decides the review of what the caller wrote itself.
    ///
    /// It is known after [`Monitor::find_authors`].
    pub(crate) fn reviews_own(&self, id: MemoryId, change: &MemoryChange) -> bool {
        change.decides_review() && self.is_written_by_caller(id)
    }

    /// Returns true if a running erasure takes away a memory with these present labels.
    pub(crate) fn is_erased(&self, id: MemoryId, labels: &MemoryLabels) -> bool {
        let origin = self.origins.get(&id);
        let origin = origin.map(|origin| (origin.created_by, origin.source_key.as_deref()));
        let mut erasing = self.caller.org.erasing.values();
        erasing.any(|scope| scope.covers(labels.source_id, origin))
    }

    /// Returns true if a memory with these labels, present or earlier ones, exists for the caller,
    /// apart from running erasures.
    pub(crate) fn exists(&self, id: MemoryId, labels: &MemoryLabels) -> bool {
        (self.is_past_review(labels) || self.is_own(id)) && self.is_in_reach(labels)
    }

    /// Returns true if every memory of a workspace exists for a caller with these actions there.
    pub(crate) fn knows_all(caller: &Principal, held: ActionSet) -> bool {
        let unlimited = [Action::MemoryReview, Action::MemoryShare];
        unlimited.iter().all(|action| held.contains(*action)) && !caller.has_audience_list()
    }

    /// Returns true if a recall shows the caller that it cites the memory.
    pub(crate) fn shows_citation(&self, id: MemoryId, labels: &MemoryLabels) -> bool {
        let is_shown = labels.review == ReviewStatus::Approved && self.exists(id, labels);
        is_shown && !self.is_erased(id, labels)
    }

    /// Returns true if the caller may read approved memories with these labels, apart from running
    /// erasures.
    pub(crate) fn reads_approved(&self, labels: &MemoryLabels) -> bool {
        let missing = Principal::missing_for_reading(labels, self.held(labels));
        missing.is_none() && self.is_in_reach(labels) && self.is_covered(labels)
    }

    /// Returns the part of a memory that the caller sees, if any.
    pub(crate) fn visibility(&self, id: MemoryId, labels: &MemoryLabels) -> Option<Visibility> {
        self.decide(id, labels, Use::Read).ok()
    }

    /// Decides on a use of a memory, and returns the part of it that the caller sees.
    ///
    /// # Errors
    /// [`Denial::Invisible`] if the memory does not exist for the caller; otherwise what the caller
    /// lacks.
    pub(crate) fn decide(
        &self,
        id: MemoryId,
        labels: &MemoryLabels,
        wanted: Use<'_>,
    ) -> Result<Visibility, Denial> {
        if !self.exists(id, labels) || self.is_erased(id, labels) {
            return Err(Denial::Invisible);
        }
        let held = self.held(labels);
        let missing_for_content = Principal::missing_for_reading(labels, held);
        let is_covered = self.is_covered(labels);
        let missing = match wanted {
            Use::Read => {
                let shows = [Action::MemoryRead, Action::MemoryShare];
                let sees_labels = shows.iter().any(|action| held.contains(*action));
                (!sees_labels).then_some(Action::MemoryRead)
            }
            // Others will see the citation.
            Use::Cite if !is_covered || labels.review != ReviewStatus::Approved => {
                return Err(Denial::Invisible);
            }
            Use::Cite => None,
            Use::Delete => (!held.contains(Action::MemoryDelete)).then_some(Action::MemoryDelete),
            Use::Erase => (!held.contains(Action::ErasureManage)).then_some(Action::ErasureManage),
            Use::Relabel(change) => {
                let missing = self.missing_for_change(labels, change, false);
                if change.decides_review() {
                    missing.or(missing_for_content)
                } else {
                    missing
                }
            }
            Use::Rewrite(change) => {
                let missing = self.missing_for_change(labels, change, true);
                missing.or(missing_for_content)
            }
        };
        if missing.is_none() {
            self.check_change(id, is_covered, wanted)?;
        }
        match (missing, missing_for_content) {
            (Some(action), _) => Err(Denial::MissingPermission(action)),
            (None, None) if is_covered => Ok(Visibility::Everything),
            (None, _) => Ok(Visibility::Labels),
        }
    }

    /// Decides on a use of a memory as [`Monitor::decide`] does, for the audit log.
    ///
    /// What does not exist for the caller in a private workspace is recorded as if it did not exist
    /// at all: the caller and others who read the log may not know of the workspace.
    pub(crate) fn outcome(
        &self,
        id: MemoryId,
        labels: &MemoryLabels,
        wanted: Use<'_>,
    ) -> AuditOutcome {
        let is_private = self.caller.org.private.contains(&labels.workspace_id);
        match self.decide(id, labels, wanted) {
            Ok(_) => AuditOutcome::Ok,
            Err(Denial::Invisible) if is_private => AuditOutcome::NotFound,
            Err(denial) => AuditOutcome::Denied(denial),
        }
    }

    /// Checks what a change requires of a caller besides actions.
    ///
    /// Only the audience changes the content or decides the review, because whoever decides it has
    /// looked at the content. A program decides about nothing that it wrote or writes itself.
    ///
    /// # Errors
    /// [`Denial`] with the reason.
    fn check_change(&self, id: MemoryId, is_covered: bool, wanted: Use<'_>) -> Result<(), Denial> {
        let (change, rewrites) = match wanted {
            Use::Relabel(change) => (change, false),
            Use::Rewrite(change) => (change, true),
            Use::Read | Use::Cite | Use::Delete | Use::Erase => return Ok(()),
        };
        if rewrites && !is_covered {
            return Err(Denial::OutsideAudience);
        }
        if !change.decides_review() {
            return Ok(());
        }
        if !is_covered {
            return Err(Denial::UnreadReview);
        }
        if self.caller.is_program() && (rewrites || self.is_written_by_caller(id)) {
            return Err(Denial::OwnReview);
        }
        Ok(())
    }

    /// Returns the first action that is missing for a change of a memory that exists for the caller.
    fn missing_for_change(
        &self,
        labels: &MemoryLabels,
        change: &MemoryChange,
        rewrites: bool,
    ) -> Option<Action> {
        let updates = rewrites || change.relabels();
        let lowers = change
            .sensitivity_label
            .is_some_and(|wanted| wanted < labels.sensitivity);
        let given_to_another = change.audience_tag.as_ref().is_some_and(|wanted| {
            let is_new = *wanted != labels.audience;
            let is_other = wanted.name() != self.caller.member.handle;
            wanted.scope() == AudienceScope::User && is_new && is_other
        });
        let shares = given_to_another || (updates && !self.is_covered(labels));
        let parts = [
            (updates, Action::MemoryUpdate),
            (shares, Action::MemoryShare),
            (lowers, Action::MemoryDeclassify),
            (change.review_status.is_some(), Action::MemoryReview),
        ];
        let needed = parts.into_iter().filter(|(is_needed, _)| *is_needed);
        let needed: ActionSet = needed.map(|(_, action)| action).collect();
        (needed - self.held(labels)).iter().next()
    }
}
