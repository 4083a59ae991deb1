//! Maintenance: what expired is swept, deleted roles are settled, and statuses that time alone changes are announced.
//!
//! What expires counts as absent from that moment on, swept or not. An index ordered by due time leads here to it.

use serde::{Deserialize, Serialize};

use super::KnowledgeService;
use crate::env::Env;
use crate::error::Error;
use crate::model::{
    ConnectorId, CredentialId, EndpointId, EventId, MemberId, OrgId, Timestamp, WorkspaceId,
};
use crate::keys;
use crate::store::{Direction, Key, KeyEntry, StoreExt, Transaction, decode_value};

/// How many due entries one call sweeps, and so how much work it is.
const DUE_PER_CALL: usize = 500;
/// How many steps of settling deleted roles one call takes.
const SETTLEMENTS_PER_CALL: u32 = 4;

/// What one call of [`KnowledgeService::maintain`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Due entries that were dealt with, but for the daily look at each audit log.
    pub swept: u64,
    /// Pages of audit logs that were over.
    pub audit_pages_swept: u64,
    /// Since when the oldest of what was due had been due; `None` where nothing was.
    pub oldest_due: Option<Timestamp>,
    /// Holders of deleted roles that were given the role that replaced it.
    pub holders_rewritten: u64,
    /// Whether there is more to do now: call again.
    pub has_more: bool,
}

/// What has to be done at some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Due {
    /// Deletes records; the first of them has an `expires_at` that decides.
    Expire {
        /// Their keys.
        records: Vec<String>,
        /// A counter that counts the first of them.
        counter: Option<String>,
    },
    /// Announces the status of a connector that time alone changed.
    Connector {
        org: OrgId,
        workspace: WorkspaceId,
        connector: ConnectorId,
    },
    /// Settles the deleted roles of an organisation.
    Redirects(OrgId),
    /// Sweeps the audit log of an organisation. Each has one of these, always.
    Audit(OrgId),
    /// An event and its deliveries have been kept for long enough.
    Event { org: OrgId, event: EventId },
    /// Takes a step of clearing the deliveries of a deleted endpoint.
    FormerEndpoint { org: OrgId, endpoint: EndpointId },
    /// Takes a step of clearing what a removed member left.
    FormerMember {
        org: OrgId,
        member: MemberId,
        /// The last credential of the organisation that was looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<CredentialId>,
    },
}

/// The one field of a record that expires.
#[derive(Deserialize)]
struct Expiring {
    expires_at: Timestamp,
}

impl Due {
    /// The record under `key` expires.
    pub(super) fn record(key: Key) -> Self {
        Self::Expire {
            records: vec![key.to_string()],
            counter: None,
        }
    }

    /// Another entry goes with it.
    pub(super) fn and(mut self, key: Key) -> Self {
        if let Self::Expire { records, .. } = &mut self {
            records.push(key.to_string());
        }
        self
    }

    /// A counter goes down with it.
    pub(super) fn counted_by(mut self, key: Key) -> Self {
        if let Self::Expire { counter, .. } = &mut self {
            *counter = Some(key.to_string());
        }
        self
    }

    /// Puts this into the index.
    pub(super) fn schedule(&self, transaction: &mut Transaction, at: Timestamp, env: &Env) {
        transaction.put(keys::due(at, env.uuid()), self);
    }
}

