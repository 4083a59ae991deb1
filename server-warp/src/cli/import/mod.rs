//! `knowledge import`: memories from a file of JSON lines.

mod lines;
mod record;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;

use knowledge_core::Error;
use knowledge_core::access::Credential;
use knowledge_core::limits::INGEST_MEMORIES_MAX;
use knowledge_core::model::{Source, SourceId, WorkspaceId};
use knowledge_core::service::{IngestOutcome, KnowledgeService, NewMemory, NewSource};
use serde::Serialize;

use self::lines::{Line, Lines};
use self::record::{Record, SourceKey};
use super::args::OutputFormat;
use super::failure::Failure;
use super::output::{print, print_json};
use super::tenant::{Tenant, TenantArgs};
use crate::explain::explain;
use crate::progress::{Progress, grouped};

/// Maximum content of a batch in bytes, unless a single memory is larger.
const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Import memories from a file of JSON lines
///
/// Each line is one memory: {"title", "content", "source_key"?, "audience_tag"?,
/// "sensitivity_label"?}. A known source_key updates its memory; a line without one gets a key
/// derived from title and content, so that importing a file twice changes nothing. An interrupted
/// import is resumed by running it again.
///
/// An invalid line is reported with its number and skipped: the exit code is 0, and the summary
/// counts it. With --strict the first invalid line ends the import with exit code 1; the lines
/// before it are imported.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Workspace, by slug or identifier
    #[arg(long, value_name = "SLUG")]
    workspace: String,

    /// Source, by name; created if there is none
    #[arg(long, value_name = "NAME")]
    source: String,

    /// Kind of a source to create
    #[arg(long, value_name = "KIND", default_value = "import")]
    source_kind: String,

    /// Handle of the member to act as; defaults to an owner
    #[arg(long = "as", value_name = "HANDLE")]
    acts_as: Option<String>,

    /// Stop at the first invalid line
    #[arg(long)]
    strict: bool,

    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    tenant: TenantArgs,
}

/// Number of lines by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Summary {
    created: u64,
    updated: u64,
    unchanged: u64,
    rejected: u64,
}

impl Summary {
    fn imported(&self) -> u64 {
        self.created + self.updated + self.unchanged
    }
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let (input, length) = open(&args.file)?;
    let tenant = args.tenant.open().await?;
    let workspace = tenant.workspace(&args.workspace).await?;
    let caller = tenant.act_as(args.acts_as.as_deref())?;
    let source = find_or_create_source(&tenant, &caller, &args.source, &args.source_kind).await?;
    let mut import = Import {
        service: &tenant.service,
        caller,
        workspace: workspace.id,
        source,
        is_strict: args.strict,
        batch: Vec::new(),
        batch_lines: (0, 0),
        source_keys: HashMap::new(),
        summary: Summary::default(),
        progress: Progress::begin("importing", length),
    };
    let ended = import.all(Lines::new(BufReader::new(input))).await;
    let Import {
        summary, progress, ..
    } = import;
    progress.end();
    match args.output {
        OutputFormat::Json => print_json(&summary)?,
        OutputFormat::Text => print(&format!(
            "created {}, updated {}, unchanged {}, rejected {}\n",
            grouped(summary.created),
            grouped(summary.updated),
            grouped(summary.unchanged),
            grouped(summary.rejected)
        ))?,
    }
    ended
}

/// Opens the input; returns its length too, if known.
fn open(path: &PathBuf) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
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
    tenant: &Tenant,
    caller: &Credential,
    name: &str,
    kind: &str,
) -> Result<SourceId, Failure> {
    let sources: Vec<Source> = tenant.service.provisioning().sources(tenant.org.id).await?;
    let mut named = sources.iter().filter(|source| source.name == name);
    match (named.next(), named.next()) {
        (Some(source), None) => Ok(source.id),
        (Some(_), Some(_)) => Err(Failure::new(format!(
            "{} has several sources named {name:?}",
            tenant.org.slug
        ))),
        (None, _) => {
            let new = NewSource::builder()
                .name(name.to_owned())
                .kind(kind.to_owned())
                .build();
            let created = tenant.service.create_source(caller, &new).await;
            let created = created.map_err(|error| {
                let reason = explain(&error);
                Failure::new(format!(
                    "the source {name:?} does not exist and cannot be created: {reason}"
                ))
            })?;
            Ok(created.id)
        }
    }
}

