//! The directory of a store: its marker, and the traces of how it was last closed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::OpenError;
use crate::lock::{DirectoryLock, LOCK, REPLACED};
use crate::mark::Mark;

const MARKER: &str = "knowledge-store.json";
const MARKER_IN_THE_MAKING: &str = "knowledge-store.json.new";
const MARK: &str = "knowledge-store.mark";
/// Present while a store is open; still there after it was not closed cleanly.
const OPEN: &str = "knowledge-store.open";
/// The content of the root of a fresh file system.
const LOST_AND_FOUND: &str = "lost+found";

/// The engine and the layout of a store, as its marker tells them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreKind {
    /// The name of the engine. Stores of the first format do not tell it, and are sled's.
    #[serde(default = "first_engine")]
    pub engine: String,
    /// The number of the engine's layout.
    pub format: u64,
    /// The package that created the store.
    pub written_by: String,
}

fn first_engine() -> String {
    "sled".to_owned()
}

/// The kind of the store in a directory; `None` if it holds none, or one that is not finished.
///
/// # Errors
/// [`OpenError::Corrupt`] if the marker cannot be understood, [`OpenError::Io`] if it cannot be read.
pub fn store_kind(path: impl AsRef<Path>) -> Result<Option<StoreKind>, OpenError> {
    let path = path.as_ref();
    match fs::read(path.join(MARKER)) {
        Ok(marker) => serde_json::from_slice(&marker).map(Some).map_err(|_| {
            OpenError::corrupt(
                path,
                format!("{MARKER} does not tell its engine and format"),
            )
        }),
        // A link that leads nowhere is there, and not a store to be made.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && !path.join(MARKER).is_symlink() =>
        {
            Ok(None)
        }
        Err(error) => Err(OpenError::io(&path.join(MARKER))(error)),
    }
}

/// A directory that is a store's, held by this process until it is dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    lock: DirectoryLock,
    pub(crate) format: u64,
    /// False if the store was not closed cleanly before it was opened this time.
    pub(crate) was_closed: bool,
}

impl Directory {
    /// Enters the directory, and makes a store's of it if it is empty.
    pub(crate) fn enter<E: Engine>(
        lock: DirectoryLock,
        accepts_old_formats: bool,
    ) -> Result<Self, OpenError> {
        let path = lock.path().to_owned();
        let format = match store_kind(&path)? {
            Some(kind) => check_kind::<E>(&path, &kind, accepts_old_formats)?,
            None => {
                found::<E>(&path).map_err(OpenError::io(&path))?;
                E::FORMAT
            }
        };
        // Stores of older formats do not note how they ended.
        let is_open = path.join(OPEN).try_exists();
        let was_closed = format == E::FORMAT && is_open.is_ok_and(|is_open| !is_open);
        Ok(Self {
            lock,
            format,
            was_closed,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.lock.path()
    }

    pub(crate) fn open_mark(&self) -> Result<Mark, OpenError> {
        let path = self.path().join(MARK);
        match Mark::open(&path) {
            Ok(Some(mark)) => Ok(mark),
            Ok(None) => Err(OpenError::corrupt(
                self.path(),
                format!("{MARK} cannot be read"),
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(OpenError::corrupt(
                self.path(),
                format!("{MARK} is missing"),
            )),
            Err(error) => Err(OpenError::io(&path)(error)),
        }
    }

    /// Notes, durably, that the store is open.
    pub(crate) fn begin(&self) -> Result<(), OpenError> {
        let path = self.path().join(OPEN);
        match File::create_new(&path) {
            // It may be another user's, whose command was killed.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(OpenError::io(&path)(error));
            }
            _ => {}
        }
        sync_directory(self.path()).map_err(OpenError::io(self.path()))
    }

    /// Makes the names in the directory as durable as the files behind them.
    pub(crate) fn sync(&self) -> Result<(), OpenError> {
        sync_directory(self.path()).map_err(OpenError::io(self.path()))
    }

    /// Lets go of the store in the directory. A clean end is noted, so that the next start does without a check.
    pub(crate) fn end(self, is_clean: bool) -> DirectoryLock {
        if is_clean {
            let path = self.path();
            let noted = fs::remove_file(path.join(OPEN)).and_then(|()| sync_directory(path));
            if let Err(error) = noted {
                tracing::warn!(%error, "the clean end of the store could not be noted: the next start will check it");
            }
        }
        self.lock
    }
}

/// Makes the directory a store's. The marker comes last and at once: a crash before it leaves a directory that is
/// taken for empty.
fn found<E: Engine>(path: &Path) -> io::Result<()> {
    Mark::create(&path.join(MARK))?;
    let in_the_making = path.join(MARKER_IN_THE_MAKING);
    let mut file = File::create(&in_the_making)?;
    let kind = StoreKind {
        engine: E::NAME.to_owned(),
        format: E::FORMAT,
        written_by: format!("knowledge-storage-{}", E::NAME),
    };
    writeln!(file, "{}", serde_json::to_string(&kind)?)?;
    file.sync_all()?;
    // The mark has its name before the marker has.
    sync_directory(path)?;
    fs::rename(in_the_making, path.join(MARKER))?;
    sync_directory(path)
}

fn check_kind<E: Engine>(
    path: &Path,
    kind: &StoreKind,
    accepts_old_formats: bool,
) -> Result<u64, OpenError> {
    let path = path.to_owned();
    if kind.engine != E::NAME {
        return Err(OpenError::OtherEngine {
            path,
            found: kind.engine.clone(),
            expected: E::NAME,
        });
    }
    match kind.format {
        format if format == E::FORMAT => Ok(format),
        format if (E::FORMAT_MIN..E::FORMAT).contains(&format) && accepts_old_formats => Ok(format),
        found if (E::FORMAT_MIN..E::FORMAT).contains(&found) => Err(OpenError::OldFormat {
            path,
            engine: E::NAME,
            found,
        }),
        found => Err(OpenError::UnknownFormat {
            path,
            found,
            known: E::FORMAT,
        }),
    }
}

/// Creates a directory and everything above it that is missing, each synced into the one above it. The directory
/// itself is its owner's alone, because everything stored is in there in clear. Returns true if it was missing.
///
/// # Errors
/// Those of the operating system.
pub(crate) fn create_directory(path: &Path) -> io::Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    if path.exists() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "it is not a directory",
        ));
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    create_parents(parent)?;
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        created => created.and_then(|()| sync_directory(parent)).map(|()| true),
    }
}

fn create_parents(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    create_parents(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created.and_then(|()| match parent.as_os_str().is_empty() {
            true => sync_directory(Path::new(".")),
            false => sync_directory(parent),
        }),
    }
}

#[cfg(unix)]
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
pub(crate) fn sync_directory(_path: &Path) -> io::Result<()> {
    // Elsewhere a directory is no file; the system orders the names itself.
    Ok(())
}

pub(crate) fn refuse_foreign(path: &Path) -> Result<(), OpenError> {
    let mut example = None;
    for entry in fs::read_dir(path).map_err(OpenError::io(path))? {
        let name = entry.map_err(OpenError::io(path))?.file_name();
        match name.to_str() {
            Some(MARKER) => return Ok(()),
            Some(MARKER_IN_THE_MAKING | LOCK | MARK | OPEN | REPLACED | LOST_AND_FOUND) => {}
            _ => example = Some(PathBuf::from(name)),
        }
    }
    match example {
        None => Ok(()),
        Some(example) => Err(OpenError::Foreign {
            path: path.to_owned(),
            example,
        }),
    }
}
