//! The binary, and a small client for the servers that it starts.

mod blocks;
mod curl;
mod http;
mod process;
mod proxy;
#[path = "../../support/text.rs"]
mod text;

use std::path::{Path, PathBuf};

pub(crate) use blocks::{run_block, shell_blocks};
pub(crate) use curl::request_of;
pub(crate) use http::{Answer, Request, get, send};
pub(crate) use process::{Finished, Server, knowledge, knowledge_in, start, start_in, words};
pub(crate) use proxy::Proxy;
pub(crate) use text::AssertText;

/// A directory that is removed with the test.
pub(crate) struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the path as an argument.
    pub(crate) fn arg(&self, name: &str) -> String {
        text(&self.path(name))
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> String {
        std::fs::write(self.path(name), content).expect("write a file");
        self.arg(name)
    }

    /// Creates a store with the organisation `acme`, its owner `maya` and two workspaces.
    ///
    /// The workspaces are `support` and `sales`.
    pub(crate) fn with_org() -> Self {
        let scratch = Self::new();
        let made = knowledge(&[
            "init",
            "--org-slug=acme",
            "--org-name=Acme",
            "--owner-handle=maya",
            "--workspace=support=Customer Support",
            "--workspace=sales",
            &scratch.data_dir(),
        ]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        scratch
    }

    /// Returns the option that names the data directory.
    pub(crate) fn data_dir(&self) -> String {
        format!("--data-dir={}", self.arg("data"))
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}
