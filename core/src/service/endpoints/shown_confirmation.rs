//! Confirmation of endpoints as callers see it.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::keys;
use crate::model::{
    CitationSubscription, Confirmation, ConfirmationState, OrgId, Timestamp, Webhook, WebhookUrl,
    WorkspaceId,
};
use crate::service::access::created::Endings;
use crate::service::deliveries::UrlConfirmation;
use crate::service::endpoints::EndpointRecord;
use crate::service::operation::Prefetch;
use crate::service::secrets::sealing::SealedRecord;
use crate::store::{Key, RangeRead, Transaction, decode_value};

/// Stored record of an endpoint that shows how far its confirmation is.
pub(in crate::service) trait Confirmable {
    /// Returns the URL.
    fn url(&self) -> &WebhookUrl;

    /// Returns true if the endpoint is confirmed.
    fn is_confirmed(&self) -> bool;

    /// Returns true if the endpoint is active.
    fn is_active(&self) -> bool;

    /// Sets what is shown.
    fn show(&mut self, confirmation: Confirmation);
}

impl Confirmable for SealedRecord<Webhook> {
    fn url(&self) -> &WebhookUrl {
        &self.record.url
    }

    fn is_confirmed(&self) -> bool {
        self.record.is_confirmed
    }

    fn is_active(&self) -> bool {
        self.record.is_active
    }

    fn show(&mut self, confirmation: Confirmation) {
        self.record.is_confirmed = confirmation.state == ConfirmationState::Confirmed;
        self.record.confirmation = Some(confirmation);
    }
}

impl Confirmable for SealedRecord<CitationSubscription> {
    fn url(&self) -> &WebhookUrl {
        &self.record.webhook_url
    }

    fn is_confirmed(&self) -> bool {
        self.record.is_confirmed
    }

    fn is_active(&self) -> bool {
        self.disabled.is_none()
    }

    fn show(&mut self, confirmation: Confirmation) {
        self.record.is_confirmed = confirmation.state == ConfirmationState::Confirmed;
        self.record.confirmation = Some(confirmation);
    }
}

/// Returns the reads that decide the states of the endpoints of a page, if the first ones were
/// prefetched.
pub(in crate::service) fn page_state_reads<R>(
    transaction: &Transaction,
    place: (OrgId, WorkspaceId),
    first: Option<RangeRead>,
) -> Prefetch
where
    SealedRecord<R>: Confirmable + DeserializeOwned,
{
    let found = first.and_then(|read| transaction.prefetched().scan(&read));
    let found = found.unwrap_or_default().iter();
    let found = found.filter_map(|found| decode_value::<SealedRecord<R>>(found).ok());
    let found: Vec<SealedRecord<R>> = found.collect();
    state_reads(place, &found)
}

/// Returns the reads that decide the states of endpoints of a workspace: whether they have ended,
/// and how far their confirmations are.
pub(in crate::service) fn state_reads<R>(
    place: (OrgId, WorkspaceId),
    records: &[SealedRecord<R>],
) -> Prefetch
where
    SealedRecord<R>: Confirmable,
{
    let delegators = records.iter().map(|stored| stored.delegator);
    Endings::prefetch(place, delegators).and_keys(confirmation_keys(place.0, records))
}

/// Returns the keys that tell how far the confirmations of these records are.
fn confirmation_keys<T: Confirmable>(org: OrgId, records: &[T]) -> BTreeSet<Key> {
    let unconfirmed = records.iter().filter(|record| !record.is_confirmed());
    let urls = unconfirmed.map(|record| record.url().as_str());
    urls.map(|url| keys::url_confirmation(org, url)).collect()
}

/// Shows in each record how far its confirmation is.
///
/// A record may not know yet that its URL is confirmed: the next claim from the endpoint writes it.
/// No ping is sent for one that has ended.
///
/// # Errors
/// Those of the store.
pub(in crate::service) async fn show_confirmations<T: Confirmable>(
    transaction: &mut Transaction,
    org: OrgId,
    records: &mut [T],
    is_ended: impl Fn(&T) -> bool,
    now: Timestamp,
) -> Result<(), Error> {
    let wanted: Vec<Key> = confirmation_keys(org, records).into_iter().collect();
    let found = if wanted.is_empty() {
        Vec::new()
    } else {
        let unchecked = transaction.unchecked();
        unchecked.get_many::<UrlConfirmation>(&wanted).await?
    };
    let found = wanted.into_iter().zip(found);
    let found: BTreeMap<Key, UrlConfirmation> = found
        .filter_map(|(key, found)| Some((key, found?)))
        .collect();
    for record in records {
        let confirmation = if record.is_confirmed() {
            CONFIRMED
        } else {
            let is_active = record.is_active() && !is_ended(&*record);
            let key = keys::url_confirmation(org, record.url().as_str());
            UrlConfirmation::shown(found.get(&key), is_active, now)
        };
        record.show(confirmation);
    }
    Ok(())
}

/// Confirmation of a confirmed endpoint.
const CONFIRMED: Confirmation = Confirmation {
    state: ConfirmationState::Confirmed,
    next_attempt_at: None,
    reason: None,
};

impl EndpointRecord {
    /// Returns how far the confirmation of the endpoint is. No ping is sent for one that has ended.
    ///
    /// # Errors
    /// Those of the store.
    pub(in crate::service) async fn confirmation(
        &self,
        transaction: &mut Transaction,
        is_ended: bool,
        now: Timestamp,
    ) -> Result<Confirmation, Error> {
        if self.is_confirmed() {
            return Ok(CONFIRMED);
        }
        let key = keys::url_confirmation(self.org(), self.url().as_str());
        let unchecked = transaction.unchecked();
        let found = unchecked.get::<UrlConfirmation>(&key).await?;
        let is_active = self.is_active() && !is_ended;
        Ok(UrlConfirmation::shown(found.as_ref(), is_active, now))
    }
}
