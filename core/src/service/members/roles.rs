//! Custom roles: creating, listing, reading and changing. Deletion is in `role_deletion`.

use crate::access::{Credential, CredentialKind, RequiredPermission, RoleRef, permissions};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::Limits;
use crate::model::{CustomRole, CustomRoleUpdate, NewCustomRole, RoleActions, RoleId, Workspace};
use crate::service::kit::audit::{Actor, AuditedOperation};
use crate::service::kit::audit_entry::{AuditAction, ResourceKind};
use crate::service::kit::principal::Principal;
use crate::service::kit::validate::{Problems, reserve_quota};
use crate::service::{IfMatch, KnowledgeService, WithEtag};
use crate::store::{StoreExt, Transaction, decode_value};

/// A request to delete a custom role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeleteRole {
    /// New role of its holders: `viewer`, `member` or an active organisation-wide custom role.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::ReassignTarget>")
    )]
    pub reassign_to: Option<RoleRef>,
}

impl CustomRoleUpdate {
    pub(crate) fn validate(&self, limits: &Limits) -> Result<(), Error> {
        let mut problems = Problems::default();
        self.name
            .iter()
            .for_each(|name| problems.name("name", name, limits));
        self.slug
            .iter()
            .for_each(|slug| problems.slug("slug", slug));
        self.description
            .iter()
            .for_each(|text| problems.description("description", text));
        if let Some(actions) = self.actions {
            // An unchanged list is checked together with the stored role.
            check_actions(&mut problems, &actions.applied_to(RoleActions::default()));
        }
        problems.into_result()
    }

    fn applied_to(&self, role: &CustomRole) -> CustomRole {
        let mut changed = role.clone();
        let this = self.clone();
        changed.name = this.name.unwrap_or(changed.name);
        changed.slug = this.slug.unwrap_or(changed.slug);
        changed.description = this.description.unwrap_or(changed.description);
        changed.base_role = this.base_role.unwrap_or(changed.base_role);
        changed.is_active = this.is_active.unwrap_or(changed.is_active);
        changed.actions = this.actions.unwrap_or_default().applied_to(changed.actions);
        changed
    }
}

/// Reports the actions that are in both lists.
pub(crate) fn check_actions(problems: &mut Problems, actions: &RoleActions) {
    for both in (actions.allow & actions.deny).iter() {
        problems.push(
            "actions",
            ProblemCode::Duplicate,
            format!("must not have {both} in both lists"),
        );
    }
}

impl KnowledgeService {
    /// Lists the custom roles of an organisation, sorted by name, then by identifier.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation that is not the
    /// caller's; [`Error::Forbidden`] without `role:read`.
    pub async fn list_custom_roles(
        &self,
        credential: &Credential,
        org_slug: &str,
    ) -> Result<Vec<CustomRole>, Error> {
        self.transact(|mut reading| async move {
            let caller = self
                .authorize_in_org(&mut reading, credential, org_slug, permissions::LIST_ROLES)
                .await?;
            let found = self.store().scan_all(&keys::roles(caller.org_id())).await?;
            let roles: Result<Vec<CustomRole>, _> = found.iter().map(decode_value).collect();
            let mut roles = roles?;
            roles.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
            reading.done(roles)
        })
        .await
    }

    /// Returns a custom role with its entity tag.
    ///
    /// # Errors
    /// As [`KnowledgeService::list_custom_roles`], and [`Error::NotFound`] for an unknown role.
    pub async fn custom_role(
        &self,
        credential: &Credential,
        org_slug: &str,
        role: RoleId,
    ) -> Result<WithEtag<CustomRole>, Error> {
        self.transact(|mut reading| async move {
            let caller = self
                .authorize_in_org(&mut reading, credential, org_slug, permissions::READ_ROLE)
                .await?;
            let key = keys::role(caller.org_id(), role);
            let found = reading.read::<CustomRole>(&key).await?;
            let found = found.ok_or(Error::NotFound {
                what: "custom role",
            })?;
            reading.done(WithEtag::strong(found))
        })
        .await
    }

