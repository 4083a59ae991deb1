//! Custom roles on the wire.

use serde::{Deserialize, Serialize};

use super::{MemberId, OrgId, RoleId, Timestamp, WorkspaceId};
use crate::access::{ActionSet, BaseRole};

/// A role that an organisation made for itself: a base role with actions allowed and denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CustomRole {
    /// The identifier.
    pub id: RoleId,
    /// The organisation.
    pub org_id: OrgId,
    /// The one workspace that it can be held in; `null` for a role of the whole organisation.
    pub workspace_id: Option<WorkspaceId>,
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Unique among the custom roles of the organisation.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub slug: String,
    /// What it begins with.
    pub base_role: BaseRole,
    /// What it is for.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Description"))]
    pub description: String,
    /// Whether `allow` counts. An inactive role still denies.
    pub is_active: bool,
    /// Who made it.
    pub created_by: MemberId,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// What it adds to the base role and takes from it.
    pub actions: RoleActions,
}

impl CustomRole {
    /// What holders may do: (base role ∪ allow) − deny, and base role − deny while the role is inactive.
    #[must_use]
    pub fn effective_actions(&self) -> ActionSet {
        let base = self.base_role.actions();
        let granted = if self.is_active {
            base | self.actions.allow
        } else {
            base
        };
        granted - self.actions.deny
    }
}

/// The actions that a custom role adds and takes. No action stands in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RoleActions {
    /// Added to those of the base role.
    pub allow: ActionSet,
    /// Taken from those of the base role.
    pub deny: ActionSet,
}

/// The request to make a custom role.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewCustomRole {
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// 1 to 64 characters of `a-z 0-9 - _ .`.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub slug: String,
    /// What it begins with.
    pub base_role: BaseRole,
    /// At most 1,024 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Description"))]
    pub description: String,
    /// The one workspace that it can be held in, or none.
    pub workspace_id: Option<WorkspaceId>,
    /// What it adds and takes.
    pub actions: RoleActions,
}

/// The request to change a custom role; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CustomRoleUpdate {
    /// A new name.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Name>"))]
    pub name: Option<String>,
    /// A new slug.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Slug>"))]
    pub slug: Option<String>,
    /// A new description.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::Description>")
    )]
    pub description: Option<String>,
    /// A new base role.
    pub base_role: Option<BaseRole>,
    /// Switches the role on or off.
    pub is_active: Option<bool>,
    /// New lists of actions.
    pub actions: Option<RoleActionsUpdate>,
}

/// New lists of actions; one that is absent stays as it is, so that leaving one out never widens a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RoleActionsUpdate {
    /// A new list of what is added.
    pub allow: Option<ActionSet>,
    /// A new list of what is taken.
    pub deny: Option<ActionSet>,
}

impl RoleActionsUpdate {
    /// `actions` with the lists that are new.
    #[must_use]
    pub fn applied_to(self, actions: RoleActions) -> RoleActions {
        RoleActions {
            allow: self.allow.unwrap_or(actions.allow),
            deny: self.deny.unwrap_or(actions.deny),
        }
    }
}

impl From<RoleActions> for RoleActionsUpdate {
    fn from(actions: RoleActions) -> Self {
        Self {
            allow: Some(actions.allow),
            deny: Some(actions.deny),
        }
    }
}
