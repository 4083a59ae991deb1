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
use self::record::{Name, Record};
use super::args::OutputFormat;
use super::failure::Failure;
use super::output::{print, print_json};
use super::tenant::{Tenant, TenantArgs};
use crate::explain::explain;
use crate::progress::{Progress, grouped};

/// How many bytes of content one batch brings at most, unless a single memory has more.
const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Import memories from a file of JSON lines
///
/// One memory a line: {"title", "content", "source_key"?, "audience_tag"?, "sensitivity_label"?}. A source_key seen
/// before updates that memory; a line without one gets a key made of its title and content, so that the same file
/// twice changes nothing, and an import that was interrupted is resumed by running it again.
///
/// A bad line is reported with its number, and does not stop the others: the exit code is 0, the summary counts it.
/// With --strict the first bad line ends the import with exit code 1; what stands before it is imported.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The workspace, by its slug or identifier
    #[arg(long, value_name = "SLUG")]
    workspace: String,

    /// The source, by its name; made where there is none
    #[arg(long, value_name = "NAME")]
    source: String,

    /// What the source is, where it is made
    #[arg(long, value_name = "KIND", default_value = "import")]
    source_kind: String,

    /// The handle of the member who imports; without it an owner
    #[arg(long = "as", value_name = "HANDLE")]
    acts_as: Option<String>,

    /// End at the first bad line
    #[arg(long)]
    strict: bool,

    /// What the summary looks like
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    tenant: TenantArgs,
}

/// What became of the lines.
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
    let source = find_or_make_source(&tenant, &caller, &args.source, &args.source_kind).await?;
    let mut import = Import {
        service: &tenant.service,
        caller,
        workspace: workspace.id,
        source,
        is_strict: args.strict,
        batch: Vec::new(),
        batch_lines: (0, 0),
        names: HashMap::new(),
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

/// The input, and its length where that is known.
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

async fn find_or_make_source(
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
            "{} has several sources with the name {name:?}",
            tenant.org.slug
        ))),
        (None, _) => {
            let new = NewSource {
                name: name.to_owned(),
                kind: kind.to_owned(),
            };
            let made = tenant.service.create_source(caller, &new).await;
            let made = made.map_err(|error| {
                let reason = explain(&error);
                Failure::new(format!(
                    "there is no source {name:?}, and it cannot be made: {reason}"
                ))
            })?;
            Ok(made.id)
        }
    }
}

/// One import on its way.
struct Import<'s> {
    service: &'s KnowledgeService,
    caller: Credential,
    workspace: WorkspaceId,
    source: SourceId,
    is_strict: bool,
    /// Memories that were read and not yet brought in.
    batch: Vec<NewMemory>,
    /// The numbers of the first and the last line of the batch.
    batch_lines: (u64, u64),
    /// The names that the file used so far, each with its line: 16 bytes of a hash and a number for every line.
    names: HashMap<u128, u64>,
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
            match self.take(line, number) {
                Ok(()) => {}
                Err(reason) => self.reject(number, &reason).await?,
            }
            if self.is_full() {
                self.bring_in().await?;
                self.progress
                    .advance(lines.bytes(), self.summary.imported());
            }
        }
        self.bring_in().await?;
        self.progress
            .advance(lines.bytes(), self.summary.imported());
        Ok(())
    }

    /// Puts a line into the batch.
    fn take(&mut self, line: Line<'_>, number: u64) -> Result<(), String> {
        let bytes = match line {
            Line::Blank => return Ok(()),
            Line::TooLong => return Err(lines::too_long()),
            Line::Whole(bytes) => bytes,
        };
        let record = Record::parse(bytes, self.service.limits())?;
        let first = *self.names.entry(record.name.hash()).or_insert(number);
        match record.name {
            _ if first == number => {}
            // The very same memory again.
            Name::Made(_) => {
                self.summary.unchanged += 1;
                return Ok(());
            }
            Name::Given(_) => return Err(format!("source_key is that of line {first}")),
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
        self.bring_in().await?;
        Err(Failure::new(format!(
            "stopped at line {number}: what stands before it is imported, nothing behind it"
        )))
    }

    fn is_full(&self) -> bool {
        let bytes: usize = self.batch.iter().map(|memory| memory.content.len()).sum();
        self.batch.len() >= INGEST_MEMORIES_MAX || bytes >= BATCH_BYTES_MAX
    }

    async fn bring_in(&mut self) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let ingested = self
            .service
            .ingest(&self.caller, self.workspace, self.source, &self.batch)
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
        Failure::new(format!(
            "lines {first} to {last} were not imported: {}; run the import again to go on",
            explain(error)
        ))
    }
}
