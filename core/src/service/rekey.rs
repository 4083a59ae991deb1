//! Replacement of the sealing key: every sealed secret is resealed with a new key.
//!
//! While the replacement is unfinished, the record `meta` names both keys, as `OLD>NEW`. No service
//! opens the store then. Which key sealed a secret shows by which one opens it, so the replacement
//! needs no other state.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::meta::{Meta, known_meta};
use super::sealing_keys::{SEPARATOR, SealingKeys};
use super::secrets::sealing::{SealedRecord, Sealer, SealingKey};
use super::{OpenError, SCHEMA};
use crate::env::Env;
use crate::keys;
use crate::store::{Direction, Key, KeyEntry, KeyRange, Store, StoreExt, decode_value, transact};

/// Maximum number of records that one commit reseals.
const RECORDS_PER_COMMIT: usize = 100;

/// Numbers of secrets by what a replacement did with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RekeyReport {
    /// Secrets resealed with the new key.
    pub resealed: u64,
    /// Secrets that an interrupted replacement had resealed before.
    pub resealed_before: u64,
    /// Secrets that neither key opens, and records that cannot be read. They are unchanged;
    /// verification reports them.
    pub damaged: u64,
}

/// A replacement of the sealing key in progress.
///
/// It reseals the stored secrets in bounded steps, each one commit. It may stop at any moment: no
/// service opens the store before a repeated replacement, with the same two keys, has completed it.
///
/// No service should have the store open meanwhile. One that does cannot open what was
/// resealed, and is refused, with [`Error::Unavailable`](crate::Error::Unavailable), what would
/// seal a secret with the old key.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use knowledge_core::env::Env;
/// use knowledge_core::service::{KnowledgeService, Options, Rekey, SealingKey};
/// use knowledge_core::store::MemoryStore;
///
/// let (store, env) = (Arc::new(MemoryStore::new()), Env::system());
/// let old = SealingKey::generate(&env);
/// KnowledgeService::open(store.clone(), env.clone(), Options::new(old.clone())).await?;
///
/// let new = SealingKey::generate(&env);
/// let mut rekey = Rekey::begin(store.clone(), env.clone(), &old, &new).await?;
/// while rekey.step().await? {}
/// assert_eq!(rekey.finish().await?.damaged, 0);
/// KnowledgeService::open(store, env, Options::new(new)).await?;
/// # Ok(())
/// # }
/// ```
pub struct Rekey {
    store: Arc<dyn Store>,
    env: Env,
    old: Sealer,
    new: Sealer,
    /// Ranges that are still to be resealed, the last one first.
    rest: Vec<KeyRange>,
    report: RekeyReport,
}

impl std::fmt::Debug for Rekey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rekey")
            .field("rest", &self.rest)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

impl Rekey {
    /// Begins to replace the key `old` by `new`, or continues an interrupted replacement.
    ///
    /// There is nothing left to do if `new` is the key of the store already.
    ///
    /// # Errors
    /// [`OpenError::OtherSealingKey`] if `old` is not the key of the store,
    /// [`OpenError::Rekeying`] if a replacement with other keys is unfinished, and those of
    /// [`KnowledgeService::open`](super::KnowledgeService::open) for the store.
    pub async fn begin(
        store: Arc<dyn Store>,
        env: Env,
        old: &SealingKey,
        new: &SealingKey,
    ) -> Result<Self, OpenError> {
        let mut rekey = Self {
            old: Sealer::new(old),
            new: Sealer::new(new),
            rest: Vec::new(),
            report: RekeyReport::default(),
            store,
            env,
        };
        if rekey.write_meta(false).await? {
            rekey.rest.extend([
                keys::all_erasure_keys(),
                keys::all_inbound_webhooks(),
                keys::all_subscriptions(),
                keys::all_webhooks(),
            ]);
        }
        Ok(rekey)
    }

    /// Returns `meta` during the replacement.
    fn pending(&self) -> String {
        let (old, new) = (self.old.fingerprint(), self.new.fingerprint());
        format!("{old}{SEPARATOR}{new}")
    }

    /// Writes that the replacement has begun, or that it is complete.
    ///
    /// Returns false if the store has the new key already.
    async fn write_meta(&self, is_complete: bool) -> Result<bool, OpenError> {
        let (old, new) = (self.old.fingerprint(), self.new.fingerprint());
        let pending = &self.pending();
        transact(&self.store, &self.env, |mut transaction| async move {
            let found = known_meta(&mut transaction).await?;
            let mut meta = found.unwrap_or_else(|| Meta {
                schema: SCHEMA,
                sealing_key: old.to_owned(),
            });
            let stored = &meta.sealing_key;
            if stored == new {
                return Ok(transaction.done(false));
            }
            if stored != pending && (stored != old || is_complete) {
                return Err(SealingKeys::parse(stored).reject(old));
            }
            let written = if is_complete { new } else { pending };
            if stored != written {
                meta.sealing_key = written.to_owned();
                transaction.put(keys::meta(), &meta);
            }
            Ok(transaction.done(true))
        })
        .await
    }

    /// Reseals the next secrets; returns `false` once there are no more.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn step(&mut self) -> Result<bool, OpenError> {
        let Some(range) = self.rest.last().cloned() else {
            return Ok(false);
        };
        let (this, within) = (&*self, &range);
        let (last, report) = transact(&self.store, &self.env, |mut transaction| async move {
            let page = transaction.unchecked().store();
            let page = page
                .scan(within, RECORDS_PER_COMMIT, Direction::Forward)
                .await
                .map_err(OpenError::from)?;
            let mut report = this.report;
            for found in &page {
                if let Some(record) = this.reseal(found, &mut report) {
                    transaction.check(found.key.clone(), Some(found.entry.version));
                    transaction.put(found.key.clone(), &record);
                }
            }
            let last: Option<Key> = match page.last() {
                Some(last) if page.len() == RECORDS_PER_COMMIT => Some(last.key.clone()),
                _ => None,
            };
            Ok::<_, OpenError>(transaction.done((last, report)))
        })
        .await?;
        self.report = report;
        self.rest.pop();
        self.rest.extend(last.map(|last| range.after(&last)));
        Ok(!self.rest.is_empty())
    }

    /// Returns the record with resealed secrets, if any of them is sealed with the old key.
    fn reseal(
        &self,
        found: &KeyEntry,
        report: &mut RekeyReport,
    ) -> Option<SealedRecord<Box<RawValue>>> {
        let record = decode_value::<SealedRecord<Box<RawValue>>>(found).ok();
        let Some((mut record, owner)) = record.zip(keys::last_id(&found.key)) else {
            report.damaged += 1;
            return None;
        };
        let before = report.resealed;
        for sealed in record.secrets_mut() {
            if self.new.open(sealed, owner).is_ok() {
                report.resealed_before += 1;
            } else if let Ok(secret) = self.old.open(sealed, owner) {
                *sealed = self.new.seal(&secret, owner, &self.env);
                report.resealed += 1;
            } else {
                report.damaged += 1;
            }
        }
        (report.resealed > before).then_some(record)
    }

    /// Reseals what is left and makes the new key the key of the store.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn finish(mut self) -> Result<RekeyReport, OpenError> {
        while self.step().await? {}
        self.write_meta(true).await?;
        Ok(self.report)
    }
}
