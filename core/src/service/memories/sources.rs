//! Sources of memories. They belong to the organisation as a whole, except that the source of an
//! inbound webhook does not exist for those for whom its private workspace does not.

use std::collections::BTreeSet;

use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::model::{
    AuditAction, InboundWebhookId, MemoryId, MemoryLabels, OrgId, Organization, Quota,
    ResourceKind, Source, SourceId, WorkspaceId,
};
use crate::operation::Operation;
use crate::request::request;
use crate::request::rules::Name;
use crate::service::access::monitor::Subject;
use crate::service::access::principal::Principal;
use crate::service::operation::{Authorized, Prefetch};
use crate::service::page::{Listing, Page, PageRecord, PageRequest, PageScan};
use crate::service::{Caller, Sources};
use crate::store::{Direction, Entry, Key, KeyRange, RangeRead, Transaction, decode, decode_value};

/// Number of memories that a search for sources examines at once.
const MEMORIES_AT_ONCE: usize = 500;

request! {
    /// A new source.
    pub struct NewSource {
        /// Name, 1 to 128 characters.
        name: String as Name,
        /// Kind of the source, 1 to 128 characters.
        kind: String as Name,
    }
}

impl Sources<'_> {
    /// Creates a source.
    ///
    /// # Errors
    /// Those of [`Operation::CreateSource`].
    pub async fn create(self, caller: &Caller, new: &NewSource) -> Result<Source, Error> {
        self.service.checks().check(new)?;
        self.service
            .once(
                Operation::CreateSource,
                caller,
                new,
                |caller| async move {
                    let org = caller.org();
                    let prefetch = Prefetch::keys([keys::usage(org, Quota::Sources)]);
                    let mut op = caller.in_organization(None, prefetch).await?;
                    op.reserve(Quota::Sources, 1).await?;
                    let now = op.now;
                    let source = Source {
                        id: SourceId(self.service.env().uuid_at(now)),
                        name: new.name.clone(),
                        kind: new.kind.clone(),
                        created_at: now,
                    };
                    let key = keys::source(org, source.id);
                    op.transaction.create(key, &source);
                    let resource = (ResourceKind::Source, source.id.0);
                    op.created(AuditAction::SourceCreate, resource, &source);
                    op.done(source)
                },
                |caller, replay| async move {
                    let source = SourceId(replay.created);
                    self.get(&caller, source).await
                },
            )
            .await
    }

    /// Lists the sources of the organisation, in order of creation.
    ///
    /// For a credential that is limited to workspaces or audience labels, a source exists if a
    /// memory filed under it does. To find out, a page examines each memory of these workspaces at
    /// most once, hidden ones included.
    ///
    /// # Errors
    /// Those of [`Operation::ListSources`].
    pub async fn list(self, caller: &Caller, page: &PageRequest) -> Result<Page<Source>, Error> {
        self.service
            .perform(Operation::ListSources, caller, |caller| async move {
                let range = keys::sources(caller.org());
                let listing = Listing::new("sources", &(), range, Direction::Forward);
                let prefetch = Prefetch::page(&listing, page);
                let mut op = caller.authenticate(prefetch).await?.anywhere().await?;
                let mut scan = PageScan::begin(&listing, page)?;
                let (mut data, mut search) = (Vec::new(), Search::new(&op));
                while let Some(found) = scan.next(&mut op.transaction).await? {
                    let sources = found.iter().map(decode_value);
                    let sources = sources.collect::<Result<Vec<Source>, _>>()?;
                    let ids: Vec<SourceId> = sources.iter().map(|source| source.id).collect();
                    search.run(&mut op, &ids).await?;
                    let hidden = hidden_sources(&mut op, &ids).await?;
                    let exists = |id| search.exists(id) && !hidden.contains(&id);
                    let shown = sources.into_iter();
                    let shown = shown.map(|source| exists(source.id).then_some(source));
                    scan.add(&mut data, &found, shown.map(PageRecord::visible).map(Ok))?;
                }
                op.done(scan.end(data))
            })
            .await
    }

    /// Reads one source, if it exists for the caller by the rule of [`Self::list`].
    ///
    /// # Errors
    /// Those of [`Operation::GetSource`].
    pub async fn get(self, caller: &Caller, source: SourceId) -> Result<Source, Error> {
        self.service
            .perform(Operation::GetSource, caller, |caller| async move {
                let key = keys::source(caller.org(), source);
                let prefetch = Prefetch::keys([key.clone()]);
                let mut op = caller.authenticate(prefetch).await?.anywhere().await?;
                let found: Source = op.find(&key, EntityKind::Source).await?;
                let mut search = Search::new(&op);
                search.run(&mut op, &[source]).await?;
                let hidden = hidden_sources(&mut op, &[source]).await?;
                if !search.exists(source) || hidden.contains(&source) {
                    return Err(Error::not_found(EntityKind::Source));
                }
                op.done(found)
            })
            .await
    }
}

/// Search for the sources that exist for a caller.
///
/// It examines each memory in reach of the credential at most once, a bounded number at a time. How
/// many are hidden must not show, so it does not end before it has found the sources. It reads the
/// memories of a workspace together, not those of each of many sources by its marks.
struct Search {
    /// Ranges of memories that have not been examined; `None` if all sources exist for the caller.
    rest: Option<Vec<KeyRange>>,
    /// Sources of the memories examined that exist for the caller.
    found: BTreeSet<SourceId>,
}

