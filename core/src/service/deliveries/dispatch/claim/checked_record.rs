//! Endpoints as a claim reads them: confirmed, if their URL has answered in the meantime.

use crate::error::Error;
use crate::model::Timestamp;
use crate::service::KnowledgeService;
use crate::service::deliveries::queue::{EndpointQueue, UrlConfirmation};
use crate::service::endpoints::EndpointRecord;
use crate::store::Transaction;

/// Record of an endpoint with what is known about the confirmation of its URL.
pub(super) struct CheckedRecord {
    pub(super) record: EndpointRecord,
    /// True if events may be sent to the URL.
    pub(super) is_confirmed: bool,
    /// What is known about the URL, if it is unconfirmed.
    pub(super) confirmation: Option<UrlConfirmation>,
}

impl CheckedRecord {
    /// Confirms an unconfirmed endpoint if its URL has answered a ping of another one.
    ///
    /// An endpoint that the service disabled stays so until it is activated, or answers a ping of
    /// its own.
    pub(super) async fn read(
        service: &KnowledgeService,
        transaction: &mut Transaction,
        queue: &mut EndpointQueue,
        mut record: EndpointRecord,
        now: Timestamp,
    ) -> Result<Self, Error> {
        if record.is_confirmed() {
            return Ok(Self {
                record,
                is_confirmed: true,
                confirmation: None,
            });
        }
        let confirmation = UrlConfirmation::read(transaction, queue.org, record.url(), now).await?;
        let is_confirmed = confirmation
            .as_ref()
            .is_some_and(UrlConfirmation::is_confirmed);
        if is_confirmed {
            queue.state.pings.clear();
            queue.state.failing_since = None;
            if record.disabled().is_none() {
                record = service.set_disabled(transaction, record, None, now);
            }
        }
        Ok(Self {
            record,
            is_confirmed,
            confirmation,
        })
    }
}
