//! Tests of directories and key files of other users, which need root to create them.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use crate::support::{AssertText, Scratch, knowledge};

const OTHER: u32 = 54_321;

/// Gives a file or directory, with all that is in it, to another user.
fn give(path: &Path) {
    chown(path, Some(OTHER), Some(OTHER)).unwrap();
    for entry in fs::read_dir(path).into_iter().flatten() {
        give(&entry.unwrap().path());
    }
}

/// Returns path, owner, time of change and size of each file and directory.
fn listed(path: &Path) -> Vec<String> {
    let found = fs::symlink_metadata(path).unwrap();
    let (uid, changed) = (found.uid(), (found.ctime(), found.ctime_nsec()));
    let mut listed = vec![format!(
        "{} {uid} {changed:?} {}",
        path.display(),
        found.len()
    )];
    for entry in fs::read_dir(path).into_iter().flatten() {
        listed.extend(self::listed(&entry.unwrap().path()));
    }
    listed.sort();
    listed
}

/// Returns true if this test can run: only root may give files away.
///
/// # Panics
/// For another user, if `CI` is set.
fn can_give() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    assert!(
        is_root || std::env::var_os("CI").is_none(),
        "this test needs root"
    );
    if !is_root {
        eprintln!("skipped: only root may give files away");
    }
    is_root
}

#[test]
fn commands_do_not_write_to_directory_of_another_user() {
    if !can_give() {
        return;
    }
    let scratch = Scratch::with_org();
    fs::create_dir(scratch.path("home")).unwrap();
    let outside = Scratch::with_org();
    let dump = outside.arg("dump.jsonl");
    knowledge(&["dump", &dump, &outside.data_dir()]).ok();
    give(&scratch.path("."));
    let before = listed(&scratch.path("."));
    let data = scratch.arg("data");
    let (theirs, ours) = (
        format!("sled:{data}"),
        format!("sled:{}", outside.arg("copy")),
    );
    let source = format!("sled:{}", outside.arg("data"));
    let missing = scratch.arg("home/new");
    for (directory, args) in [
        (&data, &["verify"][..]),
        (&data, &["dump", &outside.arg("none.jsonl")]),
        (&data, &["serve", "--listen=127.0.0.1:0"]),
        (&data, &["demo", "--listen=127.0.0.1:0"]),
        (&data, &["compact"]),
        (&data, &["restore", &dump]),
        (&data, &["init", "--org-slug=other"]),
        (&data, &["org", "list"]),
        (&data, &["token", "list"]),
        (&data, &["token", "list", "--admin-socket=off"]),
        (&missing, &["init", "--org-slug=other"]),
        (&missing, &["restore", &dump]),
        (&missing, &["serve", "--listen=127.0.0.1:0"]),
    ] {
        let data_dir = format!("--data-dir={directory}");
        let refused = knowledge(&[args, &[&*data_dir]].concat());
        assert!(
            matches!(refused.code, 1 | 2),
            "{args:?}: {}",
            refused.stdout
        );
        let told = format!("is owned by UID {OTHER}, and this process runs as UID 0");
        assert!(
            refused.stderr.contains(&told),
            "{args:?}: {}",
            refused.stderr
        );
    }
    for (from, to) in [(&theirs, &ours), (&source, &theirs)] {
        let refused = knowledge(&["copy", "--from", from, "--to", to]).failed();
        refused.assert_has("is owned by UID");
    }
    assert_eq!(listed(&scratch.path(".")), before);
}

#[test]
fn store_of_another_user_is_rejected_in_own_directory() {
    if !can_give() {
        return;
    }
    let scratch = Scratch::with_org();
    // A volume of root, with the store that a service of another user created in it.
    for entry in fs::read_dir(scratch.path("data")).unwrap() {
        give(&entry.unwrap().path());
    }
    let before = listed(&scratch.path("."));
    let refused = knowledge(&["verify", &scratch.data_dir()]).refused();
    refused.assert_has("is owned by UID 54321");
    assert_eq!(listed(&scratch.path(".")), before);
}

#[test]
fn key_file_of_another_user_is_rejected() {
    if !can_give() {
        return;
    }
    let scratch = Scratch::with_org();
    give(&scratch.path("data.key"));
    let refused = knowledge(&["token", "list", &scratch.data_dir()]).failed();
    let told = "data.key is owned by UID 54321";
    refused.assert_has(told);
}
