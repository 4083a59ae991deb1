//! `knowledge import`: memories from a file, in its own format or that of another tool.

mod document;
mod entry;
mod export;
mod input;
mod item;
mod lines;
mod notes;
mod past;
mod people;
mod problem;
mod quotes;
mod record;
mod scanner;
mod summary;
mod table;
mod unpack;

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::path::PathBuf;

use encoding_rs::Encoding;
use http::Method;
use knowledge_core::limits::INGEST_MEMORIES_MAX;
use knowledge_core::model::{AudienceLabel, Source, SourceId};
use knowledge_core::service::{IngestBatch, IngestResult, NewMemory, NewSource};
use serde_json::{Value, json};

use self::entry::{Entry, Unreadable};
use self::input::{Entries, Format};
use self::people::{Covering, Uncovered};
use self::problem::Problem;
use self::record::{Record, Rules, SourceKey};
use self::summary::Summary;
use self::unpack::Input;
use super::args::WithOutput;
use super::failure::Failure;
use super::operator::{OrgArgs, OrgOperator};
use crate::progress::Progress;

/// Maximum size of a request in bytes, unless a single memory is larger or the server's limit lower.
const REQUEST_BYTES_MAX: usize = 512 * 1024;
/// Size in bytes of the parts of a request other than its memories.
const REQUEST_BYTES_FIXED: usize = 256;

/// Import memories from a file
///
/// The format jsonl is JSON lines, each of which is one memory: {"title", "content", "source_key"?,
/// "audience_tag"?, "sensitivity_label"?}. A known source_key updates its memory; a line without
/// one gets a key derived from its title, content and audience label, so that importing a file
/// twice changes nothing. An interrupted import is resumed by running it again.
///
/// A CSV file has the same fields as columns, of which only content is required. The other formats
/// are the exports of other tools. There, and in CSV, a memory without a title gets the first line
/// of its text; the time of creation, metadata and other columns become the end of the text. A user
/// becomes the audience user:HANDLE, and the beginning of the key. An entry without a user needs
/// --audience. docs/administration.md lists the fields.
///
/// A text never comes under an audience that its entry did not name. An entry that names another
/// audience than before moves its memory there; a label that a person set meanwhile is kept. The
/// summary counts both, and what the member may not store.
///
/// An entry that is over in its own store (deleted, archived, forgotten, superseded, expired or
/// ended) is left out; --include-past brings it in. An entry whose key was erased is left out and
/// counted as erased; --revive brings it in again.
///
/// ZIP, gzip and UTF-16 are recognised; other encodings are chosen with --encoding. Labels of
/// members and teams that no member has are named before anything is stored: for standard input,
/// before anything with the label is.
///
/// An invalid entry is reported with its line and skipped; the summary counts it. With --strict the
/// first invalid entry ends the import with exit code 1; the entries before it are imported.
///
/// The exit code is 1 if there were entries and none was accepted, if the input could not be read
/// to its end, or if the import failed, for example without permission. An empty input is no error:
/// the exit code is 0.
///
/// Works with and without a running server: if a server holds the data directory, the command uses
/// its admin socket.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Format of the file
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Jsonl)]
    format: Format,

    /// Encoding of the file, for example windows-1252; UTF-8 and UTF-16 are recognised
    #[arg(long, value_name = "NAME", value_parser = unpack::encoding)]
    encoding: Option<&'static Encoding>,

    /// Workspace, by slug or identifier
    #[arg(long, value_name = "SLUG")]
    workspace: String,

    /// Source, by name; created if there is none
    #[arg(long, value_name = "NAME")]
    source: String,

    /// Kind of a source to create
    #[arg(long, value_name = "KIND", default_value = "import")]
    source_kind: String,

    /// Audience label of entries that have none, for example user:maya; required for the formats
    /// that have no users. In the format jsonl, it defaults to the workspace's
    #[arg(long, value_name = "LABEL")]
    audience: Option<AudienceLabel>,

    /// Handle of a user of the other tool, for example u-17=maya; may be repeated. An identifier
    /// without one is used as the handle
    #[arg(long = "user", value_name = "ID=HANDLE", value_parser = user)]
    users: Vec<(String, String)>,

    /// Handle of the member to act as; defaults to an owner
    #[arg(long = "as", value_name = "HANDLE")]
    acts_as: Option<String>,

    /// Stop at the first invalid entry
    #[arg(long)]
    strict: bool,

    /// Bring in entries too that are over in their own store
    #[arg(long)]
    include_past: bool,

    /// Bring in entries whose keys were erased too, and forget that they were
    #[arg(long)]
    revive: bool,

    /// Report what would be imported and what not, and why, without importing. A source that does
    /// not exist is not created, and then only the import itself checks whether the member may
    /// create it and add the memories
    #[arg(long, conflicts_with = "strict")]
    dry_run: bool,

    #[command(flatten)]
    org: WithOutput<OrgArgs>,
}

