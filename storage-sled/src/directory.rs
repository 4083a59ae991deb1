//! The directory of a store: whose it is, and that one process has it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::OpenError;
use crate::mark::Mark;

/// The number of the storage format, in the marker.
pub(crate) const FORMAT: u64 = 1;

const MARKER: &str = "knowledge-store.json";
const MARKER_IN_THE_MAKING: &str = "knowledge-store.json.new";
const LOCK: &str = "knowledge-store.lock";
const MARK: &str = "knowledge-store.mark";
/// What a fresh file system has in its root.
const LOST_AND_FOUND: &str = "lost+found";

/// A directory that is a store's, held by this process until it is dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    lock: File,
}

impl Directory {
    /// Enters the directory, and makes a store's of it where it is empty or missing.
    pub(crate) fn enter(path: &Path) -> Result<Self, OpenError> {
        create(path).map_err(OpenError::io(path))?;
        refuse_foreign(path)?;
        let directory = Self {
            path: path.to_owned(),
            lock: lock(path)?,
        };
        match fs::read_to_string(path.join(MARKER)) {
            Ok(marker) => directory.check_marker(&marker)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                directory.found().map_err(OpenError::io(path))?;
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(OpenError::corrupt(path, "the marker is not text"));
            }
            Err(error) => return Err(OpenError::io(&path.join(MARKER))(error)),
        }
        Ok(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// sled's file.
    pub(crate) fn database_path(&self) -> PathBuf {
        self.path.join("db")
    }

    pub(crate) fn open_mark(&self) -> Result<Mark, OpenError> {
        let path = self.path.join(MARK);
        match Mark::open(&path) {
            Ok(Some(mark)) => Ok(mark),
            Ok(None) => Err(OpenError::corrupt(
                &self.path,
                format!("{MARK} cannot be read"),
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(OpenError::corrupt(&self.path, format!("{MARK} is missing")))
            }
            Err(error) => Err(OpenError::io(&path)(error)),
        }
    }

    /// Makes the names in the directory as durable as the files behind them.
    pub(crate) fn sync(&self) -> Result<(), OpenError> {
        sync_directory(&self.path).map_err(OpenError::io(&self.path))
    }

    /// Makes the directory a store's. The marker comes last and at once: a crash before it leaves a directory that is
    /// taken for empty.
    fn found(&self) -> io::Result<()> {
        Mark::create(&self.path.join(MARK))?;
        let in_the_making = self.path.join(MARKER_IN_THE_MAKING);
        let mut file = File::create(&in_the_making)?;
        let package = env!("CARGO_PKG_NAME");
        writeln!(file, "{{\"written_by\":\"{package}\",\"format\":{FORMAT}}}")?;
        file.sync_all()?;
        fs::rename(in_the_making, self.path.join(MARKER))?;
        sync_directory(&self.path)
    }

    fn check_marker(&self, marker: &str) -> Result<(), OpenError> {
        let marker: Option<serde_json::Value> = serde_json::from_str(marker).ok();
        let format = marker.and_then(|marker| marker.get("format")?.as_u64());
        match format {
            Some(FORMAT) => Ok(()),
            Some(found) => Err(OpenError::UnknownFormat {
                path: self.path.clone(),
                found,
                known: FORMAT,
            }),
            None => Err(OpenError::corrupt(
                &self.path,
                format!("{MARKER} does not tell its format"),
            )),
        }
    }
}

/// How long a lock in nobody's name is waited for.
const LETTING_GO_MAX: Duration = Duration::from_secs(1);
/// Time between two looks at it.
const LETTING_GO_INTERVAL: Duration = Duration::from_millis(5);

impl Drop for Directory {
    fn drop(&mut self) {
        // The file stays, so that nobody locks one that another process is about to remove.
        let _ = self.lock.set_len(0);
    }
}

/// Whether the directory has the marker of a store.
pub(crate) fn holds_store(path: &Path) -> bool {
    path.join(MARKER).exists()
}

fn create(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    // Its owner's alone: everything that is stored is in there in clear.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    builder.create(path)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_path: &Path) -> io::Result<()> {
    // Elsewhere a directory is no file; the system orders the names itself.
    Ok(())
}

fn refuse_foreign(path: &Path) -> Result<(), OpenError> {
    let mut example = None;
    for entry in fs::read_dir(path).map_err(OpenError::io(path))? {
        let name = entry.map_err(OpenError::io(path))?.file_name();
        match name.to_str() {
            Some(MARKER) => return Ok(()),
            Some(MARKER_IN_THE_MAKING | LOCK | MARK | LOST_AND_FOUND) => {}
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

/// The process that wrote itself into the lock file.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Locks the directory. A lock in nobody's name is waited for: its holder has just let go, and a process that was
/// being started at that moment has the file for as long as it takes to start; or its holder is about to write itself in.
fn lock(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(OpenError::io(&path))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => {
                let holder = holder(&mut file);
                if holder.is_some() || began.elapsed() >= LETTING_GO_MAX {
                    let path = directory.to_owned();
                    return Err(OpenError::InUse { path, holder });
                }
                std::thread::sleep(LETTING_GO_INTERVAL);
            }
            Err(TryLockError::Error(error)) => return Err(OpenError::io(&path)(error)),
        }
    }
    let name_holder = |file: &mut File| {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        writeln!(file, "{}", std::process::id())
    };
    name_holder(&mut file).map_err(OpenError::io(&path))?;
    Ok(file)
}
