//! Building of an index, and following of the store.
//!
//! An index is built by the calls that need it, each for a limited time. Afterwards it applies the
//! changes that the commits log: it reads again what each of them changed, in any order, however
//! often it was changed meanwhile. The commits also count their changes. If the index has applied as
//! many as were counted when an answer was read, it has applied those and no others, and nothing was
//! changed since.

use std::time::Duration;

use super::indexes::{Build, Changes, Erasing, IndexState, Place, Wanted, WorkspaceIndex};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::limits::SEARCH_WAIT_MAX;
use crate::model::{
    AuditLogId, MemoryContent, MemoryId, MemoryLabels, OrgId, ReviewStatus, SourceId, Timestamp,
};
use crate::service::KnowledgeService;
use crate::service::memories::change_log::LoggedChange;
use crate::store::{Direction, Entry, Key, KeyRange, Read, StoreExt, decode, decode_value};

/// Number of memories that are read at once: what one step of a call takes is about proportional to
/// their texts.
const MEMORIES_PER_READ: usize = 100;
/// Number of logged changes that are read at once.
const CHANGES_PER_READ: usize = 64;
/// Number of the latest changes that an index remembers. Commits that run at the same time are
/// logged in another order than they are committed.
const LATEST_KEPT: usize = 512;
/// Time after which an index that was too large is built again.
const TOO_LARGE_FOR: Duration = Duration::from_secs(10 * 60);

impl KnowledgeService {
    /// Makes the index of a workspace follow the store to a wanted state, or beyond.
    ///
    /// # Errors
    /// [`Error::IndexIncomplete`] if that takes longer than a call waits; [`Error::InvalidRequest`]
    /// for an index that would be too large; those of the store.
    pub(super) async fn follow(
        &self,
        index: &WorkspaceIndex,
        place: Place,
        wanted: Wanted<'_>,
    ) -> Result<(), Error> {
        if index.read().reaches(wanted) {
            return Ok(());
        }
        let until = self.env().now().plus(SEARCH_WAIT_MAX);
        let _turn = index.following.lock().await;
        let mut is_first = true;
        loop {
            let now = self.env().now();
            let step = {
                let mut state = index.write();
                state.keep_out(wanted.erasing);
                state.next_step(wanted, now)
            };
            let step = match step {
                None => return Ok(()),
                // Each call makes some progress, however long it waited for others.
                Some(_) if now >= until && !is_first => return Err(Error::index_incomplete()),
                Some(step) => step,
            };
            is_first = false;
            match step {
                Step::Begin => self.begin_index(index, place).await?,
                Step::ReadMarks(rest) => self.read_marks(index, &rest).await?,
                Step::ReadLog => self.read_log(index, place, wanted.applied).await?,
                Step::Apply(changes) => self.apply(index, place, &changes).await?,
                Step::Refuse => return Err(self.too_large()),
            }
            self.limit_size(index, place, now)?;
        }
    }

    /// Begins the first build, which will find the changes applied that were counted before it.
    async fn begin_index(
        &self,
        index: &WorkspaceIndex,
        (org, workspace): Place,
    ) -> Result<(), Error> {
        let counter = [keys::memory_change_number(org, workspace)];
        let log = keys::memory_changes(org, workspace);
        let latest = Read::Range {
            range: &log,
            limit: LATEST_KEPT,
            direction: Direction::Reverse,
        };
        let reads = [Read::Keys(&counter), latest];
        let [counted, latest] = self.store().read_array(reads).await?;
        let counted = counted.into_keys()?.into_iter().next().flatten();
        let counted = counted.map(|entry| decode::<i64>(&counter[0], &entry));
        let latest = latest.into_range()?;
        let latest = latest.iter().filter_map(|found| keys::last_id(&found.key));
        let marks = keys::reviewed_memories(org, workspace, ReviewStatus::Approved);
        let applied = counted.transpose()?.map_or(0, |counted| counted.value);
        let mut state = index.write();
        state.reset(Build::Rest(marks));
        state.applied = applied;
        state.latest = latest.map(AuditLogId).collect();
        Ok(())
    }

    /// Reads which memories are next for the first build.
    async fn read_marks(&self, index: &WorkspaceIndex, rest: &KeyRange) -> Result<(), Error> {
        let limit = MEMORIES_PER_READ;
        let marks = self.store().scan(rest, limit, Direction::Forward).await?;
        let ids = marks.iter().filter_map(|mark| keys::last_id(&mark.key));
        let mut state = index.write();
        state.pending.extend(ids.map(|id| (MemoryId(id), true)));
        state.build = match marks.last().filter(|_| marks.len() == limit) {
            Some(last) => Build::Rest(rest.after(&last.key)),
            None => Build::Complete,
        };
        Ok(())
    }

