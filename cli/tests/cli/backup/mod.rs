//! Tests of `knowledge dump`, `restore`, `verify`, `compact` and `copy`.

mod compact;
mod copy;
mod dump;
mod erasures;
mod killed;
mod rekey;
mod restore;
#[cfg(unix)]
mod serving;
mod verify;

use std::path::Path;

use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::service::KnowledgeService;
use knowledge_core::store::{Commit, CommitBuilder};
use knowledge_server::data::{Data, DataConfig};
use knowledge_testing::fixture::{self, OrgFixture};

use crate::support::{Finished, Scratch, knowledge};

/// Runs a command on a directory of the scratch.
fn on(scratch: &Scratch, directory: &str, args: &[&str]) -> Finished {
    let data_dir = format!("--data-dir={}", scratch.arg(directory));
    knowledge(&[args, &[&*data_dir]].concat())
}

/// Creates a store with an entry of each family, in `data`.
async fn complete() -> Scratch {
    complete_with_org().await.0
}

/// Creates a store with an entry of each family, in `data`, and returns its organisation too.
async fn complete_with_org() -> (Scratch, OrgFixture) {
    let scratch = Scratch::new();
    let (data, service) = opened(&scratch, "data").await;
    let org = fixture::complete(&service).await.unwrap();
    drop(service);
    drop(data);
    (scratch, org)
}

/// Opens the service of a directory, which is locked until both are dropped.
async fn opened(scratch: &Scratch, directory: &str) -> (Data, KnowledgeService) {
    let data = DataConfig::at(scratch.path(directory)).open().await;
    let data = data.unwrap();
    let service = data.service(Env::system(), data.options(Limits::default()));
    let service = service.await.unwrap();
    (data, service)
}

/// Changes the store of a directory directly.
async fn plant(directory: &Path, change: CommitBuilder) {
    let store = DataConfig::at(directory).open_store().unwrap();
    store.commit(change.build().unwrap()).await.unwrap();
}

/// Dumps `directory` to a new file and returns its contents.
fn dumped(scratch: &Scratch, directory: &str, name: &str) -> String {
    on(scratch, directory, &["dump", &scratch.arg(name)]).ok();
    std::fs::read_to_string(scratch.path(name)).unwrap()
}

/// Returns a commit of this many entries that belong to no service.
fn strays(count: usize) -> CommitBuilder {
    (0..count).fold(Commit::builder(), |commit, number| {
        let key = knowledge_core::store::Key::new(format!("stray/{number:05}")).unwrap();
        commit.put(key, "null")
    })
}