fn user(text: &str) -> Result<(String, String), &'static str> {
    // An identifier may contain the sign, a handle cannot.
    let (id, handle) = text.rsplit_once('=').ok_or("must be ID=HANDLE")?;
    Ok((id.to_owned(), handle.to_owned()))
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    if args.audience.is_none() && !args.format.has_audiences() {
        return Err(Failure::usage(
            "this format does not say whose its memories are; choose their audience with \
             --audience, for example user:HANDLE or workspace:SLUG",
        ));
    }
    let member_of_archive = args.format.member_of_archive();
    let input = Input::new(&args.file, args.encoding, member_of_archive);
    let (text, length) = input.open()?;
    let (operator, output) = args.org.open().await?;
    let segments = ["workspaces", args.workspace.as_str()];
    let found = operator.call::<Value>(Method::GET, &segments, None, &[]);
    found.await?;
    let member = operator.acting_member(args.acts_as).await?;
    let rules = Rules {
        limits: operator.limits().clone(),
        audience: args.audience,
        handles: args.users.into_iter().collect(),
        users: users(&input, args.format)?,
        now: (!args.include_past).then(chrono::Utc::now),
    };
    let request_bytes_max = REQUEST_BYTES_MAX.min(rules.limits.body_bytes_max);
    let (name, kind) = (args.source.as_str(), args.source_kind.as_str());
    let source = match find_source(&operator, name).await? {
        Some(source) => Some(source),
        None if args.dry_run => None,
        None => Some(create_source(&operator, &member, name, kind).await?),
    };
    let covering = Covering::read(&operator).await?;
    let mut uncovered = Uncovered::default();
    if input.is_repeatable() {
        let entries = args.format.read(input.open()?.0, rules.clone());
        survey(entries, &covering, &mut uncovered).await;
        eprint!("{}", uncovered.warnings(&covering));
    }
    let mut import = Import {
        operator: &operator,
        member,
        workspace: args.workspace,
        source,
        is_strict: args.strict,
        revive: args.revive,
        dry_run: args.dry_run,
        request_bytes_max,
        batch: Vec::new(),
        batch_bytes: 0,
        batch_lines: Vec::new(),
        source_keys: HashMap::new(),
        covering,
        surveyed: input.is_repeatable().then_some(uncovered),
        uncovered: Uncovered::default(),
        summary: Summary::new(args.dry_run),
        progress: Progress::begin(if args.dry_run { "reading" } else { "importing" }, length),
    };
    let ended = import.all(args.format.read(text, rules)).await;
    let Import {
        uncovered,
        surveyed,
        mut summary,
        progress,
        ..
    } = import;
    progress.end();
    summary.labels_without_members = surveyed.unwrap_or(uncovered);
    output.print(&summary.text(), &summary)?;
    ended?;
    if summary.accepted() > 0 {
        return Ok(());
    }
    if summary.rejected > 0 {
        let hint = match args.format {
            Format::Jsonl => "; for the export of another tool, choose its --format",
            _ => "",
        };
        return Err(Failure::new(format!("no entry is valid{hint}")));
    }
    if summary.forbidden > 0 {
        return Err(Failure::new("the member may store none of the entries"));
    }
    Ok(())
}

