//! Tests of signing in while the store fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use http::Method;
use knowledge_core::access::CredentialKind;
use knowledge_core::store::{
    Commit, CommitOutcome, Found, Mark, MemoryStore, Mutation, Read, Store, StoreError,
    StoreErrorKind,
};
use serde_json::json;

use super::{PLAIN, attributes, issue, login, session_of};
use crate::support::{Call, InProcess};

/// Store whose reads fail after a commit that creates a credential, once told to.
#[derive(Default)]
struct UnreadableStore {
    inner: MemoryStore,
    fails_next: AtomicBool,
    fails: AtomicBool,
}

#[async_trait]
impl Store for UnreadableStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        if self.fails.load(Ordering::SeqCst) {
            let kind = StoreErrorKind::Unavailable;
            return Err(StoreError::new(kind, "a test made a read fail"));
        }
        self.inner.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        // Maintenance commits meanwhile, and deletes credentials that have expired.
        let signs_in = commit.mutations().iter().any(|change| {
            let is_credential = change.key().as_bytes().starts_with(b"credential/");
            is_credential && matches!(change, Mutation::Put { .. })
        });
        let outcome = self.inner.commit(commit).await;
        if signs_in && self.fails_next.swap(false, Ordering::SeqCst) {
            self.fails.store(true, Ordering::SeqCst);
        }
        outcome
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        self.inner.mark(area)
    }
}

/// A link is not spent without a session: the cookie is set also if the member cannot be read.
#[tokio::test]
async fn login_sets_cookie_if_reads_fail_after_its_commit() {
    let store = Arc::new(UnreadableStore::default());
    let server = InProcess::over(store.clone()).await;
    let viewer = server.org().members.viewer.id;
    let link = issue(&server, viewer, CredentialKind::Link).await;
    store.fails_next.store(true, Ordering::SeqCst);
    let answer = login(&link).send_to(&server.base_url).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.json()["error"], "unavailable");
    assert_eq!(attributes(&answer), PLAIN);
    store.fails.store(false, Ordering::SeqCst);
    let call = Call::new(Method::GET, "/auth/session").session(&session_of(&answer));
    let session = call.send_to(&server.base_url).await;
    assert_eq!(session.status, 200);
    assert_eq!(session.json()["member"]["id"], json!(viewer));
}