    /// Reads logged changes, until they are as many as were counted or for one read.
    ///
    /// If the log no longer has them, the index is built again.
    async fn read_log(
        &self,
        index: &WorkspaceIndex,
        place: Place,
        counted: i64,
    ) -> Result<(), Error> {
        let (org, workspace) = place;
        let log = keys::memory_changes(org, workspace);
        let behind = |id: &AuditLogId| log.after(&keys::memory_change(org, workspace, *id));
        let (new, all) = {
            let latest = &index.read().latest;
            let is_whole = latest.len() < LATEST_KEPT;
            let first = latest.first().filter(|_| !is_whole);
            (latest.last().map(behind), first.map(behind))
        };
        let next = self
            .note_logged(index, new.as_ref().unwrap_or(&log))
            .await?;
        if next.is_some() || index.read().applied >= counted {
            return Ok(());
        }
        // One is missing: look for those that were committed out of order.
        let mut rest = Some(all.unwrap_or(log));
        while let Some(range) = rest.take().filter(|_| index.read().applied < counted) {
            rest = self.note_logged(index, &range).await?;
        }
        if index.read().applied >= counted {
            return Ok(());
        }
        self.begin_index(index, place).await
    }

    /// Notes the first logged changes of a range, and returns the rest if there may be more.
    async fn note_logged(
        &self,
        index: &WorkspaceIndex,
        range: &KeyRange,
    ) -> Result<Option<KeyRange>, Error> {
        let (limit, direction) = (CHANGES_PER_READ, Direction::Forward);
        let found = self.store().scan(range, limit, direction).await?;
        let mut logged = Vec::with_capacity(found.len());
        for entry in &found {
            let id = AuditLogId(keys::last_id(&entry.key).unwrap_or_default());
            logged.push((id, decode_value::<LoggedChange>(entry)?));
        }
        let mut state = index.write();
        logged
            .into_iter()
            .for_each(|(id, change)| state.note(id, change));
        let last = found.last().filter(|_| found.len() == limit);
        Ok(last.map(|last| range.after(&last.key)))
    }

    /// Reads memories that changed, and takes them up as they are now.
    async fn apply(
        &self,
        index: &WorkspaceIndex,
        (org, workspace): Place,
        changes: &Changes,
    ) -> Result<(), Error> {
        let read = self.read_changed(index, org, changes).await?;
        let mut state = index.write();
        for (id, memory) in read {
            state.pending.remove(&id);
            state.set(id, memory);
        }
        if state.end_build() {
            let memories = state.words.len();
            tracing::info!(%org, %workspace, memories, "index built");
        }
        Ok(())
    }

    /// Drops other indexes while there is too little room for all, and this one if it is too large
    /// alone.
    fn limit_size(
        &self,
        index: &WorkspaceIndex,
        place: Place,
        now: Timestamp,
    ) -> Result<(), Error> {
        let bytes_max = self.limits().search_index_bytes_max;
        if !index.measure() {
            return Ok(());
        }
        if index.bytes() > bytes_max {
            let until = now.plus(TOO_LARGE_FOR);
            index.write().reset(Build::TooLarge { until });
            index.measure();
            return Err(self.too_large());
        }
        self.search_indexes().make_room(place, bytes_max);
        Ok(())
    }

    fn too_large(&self) -> Error {
        let bytes_max = self.limits().search_index_bytes_max;
        let message = format!(
            "the index of the workspace would have more than {bytes_max} bytes, the maximum of a \
             search by words; send candidates"
        );
        Error::invalid("query", ProblemCode::LimitReached, message)
    }

    /// Reads memories as they are now.
    async fn read_changed(
        &self,
        index: &WorkspaceIndex,
        org: OrgId,
        changes: &Changes,
    ) -> Result<Vec<(MemoryId, Indexed)>, Error> {
        let mut read = Vec::with_capacity(changes.len());
        let labels: Vec<Key> = changes.keys().map(|id| keys::memory(org, *id)).collect();
        let found = self.store().get(&labels).await?;
        let mut unread = Vec::new();
        for (((id, has_text), key), entry) in changes.iter().zip(&labels).zip(&found) {
            match approved_labels(key, entry.as_ref())? {
                None => read.push((*id, Indexed::Absent)),
                Some(labels) if !has_text && index.read().knows_text(*id) => {
                    read.push((*id, Indexed::Relabelled(without_source(labels))));
                }
                Some(labels) => unread.push((*id, labels)),
            }
        }
        let contents = unread.iter().map(|(id, _)| keys::content(org, *id));
        let contents: Vec<Key> = contents.collect();
        if contents.is_empty() {
            return Ok(read);
        }
        let found = self.store().get(&contents).await?;
        for (((id, labels), key), entry) in unread.into_iter().zip(&contents).zip(found) {
            let memory = match entry {
                None => Indexed::Absent,
                Some(entry) => index.read().indexed(labels, decode(key, &entry)?.value),
            };
            read.push((id, memory));
        }
        Ok(read)
    }
}

