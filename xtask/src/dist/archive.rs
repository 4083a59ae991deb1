//! Reproducible archives: files sorted by name, with fixed times, modes and owners.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::process::{Result, read, run};

/// Settings of the archives.
pub(super) struct Archives {
    /// Time of all files, in seconds since 1970.
    epoch: String,
    /// Level of compression, 1 to 9.
    level: &'static str,
}

impl Archives {
    /// Uses the time of `SOURCE_DATE_EPOCH`, otherwise the time of the last commit.
    ///
    /// # Errors
    /// If neither is known.
    pub(super) fn new(is_debug: bool) -> Result<Self> {
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(epoch) => epoch,
            Err(_) => read(Command::new("git").args(["log", "-1", "--format=%ct"]))
                .map_err(|error| format!("{error}; set SOURCE_DATE_EPOCH"))?,
        };
        let level = if is_debug { "1" } else { "6" };
        Ok(Self { epoch, level })
    }

    /// Returns the time of all files in RFC 3339.
    ///
    /// # Errors
    /// If it is not a number.
    pub(super) fn timestamp(&self) -> Result<String> {
        let date = format!("--date=@{}", self.epoch);
        read(Command::new("date").args(["--utc", &date, "+%Y-%m-%dT%H:%M:%SZ"]))
    }

    /// Writes a directory, which is below `parent`, to a compressed tar file.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub(super) fn tar(&self, parent: &Path, name: &str, file: &Path) -> Result {
        let mut tar = Command::new("tar");
        tar.args(["--create", "--format=gnu", "--sort=name", "--numeric-owner"])
            .args(["--owner=0", "--group=0"])
            .arg(format!("--mtime=@{}", self.epoch))
            .arg(format!("--use-compress-program=gzip -n -{}", self.level));
        run(tar
            .arg("--file")
            .arg(file)
            .arg("--directory")
            .arg(parent)
            .arg(name))
    }

    /// Writes a directory, which has the control files in `DEBIAN`, to a Debian package.
    ///
    /// # Errors
    /// If `dpkg-deb` fails.
    pub(super) fn debian(&self, directory: &Path, file: &Path) -> Result {
        let mut build = Command::new("dpkg-deb");
        build.env("SOURCE_DATE_EPOCH", &self.epoch).args([
            "--root-owner-group",
            "-Zxz",
            &format!("-z{}", self.level),
            "--build",
        ]);
        run(build.arg(directory).arg(file))
    }
}

/// Makes files and directories readable by everyone and writable by their owner only.
///
/// # Errors
/// If that is not permitted.
pub(super) fn normalise_modes(directory: &Path) -> Result {
    run(Command::new("chmod")
        .args(["--recursive", "u=rwX,go=rX"])
        .arg(directory))
}

/// Copies a file, and creates the directories above it.
///
/// # Errors
/// If it cannot be read or written.
pub(super) fn place(from: &Path, to: &Path) -> Result {
    make_parent(to)?;
    fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
    Ok(())
}

/// Writes a file, and creates the directories above it.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(to: &Path, text: &str) -> Result {
    make_parent(to)?;
    fs::write(to, text).map_err(|error| format!("{}: {error}", to.display()))?;
    Ok(())
}

fn make_parent(file: &Path) -> Result {
    Ok(fs::create_dir_all(file.parent().ok_or("no directory")?)?)
}
