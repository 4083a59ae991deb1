//! `knowledge import`: memories from a file, in its own format or that of another tool.

mod document;
mod entry;
mod export;
mod input;
mod item;
mod lines;
mod people;
mod quotes;
mod record;
mod rejections;
mod table;

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use http::Method;
use knowledge_core::limits::INGEST_MEMORIES_MAX;
use knowledge_core::model::{AudienceLabel, Source, SourceId};
use knowledge_core::service::{IngestBatch, IngestOutcome, IngestResult, NewMemory, NewSource};
use serde::Serialize;
use serde_json::{Value, json};

use self::entry::{Entry, Unreadable};
use self::input::{Entries, Format};
use self::people::Audiences;
use self::record::{Problem, Record, Rules, SourceKey};
use self::rejections::Rejections;
use super::args::{OutputFormat, WithOutput};
use super::failure::Failure;
use super::operator::{OrgArgs, OrgOperator};
use crate::progress::{Progress, grouped};

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
/// A CSV file has the same fields as columns, of which only content is required. The formats mem0,
/// zep and letta are the exports of these tools. There, and in CSV, a memory without a title gets
/// the first line of its text; a user becomes the audience user:HANDLE; the time of creation,
/// metadata and other columns become the end of the text. docs/administration.md lists the fields.
///
/// An entry whose key was erased is left out and counted as erased; --revive brings it in again.
///
/// Labels of members and teams that no member has are named at the end, also by --dry-run.
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

    /// Workspace, by slug or identifier
    #[arg(long, value_name = "SLUG")]
    workspace: String,

    /// Source, by name; created if there is none
    #[arg(long, value_name = "NAME")]
    source: String,

    /// Kind of a source to create
    #[arg(long, value_name = "KIND", default_value = "import")]
    source_kind: String,

    /// Audience label of entries that have none, for example user:maya; defaults to the
    /// workspace's, and is required for the formats zep and letta
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

    /// Bring in entries whose keys were erased too, and forget that they were
    #[arg(long, conflicts_with = "dry_run")]
    revive: bool,

    /// Report what would be imported and what not, and why, without importing. Only the import
    /// itself checks whether the member may add the memories, whether they fit the quotas, whether
    /// the source accepts them, and which keys were erased
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

/// Number of entries by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Summary {
    created: u64,
    updated: u64,
    unchanged: u64,
    /// Entries whose keys were erased, which are not stored.
    erased: u64,
    rejected: u64,
}

impl Summary {
    fn imported(&self) -> u64 {
        self.created + self.updated + self.unchanged
    }

    fn accepted(&self) -> u64 {
        self.imported() + self.erased
    }
}

/// Result of a dry run.
#[derive(Serialize)]
struct Preview<'p> {
    dry_run: bool,
    accepted: u64,
    repeated: u64,
    rejected: u64,
    reasons: &'p Rejections,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    if args.audience.is_none() && !args.format.has_audiences() {
        return Err(Failure::usage(
            "this format does not say whose its memories are; choose their audience with \
             --audience, for example user:HANDLE or workspace:SLUG",
        ));
    }
    let (input, length) = open(&args.file)?;
    let (operator, output) = args.org.open().await?;
    let segments = ["workspaces", args.workspace.as_str()];
    let found = operator.call::<Value>(Method::GET, &segments, None, &[]);
    found.await?;
    let member = operator.acting_member(args.acts_as).await?;
    let rules = Rules {
        limits: operator.limits().clone(),
        audience: args.audience,
        handles: args.users.into_iter().collect(),
    };
    let request_bytes_max = REQUEST_BYTES_MAX.min(rules.limits.body_bytes_max);
    let source = if args.dry_run {
        None
    } else {
        let source = find_or_create_source(&operator, &member, &args.source, &args.source_kind);
        Some(source.await?)
    };
    let mut import = Import {
        operator: &operator,
        member,
        workspace: args.workspace,
        source,
        is_strict: args.strict,
        revive: args.revive,
        request_bytes_max,
        batch: Vec::new(),
        batch_bytes: 0,
        batch_lines: (0, 0),
        source_keys: HashMap::new(),
        audiences: Audiences::default(),
        summary: Summary::default(),
        rejections: Rejections::default(),
        progress: Progress::begin(if args.dry_run { "reading" } else { "importing" }, length),
    };
    let ended = import.all(args.format.read(input, rules)).await;
    let Import {
        audiences,
        summary,
        rejections,
        progress,
        ..
    } = import;
    progress.end();
    if args.dry_run {
        preview(&summary, &rejections, output)?;
    } else {
        report(&summary, output)?;
    }
    ended?;
    audiences.warn(&operator).await?;
    if summary.accepted() == 0 && summary.rejected > 0 {
        let hint = match args.format {
            Format::Jsonl => "; for the export of another tool, choose its --format",
            _ => "",
        };
        return Err(Failure::new(format!("no entry is valid{hint}")));
    }
    Ok(())
}

