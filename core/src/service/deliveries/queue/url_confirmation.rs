//! Confirmation of URLs: an organisation asks a URL once for all endpoints that have it.
//!
//! The first unconfirmed endpoint of a URL sends the ping and its retries; the others wait for it.
//! A URL that answers is confirmed for the endpoints that are created later, and for those that
//! wait: each reads this record when it is claimed. The first of them are due at once, the others
//! when they look again.

use serde::{Deserialize, Serialize};

use super::endpoint_queue::EndpointQueue;
use super::endpoint_state::EndpointState;
use crate::error::Error;
use crate::keys;
use crate::limits::URL_CONFIRMATION_LIFETIME;
use crate::model::{
    Confirmation, ConfirmationReason, ConfirmationState, EndpointId, OrgId, Timestamp, WebhookUrl,
};
use crate::service::KnowledgeService;
use crate::service::tasks::ScheduledTask;
use crate::store::{Entry, Key, Transaction, decode};

/// Maximum number of waiting endpoints that are due as soon as their URL is confirmed.
///
/// Their states are rewritten by the commit that confirms it.
const WOKEN_MAX: usize = 64;
/// Divisor of the lifetime: a confirmation that is younger than this part of it is not renewed.
const RENEWED_AFTER: u32 = 90;

/// What an organisation knows about the confirmation of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct UrlConfirmation {
    /// Next ping, which asks for the confirmation; `None` if the URL is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_ping: Option<NextPing>,
    /// Endpoints that are due as soon as the URL is confirmed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<EndpointId>,
    /// Time from which on the record counts as absent. Its purge is scheduled under `due`.
    pub(in crate::service) expires_at: Timestamp,
}

/// Ping that asks a URL for confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct NextPing {
    /// Endpoint that sends it.
    pub(in crate::service) by: EndpointId,
    /// Time at which it is due, or was sent.
    pub(in crate::service) at: Timestamp,
    /// Reason for which it is not due at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::service) reason: Option<ConfirmationReason>,
}

impl UrlConfirmation {
    /// Reads what is known about a URL now.
    pub(in crate::service) async fn read(
        transaction: &mut Transaction,
        org: OrgId,
        url: &WebhookUrl,
        now: Timestamp,
    ) -> Result<Option<Self>, Error> {
        let key = keys::url_confirmation(org, url.as_str());
        let found = transaction.get::<Self>(&key).await?;
        Ok(found.filter(|found| found.is_current(now)))
    }

    /// Returns true if the organisation has confirmed a URL. The commit checks it.
    pub(in crate::service) async fn is_given(
        transaction: &mut Transaction,
        org: OrgId,
        url: &WebhookUrl,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let found = Self::read(transaction, org, url, now).await?;
        Ok(found.is_some_and(|found| found.is_confirmed()))
    }

    /// Returns true if the record has not expired.
    pub(in crate::service) fn is_current(&self, now: Timestamp) -> bool {
        self.expires_at > now
    }

    /// Returns true if the URL is confirmed.
    pub(in crate::service) fn is_confirmed(&self) -> bool {
        self.next_ping.is_none()
    }

    /// Returns the ping that asks for the confirmation, unless the URL is confirmed.
    pub(in crate::service) fn next_ping(&self) -> Option<NextPing> {
        self.next_ping
    }

    /// Notes an endpoint that waits for the ping of another one.
    ///
    /// Returns false if it is known, or if there are many.
    pub(in crate::service) fn note_waiting(&mut self, endpoint: EndpointId) -> bool {
        let is_new = self.waiting.len() < WOKEN_MAX && !self.waiting.contains(&endpoint);
        if is_new {
            self.waiting.push(endpoint);
        }
        is_new
    }

    /// Returns how far the confirmation of an unconfirmed endpoint is.
    pub(in crate::service) fn shown(
        found: Option<&Self>,
        is_active: bool,
        now: Timestamp,
    ) -> Confirmation {
        let found = found.filter(|found| found.is_current(now));
        let mut shown = Confirmation {
            state: ConfirmationState::Pending,
            next_attempt_at: None,
            reason: None,
        };
        if found.is_some_and(Self::is_confirmed) {
            shown.state = ConfirmationState::Confirmed;
        } else if !is_active {
            shown.state = ConfirmationState::Stopped;
        } else {
            let next = found.and_then(Self::next_ping);
            let next = next.filter(|next| next.at > now);
            shown.next_attempt_at = next.map(|next| next.at);
            shown.reason = next.and_then(|next| next.reason);
        }
        shown
    }
}

