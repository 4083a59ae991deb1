//! Sources of memories. They belong to the organisation as a whole.

use crate::access::Credential;
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::model::{
    AuditAction, InboundWebhookId, OrgId, Organization, Quota, ResourceKind, Source, SourceId,
    WorkspaceId,
};
use crate::operation::Operation;
use crate::request::request;
use crate::request::rules::Name;
use crate::service::KnowledgeService;
use crate::service::kit::act::Wants;
use crate::service::kit::page::{Listing, Page, PageRecord, PageRequest};
use crate::store::{Direction, Key, Transaction};

request! {
    /// A new source.
    pub struct NewSource {
        /// Name, 1 to 128 characters.
        name: String as Name,
        /// Kind of the source, 1 to 128 characters.
        kind: String as Name,
    }
}

/// # Sources
impl KnowledgeService {
    /// Creates a source.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values; [`Error::Unauthenticated`];
    /// [`Error::Forbidden`] without `connector:manage` in the organisation;
    /// [`Error::QuotaExceeded`].
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::service::{NewSource, PageRequest};
    ///
    /// let new = NewSource::builder().name("Tickets").kind("help_desk").build();
    /// let tickets = service.create_source(&owner, &new).await?;
    ///
    /// // A later run of an import finds its source by name.
    /// let sources = service.list_sources(&owner, &PageRequest::default()).await?.data;
    /// assert_eq!(sources.iter().find(|source| source.name == "Tickets"), Some(&tickets));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_source(
        &self,
        credential: &Credential,
        new: &NewSource,
    ) -> Result<Source, Error> {
        self.checks().check(new)?;
        self.act(Operation::CreateSource, credential, |caller| async move {
            let counted = |org| Wants::keys([keys::usage(org, Quota::Sources)]);
            let mut act = caller.in_organization(None, &counted).await?;
            act.reserve(Quota::Sources, 1).await?;
            let now = act.now;
            let source = Source {
                id: SourceId(self.env().uuid_at(now)),
                name: new.name.clone(),
                kind: new.kind.clone(),
                created_at: now,
            };
            let key = keys::source(act.org(), source.id);
            act.transaction.create(key, &source);
            let resource = (ResourceKind::Source, source.id.0);
            act.created(AuditAction::SourceCreate, resource, &source);
            act.done(source)
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
        self.act(Operation::ListSources, credential, |caller| async move {
            let listing =
                |org| Listing::new("sources", &(), keys::sources(org), Direction::Forward);
            let first = |org| Wants::page(&listing(org), page);
            let mut act = caller.identify(&first).await?.anywhere().await?;
            let listing = listing(act.org());
            let found = listing
                .page(&mut act.transaction, page, |_, source| {
                    Ok(PageRecord::Shown(source))
                })
                .await?;
            act.done(found)
        })
        .await
    }

    /// Reads one source.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::Forbidden`] without `memory:read` anywhere;
    /// [`Error::NotFound`].
    pub async fn get_source(
        &self,
        credential: &Credential,
        source: SourceId,
    ) -> Result<Source, Error> {
        self.act(Operation::GetSource, credential, |caller| async move {
            let wanted = |org| Wants::keys([keys::source(org, source)]);
            let mut act = caller.identify(&wanted).await?.anywhere().await?;
            let key = keys::source(act.org(), source);
            let found: Source = act.find(&key, "source").await?;
            act.done(found)
        })
        .await
    }
}

/// Returns the keys that show if a source exists and if it is open.
pub(crate) fn source_keys(org: OrgId, source: SourceId) -> [Key; 2] {
    // An inbound webhook and its source have the same identifier.
    let webhook = InboundWebhookId(source.0);
    [
        keys::source(org, source),
        keys::inbound_webhook_id(org, webhook),
    ]
}

/// Rejects an unknown source, if one is given.
///
/// # Errors
/// [`Error::InvalidRequest`]; those of the store.
pub(crate) async fn check_source(
    transaction: &mut Transaction,
    org: OrgId,
    source: Option<SourceId>,
) -> Result<(), Error> {
    let Some(source) = source else {
        return Ok(());
    };
    let found = transaction
        .read::<Source>(&keys::source(org, source))
        .await?;
    let message = "must be a source of the organisation";
    let missing = || Error::invalid("sourceId", ProblemCode::NotFound, message);
    found.map(drop).ok_or_else(missing)
}

/// Rejects the source of an inbound webhook, whose memories arrive through it alone, also once it
/// has been deleted, and one from which memories are being erased.
///
/// # Errors
/// [`Error::Forbidden`]; [`Error::Conflict`]; those of the store.
pub(crate) async fn require_open_source(
    transaction: &mut Transaction,
    org: &Organization,
    source: SourceId,
) -> Result<(), Error> {
    let [_, webhook] = source_keys(org.id, source);
    match transaction.read::<WorkspaceId>(&webhook).await? {
        None if org.erases_source(source) => Err(Error::Conflict),
        None => Ok(()),
        Some(_) => Err(Error::forbidden(
            "memories of this source arrive only through its inbound webhook",
        )),
    }
}
