//! The upgrade of a store of an earlier schema, which opening it triggers.
//!
//! Schema 2: `undelivered_count` and `disabled_endpoint_count` are one counter per organisation
//! instead of one for the whole store, which the upgrade recounts. Chats have participants, which
//! the upgrade names. Audit pages, labels and contents are written without redundancy; the form of
//! schema 1 is still read and remains as it is.
//!
//! Schema 3: `usage` counts what each organisation has of its quotas, which the upgrade counts.
//!
//! Schema 4: a claim writes its leases to the state of the endpoint, which earlier programs would
//! ignore. A delivery that is leased in the form of schema 3, with its queue entry at the expiry,
//! remains as it is: it is due then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use crate::env::Env;
use crate::format::USAGE_SCHEMA;
use crate::keys;
use crate::limits::CHAT_PARTICIPANTS_MAX;
use crate::model::{DisabledReason, OrgId, Quota};
use crate::service::meta::Meta;
use crate::service::workspace::chats::{Chat, ChatMessage, RecentChat};
use crate::service::{OpenError, SCHEMA};
use crate::store::{
    Direction, Key, KeyEntry, KeyRange, Prepared, Store, StoreError, StoreExt, Transaction,
    decode_value, transact,
};

/// First schema with participants of chats and counters per organisation.
const COUNTERS_PER_ORG_SCHEMA: u32 = 2;
/// Key families whose entries a quota counts.
const COUNTED_FAMILIES: [(&str, Quota); 9] = [
    ("memory", Quota::Memories),
    ("recall", Quota::Recalls),
    ("chat", Quota::Chats),
    ("chat_message", Quota::ChatMessages),
    ("source", Quota::Sources),
    ("member", Quota::Members),
    ("webhook", Quota::Endpoints),
    ("inbound_webhook", Quota::Endpoints),
    ("subscription", Quota::Endpoints),
];
/// Maximum number of counters that one commit of the upgrade writes.
const COUNTERS_PER_COMMIT: usize = 2_000;
/// Maximum number of chats that one commit of the upgrade changes.
const CHATS_PER_COMMIT: usize = 100;
/// Maximum number of entries that one scan reads.
const PAGE_ENTRIES: usize = 512;

/// Upgrades a store to the current schema.
///
/// After an interruption, the next call repeats the upgrade.
pub(super) async fn upgrade(store: &Arc<dyn Store>, env: &Env) -> Result<(), OpenError> {
    while transact(store, env, name_participants).await? {}
    while transact(store, env, count_per_org).await? {}
    while transact(store, env, count_usage).await? {}
    transact(store, env, name_schema).await?;
    Ok(())
}

/// Replaces the counters of the whole store by those of the organisations.
///
/// Each commit writes some of them; returns true if there are more. The commit checks the old
/// counters: if a program of the earlier schema changes them meanwhile, everything is recounted.
async fn count_per_org(mut transaction: Transaction) -> Result<Prepared<bool>, OpenError> {
    let meta = transaction.read::<Meta>(&keys::meta()).await;
    let Some(mut meta) = meta?.filter(|meta| meta.schema < COUNTERS_PER_ORG_SCHEMA) else {
        return Ok(transaction.done(false));
    };
    let replaced = [
        keys::global_undelivered_count(),
        keys::global_disabled_endpoint_count(),
    ];
    transaction.read_many::<i64>(&replaced).await?;
    let counted = recount(&**transaction.unchecked()).await?;
    let has_more = write_wrong(&mut transaction, &counted);
    if !has_more {
        for key in replaced {
            transaction.delete(key);
        }
        meta.schema = COUNTERS_PER_ORG_SCHEMA;
        transaction.put(keys::meta(), &meta);
    }
    Ok(transaction.done(has_more))
}

