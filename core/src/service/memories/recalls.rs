//! Recalls: answers of an assistant, with the memories that they cite.

use crate::access::Credential;
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::RECALL_MEMORIES_MAX;
use crate::model::{
    AuditAction, MemoryId, MemoryLabels, Recall, RecallId, RecallSummary, ResourceKind, WorkspaceId,
};
use crate::operation::Operation;
use crate::request::Problems;
use crate::request::request;
use crate::request::rules::{Description, Id, Items, List, Unique};
use crate::service::KnowledgeService;
use crate::service::kit::act::Wants;
use crate::service::kit::monitor::{Subject, Use, slugs_read};
use crate::service::kit::page::{Listing, Page, PageRecord, PageRequest, PageScan};
use crate::store::{Direction, Key, Transaction, decode};

request! {
    /// A new recall.
    pub struct NewRecall {
        /// Query that was answered, at most 1,024 characters.
        query: String as Description,
        /// Memories of the workspace that the answer cites, 1 to 500, without duplicates.
        memory_ids: Vec<MemoryId> as List<Id<MemoryId>, Items<1, RECALL_MEMORIES_MAX>, Unique>,
    }
}

/// # Recalls
impl KnowledgeService {
    /// Registers a recall.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values, or a memory that is not in the workspace, not
    /// approved, or does not exist for the caller; [`Error::Unauthenticated`]; [`Error::NotFound`] for an
    /// unknown workspace; [`Error::Forbidden`] without `recall:create` there.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::service::NewRecall;
    ///
    /// // An assistant answers a question from two memories.
    /// let query = "How is the service restarted?";
    /// let new = NewRecall::builder().query(query).memory_ids(memories).build();
    /// let recall = service.create_recall(&owner, workspace, &new).await?;
    ///
    /// // One of them is deleted afterwards, and reading the recall omits it.
    /// service.delete_memory(&owner, recall.memory_ids[0]).await?;
    /// let found = service.get_recall(&owner, recall.id).await?;
    /// assert_eq!(found.memory_ids, recall.memory_ids[1..]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_recall(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        new: &NewRecall,
    ) -> Result<Recall, Error> {
        self.checks().check(new)?;
        self.act(Operation::CreateRecall, credential, |caller| async move {
            let memories = |org| new.memory_ids.iter().map(move |id| keys::memory(org, *id));
            let wanted = |org| Wants::keys(memories(org)).and_range(slugs_read(org));
            let mut act = caller.in_workspace(workspace, &wanted).await?;
            let (org, now) = (act.org(), act.now);
            let memories: Vec<_> = memories(org).collect();
            let memories = act.transaction.read_many::<MemoryLabels>(&memories).await?;
            let named = new.memory_ids.iter().zip(&memories);
            let cited = named.filter_map(|(id, labels)| Some(Subject::new(*id, labels.as_ref()?)));
            let cited: Vec<Subject<'_>> = cited.collect();
            let monitor = act.monitor(&cited).await?;
            let mut problems = Problems::default();
            for (index, (id, labels)) in new.memory_ids.iter().zip(&memories).enumerate() {
                let may_cite = labels.as_ref().is_some_and(|labels| {
                    labels.workspace_id == workspace
                        && monitor.decide(*id, labels, Use::Cite).is_ok()
                });
                if !may_cite {
                    let message = "must be an approved memory of the workspace";
                    problems.push(
                        format!("memory_ids[{index}]"),
                        ProblemCode::NotFound,
                        message,
                    );
                }
            }
            problems.into_result()?;
            let recall = Recall {
                id: RecallId(self.env().uuid_at(now)),
                workspace_id: workspace,
                query: new.query.clone(),
                memory_ids: new.memory_ids.clone(),
                created_by: act.caller.member_id(),
                created_at: now,
            };
            let transaction = &mut act.transaction;
            transaction.create(keys::recall(org, recall.id), &recall);
            transaction.put(keys::workspace_recall(org, workspace, recall.id), &());
            for memory in &recall.memory_ids {
                transaction.put(keys::cited_by(org, *memory, recall.id), &());
            }
            // The audit log stores identifiers, not the query.
            let audited = serde_json::json!({
                "id": recall.id,
                "workspace_id": workspace,
                "memory_ids": recall.memory_ids,
            });
            let resource = (ResourceKind::Recall, recall.id.0);
            act.created(AuditAction::RecallCreate, resource, &audited);
            act.done(recall)
        })
        .await
    }

    /// Lists the recalls of a workspace, newest first, without the memories that they cite.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without `memory:read`
    /// there.
    pub async fn list_recalls(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<RecallSummary>, Error> {
        self.act(Operation::ListRecalls, credential, |caller| async move {
            let listing = |org| {
                let range = keys::workspace_recalls(org, workspace);
                Listing::new("recalls", &(), range, Direction::Reverse)
            };
            let first = |org| Wants::page(&listing(org), page);
            let records = |org, transaction: &Transaction| {
                let ids = listing(org).first_ids(page, transaction).into_iter();
                Wants::keys(ids.map(|id| keys::recall(org, RecallId(id))))
            };
            let act = caller.in_workspace_then(workspace, &first, &records);
            let mut act = act.await?;
            let (org, listing) = (act.org(), listing(act.org()));
            let mut scan = PageScan::begin(&listing, page)?;
            let mut data = Vec::new();
            while let Some(marks) = scan.next(&mut act.transaction).await? {
                let ids = marks.iter().map(|mark| keys::last_id(&mark.key));
                let ids = ids.map(|id| RecallId(id.unwrap_or_default()));
                let records: Vec<Key> = ids.map(|id| keys::recall(org, id)).collect();
                let recalls = act.transaction.entries_unchecked(&records).await?;
                let shown = records.iter().zip(&recalls).map(|(key, entry)| {
                    let entry = entry.as_ref();
                    let recall = entry
                        .map(|entry| decode::<Recall>(key, entry))
                        .transpose()?;
                    let summary = recall.map(|recall| RecallSummary::from(recall.value));
                    Ok(PageRecord::visible(summary))
                });
                scan.add(&mut data, &marks, shown)?;
            }
            act.done(scan.end(data))
        })
        .await
    }

    /// Reads one recall.
    ///
    /// Of the memories that it cites, it returns those that exist for the caller and are approved.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`]; [`Error::Forbidden`] without `memory:read`
    /// in its workspace.
    pub async fn get_recall(
        &self,
        credential: &Credential,
        recall: RecallId,
    ) -> Result<Recall, Error> {
        self.act(Operation::GetRecall, credential, |caller| async move {
            let key = |org| keys::recall(org, recall);
            let wanted = |org| Wants::keys([key(org)]).and_range(slugs_read(org));
            let mut caller = caller.identify(&wanted).await?;
            let org = caller.org();
            let cited = caller.peek::<Recall>(&key(org))?;
            let cited = cited.iter().flat_map(|recall| &recall.memory_ids);
            let cited: Vec<Key> = cited.map(|id| keys::memory(org, *id)).collect();
            caller.read_ahead(Wants::keys(cited.clone())).await?;
            let mut act = caller.unauthorized().await?;
            let mut found: Recall = act.find(&key(org), "recall").await?;
            act.authorize_in(found.workspace_id, "recall").await?;
            let entries = act.transaction.entries_unchecked(&cited).await?;
            let mut labels = Vec::with_capacity(cited.len());
            for (key, entry) in cited.iter().zip(&entries) {
                let entry = entry.as_ref();
                let decoded = entry.map(|entry| decode::<MemoryLabels>(key, entry));
                labels.push(decoded.transpose()?.map(|found| found.value));
            }
            let named = found.memory_ids.iter().zip(&labels);
            let known = named.filter_map(|(id, labels)| Some(Subject::new(*id, labels.as_ref()?)));
            let known: Vec<Subject<'_>> = known.collect();
            let monitor = act.monitor(&known).await?;
            let cited = known
                .iter()
                .filter(|memory| monitor.shows_citation(memory.id, memory.labels));
            found.memory_ids = cited.map(|memory| memory.id).collect();
            act.done(found)
        })
        .await
    }
}
