//! Members and their roles.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Operator;
use super::requests::{NewProvisionedMember, RoleAssignment};
use crate::access::{BuiltInRole, RoleRef};
use crate::error::{EntityKind, Error, ProblemCode};
use crate::model::{Member, MemberId, MemberKind, OrgId, Organization, Timestamp, WorkspaceId};
use crate::service::{MemberAssignment, NewMember, Page, PageRequest};

/// A member as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "openapi", schemars(rename = "ProvisionedMember"))]
pub struct MemberView {
    /// Identifier of the member.
    pub id: MemberId,
    /// Kind of the member: a person or a program.
    pub kind: MemberKind,
    /// Handle for `user:` labels.
    pub handle: String,
    /// Name for people.
    pub name: String,
    /// Role in the organisation: `viewer`, `member`, `admin`, `owner` or the slug of a custom role.
    ///
    /// A custom role whose slug is one of the four names is shown by its identifier.
    pub role: String,
    /// Roles in workspaces, which replace it there.
    pub workspace_roles: Vec<WorkspaceRoleView>,
    /// Teams of the member.
    pub teams: Vec<String>,
    /// Time at which the member was added.
    pub created_at: Timestamp,
}

/// A role that a member holds in one workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "openapi", schemars(rename = "ProvisionedWorkspaceRole"))]
pub struct WorkspaceRoleView {
    /// Slug of the workspace.
    pub workspace: String,
    /// Role, in the form of the role in the organisation.
    pub role: String,
}

/// Cache of the names of roles and workspaces.
#[derive(Default)]
struct Names {
    roles: HashMap<RoleRef, String>,
    workspaces: HashMap<WorkspaceId, String>,
}

