//! Entries of an organisation in families that all organisations share.
//!
//! They are its credentials, its slug, its scheduled tasks, its endpoints in the ready queue, its
//! undelivered events and its outbox. Their keys do not begin with the organisation, so that others
//! would find them in the new partition. They are therefore written there last, while the hold of
//! both partitions keeps everybody from acting on them.

use serde::Deserialize;

use super::copying::{Batch, PAGE_ENTRIES, delete};
use super::outcome::MoveError;
use super::side::Side;
use crate::keys;
use crate::model::{EventId, OrgId};
use crate::partition::holding::org_in;
use crate::store::{Direction, Key, KeyEntry, StoreError, StoreExt, decode_value, read_json};

/// Copies the credentials that the source has.
pub(super) async fn copy_credentials(
    source: &Side,
    target: &Side,
    org: OrgId,
) -> Result<(), MoveError> {
    let mut batch = Batch::new(target);
    for keys in credentials(source, org).await?.chunks(PAGE_ENTRIES) {
        for found in present(source, keys).await? {
            batch.put(vec![found]).await?;
        }
    }
    batch.end().await
}

/// Deletes the credentials and the places of the inbound webhooks, and with them what the source
/// answers: signed messages need no credential.
pub(super) async fn delete_credentials(source: &Side, org: OrgId) -> Result<(), MoveError> {
    let inbound = source
        .store
        .scan_all(&keys::inbound_webhook_ids(org))
        .await?;
    let inbound = inbound.into_iter().map(|found| found.key).collect();
    delete(source, inbound).await?;
    delete(source, credentials(source, org).await?).await
}

async fn credentials(source: &Side, org: OrgId) -> Result<Vec<Key>, StoreError> {
    let found = source.store.scan_all(&keys::credential_ids(org)).await?;
    let key = |found: &KeyEntry| {
        let hash = decode_value::<String>(found)?;
        Ok(hash.parse().ok().map(keys::credential))
    };
    found
        .iter()
        .filter_map(|found| key(found).transpose())
        .collect()
}

async fn present(source: &Side, keys: &[Key]) -> Result<Vec<KeyEntry>, StoreError> {
    let entries = source.store.get(keys).await?.into_iter().zip(keys);
    let found = entries.filter_map(|(entry, key)| {
        let key = key.clone();
        entry.map(|entry| KeyEntry { key, entry })
    });
    Ok(found.collect())
}

/// Moves the tasks, the places in the queues and the events: each leaves the source once it is in
/// the target, so that a move which is resumed brings back nothing that was done there.
pub(super) async fn move_tasks(source: &Side, target: &Side, org: OrgId) -> Result<(), MoveError> {
    for range in [
        keys::all_of("due"),
        keys::endpoints_due(),
        keys::all_undelivered(),
        keys::outbox_events(),
    ] {
        let mut rest = range;
        loop {
            let page = source
                .store
                .scan(&rest, PAGE_ENTRIES, Direction::Forward)
                .await?;
            let last = page.last().filter(|_| page.len() == PAGE_ENTRIES);
            let next = last.map(|last| rest.after(&last.key));
            let is_own = |found: &KeyEntry| org_in(&found.key, &found.entry.value) == Some(org);
            let (mut batch, mut moved) = (Batch::new(target), Vec::new());
            for found in page.into_iter().filter(is_own) {
                let group = group_of(source, org, found).await?;
                moved.extend(group.iter().map(|found| found.key.clone()));
                batch.put(group).await?;
            }
            batch.end().await?;
            delete(source, moved).await?;
            match next {
                Some(next) => rest = next,
                None => break,
            }
        }
    }
    Ok(())
}

/// Returns an entry with those that must be found together with it.
async fn group_of(source: &Side, org: OrgId, found: KeyEntry) -> Result<Vec<KeyEntry>, StoreError> {
    #[derive(Deserialize)]
    struct Identified {
        id: EventId,
    }

    let mut group = Vec::new();
    if keys::outbox_events().contains(&found.key)
        && let Ok(Identified { id }) = read_json(&found.entry.value)
    {
        let others = [keys::fan_out(id), keys::outbox_queue(org, id)];
        group = present(source, &others).await?;
    }
    group.push(found);
    Ok(group)
}
