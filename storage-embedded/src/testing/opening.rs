//! The owner of a directory, and what is found in it when it is opened again.

use std::fs;
use std::path::Path;

use knowledge_store::Store;

use super::support::{committed, copy_directory, directory, files, open, options, put, value};
use crate::{Engine, EngineStore, OpenError, store_kind};

fn refusal<E: Engine>(path: &Path) -> OpenError {
    EngineStore::<E>::open(path, options::<E>()).expect_err("the store must not open")
}

/// A store is created with everything above it, and found again.
pub async fn store_is_created_and_found_again<E: Engine>() {
    let root = directory();
    let path = root.path().join("not/there/yet");
    let store = open::<E>(&path);
    assert_eq!(store.stats().entries, 0);
    let first = committed(store.commit(put("a", "1")).await);
    drop(store);

    let kind = store_kind(&path).unwrap().unwrap();
    assert_eq!((kind.engine.as_str(), kind.format), (E::NAME, E::FORMAT));
    let store = open::<E>(&path);
    assert_eq!(value(&store, "a").await.as_deref(), Some("1"));
    assert_eq!(store.stats().entries, 1);
    let second = committed(store.commit(put("a", "2")).await);
    assert!(second > first);
}

/// Nobody else may read a new directory.
pub async fn new_directory_is_its_owners_alone<E: Engine>() {
    let root = directory();
    let path = root.path().join("outer/store");
    drop(open::<E>(&path));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;

        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}

/// A directory of other files is refused, and nothing in it changes.
pub async fn other_files_are_left_alone<E: Engine>() {
    let root = directory();
    let (path, copy) = (root.path().join("directory"), root.path().join("copy"));
    fs::create_dir_all(path.join("photos")).unwrap();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    copy_directory(&path, &copy);
    let error = refusal::<E>(&path);
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert_eq!(files(&path), files(&copy));
    assert_eq!(fs::read(path.join("notes.txt")).unwrap(), b"mine");
}

/// A file in the place of the directory is an error of the operating system.
pub async fn file_is_no_directory<E: Engine>() {
    let directory = directory();
    let path = directory.path().join("file");
    fs::write(&path, "x").unwrap();
    let error = refusal::<E>(&path);
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

/// The directory that a fresh file system has in its root does not count.
pub async fn root_of_a_file_system_is_empty_enough<E: Engine>() {
    let directory = directory();
    fs::create_dir(directory.path().join("lost+found")).unwrap();
    drop(open::<E>(directory.path()));
}

/// A crash while a store was being created leaves some of its files, but no marker.
pub async fn unfinished_store_is_created_again<E: Engine>() {
    let directory = directory();
    for name in [
        "knowledge-store.lock",
        "knowledge-store.mark",
        "knowledge-store.open",
        "knowledge-store.json.new",
    ] {
        fs::write(directory.path().join(name), "half").unwrap();
    }
    assert_eq!(store_kind(directory.path()).unwrap(), None);
    drop(open::<E>(directory.path()));
    assert!(store_kind(directory.path()).unwrap().is_some());
    drop(open::<E>(directory.path()));
}

/// A store of a later version is refused with both numbers, and a marker that cannot be read as damaged.
pub async fn newer_format_is_named<E: Engine>() {
    let directory = directory();
    drop(open::<E>(directory.path()));
    let marker = directory.path().join("knowledge-store.json");
    let (name, newer) = (E::NAME, E::FORMAT + 1);
    let later =
        format!(r#"{{"engine":"{name}","format":{newer},"written_by":"x","more":"later"}}"#);
    fs::write(&marker, later).unwrap();
    let error = refusal::<E>(directory.path());
    assert!(matches!(error, OpenError::UnknownFormat { .. }), "{error}");
    let known = E::FORMAT;
    let expected = format!("has the storage format {newer}, this program knows format {known}");
    assert!(error.to_string().contains(&expected), "{error}");

    fs::write(&marker, "{").unwrap();
    let error = refusal::<E>(directory.path());
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
}

/// A store of another engine is refused, and the message has the name under which it opens.
pub async fn store_of_another_engine_is_named<E: Engine>() {
    let directory = directory();
    drop(open::<E>(directory.path()));
    let marker = directory.path().join("knowledge-store.json");
    let other = r#"{"engine":"other","format":1,"written_by":"x"}"#;
    fs::write(marker, other).unwrap();
    let before = files(directory.path());
    let error = refusal::<E>(directory.path());
    assert!(
        matches!(&error, OpenError::OtherEngine { found, expected, .. } if found == "other" && *expected == E::NAME),
        "{error}"
    );
    let name = format!("other:{}", directory.path().display());
    assert!(error.to_string().contains(&name), "{error}");
    assert_eq!(files(directory.path()), before);
}
