//! Cost of requests whose caller is unknown: the server's library over a store that records reads.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use knowledge_core::access::{CredentialKind, Secret};
use knowledge_core::env::Env;
use knowledge_core::internals::keys;
use knowledge_core::store::{
    Commit, CommitOutcome, Found, Key, MemoryStore, Read, Store, StoreError,
};

use crate::support::{InProcess, Operation};

const JSON: &str = "application/json";

/// A store that records the keys that are read.
#[derive(Default)]
struct RecordingStore {
    store: MemoryStore,
    reads: Mutex<Vec<Key>>,
}

impl RecordingStore {
    /// Returns the number of reads of a credential.
    fn reads_of(&self, credential: &str) -> usize {
        let secret: Secret = credential.parse().expect("a credential");
        let key = keys::credential(secret.hash());
        let reads = self.reads.lock().expect("not poisoned");
        reads.iter().filter(|read| **read == key).count()
    }
}

#[async_trait]
impl Store for RecordingStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        for read in reads {
            if let Read::Keys(keys) = *read {
                let mut read = self.reads.lock().expect("not poisoned");
                read.extend_from_slice(keys);
            }
        }
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.store.commit(commit).await
    }
}

/// Returns a body of half a megabyte that is expensive to parse.
fn objects() -> String {
    format!("[{}0]", r#"{"":0},"#.repeat(75_000))
}

#[tokio::test]
async fn long_body_is_parsed_only_for_a_known_caller() {
    let store = Arc::new(RecordingStore::default());
    let server = InProcess::over(store.clone()).await;
    let org = server.org();
    let send = async |operation: &Operation, credential: &str, body: &str, content_type: &str| {
        let before = store.reads_of(credential);
        let call = operation.by(credential).without("content-type");
        let call = call.header("content-type", content_type);
        let answer = call.body(body.to_owned()).send_to(&server.base_url).await;
        (answer.status.as_u16(), store.reads_of(credential) - before)
    };
    let (objects, blank) = (objects(), " ".repeat(100_000));
    for operation in &Operation::every(org) {
        let (kind, dead) = match operation.takes_session {
            true => (CredentialKind::Session, &org.dead_sessions),
            false => (CredentialKind::Bearer, &org.tokens.dead),
        };
        let unknown = Secret::generate(kind, org.id, &Env::system());
        // Maintenance, which runs meanwhile, reads expired credentials.
        for credential in [unknown.expose(), &dead.revoked] {
            for body in [&objects, &blank] {
                for content_type in [JSON, "text/plain"] {
                    let sent = send(operation, credential, body, content_type).await;
                    assert_eq!(sent, (401, 1), "{}", operation.name);
                }
            }
        }
    }
    // The server identifies the caller, once in five seconds, as this store marks no changes. To
    // authenticate it, its credential is read and confirmed.
    let (update, token) = (&Operation::all(org)[0], &org.members.owner.second_token);
    assert_eq!(send(update, token, "{}", JSON).await, (400, 3));
    let (status, reads) = send(update, token, &objects, JSON).await;
    assert!(
        status == 400 && (2..=3).contains(&reads),
        "{status}, {reads} reads"
    );
}
