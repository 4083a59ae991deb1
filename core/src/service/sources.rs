//! Sources: where memories come from. They belong to the organisation as a whole.

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::page::{Listing, Page, PageRequest};
use super::validate::Problems;
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::Error;
use crate::model::{Source, SourceId};
use crate::keys;
use crate::store::Direction;

/// A new source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewSource {
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// What it is: 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub kind: String,
}

impl KnowledgeService {
    /// Makes a source.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values; [`Error::Unauthenticated`]; [`Error::Forbidden`] without
    /// `connector:manage` in the organisation.
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
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            caller.require(needs::CREATE_SOURCE)?;
            let source = Source {
                id: SourceId(self.env().uuid_at(now)),
                name: new.name.clone(),
                kind: new.kind.clone(),
                created_at: now,
            };
            transaction.create(keys::source(caller.org_id(), source.id), &source);
            Operation::begin(&transaction, self.env(), now).created(
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

    /// The sources of the organisation, in the order they were made.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`]; [`Error::Forbidden`] without
    /// `memory:read` anywhere.
    pub async fn list_sources(
        &self,
        credential: &Credential,
        page: &PageRequest,
    ) -> Result<Page<Source>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut reading, credential, CredentialKind::Bearer, now).await?;
            let need = needs::LIST_SOURCES.actions();
            caller.require_somewhere(&mut reading, need).await?;
            let range = keys::sources(caller.org_id());
            let listing = Listing::new("sources", &(), range, Direction::Forward);
            let found = listing.page(self.store(), page, |_, source| Ok(Some(source)));
            reading.done(found.await?)
        })
        .await
    }

    /// One source.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::Forbidden`] without `memory:read` anywhere; [`Error::NotFound`].
    pub async fn source(&self, credential: &Credential, source: SourceId) -> Result<Source, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut reading, credential, CredentialKind::Bearer, now).await?;
            let need = needs::READ_SOURCE.actions();
            caller.require_somewhere(&mut reading, need).await?;
            let key = keys::source(caller.org_id(), source);
            let found = reading.read::<Source>(&key).await?;
            reading.done(found.ok_or(Error::NotFound { what: "source" })?)
        })
        .await
    }
}
