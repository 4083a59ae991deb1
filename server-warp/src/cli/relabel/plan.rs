//! The plan of a relabelling: which memories, frozen before the first of them is changed, and how far it is.
//!
//! A relabelling takes memories out of what it looks for as it goes, so that looking again would find others. The plan
//! is a file of JSON lines: a header, the identifiers in the order of the calls, and one line for each call that was
//! answered. The first two are put in place at once; the lines of the calls are added, each on the disk before the next
//! call is made. A line that a crash cut short counts as not there.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use knowledge_core::model::{MemoryId, Timestamp, WorkspaceId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::labels::Labels;
use crate::private_file::with_suffix;

/// The number of the format, in the header.
const FORMAT: u32 = 1;
/// How many digits of its hash a name has.
const NAME_DIGITS: usize = 32;

/// What is asked for: two runs with the same are one.
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
    /// The name of the file of its plan.
    pub(super) fn file_name(&self) -> String {
        format!("{}.jsonl", name_of(self))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    format: u32,
    #[serde(flatten)]
    task: Task,
    /// Tells this run from another one with the same task: the keys of its calls are its own.
    run: Uuid,
    made_at: Timestamp,
    memories: u64,
    batch: usize,
}

/// A memory that was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refused {
    pub(super) id: MemoryId,
    pub(super) code: String,
}

/// A call that was answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Answered {
    call: usize,
    succeeded: u64,
    refused: Vec<Refused>,
}

/// A plan in its file, which this process alone has.
#[derive(Debug)]
pub(super) struct Plan {
    path: PathBuf,
    file: File,
    header: Header,
    calls: Vec<Vec<MemoryId>>,
    answered: HashSet<usize>,
    succeeded: u64,
    refused: Vec<Refused>,
}

/// Why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlanError {
    #[error("another relabelling with the plan {} is running", .0.display())]
    InUse(PathBuf),
    #[error("{} is not a plan of this relabelling: {reason}", path.display())]
    Foreign { path: PathBuf, reason: String },
    #[error("the plan {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

fn at(path: &Path) -> impl Fn(io::Error) -> PlanError {
    move |source| PlanError::Io {
        path: path.to_owned(),
        source,
    }
}

/// A hash of something as digits.
fn name_of<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_vec(value).expect("plans serialise: string keys");
    let digest = Sha256::digest(json);
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<String>()[..NAME_DIGITS].to_owned()
}

impl Plan {
    /// The plan in the file, if there is one; it has to be of this task.
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

    /// Writes the plan for these memories, in calls of `batch`, in place at once.
    pub(super) fn make(
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
                "it is of another version of this program".to_owned(),
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
            answered: HashSet::new(),
            succeeded: 0,
            refused: Vec::new(),
            file: lines.get_ref().try_clone().map_err(at(path))?,
        };
        loop {
            text.clear();
            lines.read_line(&mut text).map_err(at(path))?;
            // The last line of a crash may be cut short.
            let Some(answered) = text
                .ends_with('\n')
                .then(|| serde_json::from_str(&text).ok())
                .flatten()
            else {
                break;
            };
            plan.note(answered);
            whole += text.len() as u64;
        }
        plan.file.set_len(whole).map_err(at(path))?;
        plan.file.seek(SeekFrom::End(0)).map_err(at(path))?;
        Ok(plan)
    }

    fn note(&mut self, answered: Answered) {
        if self.answered.insert(answered.call) {
            self.succeeded += answered.succeeded;
            self.refused.extend(answered.refused);
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

    /// How many memories it has, and how many of them had an answer.
    pub(super) fn memories(&self) -> (u64, u64) {
        let answered = self.answered.iter().map(|call| self.calls[*call].len());
        (self.header.memories, answered.sum::<usize>() as u64)
    }

    /// What came of the calls that were answered: how many memories were changed, and which were not.
    pub(super) fn outcome(&self) -> (u64, &[Refused]) {
        (self.succeeded, &self.refused)
    }

    /// The calls that had no answer yet, each with its memories.
    pub(super) fn open_calls(&self) -> Vec<usize> {
        let calls = 0..self.calls.len();
        calls.filter(|call| !self.answered.contains(call)).collect()
    }

    pub(super) fn memories_of(&self, call: usize) -> &[MemoryId] {
        &self.calls[call]
    }

    /// The idempotency key of a call for these memories: the same one however often it is made, and that of no other.
    pub(super) fn key(&self, memories: &[MemoryId]) -> String {
        format!("relabel-{}", name_of(&(&self.header.run, memories)))
    }

    /// Notes that a call was answered. It is on the disk when this returns.
    pub(super) fn answer(
        &mut self,
        call: usize,
        succeeded: u64,
        refused: Vec<Refused>,
    ) -> Result<(), PlanError> {
        let answered = Answered {
            call,
            succeeded,
            refused,
        };
        let write = |file: &mut File| {
            let mut line = Vec::new();
            write_line(&mut line, &answered)?;
            file.write_all(&line)?;
            file.sync_data()
        };
        write(&mut self.file).map_err(at(&self.path))?;
        self.note(answered);
        Ok(())
    }

    /// Removes the plan: there is nothing left to do.
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
        Plan::make(path, task(), run, &ids(5), 2).unwrap()
    }

    #[test]
    fn a_plan_goes_on_where_it_stopped() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("deep/plan.jsonl");
        assert!(Plan::find(&path, &task()).unwrap().is_none());
        let mut plan = make(&path);
        assert_eq!(plan.open_calls(), [0, 1, 2]);
        let key = plan.key(plan.memories_of(1));
        let refused = Refused {
            id: ids(1)[0],
            code: "forbidden".to_owned(),
        };
        plan.answer(0, 1, vec![refused.clone()]).unwrap();
        let second = Plan::find(&path, &task()).unwrap_err();
        assert!(matches!(second, PlanError::InUse(_)), "{second}");
        drop(plan);
        // What a crash left of the line of another call.
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
        plan.answer(2, 1, Vec::new()).unwrap();
        drop(plan);
        let plan = Plan::find(&path, &task()).unwrap().unwrap();
        assert_eq!((plan.open_calls(), plan.memories()), (vec![1], (5, 3)));
        plan.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_plan_of_something_else_is_refused() {
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
    fn runs_have_keys_of_their_own() {
        let scratch = tempfile::tempdir().unwrap();
        let one = make(&scratch.path().join("one.jsonl"));
        let run = (Uuid::from_u128(8), Timestamp::UNIX_EPOCH);
        let two = Plan::make(&scratch.path().join("two.jsonl"), task(), run, &ids(5), 2).unwrap();
        assert_ne!(one.key(one.memories_of(0)), two.key(two.memories_of(0)));
    }
}
