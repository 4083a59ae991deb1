//! The upgrade of a store of an earlier schema, which opening it triggers.
//!
//! Schema 2: `undelivered_count` and `disabled_endpoint_count` are one counter per organisation
//! instead of one for the whole store, which the upgrade recounts. Audit pages, labels and contents
//! are written without redundancy; the form of schema 1 is still read and remains as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::env::Env;
use crate::keys;
use crate::model::{DisabledReason, OrgId};
use crate::service::{Meta, OpenError, SCHEMA};
use crate::store::{
    Direction, Key, KeyEntry, KeyRange, Prepared, Store, StoreError, StoreExt, Transaction,
    decode_value, transact,
};

/// Maximum number of counters that one commit of the upgrade writes.
const COUNTERS_PER_COMMIT: usize = 2_000;
/// Maximum number of entries that one scan reads.
const PAGE_ENTRIES: usize = 512;

/// Upgrades a store to the current schema.
///
/// After an interruption, the next call repeats the upgrade.
pub(super) async fn upgrade(store: &Arc<dyn Store>, env: &Env) -> Result<(), OpenError> {
    while transact(store, env, count_per_org).await? {}
    Ok(())
}

/// Replaces the counters of the whole store by those of the organisations.
///
/// Each commit writes some of them; returns true if there are more. The commit checks the old
/// counters: if a program of the earlier schema changes them meanwhile, everything is recounted.
async fn count_per_org(mut transaction: Transaction) -> Result<Prepared<bool>, OpenError> {
    let meta = transaction.read::<Meta>(&keys::meta()).await;
    let Some(mut meta) = meta?.filter(|meta| meta.schema < SCHEMA) else {
        return transaction.done(false);
    };
    let replaced = [
        keys::global_undelivered_count(),
        keys::global_disabled_endpoint_count(),
    ];
    transaction.read_many::<i64>(&replaced).await?;
    let counted = recount(&**transaction.unchecked()).await?;
    let mut wrong = counted
        .iter()
        .filter(|(_, count)| count.stored != count.recounted);
    for (key, count) in wrong.by_ref().take(COUNTERS_PER_COMMIT) {
        transaction.put(key.clone(), &count.recounted);
    }
    let has_more = wrong.next().is_some();
    if !has_more {
        for key in replaced {
            transaction.delete(key);
        }
        meta.schema = SCHEMA;
        transaction.put(keys::meta(), &meta);
    }
    transaction.done(has_more)
}

/// A counter of an organisation.
#[derive(Default)]
struct Count {
    /// Stored value; an interrupted upgrade may have written it.
    stored: i64,
    recounted: i64,
}

async fn recount(store: &dyn Store) -> Result<BTreeMap<Key, Count>, StoreError> {
    /// The fields of an endpoint that show if the service disabled it.
    #[derive(Deserialize)]
    struct EndpointRecord {
        record: OfOrg,
        disabled: Option<DisabledReason>,
    }
    #[derive(Deserialize)]
    struct OfOrg {
        org_id: OrgId,
    }

    let mut counts = BTreeMap::<Key, Count>::new();
    for range in [keys::undelivered_counts(), keys::disabled_endpoint_counts()] {
        for found in store.scan_all(&range).await? {
            counts.entry(found.key.clone()).or_default().stored = decode_value(&found)?;
        }
    }
    let mut count = |key: Key| counts.entry(key).or_default().recounted += 1;
    for_each(store, keys::all_undelivered(), |found| {
        if let Ok(org) = decode_value(found) {
            count(keys::undelivered_count(org));
        }
    })
    .await?;
    for range in [keys::all_webhooks(), keys::all_subscriptions()] {
        for_each(store, range, |found| {
            // An unreadable record is corrupt, which the operations that read it report.
            let record = decode_value::<EndpointRecord>(found).ok();
            if let Some(record) = record.filter(|record| record.disabled.is_some()) {
                count(keys::disabled_endpoint_count(record.record.org_id));
            }
        })
        .await?;
    }
    Ok(counts)
}

async fn for_each(
    store: &dyn Store,
    mut rest: KeyRange,
    mut each: impl FnMut(&KeyEntry),
) -> Result<(), StoreError> {
    loop {
        let page = store.scan(&rest, PAGE_ENTRIES, Direction::Forward).await?;
        page.iter().for_each(&mut each);
        match page.last() {
            Some(last) if page.len() == PAGE_ENTRIES => rest = rest.after(&last.key),
            _ => return Ok(()),
        }
    }
}
