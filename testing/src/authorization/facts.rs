//! Facts that the rules depend on, the uses of memories, and the decisions on them.

use std::collections::{BTreeMap, BTreeSet};

/// Set of names: actions, labels, teams or slugs.
pub type Names = BTreeSet<String>;

/// Set of actions, by their names in the documentation.
pub type Actions = BTreeSet<&'static str>;

/// Returns the set of these names.
pub fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> Names {
    names.into_iter().map(str::to_owned).collect()
}

/// Custom role.
#[derive(Clone, Debug, Default)]
pub struct Role {
    /// Name of the built-in role that it is based on.
    pub base: String,
    /// Actions that it adds.
    pub allow: Names,
    /// Actions that it removes.
    pub deny: Names,
    /// True unless it was deactivated.
    pub is_active: bool,
}

/// Organisation, with the facts that the rules depend on.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Slug of the organisation.
    pub slug: String,
    /// Slugs of its workspaces.
    pub workspaces: Names,
    /// Slugs of the private ones among them.
    pub private: Names,
    /// Custom roles by a name of the test's choice.
    pub roles: BTreeMap<String, Role>,
    /// Role that the holders of a deleted role got, by the name of the deleted one.
    pub redirects: BTreeMap<String, String>,
}

impl Directory {
    /// Creates an organisation with workspaces and without custom roles.
    #[must_use]
    pub fn new(slug: &str, workspaces: &[&str]) -> Self {
        Self {
            slug: slug.to_owned(),
            workspaces: names(workspaces.iter().copied()),
            ..Self::default()
        }
    }
}

/// Scope of a credential. An absent list does not restrict it.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Slugs of the workspaces that it is valid in.
    pub workspaces: Option<Names>,
    /// Actions that it may be used for.
    pub actions: Option<Names>,
    /// Audience labels that it covers.
    pub audience: Option<Names>,
}

impl Scope {
    /// Returns the scope of an MCP key.
    #[must_use]
    pub fn of_mcp_key(workspace: &str, audience: &[&str]) -> Self {
        Self {
            workspaces: Some(names([workspace])),
            actions: Some(names([
                "memory:read",
                "memory:read_confidential",
                "memory:read_restricted",
                "chat:write",
                "recall:create",
            ])),
            audience: Some(names(audience.iter().copied())),
        }
    }
}

/// Member with a credential.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Handle of the member.
    pub handle: String,
    /// True if the member is a service account.
    pub is_service_account: bool,
    /// Teams of the member.
    pub teams: Names,
    /// Role in the organisation: a built-in one, or one of [`Directory::roles`].
    pub role: String,
    /// Roles in workspaces, by slug.
    pub workspace_roles: BTreeMap<String, String>,
    /// Scope of the credential.
    pub scope: Scope,
    /// Service account that acts for the member.
    pub via: Option<Account>,
}

/// Service account that acts for a member.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Role in the organisation, as that of a member.
    pub role: String,
    /// Roles in workspaces, by slug.
    pub workspace_roles: BTreeMap<String, String>,
}

impl Caller {
    /// Creates a member without teams, with an unrestricted credential.
    #[must_use]
    pub fn new(handle: &str, role: &str) -> Self {
        Self {
            handle: handle.to_owned(),
            role: role.to_owned(),
            ..Self::default()
        }
    }
}

/// Memory, with the facts that the rules depend on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels {
    /// Slug of its workspace.
    pub workspace: String,
    /// Audience label.
    pub audience: String,
    /// Sensitivity label.
    pub sensitivity: String,
    /// Review status.
    pub review: String,
    /// Handle of the member that added it.
    pub author: String,
    /// Handle of the member that last changed its text; empty if it is none that matters.
    pub editor: String,
}

impl Labels {
    /// Creates the labels of a memory.
    #[must_use]
    pub fn new(
        workspace: &str,
        audience: &str,
        sensitivity: &str,
        review: &str,
        author: &str,
    ) -> Self {
        Self {
            workspace: workspace.to_owned(),
            audience: audience.to_owned(),
            sensitivity: sensitivity.to_owned(),
            review: review.to_owned(),
            author: author.to_owned(),
            editor: String::new(),
        }
    }
}

/// Change of a memory. What is absent stays.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// New audience label.
    pub audience: Option<String>,
    /// New sensitivity label.
    pub sensitivity: Option<String>,
    /// New review status.
    pub review: Option<String>,
    /// True if it names another source.
    pub moves: bool,
    /// True if it sets the title or the content; not in a bulk update.
    pub rewrites: bool,
}

/// Use of a memory.
#[derive(Clone, Debug)]
pub enum Use {
    /// To read it, by `getMemory` or in a list.
    Read,
    /// To ask whether it can be read, by `checkMemoryAccess`.
    Check,
    /// To cite it in a recall.
    Cite,
    /// To change it, by `updateMemory`.
    Update(Change),
    /// To change it, by `bulkUpdateMemories`.
    BulkUpdate(Change),
    /// To delete it.
    Delete,
}

/// Decision on a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The response is that for a thing that does not exist.
    Unknown,
    /// The response is `403`.
    Forbidden,
    /// It succeeds, and shows no more than the labels.
    Labels,
    /// It succeeds.
    Everything,
}