impl KnowledgeService {
    /// Does what is due at `now`, a bounded part of it: call again while it says that there is more.
    ///
    /// Several callers do no harm: every step is a commit under checks.
    ///
    /// # Errors
    /// Those of the store; what was done before stays done.
    pub async fn maintain(&self, now: Timestamp) -> Result<Maintained, Error> {
        let mut done = Maintained::default();
        let (mut settlements, mut dealt_with) = (0, 0);
        let due = self
            .store()
            .scan(&keys::due_until(now), DUE_PER_CALL, Direction::Forward)
            .await?;
        done.oldest_due = due.first().and_then(|found| keys::due_at(&found.key));
        for found in &due {
            let kind = decode_value(found);
            let is_settlement = matches!(kind, Ok(Due::Redirects(_)));
            let is_look = matches!(kind, Ok(Due::Audit(_)));
            if is_settlement && settlements == SETTLEMENTS_PER_CALL {
                done.has_more = true;
                continue;
            }
            match self.deal_with(found, now, &mut done).await {
                Ok(()) => {
                    dealt_with += 1;
                    done.swept += u64::from(!is_look);
                    settlements += u32::from(is_settlement);
                }
                // What is damaged stays for whoever repairs it, and does not hinder the rest.
                Err(Error::Internal { detail }) => {
                    tracing::error!(key = %found.key, %detail, "a due entry cannot be dealt with");
                }
                Err(error) => return Err(error),
            }
        }
        done.has_more |= due.len() == DUE_PER_CALL && dealt_with > 0;
        Ok(done)
    }

    async fn deal_with(
        &self,
        found: &KeyEntry,
        now: Timestamp,
        done: &mut Maintained,
    ) -> Result<(), Error> {
        match decode_value::<Due>(found)? {
            Due::Expire { records, counter } => self.expire(found, &records, counter, now).await,
            Due::Connector {
                org,
                workspace,
                connector,
            } => {
                self.announce_status(&found.key, org, workspace, connector, now)
                    .await
            }
            Due::Audit(org) => {
                let (swept, has_more) = self.sweep_audit(&found.key, org, now).await?;
                done.audit_pages_swept += swept;
                done.has_more |= has_more;
                Ok(())
            }
            Due::Redirects(org) => {
                let (rewritten, has_more) = self.settle_redirects(org).await?;
                done.holders_rewritten += rewritten;
                done.has_more |= has_more;
                let rest = has_more.then_some(Due::Redirects(org));
                self.put_behind(found, rest.as_ref(), now).await
            }
            Due::Event { org, event } => self.sweep_event(found, org, event, now).await,
            Due::FormerEndpoint { org, endpoint } => {
                let has_more = self.clear_former_endpoint(org, endpoint).await?;
                done.has_more |= has_more;
                let rest = has_more.then_some(Due::FormerEndpoint { org, endpoint });
                self.put_behind(found, rest.as_ref(), now).await
            }
            Due::FormerMember { org, member, after } => {
                let rest = self.clear_former_member(org, member, after).await?;
                done.has_more |= rest.is_some();
                self.put_behind(found, rest.as_ref(), now).await
            }
        }
    }

    /// Removes a due entry; what is left of it to do goes behind the others that are due.
    async fn put_behind(
        &self,
        found: &KeyEntry,
        rest: Option<&Due>,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            // Of several callers one puts it behind: there is never more than the one entry.
            if transaction.read::<Due>(&found.key).await?.is_some() {
                transaction.delete(found.key.clone());
                if let Some(rest) = rest {
                    rest.schedule(&mut transaction, now, self.env());
                }
            }
            transaction.done(())
        })
        .await
    }

    /// Deletes records unless the first of them was written anew meanwhile and lives longer.
    async fn expire(
        &self,
        due: &KeyEntry,
        records: &[String],
        counter: Option<String>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let key = |text: &String| {
            Key::new(text.clone()).map_err(|error| Error::internal(error.to_string()))
        };
        let records = &records.iter().map(key).collect::<Result<Vec<_>, _>>()?;
        let counter = &counter.as_ref().map(key).transpose()?;
        self.transact(|mut transaction| async move {
            transaction.delete(due.key.clone());
            let Some(first) = records.first() else {
                return transaction.done(());
            };
            let found = transaction.read::<Expiring>(first).await?;
            if found.is_some_and(|record| record.expires_at <= now) {
                records
                    .iter()
                    .for_each(|key| transaction.delete(key.clone()));
                if let Some(counter) = counter {
                    transaction.add(counter.clone(), -1);
                }
            }
            transaction.done(())
        })
        .await
    }
}
