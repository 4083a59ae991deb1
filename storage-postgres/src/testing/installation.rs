//! Copies of an installation, for a user that may not enter its directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies an installation into a directory that every user may enter, and returns the directory of
/// its programs.
///
/// A Python package has its libraries beside it, where its programs look for them.
pub(super) fn copy_installation(programs: &Path, directory: &Path) -> PathBuf {
    let installation = programs.parent().expect("the programs have a directory");
    let mut copies = directory.join("installation");
    create(&copies);
    let package = installation.parent();
    let package = package.and_then(|package| Some((package, package.file_name()?)));
    if let Some((package, name)) = package {
        let libraries: OsString = [name, ".libs".as_ref()].into_iter().collect();
        let libraries = package.with_file_name(libraries);
        if libraries.is_dir() {
            copy(&libraries, &copies);
            copies.push(name);
            create(&copies);
        }
    }
    copy(installation, &copies);
    let name = installation.file_name();
    let copied = copies.join(name.expect("the installation has a name"));
    copied.join(programs.file_name().expect("the programs have a name"))
}

fn create(directory: &Path) {
    std::fs::create_dir(directory).expect("a new directory");
}

/// Copies a directory into another one.
fn copy(directory: &Path, into: &Path) {
    let copied = Command::new("cp")
        .arg("--recursive")
        .args([directory, into])
        .status();
    let is_copied = copied.is_ok_and(|status| status.success());
    assert!(is_copied, "{} cannot be copied", directory.display());
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Creates these files, copies the installation, and returns the programs of the copy.
    fn copied(files: &[&str], programs: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("source");
        for file in files {
            let file = source.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let programs = copy_installation(&source.join(programs), directory.path());
        assert!(!programs.starts_with(&source));
        (directory, programs)
    }

    #[test]
    fn package_is_copied_with_its_libraries() {
        let files = [
            "package/pginstall/bin/initdb",
            "package/pginstall/lib/int.so",
            "package.libs/libpq.so",
        ];
        let (_directory, programs) = copied(&files, "package/pginstall/bin");
        for expected in ["initdb", "../lib/int.so", "../../../package.libs/libpq.so"] {
            assert!(programs.join(expected).is_file(), "{expected}");
        }
    }

    #[test]
    fn installation_without_libraries_is_copied_alone() {
        let files = ["postgresql/15/bin/initdb", "postgresql/16/bin/initdb"];
        let (_directory, programs) = copied(&files, "postgresql/15/bin");
        assert!(programs.join("initdb").is_file());
        assert!(!programs.join("../../16").exists());
    }
}
