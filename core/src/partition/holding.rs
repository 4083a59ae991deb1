//! A store that holds the writes of organisations that are being moved.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use crate::keys;
use crate::model::OrgId;
use crate::service::tasks::ScheduledTask;
use crate::store::{
    Commit, CommitOutcome, Found, Key, Mark, Mutation, Read, Store, StoreError, StoreErrorKind,
    StoreExt, read_json,
};

/// Store that rejects commits of an organisation while a move holds its writes.
///
/// Every commit of an organisation checks that there is no hold, so that a hold takes effect at one
/// point in time for all processes that share the store. A held commit fails as
/// [`StoreErrorKind::Unavailable`]; those of other organisations are not affected.
pub struct HoldingStore {
    store: Arc<dyn Store>,
}

impl HoldingStore {
    /// Creates the decorator of this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }
}

/// Returns the organisations that are being moved from or to this store, in order: it may have a part
/// of each.
///
/// # Errors
/// Those of the store.
pub async fn moving(store: &dyn Store) -> Result<Vec<OrgId>, StoreError> {
    let found = store.scan_all(&keys::holds()).await?;
    let orgs = found.iter().filter_map(|found| keys::last_id(&found.key));
    Ok(orgs.map(OrgId).collect())
}

#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
impl Store for HoldingStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let orgs = orgs_of(&commit);
        if orgs.is_empty() {
            return self.store.commit(commit).await;
        }
        let holds: Vec<Key> = orgs.into_iter().map(keys::hold).collect();
        let outcome = self.store.commit(checked(commit, &holds)?).await?;
        if outcome == CommitOutcome::Conflict
            && self.store.get(&holds).await?.iter().any(Option::is_some)
        {
            return Err(StoreError::new(
                StoreErrorKind::Unavailable,
                "the organisation is being moved, and its writes are held for a moment",
            ));
        }
        Ok(outcome)
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        self.store.mark(area)
    }
}

/// Adds the checks that nothing is held.
fn checked(commit: Commit, holds: &[Key]) -> Result<Commit, StoreError> {
    let (checks, mutations) = commit.into_parts();
    let mut builder = Commit::builder();
    for check in checks {
        builder = builder.check(check.key, check.version);
    }
    for hold in holds {
        builder = builder.check(hold.clone(), None);
    }
    let builder = mutations
        .into_iter()
        .fold(builder, |builder, mutation| builder.mutate(mutation));
    let built = builder.build();
    built.map_err(|error| StoreError::new(StoreErrorKind::Invalid, error.to_string()))
}

/// Returns the organisations that a commit concerns.
fn orgs_of(commit: &Commit) -> BTreeSet<OrgId> {
    let mut orgs = BTreeSet::new();
    // Most keys of a commit are of one family and one organisation.
    let mut last: &[u8] = &[];
    let checked = commit.checks().iter().map(|check| (&check.key, None));
    let changed = commit.mutations().iter().map(|mutation| {
        let value = match mutation {
            Mutation::Put { value, .. } => Some(value),
            Mutation::Delete { .. } | Mutation::Add { .. } => None,
        };
        (mutation.key(), value)
    });
    for (key, value) in checked.chain(changed) {
        if !last.is_empty() && key.as_bytes().starts_with(last) {
            continue;
        }
        if let Some(org) = keys::leading_org(key) {
            last = leading(key);
            orgs.insert(org);
        } else if let Some(value) = value {
            orgs.extend(org_in(key, value));
        }
    }
    orgs
}

/// Returns the family and the organisation of a key, with the divider after each.
fn leading(key: &Key) -> &[u8] {
    let bytes = key.as_bytes();
    let dividers = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let end = dividers.map(|(index, _)| index + 1).nth(1);
    &bytes[..end.unwrap_or_default()]
}

/// Returns the organisation of an entry whose key does not begin with it.
pub(super) fn org_in(key: &Key, value: &[u8]) -> Option<OrgId> {
    #[derive(Deserialize)]
    struct OfOrg {
        org_id: OrgId,
    }

    let text = std::str::from_utf8(key.as_bytes()).ok()?;
    match keys::family_name(text) {
        "due" => read_json::<ScheduledTask>(value).ok()?.org(),
        "endpoint_due" => keys::parse_endpoint_due(key).map(|(_, org, _)| org),
        "undelivered" => read_json(value).ok(),
        "outbox" => read_json::<OfOrg>(value).ok().map(|found| found.org_id),
        _ => None,
    }
}
