//! Steps of an erasure after its request.

use super::erased_keys::ErasedKeys;
use super::removal::{Removal, citing};
use super::work::{ErasureWork, Phase, StoredErasure, mark};
use crate::error::Error;
use crate::keys;
use crate::model::{
    Erasure, ErasureId, ErasureStatus, MemoryContent, MemoryId, MemoryLabels, OrgId, Organization,
    Recall,
};
use crate::service::KnowledgeService;
use crate::service::audit::entry::{AuditOutcome, ClientInfo};
use crate::service::audit::runs::MemoryAudit;
use crate::service::audit::write::{Actor, AuditedOperation, memory_pages};
use crate::service::memories::read::FoundMemory;
use crate::service::workspace::chats::Chat;
use crate::store::{Direction, Key, KeyEntry, KeyRange, Prepared, StoreExt, Transaction, decode};

/// Number of records that a step examines.
const RECORDS_PER_STEP: usize = 200;
/// Number of steps that a request takes before its response.
const STEPS_PER_REQUEST: usize = 20;
/// Maximum number of pages of labels that a step reads to find memories of a source.
const PAGES_PER_STEP: usize = 20;

/// Decision whether a memory is removed; without its content, whether it can be.
pub(in crate::service) type IsCovered<'c> =
    &'c (dyn Fn(&MemoryLabels, Option<&MemoryContent>) -> bool + Send + Sync);