    /// Creates a custom role.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values, an unknown workspace or an organisation with
    /// the maximum number of roles; [`Error::Unauthenticated`]; [`Error::NotFound`] for an
    /// organisation that is not the caller's; [`Error::Forbidden`] without `role:manage` or for a
    /// role that has actions the caller lacks; [`Error::SlugTaken`].
    pub async fn create_custom_role(
        &self,
        credential: &Credential,
        org_slug: &str,
        request: &NewCustomRole,
    ) -> Result<CustomRole, Error> {
        let mut problems = Problems::default();
        problems.name("name", &request.name, self.limits());
        problems.slug("slug", &request.slug);
        problems.description("description", &request.description);
        check_actions(&mut problems, &request.actions);
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let caller = self
                .authorize_in_org(
                    &mut transaction,
                    credential,
                    org_slug,
                    permissions::CREATE_ROLE,
                )
                .await?;
            let org = caller.org_id();
            let now = self.env().now();
            if let Some(workspace) = request.workspace_id
                && transaction
                    .read::<Workspace>(&keys::workspace(org, workspace))
                    .await?
                    .is_none()
            {
                let message = "must be a workspace of the organisation";
                return Err(Error::invalid(
                    "workspace_id",
                    ProblemCode::NotFound,
                    message,
                ));
            }
            let role = CustomRole {
                id: RoleId(self.env().uuid()),
                org_id: org,
                workspace_id: request.workspace_id,
                name: request.name.clone(),
                slug: request.slug.clone(),
                base_role: request.base_role,
                description: request.description.clone(),
                is_active: true,
                created_by: caller.member_id(),
                created_at: now,
                updated_at: now,
                actions: request.actions,
            };
            caller.require_covers(role.effective_actions())?;
            let limit = self.limits().custom_roles_per_org_max;
            let (counter, what) = (keys::role_count(org), ("organisation", "custom roles"));
            reserve_quota(&mut transaction, counter, limit, "body", what).await?;
            self.claim_slug(&mut transaction, &role).await?;
            transaction.create(keys::role(org, role.id), &role);
            AuditedOperation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::RoleCreate,
                (ResourceKind::Role, role.id.0),
                &role,
            );
            transaction.done(role)
        })
        .await
    }

    /// Changes a custom role. An update that changes nothing returns the role as it is.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an organisation that is not the caller's or an unknown role;
    /// [`Error::Forbidden`] without `role:manage` or for a role that would have actions the caller
    /// lacks; [`Error::SlugTaken`]; [`Error::PreconditionFailed`] if the role is at none of the
    /// versions of `if_match`.
    pub async fn update_custom_role(
        &self,
        credential: &Credential,
        org_slug: &str,
        role: RoleId,
        update: &CustomRoleUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<WithEtag<CustomRole>, Error> {
        update.validate(self.limits())?;
        self.transact(|mut transaction| async move {
            let caller = self
                .authorize_in_org(
                    &mut transaction,
                    credential,
                    org_slug,
                    permissions::UPDATE_ROLE,
                )
                .await?;
            let key = keys::role(caller.org_id(), role);
            let before = transaction
                .read::<CustomRole>(&key)
                .await?
                .ok_or(Error::NotFound {
                    what: "custom role",
                })?;
            IfMatch::require(if_match, &before)?;
            let mut after = update.applied_to(&before);
            if after == before {
                return transaction.done(WithEtag::strong(before));
            }
            let mut problems = Problems::default();
            check_actions(&mut problems, &after.actions);
            problems.into_result()?;
            caller.require_covers(after.effective_actions())?;
            if after.slug != before.slug {
                self.claim_slug(&mut transaction, &after).await?;
                transaction.delete(keys::role_slug(caller.org_id(), &before.slug));
            }
            after.updated_at = self.env().now();
            transaction.put(key, &after);
            AuditedOperation::begin(&transaction, self.env(), after.updated_at).changed(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::RoleUpdate,
                (ResourceKind::Role, role.0),
                &before,
                &after,
            );
            transaction.done(WithEtag::strong(after))
        })
        .await
    }

    /// Authenticates the holder of a session and checks a permission in its organisation.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for the slug of another organisation;
    /// [`Error::Forbidden`] without the permission.
    pub(crate) async fn authorize_in_org(
        &self,
        transaction: &mut Transaction,
        credential: &Credential,
        org_slug: &str,
        permission: RequiredPermission,
    ) -> Result<Principal, Error> {
        let caller = Principal::authenticate(
            transaction,
            credential,
            CredentialKind::Session,
            self.env().now(),
        )
        .await?;
        if caller.org.slug != org_slug {
            return Err(Error::NotFound {
                what: "organisation",
            });
        }
        caller.require(permission)?;
        Ok(caller)
    }

    async fn claim_slug(
        &self,
        transaction: &mut Transaction,
        role: &CustomRole,
    ) -> Result<(), Error> {
        let key = keys::role_slug(role.org_id, &role.slug);
        if transaction.read::<RoleId>(&key).await?.is_some() {
            return Err(Error::SlugTaken {
                what: "custom role",
            });
        }
        transaction.put(key, &role.id);
        Ok(())
    }
}