/// State of an import.
struct Import<'s> {
    service: &'s KnowledgeService,
    caller: Credential,
    workspace: WorkspaceId,
    source: SourceId,
    is_strict: bool,
    /// Memories that were read and not yet ingested.
    batch: Vec<NewMemory>,
    /// Numbers of the first and the last line of the batch.
    batch_lines: (u64, u64),
    /// Source keys of the file so far with their lines, 16 bytes of hash and a number each.
    source_keys: HashMap<u128, u64>,
    summary: Summary,
    progress: Progress,
}

impl Import<'_> {
    async fn all(&mut self, mut lines: Lines<impl io::BufRead>) -> Result<(), Failure> {
        loop {
            let number = lines.number() + 1;
            let read = lines.next();
            let failed = |error| Failure::new(format!("cannot read line {number}: {error}"));
            let Some(line) = read.map_err(failed)? else {
                break;
            };
            match self.add(line, number) {
                Ok(()) => {}
                Err(reason) => self.reject(number, &reason).await?,
            }
            if self.is_full() {
                self.ingest_batch().await?;
                self.progress
                    .advance(lines.bytes(), self.summary.imported());
            }
        }
        self.ingest_batch().await?;
        self.progress
            .advance(lines.bytes(), self.summary.imported());
        Ok(())
    }

    /// Adds a line to the batch.
    fn add(&mut self, line: Line<'_>, number: u64) -> Result<(), String> {
        let bytes = match line {
            Line::Blank => return Ok(()),
            Line::TooLong => return Err(lines::too_long()),
            Line::Complete(bytes) => bytes,
        };
        let record = Record::parse(bytes, self.service.limits())?;
        let first = *self
            .source_keys
            .entry(record.source_key.hash())
            .or_insert(number);
        match record.source_key {
            _ if first == number => {}
            // An exact duplicate.
            SourceKey::Derived(_) => {
                self.summary.unchanged += 1;
                return Ok(());
            }
            SourceKey::Given(_) => {
                return Err(format!("source_key is already used in line {first}"));
            }
        }
        if self.batch.is_empty() {
            self.batch_lines.0 = number;
        }
        self.batch_lines.1 = number;
        self.batch.push(record.into_memory());
        Ok(())
    }

    async fn reject(&mut self, number: u64, reason: &str) -> Result<(), Failure> {
        self.summary.rejected += 1;
        self.progress.note(&format!("line {number}: {reason}"));
        if !self.is_strict {
            return Ok(());
        }
        self.ingest_batch().await?;
        Err(Failure::new(format!(
            "stopped at line {number}; the lines before it were imported"
        )))
    }

    fn is_full(&self) -> bool {
        let bytes: usize = self.batch.iter().map(|memory| memory.content.len()).sum();
        self.batch.len() >= INGEST_MEMORIES_MAX || bytes >= BATCH_BYTES_MAX
    }

    async fn ingest_batch(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let ingested = self
            .service
            .ingest_memories(&self.caller, self.workspace, self.source, &self.batch)
            .await
            .map_err(|error| self.failed(&error))?;
        self.batch.clear();
        for memory in ingested {
            *match memory.outcome {
                IngestOutcome::Created => &mut self.summary.created,
                IngestOutcome::Updated => &mut self.summary.updated,
                IngestOutcome::Unchanged => &mut self.summary.unchanged,
            } += 1;
        }
        Ok(())
    }

    fn failed(&self, error: &Error) -> Failure {
        let (first, last) = self.batch_lines;
        let lines = if first == last {
            format!("line {first} was")
        } else {
            format!("lines {first} to {last} were")
        };
        Failure::new(format!(
            "{lines} not imported: {}; run the import again to resume",
            explain(error)
        ))
    }
}
