//! Custom roles: creating, listing, reading and changing. Deletion is in `role_deletion`.

use crate::access::RoleRef;
use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::model::{
    AuditAction, CustomRole, CustomRoleUpdate, NewCustomRole, ResourceKind, RoleId, Workspace,
};
use crate::operation::Operation;
use crate::request::rules::Parsed;
use crate::request::{Path, Problems, request};
use crate::service::access::coverage::Coverage;
use crate::service::members::{ROLES_PREFETCHED, with_roles};
use crate::service::operation::{Authorized, Prefetch};
use crate::service::quota::RecordLimit;
use crate::service::{Caller, IfMatch, Roles, WithEtag};
use crate::store::{Key, RangeRead, Transaction, decode_value};

request! {
    /// A request to delete a custom role.
    #[derive(Copy, Default)]
    pub struct DeleteRole {
        /// New role of its holders: `viewer`, `member` or an active organisation-wide custom role.
        #[schemars(with = "Option<crate::schema::ReassignTarget>")]
        reassign_to: Option<RoleRef> as Option<Parsed<RoleRef>>,
    }
}

impl CustomRoleUpdate {
    fn applied_to(&self, role: &CustomRole) -> CustomRole {
        let mut changed = role.clone();
        let this = self.clone();
        changed.name = this.name.unwrap_or(changed.name);
        changed.slug = this.slug.unwrap_or(changed.slug);
        changed.description = this.description.unwrap_or(changed.description);
        changed.base_role = this.base_role.unwrap_or(changed.base_role);
        changed.is_active = this.is_active.unwrap_or(changed.is_active);
        changed.actions = this.actions.unwrap_or_default().applied_to(changed.actions);
        changed.act_for_teams = this.act_for_teams.unwrap_or(changed.act_for_teams);
        changed
    }
}

