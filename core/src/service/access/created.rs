//! What credentials create: its index by credential, and its end.
//!
//! What was created with a scoped token ends with the token, as [`Principal::acting_for`] decides.
//! Anything else ends with its credential only on request. An [`EndedCredential`] then takes effect
//! on all of it in one commit, however much it is: whatever acts for a member reads that entry.
//! What an API token created ends with the session that created the token, too, and is in its index:
//! the session may have leaked. The record names both, as the token may be gone by then.

use std::collections::{HashMap, HashSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::access::{Action, CredentialRecord};
use crate::error::Error;
use crate::keys;
use crate::model::{
    CredentialId, EndedReason, InboundWebhook, InboundWebhookId, MemberId, OrgId, RecallId,
    ResourceState, ResourceStatus, SubscriptionId, Timestamp, WebhookId, WorkspaceId,
};
use crate::service::access::principal::{Delegator, EndedCredential, Principal, Resource};
use crate::service::operation::{Authorized, Prefetch};
use crate::service::secrets::sealing::SealedRecord;
use crate::store::{Entry, Key, RangeRead, Transaction, decode_value};

/// Place of a record that a credential created or last took over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CreatedRecord {
    McpKey(WorkspaceId),
    Token(MemberId),
    Webhook(WorkspaceId),
    InboundWebhook(WorkspaceId),
    CitationSubscription(RecallId),
}

impl CreatedRecord {
    /// Returns the key of the record with this identifier.
    pub(crate) fn key(self, org: OrgId, id: Uuid) -> Key {
        match self {
            Self::McpKey(workspace) => keys::mcp_key(org, workspace, CredentialId(id)),
            Self::Token(member) => keys::token(org, member, CredentialId(id)),
            Self::Webhook(workspace) => keys::webhook(org, workspace, WebhookId(id)),
            Self::InboundWebhook(workspace) => {
                keys::inbound_webhook(org, workspace, InboundWebhookId(id))
            }
            Self::CitationSubscription(recall) => {
                keys::subscription(org, recall, SubscriptionId(id))
            }
        }
    }
}

impl Delegator {
    /// Adds a record that acts for this delegator to the index by credential.
    pub(crate) fn add_to_index(
        self,
        transaction: &mut Transaction,
        org: OrgId,
        id: Uuid,
        record: CreatedRecord,
    ) {
        for credential in self.credentials() {
            transaction.put(keys::created_with(org, credential, id), &record);
        }
    }

    /// Removes a record that acts for this delegator from the index.
    pub(crate) fn remove_from_index(self, transaction: &mut Transaction, org: OrgId, id: Uuid) {
        for credential in self.credentials() {
            transaction.delete(keys::created_with(org, credential, id));
        }
    }

    /// Replaces this delegator by another one in the index.
    pub(crate) fn replace(
        &mut self,
        by: Self,
        transaction: &mut Transaction,
        org: OrgId,
        (id, record): (Uuid, CreatedRecord),
    ) {
        // A commit changes each key once, and both may come from one session.
        for credential in self.credentials().filter(|id| !by.is_by(*id)) {
            transaction.delete(keys::created_with(org, credential, id));
        }
        for credential in by.credentials().filter(|id| !self.is_by(*id)) {
            transaction.put(keys::created_with(org, credential, id), &record);
        }
        *self = by;
    }

    /// Returns the keys that decide whether what acts for this delegator in a workspace has ended.
    fn reads(self, org: OrgId, workspace: WorkspaceId) -> impl Iterator<Item = Key> {
        let dependency = self.dependency();
        let ended = self.credentials();
        let ended = ended.map(move |id| keys::ended_credential(org, id));
        let dependency = dependency.map(|id| keys::credential_id(org, id));
        [
            keys::org(org),
            keys::member(org, self.member),
            keys::workspace_role(org, self.member, workspace),
        ]
        .into_iter()
        .chain(ended)
        .chain(dependency)
    }
}

/// End or suspension of something that a credential created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    reason: EndedReason,
    at: Option<Timestamp>,
}

impl Ending {
    /// Suspension of something whose member lacks a permission.
    pub(crate) const SUSPENSION: Self = Self {
        reason: EndedReason::PermissionMissing,
        at: None,
    };