/// Reads the table of users of an input, if its format may have one. Standard input is read once,
/// so that none of its users is known.
fn users(input: &Input, format: Format) -> Result<Option<HashMap<String, String>>, Failure> {
    if !format.has_users() {
        return Ok(None);
    }
    if !input.is_repeatable() {
        return Ok(Some(HashMap::new()));
    }
    let users = format.users(input.open()?.0);
    let users = users.map_err(|Unreadable(reason)| Failure::new(reason))?;
    Ok(Some(users.unwrap_or_default()))
}

/// Reads the entries for their audience labels only. What cannot be read is reported by the import.
async fn survey(mut entries: Entries, covering: &Covering, uncovered: &mut Uncovered) {
    while let Some(Ok(entry)) = entries.recv().await {
        if let Ok(record) = entry.record {
            let memory = record.into_memory();
            uncovered.add(covering, memory.audience_tag.as_ref(), entry.line);
        }
    }
}

async fn find_source(operator: &OrgOperator, name: &str) -> Result<Option<SourceId>, Failure> {
    let sources: Vec<Source> = operator.list("sources", &[]).await?;
    let mut named = sources.iter().filter(|source| source.name == name);
    match (named.next(), named.next()) {
        (Some(_), Some(_)) => Err(Failure::new(format!(
            "{} has several sources named {name:?}",
            operator.org.slug
        ))),
        (found, _) => Ok(found.map(|source| source.id)),
    }
}

async fn create_source(
    operator: &OrgOperator,
    member: &str,
    name: &str,
    kind: &str,
) -> Result<SourceId, Failure> {
    let new = json!(NewSource::builder().name(name).kind(kind).build());
    let segments = ["members", member, "sources"];
    let flags = [("name", "--source"), ("kind", "--source-kind")];
    let created = operator
        .call::<Source>(Method::POST, &segments, Some(&new), &flags)
        .await
        .map_err(|reason| {
            Failure::new(format!(
                "the source {name:?} does not exist and cannot be created: {reason}"
            ))
        })?;
    Ok(created.id)
}

/// State of an import.
struct Import<'o> {
    operator: &'o OrgOperator,
    /// Handle of the member on whose behalf memories are imported.
    member: String,
    workspace: String,
    /// Source of the memories; `None` in a dry run if it does not exist.
    source: Option<SourceId>,
    is_strict: bool,
    /// True to bring in entries whose keys were erased.
    revive: bool,
    /// True to store nothing.
    dry_run: bool,
    request_bytes_max: usize,
    /// Memories that were read and not yet ingested.
    batch: Vec<NewMemory>,
    /// Size in bytes of the batch as JSON.
    batch_bytes: usize,
    /// Numbers of the lines of the batch.
    batch_lines: Vec<u64>,
    /// Source keys of the file so far with their lines, 16 bytes of hash and a number each.
    source_keys: HashMap<u128, u64>,
    covering: Covering,
    /// Labels without members of the whole input, if it was read before.
    surveyed: Option<Uncovered>,
    /// Labels without members so far, otherwise.
    uncovered: Uncovered,
    summary: Summary,
    progress: Progress,
}