/// Counts what the organisations have of their quotas.
///
/// Each commit writes some of the counters; returns true if there are more.
async fn count_usage(mut transaction: Transaction) -> Result<Prepared<bool>, OpenError> {
    let meta = transaction.read::<Meta>(&keys::meta()).await?;
    let Some(mut meta) = meta.filter(|meta| meta.schema < USAGE_SCHEMA) else {
        return Ok(transaction.done(false));
    };
    let counted = recount_usage(&**transaction.unchecked()).await?;
    let has_more = write_wrong(&mut transaction, &counted);
    if !has_more {
        meta.schema = USAGE_SCHEMA;
        transaction.put(keys::meta(), &meta);
    }
    Ok(transaction.done(has_more))
}

/// Marks the store as one of the current schema, so that earlier programs reject it.
async fn name_schema(mut transaction: Transaction) -> Result<Prepared<()>, OpenError> {
    let meta = transaction.read::<Meta>(&keys::meta()).await?;
    if let Some(mut meta) = meta.filter(|meta| meta.schema < SCHEMA) {
        meta.schema = SCHEMA;
        transaction.put(keys::meta(), &meta);
    }
    Ok(transaction.done(()))
}

/// Writes some of the counters that are wrong; returns true if there are more.
fn write_wrong(transaction: &mut Transaction, counted: &BTreeMap<Key, Count>) -> bool {
    let mut wrong = counted
        .iter()
        .filter(|(_, count)| count.stored != count.recounted);
    for (key, count) in wrong.by_ref().take(COUNTERS_PER_COMMIT) {
        transaction.put(key.clone(), &count.recounted);
    }
    wrong.next().is_some()
}

/// Names the participants of chats: the creator and the authors of messages.
///
/// Each commit writes some of them; returns true if there are more. The commit checks the chats: if
/// a program of the earlier schema adds a message meanwhile, its chat is read again.
async fn name_participants(mut transaction: Transaction) -> Result<Prepared<bool>, OpenError> {
    let meta = transaction.read::<Meta>(&keys::meta()).await?;
    if meta.is_none_or(|meta| meta.schema >= COUNTERS_PER_ORG_SCHEMA) {
        return Ok(transaction.done(false));
    }
    let store = Arc::clone(transaction.unchecked());
    let mut unnamed = Vec::new();
    for_each(&*store, keys::all_chats(), |found| {
        // An unreadable record is corrupt, which the operations that read it report.
        let is_unnamed = decode_value::<Chat>(found).is_ok_and(|chat| chat.participants.is_empty());
        if is_unnamed && unnamed.len() <= CHATS_PER_COMMIT {
            unnamed.push(found.key.clone());
        }
    })
    .await?;
    for key in unnamed.iter().take(CHATS_PER_COMMIT) {
        let chat = transaction.read::<Chat>(key).await?;
        let (Some(mut chat), Some((org, ..))) = (chat, keys::parse_chat(key)) else {
            continue;
        };
        let mut authors = BTreeSet::new();
        for_each(&*store, keys::chat_messages(org, chat.id), |found| {
            let message = decode_value::<ChatMessage>(found);
            authors.extend(message.ok().map(|message| message.author_id));
        })
        .await?;
        authors.remove(&chat.created_by);
        chat.participants = vec![chat.created_by];
        chat.participants
            .extend(authors.iter().take(CHAT_PARTICIPANTS_MAX));
        let recent = keys::chat_recent(org, chat.workspace_id, chat.last_message_at, chat.id);
        if let Some(before) = transaction.read::<RecentChat>(&recent).await? {
            transaction.put(recent, &chat.recent(before.snippet));
        }
        transaction.put(key.clone(), &chat);
    }
    Ok(transaction.done(unnamed.len() > CHATS_PER_COMMIT))
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

async fn recount_usage(store: &dyn Store) -> Result<BTreeMap<Key, Count>, StoreError> {
    let mut counts = BTreeMap::<Key, Count>::new();
    for_each(store, keys::all_of("usage"), |found| {
        let stored = decode_value(found).unwrap_or(i64::MIN);
        counts.entry(found.key.clone()).or_default().stored = stored;
    })
    .await?;
    for (family, quota) in COUNTED_FAMILIES {
        for_each(store, keys::all_of(family), |found| {
            if let Some(org) = keys::org_of(&found.key) {
                let counter = keys::usage(org, quota);
                counts.entry(counter).or_default().recounted += 1;
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
