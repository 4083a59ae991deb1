//! Custom roles on the wire.

use serde::{Deserialize, Serialize, Serializer};

use super::{MemberId, OrgId, RoleId, Timestamp, WorkspaceId};
use crate::access::{ActionSet, BaseRole};
use crate::error::ProblemCode;
use crate::limits::TEAMS_PER_MEMBER_MAX;
use crate::request::rules::{
    Actions, Description, Flag, Id, Items, List, Name, Nullable, Object, Parsed, Rule, Slug, Unique,
};
use crate::request::{Checks, Path, Problems, Reading, request};
use serde_json::Value;

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
    /// Teams for whose members a service account with the role may act, if it may act for
    /// members; `null` for members of any team and of none.
    #[serde(default)]
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<Vec<crate::schema::Slug>>")
    )]
    pub act_for_teams: Option<Vec<String>>,
}

impl CustomRole {
    /// Returns the actions of its holders.
    ///
    /// These are (base role ∪ allow) − deny, or base role − deny while the role is inactive.
    #[must_use]
    pub fn effective_actions(&self) -> ActionSet {
        if self.is_active {
            self.actions_if_active()
        } else {
            self.base_role.actions() - self.actions.deny
        }
    }

    /// Returns the actions that its holders have whenever the role is active.
    ///
    /// These are (base role ∪ allow) − deny. Whoever changes or assigns the role has to hold them.
    #[must_use]
    pub fn actions_if_active(&self) -> ActionSet {
        (self.base_role.actions() | self.actions.allow) - self.actions.deny
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

request! {
    /// A new custom role.
    pub struct NewCustomRole {
        /// Name, 1 to 128 characters.
        name: String as Name,
        /// Slug, 1 to 64 characters of `a-z 0-9 - _ .`.
        slug: String as Slug,
        /// Role that it extends.
        base_role: BaseRole as Parsed<BaseRole>,
        /// Description, at most 1,024 characters.
        description: String as Description = String::new(),
        /// Only workspace that the role can be held in; organisation-wide if omitted.
        workspace_id: Option<WorkspaceId> as Option<Id<WorkspaceId>>,
        /// Actions that it adds to the base role and removes from it.
        actions: RoleActions as RoleActionLists = RoleActions::default(),
        /// Teams for whose members a service account with the role may act, at most 64, if it
        /// may act for members; members of any team and of none if omitted.
        act_for_teams: Option<Vec<String>> as Option<ActForTeams>,
    }
}

request! {
    /// A change of a custom role. Omitted fields are unchanged.
    #[derive(Default)]
    pub struct CustomRoleUpdate {
        /// New name, 1 to 128 characters.
        name: Option<String> as Option<Name>,
        /// New slug, 1 to 64 characters of `a-z 0-9 - _ .`.
        slug: Option<String> as Option<Slug>,
        /// New description, at most 1,024 characters.
        description: Option<String> as Option<Description>,
        /// New base role.
        base_role: Option<BaseRole> as Option<Parsed<BaseRole>>,
        /// True to activate the role, false to deactivate it.
        is_active: Option<bool> as Option<Flag>,
        /// New lists of actions.
        actions: Option<RoleActionsUpdate> as Option<Object<RoleActionsUpdate>>,
        /// New list of the teams for whose members a service account with the role may act;
        /// `null` for members of any team and of none.
        act_for_teams: Option<Option<Vec<String>>> as Option<Nullable<ActForTeams>>,
    }
}

request! {
    /// New lists of actions. An omitted list is unchanged, so that omitting one never widens a role.
    #[derive(Copy, Default)]
    pub struct RoleActionsUpdate {
        /// New list of added actions.
        allow: Option<ActionSet> as Option<Actions>,
        /// New list of removed actions.
        deny: Option<ActionSet> as Option<Actions>,
    }
    check RoleActionsUpdate::check_disjoint;
}

/// Teams for whose members a service account may act.
type ActForTeams = List<Slug, Items<0, TEAMS_PER_MEMBER_MAX>, Unique>;

/// The lists of a new role. An omitted one is empty.
enum RoleActionLists {}

impl Rule for RoleActionLists {
    type Value = RoleActions;

    const LIST: &'static str = "a list of objects";

    fn read(json: &Value, path: &Path<'_>, reading: &mut Reading<'_>) -> Option<RoleActions> {
        let lists = Object::<RoleActionsUpdate>::read(json, path, reading)?;
        Some(lists.applied_to(RoleActions::default()))
    }

    fn check(actions: &RoleActions, path: &Path<'_>, _: &Checks<'_>, problems: &mut Problems) {
        actions.check_disjoint(path, problems);
    }

    fn write<S: Serializer>(actions: &RoleActions, serializer: S) -> Result<S::Ok, S::Error> {
        actions.serialize(serializer)
    }
}

#[cfg(feature = "openapi")]
crate::schema::schemas_of_values! { [] RoleActionLists => RoleActionsUpdate; }

impl RoleActions {
    /// Adds a problem for each action that is in both lists.
    pub(crate) fn check_disjoint(&self, path: &Path<'_>, problems: &mut Problems) {
        for both in (self.allow & self.deny).iter() {
            let message = format!("must not have {both} in both lists");
            problems.push(path, ProblemCode::Duplicate, message);
        }
    }
}

impl RoleActionsUpdate {
    /// Adds the problems of the lists by themselves.
    ///
    /// An unchanged list is checked together with the stored role.
    fn check_disjoint(&self, path: &Path<'_>, problems: &mut Problems) {
        let actions = self.applied_to(RoleActions::default());
        actions.check_disjoint(path, problems);
    }

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