impl Operator<'_> {
    pub(super) async fn list_members(
        self,
        org: &str,
        page: &PageRequest,
    ) -> Result<Page<MemberView>, Error> {
        let org = self.org(org).await?;
        let found = self.provisioning().list_members(org.id, page).await?;
        let mut names = Names::default();
        let mut data = Vec::with_capacity(found.data.len());
        for member in found.data {
            data.push(self.view(org.id, member, &mut names).await?);
        }
        let next_cursor = found.next_cursor;
        Ok(Page { data, next_cursor })
    }

    pub(super) async fn create_member(
        self,
        org: &str,
        new: &NewProvisionedMember,
    ) -> Result<MemberView, Error> {
        self.service.checks().check(new)?;
        let org = self.org(org).await?;
        let new = NewMember {
            kind: new.kind,
            handle: new.handle.clone(),
            name: new.name.clone(),
            role: self.require_role(&org, &new.role).await?,
            teams: new.teams.clone(),
            login_link: false,
        };
        let created = self.provisioning().create_member(org.id, &new).await?;
        self.view_of(org.id, created).await
    }

    pub(super) async fn get_member(self, org: &str, member: &str) -> Result<MemberView, Error> {
        let org = self.org(org).await?;
        let member = self.require_member(&org, member).await?;
        self.view_of(org.id, member).await
    }

    pub(super) async fn remove_member(self, org: &str, member: &str) -> Result<(), Error> {
        let org = self.org(org).await?;
        let member = self.require_member(&org, member).await?;
        self.provisioning().remove_member(org.id, member.id).await?;
        Ok(())
    }

    pub(super) async fn assign_role(
        self,
        org: &str,
        member: &str,
        assigned: &RoleAssignment,
    ) -> Result<MemberView, Error> {
        let org = self.org(org).await?;
        let member = self.require_member(&org, member).await?;
        let role = self.require_role(&org, &assigned.role).await?;
        let assignment = match &assigned.workspace {
            None => MemberAssignment::Organization(role),
            Some(name) => {
                let workspace = self.require_workspace(&org, "workspace", name).await?;
                MemberAssignment::Workspace(workspace.id, Some(role))
            }
        };
        self.assign(&org, member.id, assignment).await
    }

    pub(super) async fn end_workspace_role(
        self,
        org: &str,
        member: &str,
        workspace: Option<&String>,
    ) -> Result<MemberView, Error> {
        let Some(workspace) = workspace else {
            let message = "is required; a role in the organisation can only be replaced";
            return Err(Error::invalid("workspace", ProblemCode::Required, message));
        };
        let org = self.org(org).await?;
        let member = self.require_member(&org, member).await?;
        let workspace = self.require_workspace(&org, "workspace", workspace).await?;
        let assignment = MemberAssignment::Workspace(workspace.id, None);
        self.assign(&org, member.id, assignment).await
    }

    async fn assign(
        self,
        org: &Organization,
        member: MemberId,
        assignment: MemberAssignment,
    ) -> Result<MemberView, Error> {
        let provisioning = self.provisioning();
        provisioning.assign_role(org.id, member, assignment).await?;
        let member = provisioning.member_by_id(org.id, member).await?;
        let member = member.ok_or(Error::not_found(EntityKind::Member))?;
        self.view_of(org.id, member).await
    }

    /// Finds the member that the path names.
    pub(super) async fn require_member(
        self,
        org: &Organization,
        name: &str,
    ) -> Result<Member, Error> {
        let found = self.member_named(org.id, name).await?;
        found.ok_or(Error::not_found(EntityKind::Member))
    }

    /// Finds the member with this identifier or handle.
    ///
    /// The identifier takes precedence: a handle may look like one, and must not impersonate
    /// another member.
    pub(super) async fn member_named(
        self,
        org: OrgId,
        name: &str,
    ) -> Result<Option<Member>, Error> {
        let provisioning = self.provisioning();
        if let Ok(id) = name.parse()
            && let Some(found) = provisioning.member_by_id(org, id).await?
        {
            return Ok(Some(found));
        }
        provisioning.member(org, name).await
    }

    /// Finds a role by name: a built-in one, or a custom one by its slug or identifier.
    async fn require_role(self, org: &Organization, name: &str) -> Result<RoleRef, Error> {
        if let Ok(role) = name.parse::<RoleRef>() {
            return Ok(role);
        }
        match self.provisioning().custom_role(org.id, name).await? {
            Some(role) => Ok(RoleRef::Custom(role.id)),
            None => {
                let message = format!(
                    "must be viewer, member, admin, owner, or the slug or identifier of a custom \
                     role of {}",
                    org.slug
                );
                Err(Error::invalid("role", ProblemCode::NotFound, message))
            }
        }
    }

    pub(super) async fn view_of(self, org: OrgId, member: Member) -> Result<MemberView, Error> {
        self.view(org, member, &mut Names::default()).await
    }

    async fn view(
        self,
        org: OrgId,
        member: Member,
        names: &mut Names,
    ) -> Result<MemberView, Error> {
        let role = self.role_name(org, member.role, names).await?;
        let mut workspace_roles = Vec::new();
        let held = self.provisioning().workspace_roles(org, member.id).await?;
        for (workspace, role) in held {
            workspace_roles.push(WorkspaceRoleView {
                workspace: self.workspace_name(org, workspace, names).await?,
                role: self.role_name(org, role, names).await?,
            });
        }
        Ok(MemberView {
            id: member.id,
            kind: member.kind,
            handle: member.handle,
            name: member.name,
            role,
            workspace_roles,
            teams: member.teams,
            created_at: member.created_at,
        })
    }

    async fn role_name(
        self,
        org: OrgId,
        role: RoleRef,
        names: &mut Names,
    ) -> Result<String, Error> {
        if let Some(name) = names.roles.get(&role) {
            return Ok(name.clone());
        }
        let found = self.provisioning().current_role(org, role).await?;
        let name = match &found {
            None => role.to_string(),
            Some((current, None)) => current.to_string(),
            Some((_, Some(custom))) if custom.slug.parse::<BuiltInRole>().is_ok() => {
                custom.id.to_string()
            }
            Some((_, Some(custom))) => custom.slug.clone(),
        };
        names.roles.insert(role, name.clone());
        Ok(name)
    }

    async fn workspace_name(
        self,
        org: OrgId,
        workspace: WorkspaceId,
        names: &mut Names,
    ) -> Result<String, Error> {
        if let Some(name) = names.workspaces.get(&workspace) {
            return Ok(name.clone());
        }
        let found = self.provisioning().workspace_by_id(org, workspace).await?;
        let name = found.map_or_else(|| workspace.to_string(), |found| found.slug);
        names.workspaces.insert(workspace, name.clone());
        Ok(name)
    }
}
