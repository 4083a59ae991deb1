//! Write fence of the organisations that are being moved to another partition.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::keys;
use crate::model::OrgId;
use crate::service::KnowledgeService;
use crate::store::StoreExt;

impl KnowledgeService {
    /// Returns those of `orgs` that are fenced, after a commit that concerned them failed.
    ///
    /// Work for several organisations goes on without them, so that a move holds up nobody else,
    /// even if it was interrupted.
    ///
    /// # Errors
    /// The error of the commit if none is fenced, and those of the store.
    pub(in crate::service) async fn fenced_orgs(
        &self,
        failed: Error,
        orgs: BTreeSet<OrgId>,
    ) -> Result<BTreeSet<OrgId>, Error> {
        if !matches!(failed, Error::Unavailable { .. }) {
            return Err(failed);
        }
        let holds: Vec<_> = orgs.iter().copied().map(keys::hold).collect();
        let found = self.store().get(&holds).await?;
        let held = orgs.into_iter().zip(found);
        let held: BTreeSet<_> = held.filter_map(|(org, hold)| hold.map(|_| org)).collect();
        if held.is_empty() {
            return Err(failed);
        }
        tracing::debug!(
            ?held,
            "organisations are being moved; going on without them"
        );
        Ok(held)
    }
}
