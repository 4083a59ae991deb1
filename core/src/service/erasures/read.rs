//! Receipts of erasures.

use super::work::StoredErasure;
use crate::access::Credential;
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{Erasure, ErasureId, ErasureRemainder};
use crate::operation::Operation;
use crate::service::KnowledgeService;
use crate::service::kit::act::Wants;
use crate::service::kit::page::{Listing, Page, PageRecord, PageRequest};
use crate::store::Direction;

/// # Receipts of erasures
impl KnowledgeService {
    /// Lists the receipts of erasures, newest first.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`];
    /// [`Error::Forbidden`] without `erasure:manage` in the organisation.
    pub async fn list_erasures(
        &self,
        credential: &Credential,
        page: &PageRequest,
    ) -> Result<Page<Erasure>, Error> {
        self.act(Operation::ListErasures, credential, |caller| async move {
            let listing =
                |org| Listing::new("erasures", &(), keys::erasures(org), Direction::Reverse);
            let first = |org| Wants::page(&listing(org), page);
            let mut act = caller.in_organization(None, &first).await?;
            let listing = listing(act.org());
            let show =
                |_: &_, stored: StoredErasure| Ok(PageRecord::Shown(self.shown_receipt(stored)));
            let found = listing.page(&mut act.transaction, page, show).await?;
            act.done(found)
        })
        .await
    }

    /// Reads the receipt of an erasure.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::Forbidden`] without `erasure:manage` in the
    /// organisation; [`Error::NotFound`].
    pub async fn get_erasure(
        &self,
        credential: &Credential,
        erasure: ErasureId,
    ) -> Result<Erasure, Error> {
        self.act(Operation::GetErasure, credential, |caller| async move {
            let wanted = |org| Wants::keys([keys::erasure(org, erasure)]);
            let mut act = caller.in_organization(None, &wanted).await?;
            let key = keys::erasure(act.org(), erasure);
            let found: StoredErasure = act.find(&key, EntityKind::Erasure).await?;
            act.done(self.shown_receipt(found))
        })
        .await
    }

    /// Returns a receipt with what remains after the erasure.
    pub(super) fn shown_receipt(&self, stored: StoredErasure) -> Erasure {
        let (limits, receipt) = (self.limits(), stored.receipt);
        let until = |retention| receipt.completed_at.map(|at| at.plus(retention));
        let remains = ErasureRemainder {
            audit_log_until: until(limits.audit_retention),
            deliveries_until: until(limits.delivery_retention),
            replays_until: until(limits.idempotency_retention),
            backups_before: receipt.completed_at,
        };
        Erasure { remains, ..receipt }
    }
}