impl Roles<'_> {
    /// Lists the custom roles of an organisation, sorted by name, then by identifier.
    ///
    /// # Errors
    /// Those of [`Operation::ListCustomRoles`].
    pub async fn list(self, caller: &Caller, org_slug: &str) -> Result<Vec<CustomRole>, Error> {
        self.service
            .perform(Operation::ListCustomRoles, caller, |caller| async move {
                let range = keys::roles(caller.org());
                let first = RangeRead::first(range.clone(), ROLES_PREFETCHED);
                let prefetch = Prefetch::none().and_range(first);
                let mut op = caller.in_organization(Some(org_slug), prefetch).await?;
                let found = op.transaction.scan(&RangeRead::all(range)).await?;
                let roles: Result<Vec<CustomRole>, _> = found.iter().map(decode_value).collect();
                let mut roles = roles?;
                roles.retain(|role| op.principal.knows_role(role));
                roles.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
                op.done(roles)
            })
            .await
    }

    /// Returns a custom role with its entity tag.
    ///
    /// # Errors
    /// Those of [`Operation::GetCustomRole`].
    pub async fn get(
        self,
        caller: &Caller,
        org_slug: &str,
        role: RoleId,
    ) -> Result<WithEtag<CustomRole>, Error> {
        self.service
            .perform(Operation::GetCustomRole, caller, |caller| async move {
                let key = keys::role(caller.org(), role);
                let prefetch = Prefetch::keys([key.clone()]);
                let mut op = caller.in_organization(Some(org_slug), prefetch).await?;
                let found = op.find_role(&key).await?;
                op.done(WithEtag::strong(found))
            })
            .await
    }

    /// Creates a custom role.
    ///
    /// # Errors
    /// Those of [`Operation::CreateCustomRole`]; [`Error::InvalidRequest`] for an unknown workspace
    /// or an organisation with the maximum number of roles; [`Error::Forbidden`] for a role with
    /// actions that the caller lacks where it can be held.
    pub async fn create(
        self,
        caller: &Caller,
        org_slug: &str,
        request: &NewCustomRole,
    ) -> Result<CustomRole, Error> {
        self.service.checks().check(request)?;
        self.service
            .once(
                Operation::CreateCustomRole,
                caller,
                &(org_slug, request),
                |caller| async move {
                    let org = caller.org();
                    let workspace = request.workspace_id.map(|id| keys::workspace(org, id));
                    let keys = [keys::role_count(org), keys::role_slug(org, &request.slug)];
                    let prefetch =
                        with_roles(Prefetch::keys(keys).and_keys(workspace.clone()), org);
                    let caller = caller.authenticate(prefetch).await?;
                    let mut op = caller.in_organization(Some(org_slug)).await?;
                    let now = op.now;
                    let is_known = request.workspace_id.is_none_or(|id| op.principal.knows(id));
                    if let Some(key) = workspace
                        && (op.transaction.get::<Workspace>(&key).await?.is_none() || !is_known)
                    {
                        let (path, message) =
                            ("workspace_id", "must be a workspace of the organisation");
                        return Err(Error::invalid(path, ProblemCode::NotFound, message));
                    }
                    let role = CustomRole {
                        id: RoleId(self.service.env().uuid()),
                        org_id: org,
                        workspace_id: request.workspace_id,
                        name: request.name.clone(),
                        slug: request.slug.clone(),
                        base_role: request.base_role,
                        description: request.description.clone(),
                        is_active: true,
                        created_by: op.principal.member_id(),
                        created_at: now,
                        updated_at: now,
                        actions: request.actions,
                        act_for_teams: request.act_for_teams.clone(),
                    };
                    let coverage = Coverage::of(&mut op.transaction, &op.principal).await?;
                    coverage.require_role(&role, role.actions_if_active())?;
                    let counter = keys::role_count(org);
                    op.reserve_record(RecordLimit::CUSTOM_ROLES, counter)
                        .await?;
                    claim_slug(&mut op.transaction, &role).await?;
                    op.transaction.create(keys::role(org, role.id), &role);
                    let resource = (ResourceKind::Role, role.id.0);
                    op.created(AuditAction::RoleCreate, resource, &role);
                    op.done(role)
                },
                |caller, replay| async move {
                    let role = RoleId(replay.created);
                    let role = self.get(&caller, org_slug, role).await?;
                    Ok(role.value)
                },
            )
            .await
    }

    /// Changes a custom role. An update that changes nothing returns the role as it is.
    ///
    /// # Errors
    /// Those of [`Operation::UpdateCustomRole`]; [`Error::Forbidden`] for a role that has or would
    /// have actions the caller lacks where it can be held, active or not, for a role that the
    /// caller holds, unless it is an owner, and for an organisation-wide role while a private
    /// workspace does not exist for the caller.
    pub async fn update(
        self,
        caller: &Caller,
        org_slug: &str,
        role: RoleId,
        update: &CustomRoleUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<WithEtag<CustomRole>, Error> {
        self.service.checks().check(update)?;
        self.service
            .perform(Operation::UpdateCustomRole, caller, |caller| async move {
                let org = caller.org();
                let key = keys::role(org, role);
                let slug = update.slug.iter().map(|slug| keys::role_slug(org, slug));
                let prefetch = with_roles(Prefetch::keys([key.clone()]).and_keys(slug), org);
                let caller = caller.authenticate(prefetch).await?;
                let mut op = caller.in_organization(Some(org_slug)).await?;
                let before = op.find_role(&key).await?;
                IfMatch::require(if_match, &before)?;
                let mut after = update.applied_to(&before);
                if after == before {
                    return op.done(WithEtag::strong(before));
                }
                let mut problems = Problems::default();
                let path = Path::Field(Path::ROOT, "actions");
                after.actions.check_disjoint(&path, &mut problems);
                problems.into_result()?;
                let coverage = Coverage::of(&mut op.transaction, &op.principal).await?;
                let actions = before.actions_if_active() | after.actions_if_active();
                coverage.require_change(&before, actions)?;
                if after.slug != before.slug {
                    claim_slug(&mut op.transaction, &after).await?;
                    op.transaction.delete(keys::role_slug(org, &before.slug));
                }
                after.updated_at = op.now;
                op.transaction.put(key, &after);
                let resource = (ResourceKind::Role, role.0);
                op.changed(AuditAction::RoleUpdate, resource, &before, &after);
                op.done(WithEtag::strong(after))
            })
            .await
    }
}

impl Authorized<'_> {
    /// Reads a custom role that exists for the caller.
    ///
    /// # Errors
    /// [`Error::NotFound`], also for a role of a private workspace that does not exist for the
    /// caller; those of the store.
    pub(super) async fn find_role(&mut self, key: &Key) -> Result<CustomRole, Error> {
        let found: CustomRole = self.find(key, EntityKind::Role).await?;
        if self.principal.knows_role(&found) {
            Ok(found)
        } else {
            Err(Error::not_found(EntityKind::Role))
        }
    }
}

async fn claim_slug(transaction: &mut Transaction, role: &CustomRole) -> Result<(), Error> {
    let key = keys::role_slug(role.org_id, &role.slug);
    if transaction.get::<RoleId>(&key).await?.is_some() {
        return Err(Error::SlugTaken {
            kind: EntityKind::Role,
        });
    }
    transaction.put(key, &role.id);
    Ok(())
}
