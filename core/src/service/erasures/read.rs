//! Receipts of erasures.

use super::work::StoredErasure;
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{Erasure, ErasureId, ErasureRemainder};
use crate::operation::Operation;
use crate::service::operation::Prefetch;
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::{Caller, Erasures, KnowledgeService};
use crate::store::Direction;

/// # Receipts of erasures
impl Erasures<'_> {
    /// Lists the receipts of erasures, newest first.
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
                let show = |_: &_, stored: StoredErasure| {
                    Ok(PageRecord::Shown(self.service.shown_receipt(stored)))
                };
                let found = listing.page(&mut op.transaction, page, show).await?;
                op.done(found)
            })
            .await
    }

    /// Reads the receipt of an erasure.
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
                op.done(self.service.shown_receipt(found))
            })
            .await
    }
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
