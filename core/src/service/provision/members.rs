//! Members of organisations.

use super::{NewMember, Provisioning};
use crate::access::RoleRef;
use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::model::{AuditAction, Organization, Quota, ResourceKind};
use crate::model::{
    CustomRole, Member, MemberId, MemberKind, OrgId, Timestamp, WorkspaceId, is_label_name,
};
use crate::service::MemberAssignment;
use crate::service::access::roles::{ResolvedRole, follow_role};
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::members::assign::hold_role;
use crate::service::memories::label_counts::count_teams;
use crate::service::page::{Page, PageRequest};
use crate::service::quota::reserve_units;
use crate::store::{StoreExt, Transaction, decode_value};

impl Provisioning<'_> {
    /// Adds a member.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`], also for an unknown role, a role of a workspace, or a request for
    /// a login link, which [`Self::issue`] creates;
    /// [`Error::NotFound`] for an unknown organisation; [`Error::SlugTaken`] for the handle of
    /// another or a former member; [`Error::QuotaExceeded`].
    pub async fn create_member(&self, org: OrgId, new: &NewMember) -> Result<Member, Error> {
        self.service.checks().check(new)?;
        if new.login_link {
            let (path, code) = ("login_link", ProblemCode::InvalidValue);
            let message = "must be false: the operator issues a login link by itself";
            return Err(Error::invalid(path, code, message));
        }
        let env = self.service.env();
        self.service
            .transact(|mut transaction| async move {
                self.require_org(&mut transaction, org).await?;
                let handle = keys::member_handle(org, &new.handle);
                if transaction.get::<MemberId>(&handle).await?.is_some() {
                    let kind = EntityKind::Member;
                    return Err(Error::SlugTaken { kind });
                }
                if let RoleRef::Custom(id) = new.role {
                    let role = transaction.get::<CustomRole>(&keys::role(org, id)).await?;
                    if !role.is_some_and(|role| role.is_active && role.workspace_id.is_none()) {
                        let message = "must be viewer, member, admin, owner or an active role of \
                            the whole organisation";
                        return Err(Error::invalid("role", ProblemCode::NotFound, message));
                    }
                }
                let now = env.now();
                let member = self.add_member(&mut transaction, org, new, now).await?;
                let (actor, action) = (Actor::operator(org), AuditAction::MemberCreate);
                let resource = (ResourceKind::Member, member.id.0);
                let operation = AuditedOperation::begin(&transaction, env, now);
                operation.created(&mut transaction, actor, action, resource, &member);
                Ok(transaction.done(member))
            })
            .await
    }

    /// Returns the members of an organisation, in order of creation.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn members(&self, org: OrgId) -> Result<Vec<Member>, Error> {
        self.list(&keys::members(org)).await
    }

    /// Lists the members of an organisation, in order of creation.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page.
    pub async fn list_members(
        &self,
        org: OrgId,
        page: &PageRequest,
    ) -> Result<Page<Member>, Error> {
        self.page("provisioned members", keys::members(org), page)
            .await
    }

    /// Finds the member with this handle.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn member(&self, org: OrgId, handle: &str) -> Result<Option<Member>, Error> {
        if !is_label_name(handle) {
            return Ok(None);
        }
        self.named(&keys::member_handle(org, handle), |id| {
            keys::member(org, id)
        })
        .await
    }

    /// Finds the member with this identifier.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn member_by_id(&self, org: OrgId, id: MemberId) -> Result<Option<Member>, Error> {
        let found = self.service.store().get_as(&keys::member(org, id)).await?;
        Ok(found.map(|found| found.value))
    }

    /// Assigns a role to a member.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an unknown or inactive role, a role of another workspace, the
    /// role of an owner in a workspace, or if no owner would remain; [`Error::NotFound`] for an
    /// unknown member or workspace.
    pub async fn assign_role(
        &self,
        org: OrgId,
        member: MemberId,
        assignment: MemberAssignment,
    ) -> Result<(), Error> {
        self.service
            .assign_role_as_operator(org, member, assignment)
            .await
    }

    /// Returns the roles of a member in workspaces, as they are stored; none in removed ones.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn workspace_roles(
        &self,
        org: OrgId,
        member: MemberId,
    ) -> Result<Vec<(WorkspaceId, RoleRef)>, Error> {
        let range = keys::workspace_roles(org, member);
        let found = self.service.store().scan_all(&range).await?;
        let owner = keys::org(org);
        let owner = self.service.store().get_as::<Organization>(&owner).await?;
        let removing = owner.map(|owner| owner.value.removing);
        let removing = removing.unwrap_or_default();
        let mut roles = Vec::with_capacity(found.len());
        for found in &found {
            let workspace = keys::last_id(&found.key).map(WorkspaceId);
            let workspace = workspace.filter(|id| !removing.contains(id));
            let role = decode_value(found)?;
            roles.extend(workspace.map(|workspace| (workspace, role)));
        }
        Ok(roles)
    }

    /// Resolves an assigned role to the current one, with its record if it is a custom role.
    ///
    /// A deleted role resolves to the role that replaced it.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn current_role(
        &self,
        org: OrgId,
        role: RoleRef,
    ) -> Result<Option<(RoleRef, Option<CustomRole>)>, Error> {
        let followed = follow_role(&mut self.service.reading(), org, role).await?;
        Ok(followed.map(|followed| match followed {
            ResolvedRole::BuiltIn(role) => (RoleRef::BuiltIn(role), None),
            ResolvedRole::Custom(role) => (RoleRef::Custom(role.id), Some(*role)),
        }))
    }

    /// Removes a member and returns its last record.
    ///
    /// See [`Members::remove`](crate::service::Members::remove).
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for the last owner; [`Error::NotFound`].
    pub async fn remove_member(&self, org: OrgId, member: MemberId) -> Result<Member, Error> {
        self.service.remove_member_as_operator(org, member).await
    }

    /// Finds the custom role with this slug.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn custom_role(&self, org: OrgId, slug: &str) -> Result<Option<CustomRole>, Error> {
        if !is_label_name(slug) {
            return Ok(None);
        }
        self.named(&keys::role_slug(org, slug), |id| keys::role(org, id))
            .await
    }

    pub(in crate::service) async fn add_member(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
        new: &NewMember,
        now: Timestamp,
    ) -> Result<Member, Error> {
        let limits = self.service.limits();
        reserve_units(transaction, limits, org, Quota::Members, 1).await?;
        let member = Member {
            id: MemberId(self.service.env().uuid_at(now)),
            kind: new.kind,
            handle: new.handle.clone(),
            name: new.name.clone(),
            role: new.role,
            teams: new.teams.clone(),
            created_at: now,
        };
        transaction.create(keys::member_handle(org, &member.handle), &member.id);
        transaction.create(keys::member(org, member.id), &member);
        hold_role(transaction, org, member.role, member.id, None);
        count_teams(transaction, org, &[], &member.teams);
        if member.kind == MemberKind::User {
            transaction.add(keys::member_count(org), 1);
        }
        Ok(member)
    }
}
