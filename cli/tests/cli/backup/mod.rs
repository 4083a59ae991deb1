//! Tests of `knowledge dump`, `restore`, `verify`, `compact` and `copy`.

mod compact;
mod copy;
mod dump;
mod killed;
mod rekey;
mod restore;
#[cfg(unix)]
mod serving;
mod verify;

use std::path::Path;

use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::store::{Commit, CommitBuilder};
use knowledge_server::data::DataConfig;
use knowledge_testing::fixture;

use crate::support::{Finished, Scratch, knowledge};

/// Runs a command on a directory of the scratch.
fn on(scratch: &Scratch, directory: &str, args: &[&str]) -> Finished {
    let data_dir = format!("--data-dir={}", scratch.arg(directory));
    knowledge(&[args, &[&*data_dir]].concat())
}

/// Creates a store with an entry of each family, in `data`.
async fn complete() -> Scratch {
    let scratch = Scratch::new();
    let data = DataConfig::at(scratch.path("data")).open().await.unwrap();
    let service = data.service(Env::system(), data.options(Limits::default()));
    fixture::complete(&service.await.unwrap()).await.unwrap();
    drop(data);
    scratch
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