impl Import<'_> {
    async fn all(&mut self, mut entries: Entries) -> Result<(), Failure> {
        let mut bytes = 0;
        while let Some(entry) = entries.recv().await {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Unreadable(reason)) => {
                    self.ingest_batch().await?;
                    return Err(Failure::new(reason));
                }
            };
            let Entry { line, record, .. } = entry;
            bytes = entry.bytes;
            let added = match record {
                Ok(record) => self.add(record, line).await?,
                Err(problem) => Err(problem),
            };
            if let Err(problem) = added {
                self.reject(line, &problem).await?;
            }
            if self.batch.len() >= INGEST_MEMORIES_MAX {
                self.ingest_batch().await?;
                self.progress.advance(bytes, self.summary.imported());
            }
        }
        self.ingest_batch().await?;
        self.progress.advance(bytes, self.summary.imported());
        Ok(())
    }

    /// Adds an entry to the batch, unless it repeats an earlier one.
    async fn add(&mut self, record: Record, line: u64) -> Result<Result<(), Problem>, Failure> {
        match self.source_keys.entry(record.source_key.hash()) {
            MapEntry::Vacant(place) => {
                place.insert(line);
            }
            MapEntry::Occupied(first) => {
                return Ok(match record.source_key {
                    // An exact duplicate.
                    SourceKey::Derived(_) => {
                        self.summary.repeat();
                        Ok(())
                    }
                    SourceKey::Given(_) => {
                        let detail = format!(" in line {}", first.get());
                        Err(Problem::with("source_key is already used", detail))
                    }
                });
            }
        }
        let memory = record.into_memory();
        if self.surveyed.is_none() {
            let label = memory.audience_tag.as_ref();
            self.uncovered.add(&self.covering, label, line);
        }
        let bytes = json!(memory).to_string().len() + 1;
        if self.batch_bytes + bytes > self.request_bytes_max.saturating_sub(REQUEST_BYTES_FIXED) {
            self.ingest_batch().await?;
        }
        self.batch_lines.push(line);
        self.batch.push(memory);
        self.batch_bytes += bytes;
        Ok(Ok(()))
    }

    /// Counts an entry that is not imported.
    async fn reject(&mut self, line: u64, problem: &Problem) -> Result<(), Failure> {
        if problem.is_past {
            self.summary.leave_out(line, problem);
            return Ok(());
        }
        self.summary.reject(line, problem);
        if !self.dry_run {
            self.progress.note(&format!("line {line}: {problem}"));
        }
        if !self.is_strict {
            return Ok(());
        }
        self.ingest_batch().await?;
        Err(Failure::new(format!(
            "stopped at line {line}; the lines before it were imported"
        )))
    }

    async fn ingest_batch(&mut self) -> Result<(), Failure> {
        let memories = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        if memories.is_empty() {
            return Ok(());
        }
        for warning in self.uncovered.warnings(&self.covering).lines() {
            self.progress.note(warning);
        }
        let Some(source_id) = self.source else {
            self.summary.created += memories.len() as u64;
            self.batch_lines.clear();
            return Ok(());
        };
        let batch = IngestBatch::builder()
            .source_id(source_id)
            .memories(memories)
            .revive(self.revive)
            .dry_run(self.dry_run);
        let body = json!(batch.build());
        let (member, workspace) = (self.member.as_str(), self.workspace.as_str());
        let segments = ["members", member, "workspaces", workspace, "ingest"];
        let ingested = self
            .operator
            .call(Method::POST, &segments, Some(&body), &[]);
        let ingested: IngestResult = ingested.await.map_err(|failure| self.failed(&failure))?;
        for (memory, line) in ingested.memories.iter().zip(&self.batch_lines) {
            self.summary.count(memory.outcome, *line);
        }
        self.batch_lines.clear();
        Ok(())
    }

    fn failed(&self, failure: &Failure) -> Failure {
        let first = self.batch_lines.first().copied().unwrap_or_default();
        let last = self.batch_lines.last().copied().unwrap_or_default();
        let lines = if first == last {
            format!("line {first} was")
        } else {
            format!("lines {first} to {last} were")
        };
        Failure::new(format!(
            "{lines} not imported: {failure}; run the import again to resume"
        ))
    }
}