impl Search {
    fn new(op: &Authorized<'_>) -> Self {
        let org = op.org();
        let rest = match op.principal.workspaces() {
            Some(ids) => Some(
                ids.iter()
                    .map(|id| keys::workspace_memories(org, *id))
                    .collect(),
            ),
            None => op
                .principal
                .has_audience_list()
                .then(|| vec![keys::memories(org)]),
        };
        Self {
            rest,
            found: BTreeSet::new(),
        }
    }

    /// Returns true if a source that was searched for exists for the caller.
    fn exists(&self, source: SourceId) -> bool {
        self.rest.is_none() || self.found.contains(&source)
    }

    /// Examines memories until all of these sources are found, or no memories are left.
    async fn run(&mut self, op: &mut Authorized<'_>, sources: &[SourceId]) -> Result<(), Error> {
        let org = op.org();
        while sources.iter().any(|source| !self.exists(*source)) {
            let Some(range) = self.rest.as_mut().and_then(|rest| rest.last_mut()) else {
                break;
            };
            let read = RangeRead::first(range.clone(), MEMORIES_AT_ONCE);
            let marks = op.transaction.scan(&read).await?;
            match marks.last() {
                Some(last) if marks.len() == read.limit => *range = range.after(&last.key),
                _ => drop(self.rest.as_mut().and_then(Vec::pop)),
            }
            let ids = marks.iter().filter_map(|mark| keys::last_id(&mark.key));
            let ids: Vec<MemoryId> = ids.map(MemoryId).collect();
            let records: Vec<Key> = ids.iter().map(|id| keys::memory(org, *id)).collect();
            let entries = op
                .transaction
                .unchecked()
                .get_many::<Entry>(&records)
                .await?;
            let mut memories = Vec::new();
            for ((id, record), entry) in ids.into_iter().zip(&records).zip(&entries) {
                if let Some(entry) = entry {
                    let labels = decode::<MemoryLabels>(record, entry)?.value;
                    if !self.found.contains(&labels.source_id) {
                        memories.push((id, labels));
                    }
                }
            }
            let subjects = memories.iter();
            let subjects = subjects.map(|(id, labels)| Subject::new(*id, labels));
            let subjects: Vec<Subject<'_>> = subjects.collect();
            let monitor = op.monitor(&subjects).await?;
            for (id, labels) in &memories {
                if monitor.exists(*id, labels) && !monitor.is_erased(*id, labels) {
                    self.found.insert(labels.source_id);
                }
            }
        }
        Ok(())
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

/// Returns those of these sources that are of an inbound webhook in a private workspace that does
/// not exist for the caller.
pub(crate) async fn hidden_sources(
    op: &mut Authorized<'_>,
    sources: &[SourceId],
) -> Result<BTreeSet<SourceId>, Error> {
    if sources.is_empty() || !op.principal.is_shut_out() {
        return Ok(BTreeSet::new());
    }
    let org = op.org();
    let webhooks = sources.iter().map(|source| {
        let [_, webhook] = source_keys(org, *source);
        webhook
    });
    let webhooks: Vec<Key> = webhooks.collect();
    let places = op
        .transaction
        .unchecked()
        .get_many::<WorkspaceId>(&webhooks)
        .await?;
    let caller = &op.principal;
    let hidden = sources.iter().zip(places);
    let hidden = hidden.filter(|(_, place)| place.is_some_and(|place| !caller.knows(place)));
    Ok(hidden.map(|(source, _)| *source).collect())
}

/// Returns true if a source exists, and is not of an inbound webhook in a private workspace that
/// does not exist for the caller. Its [keys](source_keys) were prefetched.
async fn is_known_source(
    transaction: &mut Transaction,
    caller: &Principal,
    source: SourceId,
) -> Result<bool, Error> {
    let [source, webhook] = source_keys(caller.org_id(), source);
    let is_stored = transaction.get::<Source>(&source).await?.is_some();
    if !is_stored || !caller.is_shut_out() {
        return Ok(is_stored);
    }
    let place = transaction.get::<WorkspaceId>(&webhook).await?;
    Ok(place.is_none_or(|place| caller.knows(place)))
}

/// Rejects a source in this field that does not exist for the caller, if one is given.
///
/// # Errors
/// [`Error::InvalidRequest`]; those of the store.
pub(crate) async fn check_source(
    transaction: &mut Transaction,
    caller: &Principal,
    (field, source): (&str, Option<SourceId>),
) -> Result<(), Error> {
    if let Some(source) = source
        && !is_known_source(transaction, caller, source).await?
    {
        let message = "must be a source of the organisation";
        return Err(Error::invalid(field, ProblemCode::NotFound, message));
    }
    Ok(())
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
    match transaction.get::<WorkspaceId>(&webhook).await? {
        None if org.erases_source(source) => Err(Error::Conflict),
        None => Ok(()),
        Some(_) => Err(Error::forbidden(
            "memories of this source arrive only through its inbound webhook",
        )),
    }
}