impl KnowledgeService {
    /// Writes when a URL is asked next. `found` is what is known about it.
    pub(in crate::service) fn note_next_ping(
        &self,
        transaction: &mut Transaction,
        (org, url): (OrgId, &WebhookUrl),
        found: Option<UrlConfirmation>,
        next: NextPing,
        now: Timestamp,
    ) {
        let key = keys::url_confirmation(org, url.as_str());
        let is_new = found.is_none();
        let mut noted = found.unwrap_or_else(|| UrlConfirmation {
            next_ping: None,
            waiting: Vec::new(),
            expires_at: now.plus(URL_CONFIRMATION_LIFETIME),
        });
        noted.next_ping = Some(next);
        noted.waiting.retain(|waiting| *waiting != next.by);
        transaction.put(key.clone(), &noted);
        if is_new {
            ScheduledTask::record(key).schedule(transaction, noted.expires_at, self.env());
        }
    }

    /// Confirms a URL that has answered a ping of an endpoint.
    ///
    /// The endpoint that asks it and those that wait are due now, apart from this one.
    pub(in crate::service) async fn confirm_url(
        &self,
        transaction: &mut Transaction,
        (org, url): (OrgId, &WebhookUrl),
        endpoint: EndpointId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let key = keys::url_confirmation(org, url.as_str());
        let found = UrlConfirmation::read(transaction, org, url, now).await?;
        let fresh = URL_CONFIRMATION_LIFETIME - URL_CONFIRMATION_LIFETIME / RENEWED_AFTER;
        let is_fresh =
            |found: &UrlConfirmation| found.is_confirmed() && found.expires_at.since(now) > fresh;
        if found.as_ref().is_some_and(is_fresh) {
            return Ok(());
        }
        let confirmed = UrlConfirmation {
            next_ping: None,
            waiting: Vec::new(),
            expires_at: now.plus(URL_CONFIRMATION_LIFETIME),
        };
        transaction.put(key.clone(), &confirmed);
        ScheduledTask::record(key).schedule(transaction, confirmed.expires_at, self.env());
        let mut waiting = Vec::new();
        if let Some(found) = found {
            waiting = found.waiting;
            waiting.extend(found.next_ping.map(|next| next.by));
            waiting.retain(|waiting| *waiting != endpoint);
        }
        wake(transaction, org, &waiting, now).await
    }
}

/// Makes endpoints due now. Unreadable and deleted ones are skipped.
async fn wake(
    transaction: &mut Transaction,
    org: OrgId,
    endpoints: &[EndpointId],
    now: Timestamp,
) -> Result<(), Error> {
    let states: Vec<Key> = endpoints
        .iter()
        .map(|endpoint| keys::endpoint(org, *endpoint))
        .collect();
    let found = transaction.get_many::<Entry>(&states).await?;
    for ((endpoint, key), entry) in endpoints.iter().zip(&states).zip(found) {
        let state = entry.map(|entry| decode::<EndpointState>(key, &entry));
        if let Some(Ok(state)) = state {
            let mut queue = EndpointQueue::of(org, *endpoint, state.value);
            queue.schedule_by(now);
            queue.save(transaction);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::store::VALUE_BYTES_MAX;

    #[test]
    fn waiting_endpoints_are_noted_once_and_fit_into_one_value() {
        let latest = Timestamp::from_millis(253_402_300_799_999);
        let next = NextPing {
            by: EndpointId(Uuid::max()),
            at: latest,
            reason: Some(ConfirmationReason::OrganizationLimit),
        };
        let mut noted = UrlConfirmation {
            next_ping: Some(next),
            waiting: Vec::new(),
            expires_at: latest,
        };
        for number in 0..10_000 {
            let endpoint = EndpointId(Uuid::from_u128(u128::MAX - number));
            assert_eq!(noted.note_waiting(endpoint), number < 64);
            assert!(!noted.note_waiting(endpoint));
        }
        let stored = serde_json::to_vec(&noted).unwrap();
        assert!(stored.len() <= VALUE_BYTES_MAX, "{} bytes", stored.len());
    }
}