/// Part of what a call does for an index.
enum Step {
    /// Begin the first build.
    Begin,
    /// Read the marks of the memories that remain.
    ReadMarks(KeyRange),
    /// Read logged changes.
    ReadLog,
    /// Take up these memories as they are now.
    Apply(Changes),
    /// Refuse an index that is too large.
    Refuse,
}

/// A memory as an index takes it up.
enum Indexed {
    /// Memory that no recall may find.
    Absent,
    /// Memory whose text is known.
    Relabelled(MemoryLabels),
    Text(MemoryLabels, Box<MemoryContent>),
}

/// Returns the labels of a memory; `None` unless it is approved.
fn approved_labels(key: &Key, entry: Option<&Entry>) -> Result<Option<MemoryLabels>, Error> {
    let labels = entry.map(|entry| decode::<MemoryLabels>(key, entry));
    let labels = labels.transpose()?.map(|labels| labels.value);
    Ok(labels.filter(|labels| labels.review == ReviewStatus::Approved))
}

/// Returns labels without the source, which decides nothing.
fn without_source(labels: MemoryLabels) -> MemoryLabels {
    MemoryLabels {
        source_id: SourceId(uuid::Uuid::nil()),
        ..labels
    }
}

impl IndexState {
    /// Forgets everything but the running erasures.
    fn reset(&mut self, build: Build) {
        let erasing = std::mem::take(&mut self.erasing);
        *self = Self {
            build,
            erasing,
            ..Self::default()
        };
    }

    /// Returns what has to be done next for a wanted state.
    fn next_step(&self, wanted: Wanted<'_>, now: Timestamp) -> Option<Step> {
        if self.reaches(wanted) {
            return None;
        }
        Some(match &self.build {
            Build::TooLarge { until } if now < *until => Step::Refuse,
            Build::New | Build::TooLarge { .. } => Step::Begin,
            _ if !self.pending.is_empty() => {
                let first = self.pending.iter().take(MEMORIES_PER_READ);
                Step::Apply(first.map(|(id, has_text)| (*id, *has_text)).collect())
            }
            Build::Rest(rest) => Step::ReadMarks(rest.clone()),
            Build::Complete => Step::ReadLog,
        })
    }

    /// Notes a logged change, unless it is known.
    fn note(&mut self, id: AuditLogId, change: LoggedChange) {
        if !self.latest.insert(id) {
            return;
        }
        self.applied += i64::try_from(change.memories.len()).unwrap_or(i64::MAX);
        for memory in change.memories {
            *self.pending.entry(memory).or_default() |= !change.labels_only;
        }
        if self.latest.len() > LATEST_KEPT {
            self.latest.pop_first();
        }
    }

    /// Gives back memory once the first build is over. Returns true if it has just ended.
    fn end_build(&mut self) -> bool {
        let has_ended = self.is_complete() && !self.is_shrunk;
        if has_ended {
            self.words.shrink();
            self.is_shrunk = true;
        }
        has_ended
    }

    /// Keeps out of the index what these running erasures take away.
    ///
    /// For new ones it is built again, because it does not know who added a memory, nor from which
    /// source. One that is over has taken away everything in its scope.
    fn keep_out(&mut self, erasing: &Erasing) {
        let is_known = |id| self.erasing.contains_key(id);
        if !erasing.keys().all(is_known) {
            self.build = Build::New;
        }
        self.erasing.clone_from(erasing);
    }

    /// Returns true if the text of a memory is known, and nothing else than its labels decides.
    fn knows_text(&self, id: MemoryId) -> bool {
        self.erasing.is_empty() && self.words.class(id.0.as_u128()).is_some()
    }

    /// Returns an approved memory as it is taken up, unless a running erasure takes it away.
    fn indexed(&self, labels: MemoryLabels, content: MemoryContent) -> Indexed {
        let mut erasing = self.erasing.values();
        if erasing.any(|scope| scope.covers(labels.source_id, Some(content.origin()))) {
            return Indexed::Absent;
        }
        Indexed::Text(without_source(labels), Box::new(content))
    }

    /// Sets what the index knows of a memory.
    fn set(&mut self, id: MemoryId, memory: Indexed) {
        let id = id.0.as_u128();
        match memory {
            Indexed::Absent => {
                self.words.remove(id);
            }
            Indexed::Relabelled(labels) => {
                self.words.relabel(id, labels);
            }
            Indexed::Text(labels, content) => {
                self.words
                    .put(id, labels, [&content.title, &content.content]);
            }
        }
    }
}