fn report(summary: &Summary, output: OutputFormat) -> Result<(), Failure> {
    let erased = match summary.erased {
        0 => String::new(),
        erased => format!("erased {} (--revive brings them in), ", grouped(erased)),
    };
    let text = format!(
        "created {}, updated {}, unchanged {}, {erased}rejected {}\n",
        grouped(summary.created),
        grouped(summary.updated),
        grouped(summary.unchanged),
        grouped(summary.rejected)
    );
    output.print(&text, summary)
}

/// Reports a dry run, which counts valid entries as created.
fn preview(
    summary: &Summary,
    rejections: &Rejections,
    output: OutputFormat,
) -> Result<(), Failure> {
    let text = format!(
        "accepted {}, repeated {}, rejected {}\n{}",
        grouped(summary.created),
        grouped(summary.unchanged),
        grouped(summary.rejected),
        rejections.text()
    );
    let preview = Preview {
        dry_run: true,
        accepted: summary.created,
        repeated: summary.unchanged,
        rejected: summary.rejected,
        reasons: rejections,
    };
    output.print(&text, &preview)
}

/// Opens the input; returns its length too, if known.
fn open(path: &PathBuf) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(io::stdin()), None));
    }
    let refused = |error| Failure::new(format!("cannot read {}: {error}", path.display()));
    let file = File::open(path).map_err(refused)?;
    let metadata = file.metadata().map_err(refused)?;
    if metadata.is_dir() {
        return Err(Failure::new(format!("{} is a directory", path.display())));
    }
    // A pipe has no length.
    let length = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(file), length))
}

async fn find_or_create_source(
    operator: &OrgOperator,
    member: &str,
    name: &str,
    kind: &str,
) -> Result<SourceId, Failure> {
    let sources: Vec<Source> = operator.list("sources", &[]).await?;
    let mut named = sources.iter().filter(|source| source.name == name);
    match (named.next(), named.next()) {
        (Some(source), None) => Ok(source.id),
        (Some(_), Some(_)) => Err(Failure::new(format!(
            "{} has several sources named {name:?}",
            operator.org.slug
        ))),
        (None, _) => {
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
    }
}

/// State of an import.
struct Import<'o> {
    operator: &'o OrgOperator,
    /// Handle of the member on whose behalf memories are imported.
    member: String,
    workspace: String,
    /// Source of the memories; `None` in a dry run, which imports nothing.
    source: Option<SourceId>,
    is_strict: bool,
    /// True to bring in entries whose keys were erased.
    revive: bool,
    request_bytes_max: usize,
    /// Memories that were read and not yet ingested.
    batch: Vec<NewMemory>,
    /// Size in bytes of the batch as JSON.
    batch_bytes: usize,
    /// Numbers of the first and the last line of the batch.
    batch_lines: (u64, u64),
    /// Source keys of the file so far with their lines, 16 bytes of hash and a number each.
    source_keys: HashMap<u128, u64>,
    audiences: Audiences,
    summary: Summary,
    rejections: Rejections,
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
                        self.summary.unchanged += 1;
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
        self.audiences.add(memory.audience_tag.as_ref());
        let bytes = json!(memory).to_string().len() + 1;
        if self.batch_bytes + bytes > self.request_bytes_max.saturating_sub(REQUEST_BYTES_FIXED) {
            self.ingest_batch().await?;
        }
        if self.batch.is_empty() {
            self.batch_lines.0 = line;
        }
        self.batch_lines.1 = line;
        self.batch.push(memory);
        self.batch_bytes += bytes;
        Ok(Ok(()))
    }

    async fn reject(&mut self, line: u64, problem: &Problem) -> Result<(), Failure> {
        self.summary.rejected += 1;
        self.rejections.add(line, problem);
        if self.source.is_some() {
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
        let Some(source_id) = self.source else {
            self.summary.created += memories.len() as u64;
            return Ok(());
        };
        if memories.is_empty() {
            return Ok(());
        }
        let batch = IngestBatch::builder()
            .source_id(source_id)
            .memories(memories)
            .revive(self.revive);
        let body = json!(batch.build());
        let (member, workspace) = (self.member.as_str(), self.workspace.as_str());
        let segments = ["members", member, "workspaces", workspace, "ingest"];
        let ingested = self
            .operator
            .call(Method::POST, &segments, Some(&body), &[]);
        let ingested: IngestResult = ingested.await.map_err(|failure| self.failed(&failure))?;
        for memory in ingested.memories {
            *match memory.outcome {
                IngestOutcome::Created => &mut self.summary.created,
                IngestOutcome::Updated => &mut self.summary.updated,
                IngestOutcome::Unchanged => &mut self.summary.unchanged,
                IngestOutcome::Erased => &mut self.summary.erased,
                IngestOutcome::Moved | IngestOutcome::LabelKept => &mut self.summary.updated,
                IngestOutcome::Forbidden => &mut self.summary.rejected,
            } += 1;
        }
        Ok(())
    }

    fn failed(&self, failure: &Failure) -> Failure {
        let (first, last) = self.batch_lines;
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
