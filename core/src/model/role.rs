//! Custom roles on the wire.

use serde::{Deserialize, Serialize};

use super::{MemberId, OrgId, RoleId, Timestamp, WorkspaceId};
use crate::access::{ActionSet, BaseRole};

/// A role of an organisation: a base role with actions added and removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CustomRole {
    /// Identifier of the role.
    pub id: RoleId,
    /// Organisation of the role.
    pub org_id: OrgId,
    /// Only workspace that the role can be held in; `null` for an organisation-wide role.
    pub workspace_id: Option<WorkspaceId>,
    /// Name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Slug, unique among the custom roles of the organisation.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub slug: String,
    /// Role that it extends.
    pub base_role: BaseRole,
    /// Purpose of the role.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Description"))]
    pub description: String,
    /// True if `allow` applies. `deny` applies to an inactive role too.
    pub is_active: bool,
    /// Member that created the role.
    pub created_by: MemberId,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Actions that it adds to the base role and removes from it.
    pub actions: RoleActions,
}

impl CustomRole {
    /// Returns the actions of its holders.
    ///
    /// These are (base role ∪ allow) − deny, or base role − deny while the role is inactive.
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

/// Actions that a custom role adds and removes. The two lists are disjoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RoleActions {
    /// Actions added to those of the base role.
    pub allow: ActionSet,
    /// Actions removed from those of the base role.
    pub deny: ActionSet,
}

/// A new custom role.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewCustomRole {
    /// Name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Slug, 1 to 64 characters of `a-z 0-9 - _ .`.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub slug: String,
    /// Role that it extends.
    pub base_role: BaseRole,
    /// Description, at most 1,024 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Description"))]
    pub description: String,
    /// Only workspace that the role can be held in; organisation-wide if omitted.
    pub workspace_id: Option<WorkspaceId>,
    /// Actions that it adds to the base role and removes from it.
    pub actions: RoleActions,
}

/// A change of a custom role. Omitted fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CustomRoleUpdate {
    /// New name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Name>"))]
    pub name: Option<String>,
    /// New slug, 1 to 64 characters of `a-z 0-9 - _ .`.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Slug>"))]
    pub slug: Option<String>,
    /// New description, at most 1,024 characters.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::Description>")
    )]
    pub description: Option<String>,
    /// New base role.
    pub base_role: Option<BaseRole>,
    /// True to activate the role, false to deactivate it.
    pub is_active: Option<bool>,
    /// New lists of actions.
    pub actions: Option<RoleActionsUpdate>,
}

/// New lists of actions. An omitted list is unchanged, so that omitting one never widens a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RoleActionsUpdate {
    /// New list of added actions.
    pub allow: Option<ActionSet>,
    /// New list of removed actions.
    pub deny: Option<ActionSet>,
}

impl RoleActionsUpdate {
    /// Returns `actions` with the new lists in place.
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