impl KnowledgeService {
    /// Takes some steps of an erasure, and returns it as it is then.
    ///
    /// Maintenance does the rest, also after a failure.
    pub(super) async fn erase_now(&self, org: OrgId, mut stored: StoredErasure) -> StoredErasure {
        let erasure = stored.receipt.id;
        for _ in 0..STEPS_PER_REQUEST {
            if stored.work.is_none() {
                break;
            }
            match self.take_step(org, erasure).await {
                Ok(Some(next)) => stored = next,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, %erasure, "step of an erasure failed; will retry");
                    break;
                }
            }
        }
        stored
    }

    /// Takes one step of an erasure. Returns true if more remains.
    pub(crate) async fn continue_erasure(
        &self,
        org: OrgId,
        erasure: ErasureId,
    ) -> Result<bool, Error> {
        let stored = self.take_step(org, erasure).await?;
        Ok(stored.is_some_and(|stored| stored.work.is_some()))
    }

    /// Takes one step of an erasure, and returns it as it is then; `None` if it is complete.
    async fn take_step(
        &self,
        org: OrgId,
        erasure: ErasureId,
    ) -> Result<Option<StoredErasure>, Error> {
        self.transact(|mut transaction| async move {
            let hashes = keys::erasure_key(org);
            let (key, org) = (keys::erasure(org, erasure), keys::org(org));
            let keys = vec![key.clone(), org.clone(), hashes];
            transaction.prefetch(keys, Vec::new()).await?;
            let stored = transaction.get::<StoredErasure>(&key).await?;
            let org = transaction.get::<Organization>(&org).await?;
            match stored.map(|stored| (stored.receipt, stored.work)).zip(org) {
                Some(((receipt, Some(work)), org)) => {
                    self.step(transaction, org, (receipt, work)).await
                }
                _ => Ok(transaction.done(None)),
            }
        })
        .await
    }

    async fn step(
        &self,
        mut transaction: Transaction,
        organization: Organization,
        (mut receipt, mut work): (Erasure, ErasureWork),
    ) -> Result<Prepared<Option<StoredErasure>>, Error> {
        let (org, now) = (organization.id, self.env().now());
        let mut removal = Removal::new(self, org, now);
        if receipt.suppress {
            removal.suppress(ErasedKeys::read(self, &mut transaction, org).await?);
        }
        if let Some(chat) = work.chat {
            let has_more = removal.messages(&mut transaction, chat).await?;
            work.chat = Some(chat).filter(|_| has_more);
        } else if work.memories.is_empty() {
            match work.phase {
                Some(Phase::Memories) => {
                    self.erase_next_memories(&mut transaction, &mut removal, &receipt, &mut work)
                        .await?;
                }
                Some(Phase::Recalls) => {
                    self.erase_recalls(&mut transaction, &mut removal, &receipt, &mut work)
                        .await?;
                }
                Some(Phase::Chats) => {
                    self.erase_chats(&mut transaction, &mut removal, &receipt, &mut work)
                        .await?;
                }
                None => {}
            }
        } else {
            erase_citing(&mut transaction, &mut removal, &mut work).await?;
        }
        let has_more = !work.is_complete();
        let actor = Actor {
            org,
            member: Some(receipt.created_by),
            credential: work.credential,
            via: None,
            webhook: None,
            workspace: None,
            client: ClientInfo::default(),
        };
        if !has_more {
            receipt.status = ErasureStatus::Completed;
            receipt.completed_at = Some(now);
        }
        mark(&mut transaction, organization, &receipt);
        let mut stored = StoredErasure {
            receipt,
            work: has_more.then_some(work),
        };
        if removal.is_empty() {
            let key = keys::erasure(org, stored.receipt.id);
            transaction.put(key, &stored);
        } else {
            let operation = AuditedOperation::begin(&transaction, self.env(), now);
            stored = removal
                .finish(&mut transaction, (operation, actor), stored)
                .await?;
        }
        Ok(transaction.done(Some(stored)))
    }

    /// Removes the next memories of the scope.
    ///
    /// Labels alone tell which memories are of a source, so that a step goes on past several pages
    /// without any.
    async fn erase_next_memories(
        &self,
        transaction: &mut Transaction,
        removal: &mut Removal<'_>,
        receipt: &Erasure,
        work: &mut ErasureWork,
    ) -> Result<(), Error> {
        let next = receipt.scope.member_id.map(|_| Phase::Recalls);
        let range = keys::memories(removal.org());
        let scope = receipt.scope.clone();
        let pages = if scope.source_id.is_some() {
            PAGES_PER_STEP
        } else {
            1
        };
        let is_covered = move |labels: &MemoryLabels, content: Option<&MemoryContent>| {
            scope.covers(labels.source_id, content.map(MemoryContent::origin))
        };
        for _ in 0..pages {
            let page = self.next_records(range.clone(), work, next).await?;
            let page = (page.as_slice(), &is_covered as IsCovered<'_>);
            self.erase_memories(transaction, removal, work, page)
                .await?;
            if !work.memories.is_empty() || work.after.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Removes those memories of a page of labels that are covered, and notes them in the work.
    ///
    /// The commit checks the records of what it removes, and decides by them.
    pub(in crate::service) async fn erase_memories(
        &self,
        transaction: &mut Transaction,
        removal: &mut Removal<'_>,
        work: &mut ErasureWork,
        (page, is_covered): (&[KeyEntry], IsCovered<'_>),
    ) -> Result<(), Error> {
        let org = removal.org();
        let mut ids = Vec::with_capacity(page.len());
        for found in page {
            let labels = decode::<MemoryLabels>(&found.key, &found.entry)?.value;
            let id = keys::last_id(&found.key).filter(|_| is_covered(&labels, None));
            ids.extend(id.map(|id| (MemoryId(id), labels)));
        }
        let contents = ids.iter().map(|(id, _)| keys::content(org, *id));
        let contents: Vec<Key> = contents.collect();
        let found = self.store().get_many_as::<MemoryContent>(&contents).await?;
        let mut wanted = Vec::with_capacity(ids.len());
        for ((id, labels), content) in ids.into_iter().zip(found) {
            let is_wanted =
                content.is_some_and(|content| is_covered(&labels, Some(&content.value)));
            wanted.extend(Some(id).filter(|_| is_wanted));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let labels: Vec<Key> = wanted.iter().map(|id| keys::memory(org, *id)).collect();
        let labels = transaction.get_many::<MemoryLabels>(&labels).await?;
        let contents: Vec<Key> = wanted.iter().map(|id| keys::content(org, *id)).collect();
        let contents = transaction.get_many::<MemoryContent>(&contents).await?;
        let mut entries = Vec::with_capacity(wanted.len());
        for ((id, labels), content) in wanted.into_iter().zip(labels).zip(contents) {
            let found = labels.zip(content);
            let found = found.filter(|(labels, content)| is_covered(labels, Some(content)));
            let Some((labels, content)) = found else {
                continue; // It has been deleted or changed meanwhile.
            };
            let found = FoundMemory {
                id,
                labels,
                content,
            };
            removal.memory(transaction, &found);
            work.memories.push(id);
            entries.push(MemoryAudit {
                memory_id: id,
                is_own: false,
                outcome: AuditOutcome::Ok,
                before: Some(found.labels),
                after: None,
            });
        }
        removal.note(memory_pages(None, entries));
        Ok(())
    }

    /// Removes the next recalls of the member.
    async fn erase_recalls(
        &self,
        transaction: &mut Transaction,
        removal: &mut Removal<'_>,
        receipt: &Erasure,
        work: &mut ErasureWork,
    ) -> Result<(), Error> {
        let range = keys::recalls(removal.org());
        let page = self.next_records(range, work, Some(Phase::Chats)).await?;
        for found in &page {
            let recall = decode::<Recall>(&found.key, &found.entry)?.value;
            if receipt.scope.member_id != Some(recall.created_by) {
                continue;
            }
            transaction.check(found.key.clone(), Some(found.entry.version));
            if !removal.recall(transaction, &recall).await? {
                work.resume_before(&page, found, Phase::Recalls);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Removes the next chats of the member.
    async fn erase_chats(
        &self,
        transaction: &mut Transaction,
        removal: &mut Removal<'_>,
        receipt: &Erasure,
        work: &mut ErasureWork,
    ) -> Result<(), Error> {
        let range = keys::org_chats(removal.org());
        let page = self.next_records(range, work, None).await?;
        for found in &page {
            let chat = decode::<Chat>(&found.key, &found.entry)?.value;
            if receipt.scope.member_id != Some(chat.created_by) {
                continue;
            }
            if !removal.has_room_for_chat() {
                work.resume_before(&page, found, Phase::Chats);
                return Ok(());
            }
            transaction.check(found.key.clone(), Some(found.entry.version));
            if removal.chat(transaction, &chat).await? {
                work.chat = Some(chat.id);
                work.resume_after(found, Phase::Chats);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the next records of a phase, and advances the progress past them.
    pub(in crate::service) async fn next_records(
        &self,
        range: KeyRange,
        work: &mut ErasureWork,
        next: Option<Phase>,
    ) -> Result<Vec<KeyEntry>, Error> {
        let after = work.after.take().map(Key::new).transpose();
        let after = after.map_err(|error| Error::internal(error.to_string()))?;
        let rest = match after {
            Some(after) => range.after(&after),
            None => range,
        };
        let page = self
            .store()
            .scan(&rest, RECORDS_PER_STEP, Direction::Forward)
            .await?;
        if page.len() == RECORDS_PER_STEP {
            work.after = page.last().map(|last| last.key.to_string());
        } else {
            work.phase = next;
        }
        Ok(page)
    }
}

/// Examines the next recalls that cite removed memories, and removes those that cite no other.
pub(in crate::service) async fn erase_citing(
    transaction: &mut Transaction,
    removal: &mut Removal<'_>,
    work: &mut ErasureWork,
) -> Result<(), Error> {
    let (memories, after) = (&work.memories, work.recall);
    let (recalls, is_last) = citing(transaction, removal.org(), memories, after).await?;
    let rest = removal
        .recalls_without_memories(transaction, &recalls)
        .await?;
    match rest {
        Some(last) => work.recall = last.or(after),
        None if is_last => (work.memories, work.recall) = (Vec::new(), None),
        None => work.recall = recalls.last().copied(),
    }
    Ok(())
}
