//! A store with a hook before each call.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use knowledge_core::internals::keys;
use knowledge_core::store::{Commit, CommitOutcome, Found, Key, KeyRange, Read, Store, StoreError};

/// A call of the store.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Get(Vec<Key>),
    Scan(KeyRange),
    Commit,
}

type Hook = dyn Fn(Asked) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync;

/// A store that runs the hook before each call, and returns its errors.
pub(crate) struct HookedStore {
    store: Arc<dyn Store>,
    hook: Box<Hook>,
}

impl HookedStore {
    pub(crate) fn new<F>(
        store: Arc<dyn Store>,
        hook: impl Fn(Asked) -> F + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        Arc::new(Self {
            store,
            hook: Box::new(move |asked| Box::pin(hook(asked))),
        })
    }
}

/// Returns true if this range is scanned to fan out events, from wherever their turns begin.
pub(crate) fn of_fan_out(range: &KeyRange) -> bool {
    range.end == keys::outbox_queues().end
}

/// Returns true if these keys are read to renew or end leases: endpoints and their deliveries.
pub(crate) fn of_lease(keys: &[Key]) -> bool {
    let is_of = |key: &Key, family: &str| key.to_string().starts_with(family);
    let first = keys.first().is_some_and(|key| is_of(key, "endpoint/"));
    first && keys.iter().any(|key| is_of(key, "delivery/"))
}

#[async_trait]
impl Store for HookedStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        for read in reads {
            let asked = match *read {
                Read::Keys(keys) => Asked::Get(keys.to_vec()),
                Read::Range { range, .. } => Asked::Scan(range.clone()),
            };
            (self.hook)(asked).await?;
        }
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        (self.hook)(Asked::Commit).await?;
        self.store.commit(commit).await
    }
}
