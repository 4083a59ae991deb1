//! Organisations and their workspaces.

use std::collections::{BTreeMap, BTreeSet};

use super::{NewMember, NewOrganization, NewWorkspace, Provisioning};
use crate::access::{BuiltInRole, RoleRef};
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{
    AudienceLabel, AudienceScope, Member, MemberKind, OrgId, Organization, Source, Workspace,
    WorkspaceId, is_label_name,
};
use crate::model::{AuditAction, ResourceKind};
use crate::service::audit::log::AUDIT_PURGE_INTERVAL;
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::page::{Page, PageRequest};
use crate::service::tasks::ScheduledTask;
use crate::service::workspace::access::put_private;
use crate::store::StoreExt;

impl Provisioning<'_> {
    /// Creates an organisation with its first member, an owner.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`]; [`Error::SlugTaken`].
    pub async fn create_organization(
        &self,
        new: &NewOrganization,
    ) -> Result<(Organization, Member), Error> {
        self.service.checks().check(new)?;
        let owner = NewMember {
            kind: MemberKind::User,
            handle: new.owner.handle.clone(),
            name: new.owner.name.clone(),
            role: RoleRef::BuiltIn(BuiltInRole::Owner),
            teams: new.owner.teams.clone(),
            login_link: false,
        };
        let (slug, owner) = (&new.slug, &owner);
        let env = self.service.env();
        self.service
            .transact(|mut transaction| async move {
                let now = env.now();
                let org = Organization {
                    id: OrgId(env.uuid()),
                    name: new.name.clone(),
                    slug: slug.clone(),
                    created_at: now,
                    erasing: BTreeMap::new(),
                    removing: Vec::new(),
                    private: BTreeSet::new(),
                };
                let slug_key = keys::org_slug(slug);
                if transaction.get::<OrgId>(&slug_key).await?.is_some() {
                    let kind = EntityKind::Organization;
                    return Err(Error::SlugTaken { kind });
                }
                transaction.put(slug_key, &org.id);
                transaction.create(keys::org(org.id), &org);
                let member = self
                    .add_member(&mut transaction, org.id, owner, now)
                    .await?;
                ScheduledTask::Audit(org.id).schedule(
                    &mut transaction,
                    now.plus(AUDIT_PURGE_INTERVAL),
                    env,
                );
                let (actor, action) = (Actor::operator(org.id), AuditAction::OrganizationCreate);
                let resource = (ResourceKind::Organization, org.id.0);
                let operation = AuditedOperation::begin(&transaction, env, now);
                operation.created(&mut transaction, actor, action, resource, &org);
                Ok(transaction.done((org, member)))
            })
            .await
    }

    /// Finds the organisation with this slug.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn organization(&self, slug: &str) -> Result<Option<Organization>, Error> {
        if !is_label_name(slug) {
            return Ok(None);
        }
        self.named(&keys::org_slug(slug), keys::org).await
    }

    /// Lists the organisations, in order of creation.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page.
    pub async fn list_organizations(
        &self,
        page: &PageRequest,
    ) -> Result<Page<Organization>, Error> {
        self.page("organisations", keys::orgs(), page).await
    }

    /// Returns all organisations.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn organizations(&self) -> Result<Vec<Organization>, Error> {
        self.list(&keys::orgs()).await
    }

    /// Creates a workspace.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`], also for a private one beyond their maximum number;
    /// [`Error::NotFound`] for an unknown organisation; [`Error::SlugTaken`].
    pub async fn create_workspace(
        &self,
        org: OrgId,
        new: &NewWorkspace,
    ) -> Result<Workspace, Error> {
        self.service.checks().check(new)?;
        let env = self.service.env();
        self.service
            .transact(|mut transaction| async move {
                let owner = transaction.get::<Organization>(&keys::org(org)).await?;
                let owner = owner.ok_or(Error::not_found(EntityKind::Organization))?;
                let slug_key = keys::workspace_slug(org, &new.slug);
                let taken = [slug_key.clone(), keys::former_workspace(org, &new.slug)];
                let taken = transaction.get_many::<WorkspaceId>(&taken).await?;
                if taken.iter().any(Option::is_some) {
                    let kind = EntityKind::Workspace;
                    return Err(Error::SlugTaken { kind });
                }
                let own = AudienceLabel::new(AudienceScope::Workspace, &new.slug)
                    .expect("a valid slug is a valid name");
                let workspace = Workspace {
                    id: WorkspaceId(env.uuid()),
                    name: new.name.clone(),
                    slug: new.slug.clone(),
                    audience: new.audience.clone().unwrap_or(own),
                    access: new.access,
                    created_at: env.now(),
                };
                put_private(&mut transaction, owner, workspace.id, new.access)?;
                transaction.put(slug_key, &workspace.id);
                transaction.create(keys::workspace(org, workspace.id), &workspace);
                let (actor, action) = (Actor::operator(org), AuditAction::WorkspaceCreate);
                let resource = (ResourceKind::Workspace, workspace.id.0);
                let operation = AuditedOperation::begin(&transaction, env, workspace.created_at);
                operation.created(&mut transaction, actor, action, resource, &workspace);
                Ok(transaction.done(workspace))
            })
            .await
    }

    /// Returns the workspaces of an organisation, in order of creation.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn workspaces(&self, org: OrgId) -> Result<Vec<Workspace>, Error> {
        self.list(&keys::workspaces(org)).await
    }

    /// Lists the workspaces of an organisation, in order of creation.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page.
    pub async fn list_workspaces(
        &self,
        org: OrgId,
        page: &PageRequest,
    ) -> Result<Page<Workspace>, Error> {
        self.page("provisioned workspaces", keys::workspaces(org), page)
            .await
    }

    /// Finds the workspace with this slug.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn workspace(&self, org: OrgId, slug: &str) -> Result<Option<Workspace>, Error> {
        if !is_label_name(slug) {
            return Ok(None);
        }
        self.named(&keys::workspace_slug(org, slug), |id| {
            keys::workspace(org, id)
        })
        .await
    }

    /// Finds the workspace with this identifier.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn workspace_by_id(
        &self,
        org: OrgId,
        id: WorkspaceId,
    ) -> Result<Option<Workspace>, Error> {
        let found = self
            .service
            .store()
            .get_as(&keys::workspace(org, id))
            .await?;
        Ok(found.map(|found| found.value))
    }

    /// Returns the sources of an organisation, in order of creation.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn sources(&self, org: OrgId) -> Result<Vec<Source>, Error> {
        self.list(&keys::sources(org)).await
    }

    /// Lists the sources of an organisation, in order of creation.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page.
    pub async fn list_sources(
        &self,
        org: OrgId,
        page: &PageRequest,
    ) -> Result<Page<Source>, Error> {
        self.page("provisioned sources", keys::sources(org), page)
            .await
    }
}
