//! The plan of a relabelling: its memories, determined before the first change, and its progress.
//!
//! Changed memories no longer match the filter, so that a second search would find others. The plan
//! is a file of JSON lines: a header, the identifiers in the order of the requests, and one line
//! for each completed request. The header and the identifiers are written atomically; each later
//! line is on the disk before the next request is sent. A line that a crash truncated is ignored.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use knowledge_core::model::{MemoryId, Timestamp, WorkspaceId};
use knowledge_server::private_file::with_suffix;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::labels::Labels;

/// Version of the format.
const FORMAT: u32 = 1;
/// Digits of a hash in a name.
const NAME_DIGITS: usize = 32;

/// Parameters of a relabelling: two runs with the same ones share a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) server: String,
    pub(super) workspace: WorkspaceId,
    #[serde(rename = "where")]
    pub(super) filter: Labels,
    #[serde(rename = "set")]
    pub(super) change: Labels,
}

impl Task {
    /// Returns the file name of the plan.
    pub(super) fn file_name(&self) -> String {
        format!("{}.jsonl", name_of(self))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    format: u32,
    #[serde(flatten)]
    task: Task,
    /// Identifies the run among those with the same task, so that their idempotency keys differ.
    run: Uuid,
    made_at: Timestamp,
    memories: u64,
    batch: usize,
}

/// A memory that was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rejection {
    pub(super) id: MemoryId,
    pub(super) code: String,
}

/// A completed request.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CompletedCall {
    call: usize,
    succeeded: u64,
    refused: Vec<Rejection>,
}

/// A plan and its file, locked by this process.
#[derive(Debug)]
pub(super) struct Plan {
    path: PathBuf,
    file: File,
    header: Header,
    calls: Vec<Vec<MemoryId>>,
    completed: HashSet<usize>,
    succeeded: u64,
    refused: Vec<Rejection>,
}

/// Reason for an unusable plan.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlanError {
    #[error("another relabelling with the plan {} is running", .0.display())]
    InUse(PathBuf),
    #[error("{} is not a plan of this relabelling: {reason}", path.display())]
    Foreign { path: PathBuf, reason: String },
    #[error("cannot access the plan {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

fn at(path: &Path) -> impl Fn(io::Error) -> PlanError {
    move |source| PlanError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Returns the hash of a value as digits.
fn name_of<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_vec(value).expect("plans serialise: string keys");
    let digest = Sha256::digest(json);
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<String>()[..NAME_DIGITS].to_owned()
}

