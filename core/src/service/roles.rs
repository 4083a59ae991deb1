//! Custom roles: made, listed, read and changed. Their deletion has a file of its own.

use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::validate::{Problems, take_place};
use super::{IfMatch, KnowledgeService, Tagged};
use crate::access::{Credential, CredentialKind, Need, Principal, RoleRef, needs};
use crate::error::{Error, ProblemCode};
use crate::limits::Limits;
use crate::model::{CustomRole, CustomRoleUpdate, NewCustomRole, RoleActions, RoleId, Workspace};
use crate::keys;
use crate::store::{StoreExt, Transaction, decode_value};

/// The request to delete a custom role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeleteRole {
    /// The role that its holders get: `viewer`, `member` or a custom role of the whole organisation.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Heir>"))]
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
            // A list that stays is looked at when it is read.
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

/// Notes the actions that stand in both lists.
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
    /// The custom roles of an organisation, by name and then by identifier.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation that is not the caller's;
    /// [`Error::Forbidden`] without `role:read`.
    pub async fn list_custom_roles(
        &self,
        credential: &Credential,
        org_slug: &str,
    ) -> Result<Vec<CustomRole>, Error> {
        self.transact(|mut reading| async move {
            let caller = self
                .enter_org(&mut reading, credential, org_slug, needs::LIST_ROLES)
                .await?;
            let found = self.store().scan_all(&keys::roles(caller.org_id())).await?;
            let roles: Result<Vec<CustomRole>, _> = found.iter().map(decode_value).collect();
            let mut roles = roles?;
            roles.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
            reading.done(roles)
        })
        .await
    }

    /// One custom role, with its entity tag.
    ///
    /// # Errors
    /// As [`KnowledgeService::list_custom_roles`], and [`Error::NotFound`] for an unknown role.
    pub async fn custom_role(
        &self,
        credential: &Credential,
        org_slug: &str,
        role: RoleId,
    ) -> Result<Tagged<CustomRole>, Error> {
        self.transact(|mut reading| async move {
            let caller = self
                .enter_org(&mut reading, credential, org_slug, needs::READ_ROLE)
                .await?;
            let key = keys::role(caller.org_id(), role);
            let found = reading.read::<CustomRole>(&key).await?;
            let found = found.ok_or(Error::NotFound {
                what: "custom role",
            })?;
            reading.done(Tagged::strong(found))
        })
        .await
    }

    /// Makes a custom role.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values, an unknown workspace or an organisation with as many roles as it may
    /// have; [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation that is not the caller's;
    /// [`Error::Forbidden`] without `role:manage` or for a role that may do what the caller may not;
    /// [`Error::SlugTaken`].
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
                .enter_org(&mut transaction, credential, org_slug, needs::CREATE_ROLE)
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
            take_place(&mut transaction, counter, limit, "body", what).await?;
            self.claim_slug(&mut transaction, &role).await?;
            transaction.create(keys::role(org, role.id), &role);
            Operation::begin(&transaction, self.env(), now).created(
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

    /// Changes a custom role. An update that sets nothing returns the role as it is.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values; [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation
    /// that is not the caller's or an unknown role; [`Error::Forbidden`] without `role:manage` or for a role that
    /// may then do what the caller may not; [`Error::SlugTaken`]; [`Error::PreconditionFailed`] where the role is at
    /// none of the versions of `if_match`.
    pub async fn update_custom_role(
        &self,
        credential: &Credential,
        org_slug: &str,
        role: RoleId,
        update: &CustomRoleUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<Tagged<CustomRole>, Error> {
        update.validate(self.limits())?;
        self.transact(|mut transaction| async move {
            let caller = self
                .enter_org(&mut transaction, credential, org_slug, needs::UPDATE_ROLE)
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
                return transaction.done(Tagged::strong(before));
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
            Operation::begin(&transaction, self.env(), after.updated_at).changed(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::RoleUpdate,
                (ResourceKind::Role, role.0),
                &before,
                &after,
            );
            transaction.done(Tagged::strong(after))
        })
        .await
    }

    /// Recognises the holder of a session in the organisation of this slug, and refuses one that may not do what is needed.
    pub(super) async fn enter_org(
        &self,
        transaction: &mut Transaction,
        credential: &Credential,
        org_slug: &str,
        need: Need,
    ) -> Result<Principal, Error> {
        let caller = Principal::recognise(
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
        caller.require(need)?;
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
