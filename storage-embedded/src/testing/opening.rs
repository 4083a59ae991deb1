//! Opening of directories with all kinds of content.

use std::fs;
use std::path::Path;

use knowledge_store::Store;

use super::support::{
    assert_committed, copy_directory, list_files, open, options, put, read_text, temp_directory,
};
use crate::{Engine, EngineStore, OpenError, store_kind};

fn open_error<E: Engine>(path: &Path) -> OpenError {
    EngineStore::<E>::open(path, options::<E>()).expect_err("the store does not open")
}

/// A store is created with its missing parents, and opens again.
pub async fn store_is_created_and_reopened<E: Engine>() {
    let root = temp_directory();
    let path = root.path().join("not/there/yet");
    let store = open::<E>(&path);
    assert_eq!(store.stats().entries, 0);
    let first = assert_committed(store.commit(put("a", "1")).await);
    drop(store);

    let kind = store_kind(&path).unwrap().unwrap();
    assert_eq!((kind.engine.as_str(), kind.format), (E::NAME, E::FORMAT));
    let store = open::<E>(&path);
    assert_eq!(read_text(&store, "a").await.as_deref(), Some("1"));
    assert_eq!(store.stats().entries, 1);
    let second = assert_committed(store.commit(put("a", "2")).await);
    assert!(second > first);
}

/// Only its owner can access a new directory.
pub async fn new_directory_is_private_to_its_owner<E: Engine>() {
    let root = temp_directory();
    let path = root.path().join("outer/store");
    drop(open::<E>(&path));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;

        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}

/// A directory with other files is rejected and not changed.
pub async fn foreign_directory_is_not_changed<E: Engine>() {
    let root = temp_directory();
    let (path, copy) = (root.path().join("directory"), root.path().join("copy"));
    fs::create_dir_all(path.join("photos")).unwrap();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    copy_directory(&path, &copy);
    let error = open_error::<E>(&path);
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert_eq!(list_files(&path), list_files(&copy));
    assert_eq!(fs::read(path.join("notes.txt")).unwrap(), b"mine");
}

/// A file at the path of the directory is an I/O error.
pub async fn file_at_the_path_is_rejected<E: Engine>() {
    let directory = temp_directory();
    let path = directory.path().join("file");
    fs::write(&path, "x").unwrap();
    let error = open_error::<E>(&path);
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

/// The `lost+found` directory of a new file system is ignored.
pub async fn file_system_root_counts_as_empty<E: Engine>() {
    let directory = temp_directory();
    fs::create_dir(directory.path().join("lost+found")).unwrap();
    drop(open::<E>(directory.path()));
}

/// A crash during creation leaves some files but no marker; the store is created again.
pub async fn unfinished_store_is_created_again<E: Engine>() {
    let directory = temp_directory();
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

/// Another format is rejected with both numbers, and an invalid marker as corrupt.
pub async fn other_format_is_rejected_with_both_numbers<E: Engine>() {
    let directory = temp_directory();
    drop(open::<E>(directory.path()));
    let marker = directory.path().join("knowledge-store.json");
    let (name, known) = (E::NAME, E::FORMAT);
    for other in [known - 1, known + 1] {
        let kind =
            format!(r#"{{"engine":"{name}","format":{other},"written_by":"x","more":"later"}}"#);
        fs::write(&marker, kind).unwrap();
        let error = open_error::<E>(directory.path());
        assert!(matches!(error, OpenError::UnknownFormat { .. }), "{error}");
        let expected =
            format!("has storage format {other}, but this program supports only {known}");
        assert!(error.to_string().contains(&expected), "{error}");
    }

    fs::write(&marker, "{").unwrap();
    let error = open_error::<E>(directory.path());
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
}

/// A store of another engine is rejected; the message has the address under which it opens.
pub async fn store_of_another_engine_is_rejected<E: Engine>() {
    let directory = temp_directory();
    drop(open::<E>(directory.path()));
    let marker = directory.path().join("knowledge-store.json");
    let other = r#"{"engine":"other","format":1,"written_by":"x"}"#;
    fs::write(marker, other).unwrap();
    let before = list_files(directory.path());
    let error = open_error::<E>(directory.path());
    assert!(
        matches!(
            &error,
            OpenError::OtherEngine { found, expected, .. }
                if found == "other" && *expected == E::NAME
        ),
        "{error}"
    );
    let name = format!("other:{}", directory.path().display());
    assert!(error.to_string().contains(&name), "{error}");
    assert_eq!(list_files(directory.path()), before);
}