    /// Returns the status of a resource that is in the given state unless it has ended.
    ///
    /// What is `Ended` by its own state has no valid secret: a restore revoked it.
    pub(crate) fn status(ending: Option<Self>, otherwise: ResourceState) -> ResourceStatus {
        let state = match ending {
            None => otherwise,
            Some(ending) if ending == Self::SUSPENSION => ResourceState::Suspended,
            Some(_) => ResourceState::Ended,
        };
        let is_revoked = state == ResourceState::Ended;
        let revoked = is_revoked.then_some(EndedReason::CredentialRevoked);
        ResourceStatus {
            state,
            ended_reason: ending.map(|ending| ending.reason).or(revoked),
            ended_at: ending.and_then(|ending| ending.at),
        }
    }

    /// Determines whether what acts for a delegator in a workspace has ended, or lacks the action
    /// that it needs there.
    pub(super) async fn find(
        transaction: &mut Transaction,
        (org, workspace): (OrgId, WorkspaceId),
        needed: Option<Action>,
        delegator: Delegator,
        now: Timestamp,
    ) -> Result<Option<Self>, Error> {
        let acting = Principal::acting_for(transaction, org, (delegator, None), now).await;
        let principal = match acting {
            Ok(principal) => principal,
            Err(Error::Unauthenticated { .. }) => {
                let ending = Self::explain(transaction, org, delegator, now).await?;
                return Ok(Some(ending));
            }
            Err(error) => return Err(error),
        };
        let Some(action) = needed else {
            // In a private workspace that does not exist for the member any more, it does nothing.
            let is_shut_out = !principal.works_in(workspace);
            return Ok(is_shut_out.then_some(Self::SUSPENSION));
        };
        let held = principal.actions_in(transaction, &[workspace]).await?[&workspace];
        let place = Resource::Workspace {
            id: workspace,
            held,
        };
        let is_denied = principal.authorize(action, place).is_err();
        Ok(is_denied.then_some(Self::SUSPENSION))
    }

    /// Returns the reason and the time of an end that has been found.
    async fn explain(
        transaction: &mut Transaction,
        org: OrgId,
        delegator: Delegator,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let member = keys::member(org, delegator.member);
        if transaction.get::<Entry>(&member).await?.is_none() {
            let removed = keys::former_member(org, delegator.member);
            return Ok(Self {
                reason: EndedReason::MemberRemoved,
                at: transaction.get::<Timestamp>(&removed).await?,
            });
        }
        let mut revoked_at = None;
        for credential in delegator.credentials() {
            let ended = keys::ended_credential(org, credential);
            let ended = transaction.get::<EndedCredential>(&ended).await?;
            if let Some(ended) = ended.filter(|ended| ended.is_with_created) {
                return Ok(Self {
                    reason: EndedReason::EndedWithCredential,
                    at: Some(ended.ended_at),
                });
            }
            if delegator.credential == Some(credential) {
                revoked_at = match ended {
                    Some(ended) => Some(ended.ended_at),
                    None => revocation_of(transaction, org, credential).await?,
                };
            }
        }
        let expired_at = delegator.bound_until.filter(|until| *until <= now);
        let is_before = |at: &Timestamp| expired_at.is_none_or(|expired_at| *at < expired_at);
        // Once both records are gone, as after a restore, the time is unknown.
        Ok(match (revoked_at.filter(is_before), expired_at) {
            (None, Some(expired_at)) => Self {
                reason: EndedReason::CredentialExpired,
                at: Some(expired_at),
            },
            (revoked_at, _) => Self {
                reason: EndedReason::CredentialRevoked,
                at: revoked_at,
            },
        })
    }
}

/// Returns the time at which a credential was revoked, if it is still stored.
async fn revocation_of(
    transaction: &mut Transaction,
    org: OrgId,
    credential: CredentialId,
) -> Result<Option<Timestamp>, Error> {
    let id_key = keys::credential_id(org, credential);
    let hash = transaction.get::<String>(&id_key).await?;
    let place = hash.and_then(|hash| hash.parse().ok());
    let Some(place) = place.map(keys::credential) else {
        return Ok(None);
    };
    let record = transaction.get::<CredentialRecord>(&place).await?;
    Ok(record.and_then(|record| record.revoked_at))
}