impl Plan {
    /// Opens the plan of a file, if it exists; the plan must belong to this task.
    pub(super) fn find(path: &Path, task: &Task) -> Result<Option<Self>, PlanError> {
        let opened = OpenOptions::new().read(true).append(true).open(path);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(at(path))?,
        };
        lock(&file, path)?;
        let plan = Self::read(path, file)?;
        if plan.header.task != *task {
            return Err(plan.foreign("it is for another server, workspace, filter or change"));
        }
        Ok(Some(plan))
    }

    /// Writes the plan for these memories, in requests of `batch`, atomically.
    pub(super) fn create(
        path: &Path,
        task: Task,
        (run, made_at): (Uuid, Timestamp),
        memories: &[MemoryId],
        batch: usize,
    ) -> Result<Self, PlanError> {
        let header = Header {
            format: FORMAT,
            task,
            run,
            made_at,
            memories: memories.len() as u64,
            batch,
        };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(at(directory))?;
        }
        let new = with_suffix(path, ".new");
        let write = || -> io::Result<()> {
            let mut file = BufWriter::new(File::create(&new)?);
            write_line(&mut file, &header)?;
            for id in memories {
                writeln!(file, "\"{id}\"")?;
            }
            file.into_inner()
                .map_err(|error| error.into_error())?
                .sync_all()?;
            fs::rename(&new, path)
        };
        write().map_err(at(path))?;
        let opened = OpenOptions::new().read(true).append(true).open(path);
        let file = opened.map_err(at(path))?;
        lock(&file, path)?;
        Self::read(path, file)
    }

    fn read(path: &Path, file: File) -> Result<Self, PlanError> {
        let foreign = |reason: String| PlanError::Foreign {
            path: path.to_owned(),
            reason,
        };
        let mut lines = BufReader::new(file);
        let mut text = String::new();
        lines.read_line(&mut text).map_err(at(path))?;
        let header: Header =
            serde_json::from_str(&text).map_err(|error| foreign(error.to_string()))?;
        if header.format != FORMAT || header.batch == 0 {
            return Err(foreign(
                "it was written by another version of this program".to_owned(),
            ));
        }
        let mut whole = text.len() as u64;
        let mut ids = Vec::new();
        for _ in 0..header.memories {
            text.clear();
            lines.read_line(&mut text).map_err(at(path))?;
            let id = serde_json::from_str(&text);
            ids.push(id.map_err(|error| foreign(error.to_string()))?);
            whole += text.len() as u64;
        }
        let mut plan = Self {
            path: path.to_owned(),
            calls: ids.chunks(header.batch).map(<[MemoryId]>::to_vec).collect(),
            header,
            completed: HashSet::new(),
            succeeded: 0,
            refused: Vec::new(),
            file: lines.get_ref().try_clone().map_err(at(path))?,
        };
        loop {
            text.clear();
            lines.read_line(&mut text).map_err(at(path))?;
            // A crash may have truncated the last line.
            let Some(completed) = text
                .ends_with('\n')
                .then(|| serde_json::from_str(&text).ok())
                .flatten()
            else {
                break;
            };
            plan.note(completed);
            whole += text.len() as u64;
        }
        plan.file.set_len(whole).map_err(at(path))?;
        plan.file.seek(SeekFrom::End(0)).map_err(at(path))?;
        Ok(plan)
    }

    fn note(&mut self, completed: CompletedCall) {
        if self.completed.insert(completed.call) {
            self.succeeded += completed.succeeded;
            self.refused.extend(completed.refused);
        }
    }

    fn foreign(&self, reason: &str) -> PlanError {
        PlanError::Foreign {
            path: self.path.clone(),
            reason: reason.to_owned(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of memories, and of those whose request is completed.
    pub(super) fn memories(&self) -> (u64, u64) {
        let completed = self.completed.iter().map(|call| self.calls[*call].len());
        (self.header.memories, completed.sum::<usize>() as u64)
    }

    /// Returns the number of changed memories, and the memories that were not changed.
    pub(super) fn outcome(&self) -> (u64, &[Rejection]) {
        (self.succeeded, &self.refused)
    }

    /// Returns the requests that are not completed.
    pub(super) fn open_calls(&self) -> Vec<usize> {
        let calls = 0..self.calls.len();
        calls
            .filter(|call| !self.completed.contains(call))
            .collect()
    }

    pub(super) fn memories_of(&self, call: usize) -> &[MemoryId] {
        &self.calls[call]
    }

    /// Returns the idempotency key of a request for these memories: stable for retries, and unique.
    pub(super) fn key(&self, memories: &[MemoryId]) -> String {
        format!("relabel-{}", name_of(&(&self.header.run, memories)))
    }

    /// Records a completed request. The record is on the disk on return.
    pub(super) fn complete(
        &mut self,
        call: usize,
        succeeded: u64,
        refused: Vec<Rejection>,
    ) -> Result<(), PlanError> {
        let completed = CompletedCall {
            call,
            succeeded,
            refused,
        };
        let write = |file: &mut File| {
            let mut line = Vec::new();
            write_line(&mut line, &completed)?;
            file.write_all(&line)?;
            file.sync_data()
        };
        write(&mut self.file).map_err(at(&self.path))?;
        self.note(completed);
        Ok(())
    }

    /// Removes the plan of a finished relabelling.
    pub(super) fn remove(self) -> Result<(), PlanError> {
        fs::remove_file(&self.path).map_err(at(&self.path))
    }
}

fn write_line<T: Serialize>(out: &mut impl Write, value: &T) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

fn lock(file: &File, path: &Path) -> Result<(), PlanError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(PlanError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(at(path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        Task {
            server: "http://127.0.0.1:8080".to_owned(),
            workspace: WorkspaceId(Uuid::from_u128(1)),
            filter: Labels::default(),
            change: Labels::of(&["sensitivity=public".parse().unwrap()]).unwrap(),
        }
    }

    fn ids(count: u128) -> Vec<MemoryId> {
        (0..count).map(|id| MemoryId(Uuid::from_u128(id))).collect()
    }

    fn make(path: &Path) -> Plan {
        let run = (Uuid::from_u128(7), Timestamp::UNIX_EPOCH);
        Plan::create(path, task(), run, &ids(5), 2).unwrap()
    }

    #[test]
    fn plan_resumes_at_first_open_call() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("deep/plan.jsonl");
        assert!(Plan::find(&path, &task()).unwrap().is_none());
        let mut plan = make(&path);
        assert_eq!(plan.open_calls(), [0, 1, 2]);
        let key = plan.key(plan.memories_of(1));
        let refused = Rejection {
            id: ids(1)[0],
            code: "forbidden".to_owned(),
        };
        plan.complete(0, 1, vec![refused.clone()]).unwrap();
        let second = Plan::find(&path, &task()).unwrap_err();
        assert!(matches!(second, PlanError::InUse(_)), "{second}");
        drop(plan);
        // A crash left part of another call's line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"call\":1,\"succ").unwrap();
        drop(file);
        let mut plan = Plan::find(&path, &task()).unwrap().unwrap();
        assert_eq!(plan.open_calls(), [1, 2]);
        assert_eq!(
            (plan.memories(), plan.outcome()),
            ((5, 2), (1, &[refused][..]))
        );
        assert_eq!(plan.key(plan.memories_of(1)), key);
        assert_ne!(plan.key(plan.memories_of(2)), key);
        plan.complete(2, 1, Vec::new()).unwrap();
        drop(plan);
        let plan = Plan::find(&path, &task()).unwrap().unwrap();
        assert_eq!((plan.open_calls(), plan.memories()), (vec![1], (5, 3)));
        plan.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn plan_of_another_task_is_rejected() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("plan.jsonl");
        drop(make(&path));
        let other = Task {
            server: "http://127.0.0.1:9090".to_owned(),
            ..task()
        };
        assert_ne!(other.file_name(), task().file_name());
        let found = Plan::find(&path, &other).unwrap_err();
        assert!(matches!(found, PlanError::Foreign { .. }), "{found}");
        for text in ["", "dear\n", "{\"format\":9}\n"] {
            fs::write(&path, text).unwrap();
            let found = Plan::find(&path, &task()).unwrap_err();
            assert!(matches!(found, PlanError::Foreign { .. }), "{found}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn runs_have_distinct_idempotency_keys() {
        let scratch = tempfile::tempdir().unwrap();
        let one = make(&scratch.path().join("one.jsonl"));
        let run = (Uuid::from_u128(8), Timestamp::UNIX_EPOCH);
        let two = Plan::create(&scratch.path().join("two.jsonl"), task(), run, &ids(5), 2).unwrap();
        assert_ne!(one.key(one.memories_of(0)), two.key(two.memories_of(0)));
    }
}
