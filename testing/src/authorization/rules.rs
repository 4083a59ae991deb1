//! The rules of the documentation, applied to names.

use std::borrow::Cow;

use super::reference::Need;
use super::{Actions, Caller, Change, Directory, Labels, Reference, Use, Verdict};

/// The rules for one caller.
#[derive(Clone, Debug)]
pub struct Access<'r> {
    pub(super) reference: &'r Reference,
    pub(super) directory: Cow<'r, Directory>,
    /// The caller.
    pub caller: Caller,
}

impl Reference {
    /// Returns the rules for a caller in an organisation.
    #[must_use]
    pub fn access<'r>(&'r self, directory: &'r Directory, caller: Caller) -> Access<'r> {
        Access {
            reference: self,
            directory: Cow::Borrowed(directory),
            caller,
        }
    }

    /// Returns the rules for a caller in an organisation of its own.
    pub(crate) fn access_in(&self, directory: Directory, caller: Caller) -> Access<'_> {
        Access {
            reference: self,
            directory: Cow::Owned(directory),
            caller,
        }
    }
}

impl Access<'_> {
    /// Returns the actions of a role, or of the one that replaced it.
    fn role_actions(&self, role: &str) -> Actions {
        let mut role = role;
        while let Some(next) = self.directory.redirects.get(role) {
            role = next;
        }
        match self.directory.roles.get(role) {
            Some(custom) => self.reference.custom_actions(custom),
            None => self.reference.built_in_actions(role).clone(),
        }
    }

    fn narrowed(&self, mut actions: Actions) -> Actions {
        if let Some(allowed) = &self.caller.scope.actions {
            actions.retain(|action| allowed.contains(*action));
        }
        actions
    }

    /// Returns the actions of the member with this role, of those that the service account which
    /// acts for it, with the other role, may take too.
    fn of_both(&self, member: &str, account: Option<&String>) -> Actions {
        let own = self.role_actions(member);
        let Some(account) = account else {
            return self.narrowed(own);
        };
        let permitted = self.role_actions(account);
        let of_members = &self.reference.for_members;
        let both = own.into_iter();
        self.narrowed(
            both.filter(|action| permitted.contains(action) && of_members.contains(action))
                .collect(),
        )
    }

    /// Returns the actions that the caller holds for the organisation as a whole.
    #[must_use]
    pub fn actions(&self) -> Actions {
        let account = self.caller.via.as_ref().map(|via| &via.role);
        match self.caller.scope.workspaces {
            Some(_) => Actions::new(),
            None => self.of_both(&self.caller.role, account),
        }
    }

    /// Returns the actions that the caller holds in a workspace.
    #[must_use]
    pub fn actions_in(&self, workspace: &str) -> Actions {
        if !self.works_in(workspace) {
            return Actions::new();
        }
        let there = self.caller.workspace_roles.get(workspace);
        let account = self.caller.via.as_ref();
        let account = account.map(|via| via.workspace_roles.get(workspace).unwrap_or(&via.role));
        self.of_both(there.unwrap_or(&self.caller.role), account)
    }

    /// Returns true if the caller is one of the people of a workspace: of an open one every member
    /// is, of a private one those with a role in it, and owners.
    #[must_use]
    pub fn is_one_of_the_people(&self, workspace: &str) -> bool {
        let has_role = self.caller.workspace_roles.contains_key(workspace);
        has_role || self.caller.role == "owner" || !self.directory.private.contains(workspace)
    }

    /// Returns true if a workspace of the organisation exists for the caller, whatever its
    /// credential is scoped to. Its label then covers somebody.
    #[must_use]
    pub fn knows(&self, workspace: &str) -> bool {
        self.directory.workspaces.contains(workspace) && self.is_one_of_the_people(workspace)
    }

    /// Returns true if the credential works in a workspace of the organisation, which exists for
    /// the caller.
    #[must_use]
    pub fn works_in(&self, workspace: &str) -> bool {
        let admitted = &self.caller.scope.workspaces;
        self.knows(workspace)
            && admitted
                .as_ref()
                .is_none_or(|slugs| slugs.contains(workspace))
    }

    fn has_list(&self) -> bool {
        self.caller.scope.audience.is_some()
    }

    /// Returns true if an audience label covers the caller.
    ///
    /// # Panics
    /// If it is no audience label.
    #[must_use]
    pub fn is_covered(&self, label: &str) -> bool {
        let listed = &self.caller.scope.audience;
        let (scope, name) = label.split_once(':').expect("a label has a scope");
        let covers_member = match scope {
            "org" => name == self.directory.slug,
            "workspace" => self.works_in(name),
            "team" => self.caller.teams.contains(name),
            "user" => name == self.caller.handle,
            _ => panic!("{label} has no known scope"),
        };
        covers_member && listed.as_ref().is_none_or(|labels| labels.contains(label))
    }

    /// Returns true if a memory exists for the caller: the section *Visibility* of the reference.
    #[must_use]
    pub fn exists(&self, memory: &Labels) -> bool {
        let held = self.actions_in(&memory.workspace);
        let shares = self
            .reference
            .action("getMemory", "for the labels of any memory");
        let is_in_audience =
            self.is_covered(&memory.audience) || (held.contains(shares) && !self.has_list());
        let is_own = memory.author == self.caller.handle && !self.has_list();
        let is_reviewed = memory.review == "approved" || is_own || held.contains("memory:review");
        self.works_in(&memory.workspace) && is_in_audience && is_reviewed
    }

    /// Returns true if the caller may read the content of a memory that exists for it.
    fn can_read(&self, memory: &Labels) -> bool {
        let held = self.actions_in(&memory.workspace);
        let for_sensitivity = match memory.sensitivity.as_str() {
            "public" | "internal" => None,
            higher => Some(format!("memory:read_{higher}")),
        };
        self.is_covered(&memory.audience)
            && held.contains("memory:read")
            && for_sensitivity.is_none_or(|action| held.contains(action.as_str()))
    }

    /// Returns true if the access filter of its workspace lets a memory through.
    #[must_use]
    pub fn is_in_filter(&self, memory: &Labels, approved_only: bool) -> bool {
        let held = self.actions_in(&memory.workspace);
        let shows_all = held.contains("memory:review") && !approved_only;
        let is_shown = memory.review == "approved" || shows_all;
        is_shown && self.works_in(&memory.workspace) && self.can_read(memory)
    }

    /// Returns true if the service account that acts for the caller may not take an action.
    pub(super) fn is_withheld(&self, action: &str) -> bool {
        self.caller.via.is_some() && !self.reference.for_members.contains(action)
    }

    /// Returns the decision on a use of a memory.
    #[must_use]
    pub fn verdict(&self, memory: &Labels, wanted: &Use) -> Verdict {
        let held = self.actions_in(&memory.workspace);
        match wanted {
            Use::Cite => self.citation(memory),
            Use::BulkUpdate(change) if !self.may_begin(change) => Verdict::Forbidden,
            _ if !self.exists(memory) => Verdict::Unknown,
            Use::Read | Use::Check => {
                let is_check = matches!(wanted, Use::Check);
                let operation = if is_check {
                    "checkMemoryAccess"
                } else {
                    "getMemory"
                };
                let mut rows = self.reference.rows(operation).iter();
                if !rows.any(|row| held.contains(row.action)) {
                    return if is_check {
                        Verdict::Unknown
                    } else {
                        Verdict::Forbidden
                    };
                }
                if self.can_read(memory) {
                    Verdict::Everything
                } else {
                    Verdict::Labels
                }
            }
            Use::Delete => permitted(self.holds_always("deleteMemory", &held)),
            Use::Update(change) => self.update(memory, change),
            Use::BulkUpdate(change) => self.bulk_update(memory, change),
        }
    }

    fn holds_always(&self, operation: &str, held: &Actions) -> bool {
        let mut rows = self.reference.rows(operation).iter();
        rows.all(|row| row.condition != "always" || held.contains(row.action))
    }

    /// A citation is seen by others, so the audience has to cover the caller.
    fn citation(&self, memory: &Labels) -> Verdict {
        if !self.works_in(&memory.workspace) {
            return Verdict::Unknown;
        }
        let held = self.actions_in(&memory.workspace);
        let is_visible = self.exists(memory) && self.is_covered(&memory.audience);
        match (self.holds_always("createRecall", &held), is_visible) {
            (false, _) => Verdict::Forbidden,
            (true, true) if memory.review == "approved" => Verdict::Everything,
            (true, _) => Verdict::Unknown,
        }
    }

    /// Returns true unless the caller lacks what a bulk update requires in every workspace.
    #[must_use]
    pub fn may_begin(&self, change: &Change) -> bool {
        let operation = "bulkUpdateMemories";
        let mut needed = Vec::new();
        if change.relabels() {
            let to_relabel = "to set the audience, the sensitivity or the source";
            needed.push(self.reference.action(operation, to_relabel));
        }
        if change.review.is_some() {
            needed.push(self.reference.action(operation, "to set the review status"));
        }
        self.is_held_somewhere(&needed)
    }

    fn is_held_somewhere(&self, needed: &[&str]) -> bool {
        let everywhere = self.directory.workspaces.iter();
        let mut places = everywhere.map(|slug| self.actions_in(slug));
        let is_held = |held: &Actions| needed.iter().all(|action| held.contains(*action));
        is_held(&self.actions()) || places.any(|held| is_held(&held))
    }

    fn bulk_update(&self, memory: &Labels, change: &Change) -> Verdict {
        let conditions = [
            "to set the audience, the sensitivity or the source",
            "to set these of a memory whose audience does not cover the caller, \
             or to make another member its audience",
            "to lower the sensitivity",
            "to set the review status",
        ];
        let may_decide = self.may_decide(memory, change);
        permitted(may_decide && self.holds_for(memory, change, "bulkUpdateMemories", conditions))
    }

    fn update(&self, memory: &Labels, change: &Change) -> Verdict {
        let conditions = [
            "to set anything except the review status",
            "to set labels of a memory whose audience does not cover the caller, \
             or to make another member its audience",
            "to lower the sensitivity",
            "to set the review status",
        ];
        let reads = !change.rewrites || self.can_read(memory);
        permitted(
            reads
                && self.may_decide(memory, change)
                && self.holds_for(memory, change, "updateMemory", conditions),
        )
    }

    /// Returns true unless the change approves or rejects a memory that the caller may not read, or
    /// a program so decides about what it wrote or writes itself.
    fn may_decide(&self, memory: &Labels, change: &Change) -> bool {
        let decides = matches!(change.review.as_deref(), Some("approved" | "rejected"));
        let is_account = self.caller.is_service_account || self.caller.via.is_some();
        let is_program = is_account || self.has_list();
        let writers = [&memory.author, &memory.editor];
        let is_own = change.rewrites || writers.contains(&&self.caller.handle);
        !decides || (self.can_read(memory) && !(is_program && is_own))
    }

    /// Returns true if the caller holds what a change requires under each of four conditions.
    fn holds_for(
        &self,
        memory: &Labels,
        change: &Change,
        operation: &str,
        conditions: [&str; 4],
    ) -> bool {
        let order = |label: &String| {
            let mut order = self.reference.sensitivities.iter();
            order
                .position(|known| *known == label)
                .expect("a known label")
        };
        let is_other = |wanted: &String| {
            wanted.starts_with("user:")
                && *wanted != format!("user:{}", self.caller.handle)
                && *wanted != memory.audience
        };
        let lowers = |wanted: &String| order(wanted) < order(&memory.sensitivity);
        let applies = [
            change.relabels() || change.rewrites,
            (change.relabels() && !self.is_covered(&memory.audience))
                || change.audience.as_ref().is_some_and(is_other),
            change.sensitivity.as_ref().is_some_and(lowers),
            change.review.is_some(),
        ];
        let held = self.actions_in(&memory.workspace);
        let mut needed = applies.iter().zip(conditions);
        needed.all(|(applies, condition)| {
            !applies || held.contains(self.reference.action(operation, condition))
        })
    }

    /// Returns the decision on an operation of a workspace or of the organisation.
    ///
    /// It considers only the actions that the operation always requires; for an operation that always
    /// requires none, any of its actions.
    #[must_use]
    pub fn operation(&self, operation: &str, workspace: &str) -> Verdict {
        let rows = self.reference.rows(operation);
        let always: Vec<&Need> = rows
            .iter()
            .filter(|row| row.condition == "always")
            .collect();
        let held = match rows.first().map(|row| row.scope) {
            None => return Verdict::Everything,
            Some("the organisation") => self.actions(),
            Some("the organisation or any workspace") => {
                let needed: Vec<&str> = always.iter().map(|row| row.action).collect();
                return permitted(self.is_held_somewhere(&needed));
            }
            Some("the workspace") if !self.works_in(workspace) => return Verdict::Unknown,
            Some("the workspace") => self.actions_in(workspace),
            Some(other) => panic!("{operation} has the scope “{other}”"),
        };
        permitted(if always.is_empty() {
            rows.iter().any(|row| held.contains(row.action))
        } else {
            always.iter().all(|row| held.contains(row.action))
        })
    }

    /// Returns the decision on an operation of a workspace under a condition, which is the text of
    /// the table.
    ///
    /// # Panics
    /// If no operation has the condition.
    #[must_use]
    pub fn operation_if(&self, operation: &str, condition: &str, workspace: &str) -> Verdict {
        let mut known = self.reference.needs.values().flatten();
        assert!(
            known.any(|row| row.condition == condition),
            "no row has “{condition}”"
        );
        if !self.works_in(workspace) {
            return Verdict::Unknown;
        }
        let held = self.actions_in(workspace);
        let rows = self.reference.rows(operation).iter();
        let mut needed = rows.filter(|row| ["always", condition].contains(&row.condition));
        permitted(needed.all(|row| held.contains(row.action)))
    }

    /// Returns true if an operation of a workspace, or of the organisation, requires an action that
    /// the caller does not hold.
    pub(super) fn lacks(&self, operation: &str, action: &str, workspace: &str) -> bool {
        let rows = self.reference.rows(operation).iter();
        let mut rows = rows.filter(|row| row.action == action);
        rows.any(|row| match row.scope {
            "the organisation" => !self.actions().contains(action),
            "the organisation or any workspace" => !self.is_held_somewhere(&[row.action]),
            _ => !self.actions_in(workspace).contains(action),
        })
    }
}

impl Change {
    fn relabels(&self) -> bool {
        self.audience.is_some() || self.sensitivity.is_some() || self.moves
    }
}

fn permitted(is_permitted: bool) -> Verdict {
    if is_permitted {
        Verdict::Everything
    } else {
        Verdict::Forbidden
    }
}

impl Directory {
    /// Records that a role was deleted and that its holders got another.
    pub fn redirect(&mut self, deleted: &str, to: &str) {
        self.roles.remove(deleted);
        self.redirects.insert(deleted.to_owned(), to.to_owned());
    }
}