/// Returns the keys that decide whether what acts for some delegators in a workspace has ended.
fn reads_of(
    (org, workspace): (OrgId, WorkspaceId),
    delegators: impl IntoIterator<Item = Delegator>,
) -> Vec<Key> {
    let reads = delegators.into_iter();
    let reads = reads.flat_map(|delegator| delegator.reads(org, workspace));
    let mut reads: Vec<Key> = reads.collect();
    reads.sort_unstable();
    reads.dedup();
    reads
}

/// Ends of what acts for some delegators in a workspace, each determined once.
#[derive(Debug, Default)]
pub(crate) struct Endings(HashMap<Delegator, Option<Ending>>);

impl Endings {
    /// Determines the ends, also of what lacks the action that it needs.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn read(
        transaction: &mut Transaction,
        place: (OrgId, WorkspaceId),
        needed: Option<Action>,
        mut delegators: Vec<Delegator>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let mut seen = HashSet::new();
        delegators.retain(|delegator| seen.insert(*delegator));
        let reads = reads_of(place, delegators.iter().copied());
        transaction.prefetch(reads, Vec::new()).await?;
        Principal::prefetch_referenced(transaction, place, &delegators, now).await?;
        let mut endings = Self::default();
        for delegator in delegators {
            let ending = Ending::find(transaction, place, needed, delegator, now).await?;
            endings.0.insert(delegator, ending);
        }
        Ok(endings)
    }

    /// Returns the reads that decide whether what acts for a delegator in a workspace has ended.
    pub(crate) fn prefetch(
        place: (OrgId, WorkspaceId),
        delegator: impl IntoIterator<Item = Delegator>,
    ) -> Prefetch {
        Prefetch::keys(reads_of(place, delegator))
    }

    /// Returns the reads that decide which of the records of a page have ended, if the first ones
    /// were prefetched.
    pub(crate) fn prefetch_page<T: DeserializeOwned>(
        transaction: &Transaction,
        place: (OrgId, WorkspaceId),
        first: Option<RangeRead>,
        delegator: impl Fn(&T) -> Delegator,
    ) -> Prefetch {
        let found = first.and_then(|read| transaction.prefetched().scan(&read));
        let records = found.unwrap_or_default().iter();
        let records = records.filter_map(|found| decode_value::<T>(found).ok());
        Self::prefetch(place, records.map(|record| delegator(&record)))
    }

    /// Returns the end of what acts for one of the delegators, if it has ended.
    pub(crate) fn of(&self, delegator: &Delegator) -> Option<Ending> {
        self.0.get(delegator).copied().flatten()
    }
}

impl Authorized<'_> {
    /// Determines the ends of what acts for some delegators in a workspace, as [`Endings::read`]
    /// does.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn endings(
        &mut self,
        workspace: WorkspaceId,
        needed: Option<Action>,
        delegators: Vec<Delegator>,
    ) -> Result<Endings, Error> {
        let (place, now) = ((self.org(), workspace), self.now);
        Endings::read(&mut self.transaction, place, needed, delegators, now).await
    }

    /// Determines the end of what acts for a delegator in a workspace.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn ending(
        &mut self,
        workspace: WorkspaceId,
        needed: Option<Action>,
        delegator: Delegator,
    ) -> Result<Option<Ending>, Error> {
        let endings = self.endings(workspace, needed, vec![delegator]).await?;
        Ok(endings.of(&delegator))
    }
}

/// Returns the state of an endpoint that has not ended.
pub(crate) fn endpoint_state(is_active: bool, is_confirmed: bool) -> ResourceState {
    if !is_active {
        ResourceState::Disabled
    } else if is_confirmed {
        ResourceState::Active
    } else {
        ResourceState::Unconfirmed
    }
}

/// Returns the state of an inbound webhook that has not ended with its creator.
pub(crate) fn inbound_state(stored: &SealedRecord<InboundWebhook>) -> ResourceState {
    if stored.is_revoked() {
        ResourceState::Ended
    } else {
        ResourceState::Active
    }
}
