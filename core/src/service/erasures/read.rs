//! Receipts of erasures.

use super::work::StoredErasure;
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{Erasure, ErasureId, ErasureRemainder, SourceId};
use crate::operation::Operation;
use crate::service::memories::sources::hidden_sources;
use crate::service::operation::Prefetch;
use crate::service::page::{Listing, Page, PageRecord, PageRequest, PageScan};
use crate::service::{Caller, Erasures, KnowledgeService};
use crate::store::{Direction, decode_value};

/// # Receipts of erasures
impl Erasures<'_> {
    /// Lists the receipts of erasures, newest first.
    ///
    /// That of an erasure from the source of an inbound webhook exists for those for whom the
    /// source does: it is left out while the private workspace of the webhook does not exist for
    /// the caller.
    ///
    /// # Errors
    /// Those of [`Operation::ListErasures`].
    pub async fn list(self, caller: &Caller, page: &PageRequest) -> Result<Page<Erasure>, Error> {
        self.service
            .perform(Operation::ListErasures, caller, |caller| async move {
                let range = keys::erasures(caller.org());
                let listing = Listing::new("erasures", &(), range, Direction::Reverse);
                let prefetch = Prefetch::page(&listing, page);
                let mut op = caller.in_organization(None, prefetch).await?;
                let mut scan = PageScan::begin(&listing, page)?;
                let mut data: Vec<Erasure> = Vec::new();
                while let Some(found) = scan.next(&mut op.transaction).await? {
                    let stored = found.iter().map(decode_value);
                    let stored = stored.collect::<Result<Vec<StoredErasure>, _>>()?;
                    let sources = stored.iter().filter_map(source_of);
                    let sources: Vec<SourceId> = sources.collect();
                    let hidden = hidden_sources(&mut op, &sources).await?;
                    let shown = stored.into_iter().map(|stored| {
                        let is_hidden = source_of(&stored).is_some_and(|id| hidden.contains(&id));
                        (!is_hidden).then(|| self.service.shown_receipt(stored))
                    });
                    scan.add(&mut data, &found, shown.map(PageRecord::visible).map(Ok))?;
                }
                op.done(scan.end(data))
            })
            .await
    }

    /// Reads the receipt of an erasure, if it exists for the caller by the rule of [`Self::list`].
    ///
    /// # Errors
    /// Those of [`Operation::GetErasure`].
    pub async fn get(self, caller: &Caller, erasure: ErasureId) -> Result<Erasure, Error> {
        self.service
            .perform(Operation::GetErasure, caller, |caller| async move {
                let key = keys::erasure(caller.org(), erasure);
                let prefetch = Prefetch::keys([key.clone()]);
                let mut op = caller.in_organization(None, prefetch).await?;
                let found: StoredErasure = op.find(&key, EntityKind::Erasure).await?;
                let source: Vec<SourceId> = source_of(&found).into_iter().collect();
                if !hidden_sources(&mut op, &source).await?.is_empty() {
                    return Err(Error::not_found(EntityKind::Erasure));
                }
                op.done(self.service.shown_receipt(found))
            })
            .await
    }
}

/// Returns the source from which everything is erased.
fn source_of(stored: &StoredErasure) -> Option<SourceId> {
    stored.receipt.scope.source_id
}

impl KnowledgeService {
    /// Returns a receipt with what remains after the erasure.
    pub(super) fn shown_receipt(&self, stored: StoredErasure) -> Erasure {
        let (limits, receipt) = (self.limits(), stored.receipt);
        let until = |retention| receipt.completed_at.map(|at| at.plus(retention));
        let hashes = receipt.counts.source_keys * u64::from(receipt.suppress);
        let remains = ErasureRemainder {
            audit_log_until: until(limits.audit_retention),
            deliveries_until: until(limits.delivery_retention),
            replays_until: until(limits.idempotency_retention),
            backups_before: receipt.completed_at,
            source_key_hashes: receipt.completed_at.map(|_| hashes),
        };
        Erasure { remains, ..receipt }
    }
}
