//! Sources of memories. They belong to the organisation as a whole.

use crate::access::{Credential, CredentialKind, permissions};
use crate::error::Error;
use crate::keys;
use crate::model::{Source, SourceId};
use crate::service::KnowledgeService;
use crate::service::kit::audit::{Actor, AuditedOperation};
use crate::service::kit::audit_entry::{AuditAction, ResourceKind};
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::principal::Principal;
use crate::service::kit::validate::Problems;
use crate::store::Direction;

/// A new source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewSource {
    /// Name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Kind of the source, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub kind: String,
}

impl KnowledgeService {
    /// Creates a source.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values; [`Error::Unauthenticated`];
    /// [`Error::Forbidden`] without `connector:manage` in the organisation.
    pub async fn create_source(
        &self,
        credential: &Credential,
        new: &NewSource,
    ) -> Result<Source, Error> {
        let mut problems = Problems::default();
        problems.name("name", &new.name, self.limits());
        problems.name("kind", &new.kind, self.limits());
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            caller.require(permissions::CREATE_SOURCE)?;
            let source = Source {
                id: SourceId(self.env().uuid_at(now)),
                name: new.name.clone(),
                kind: new.kind.clone(),
                created_at: now,
            };
            transaction.create(keys::source(caller.org_id(), source.id), &source);
            AuditedOperation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::SourceCreate,
                (ResourceKind::Source, source.id.0),
                &source,
            );
            transaction.done(source)
        })
        .await
    }

    /// Lists the sources of the organisation, in order of creation.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`];
    /// [`Error::Forbidden`] without `memory:read` anywhere.
    pub async fn list_sources(
        &self,
        credential: &Credential,
        page: &PageRequest,
    ) -> Result<Page<Source>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut reading, credential, CredentialKind::Bearer, now)
                    .await?;
            let permission = permissions::LIST_SOURCES.actions();
            caller.require_somewhere(&mut reading, permission).await?;
            let range = keys::sources(caller.org_id());
            let listing = Listing::new("sources", &(), range, Direction::Forward);
            let found = listing.page(self.store(), page, |_, source| Ok(Some(source)));
            reading.done(found.await?)
        })
        .await
    }

    /// Reads one source.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::Forbidden`] without `memory:read` anywhere;
    /// [`Error::NotFound`].
    pub async fn source(&self, credential: &Credential, source: SourceId) -> Result<Source, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut reading, credential, CredentialKind::Bearer, now)
                    .await?;
            let permission = permissions::READ_SOURCE.actions();
            caller.require_somewhere(&mut reading, permission).await?;
            let key = keys::source(caller.org_id(), source);
            let found = reading.read::<Source>(&key).await?;
            reading.done(found.ok_or(Error::NotFound { what: "source" })?)
        })
        .await
    }
}
