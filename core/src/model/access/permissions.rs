//! Form of the permissions that operations require.

use super::{Action, ActionSet};

/// Scope in which an action has to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionScope {
    /// The organisation as a whole.
    Organization,
    /// The workspace of the operation.
    Workspace,
    /// The organisation as a whole, or any workspace.
    Anywhere,
    /// The workspace of each memory. A memory without the permission is rejected, the others are
    /// not.
    EachMemory,
}

/// A permission that an operation requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredPermission {
    /// Condition under which it is required; empty if always.
    pub when: &'static str,
    /// Action that has to be held.
    pub action: Action,
    /// Scope in which it has to be held.
    pub scope: PermissionScope,
}

impl RequiredPermission {
    /// Returns the action as a set.
    #[must_use]
    pub const fn actions(self) -> ActionSet {
        ActionSet::of(&[self.action])
    }
}
