//! `knowledge dump`, alias `backup`: the whole database as one file.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::dump::{Export, Summary};
use knowledge_core::store::Store;
use knowledge_server::backup::{BackupError, DumpFile, Origin};
use knowledge_server::config::Config;
use knowledge_server::data::{Backend, DataConfig, DataError, StableView};
use knowledge_storage_embedded::Embedded;
use serde::Serialize;

use super::args::{OutputFormat, WithOutput};
use super::failure::Failure;
use super::settings::AdminArgs;
use super::verify::check;
use crate::progress::{Progress, counted, grouped};

/// Write the whole database to a file of JSON lines
///
/// If a server holds the directory, the command requests a backup over its admin socket: a
/// consistent snapshot, while the server continues to serve requests. Otherwise it reads the
/// directory, and resumes an interrupted dump if the data has not changed. A database is read
/// as of one point in time, while servers use it.
///
/// The file is written as FILE.partial and renamed once it is complete and verified. The same data
/// result in the same bytes. Signing secrets stay sealed: keep the sealing key too, in another
/// place. Tokens are included only as hashes.
///
/// `knowledge backup` is another name of this command.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "backup")]
pub(super) struct Args {
    /// File to write, or - for standard output
    file: PathBuf,

    /// Overwrite an existing file
    #[arg(long)]
    force: bool,

    /// Dump this partition of storage.partitions instead of the store in storage.store
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,

    #[command(flatten)]
    admin: WithOutput<AdminArgs>,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let (path, WithOutput { output, location }) = (args.file, args.admin);
    let place = Place::of(&location.configure()?, args.partition)?;
    let is_stream = path.as_os_str() == "-";
    if is_stream && io::stdout().is_terminal() {
        return Err(Failure::usage(
            "cannot write a dump to a terminal; name a file or pipe the output",
        ));
    }
    if !is_stream && !args.force && path.exists() {
        return Err(Failure::new(format!(
            "{} exists; choose another name or overwrite it with --force",
            path.display()
        )));
    }
    let summary = match place.source().await? {
        source if is_stream => to_stream(source).await?,
        Source::Store(store) => store_to_file(&place.data, store, &path).await?,
        source => {
            let mut file = DumpFile::create(&path, None)?;
            source.write(|lines| file.write(lines)).await?;
            finish(file)?
        }
    };
    report(&summary, &path, output)
}

fn report(summary: &Summary, file: &Path, output: OutputFormat) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Report<'r> {
        file: &'r Path,
        entries: u64,
        sha256: &'r str,
    }

    let (entries, sha256) = (summary.entries, &*summary.sha256);
    let text = format!("{}, SHA-256 {sha256}", counted(entries, "entry", "entries"));
    if file.as_os_str() == "-" {
        // Standard output contains the dump.
        eprintln!("{text}");
        return Ok(());
    }
    let report = Report {
        file,
        entries,
        sha256,
    };
    output.print(&format!("{}: {text}\n", file.display()), &report)
}

/// Store to dump, and the server that may have it open.
struct Place {
    data: DataConfig,
    /// Socket of the server, with the directory that it serves.
    #[cfg(unix)]
    admin: Option<(PathBuf, Option<PathBuf>)>,
    partition: Option<String>,
}

impl Place {
    fn of(config: &Config, partition: Option<String>) -> Result<Self, Failure> {
        let home = config.data();
        Ok(Self {
            data: match &partition {
                Some(name) => home.partition(name)?,
                None => home.clone(),
            },
            #[cfg(unix)]
            admin: config
                .admin_socket
                .path(&home)?
                .map(|socket| (socket, home.directory().map(Path::to_owned))),
            partition,
        })
    }

    /// Returns the server of the store if one listens, otherwise the store.
    async fn source(&self) -> Result<Source, Failure> {
        #[cfg(unix)]
        if let Some((socket, directory)) = &self.admin
            && let Ok(client) =
                knowledge_server::admin::AdminClient::connect_of(socket, directory.as_deref()).await
        {
            let partition = self.partition.clone();
            return Ok(Source::Server { client, partition });
        }
        if self.data.store.is_shared() {
            let store = self.data.open_backend().await?;
            let view = StableView::of(&store).await.map_err(DataError::from)?;
            return Ok(Source::Snapshot(view.store));
        }
        let store = self.data.resolved()?.open_store()?;
        // A dump of a damaged store would look complete.
        let checked = check("checking", &Backend::Embedded(Arc::clone(&store)));
        checked.map_err(BackupError::from)?;
        Ok(Source::Store(store))
    }
}

/// Source of a dump.
enum Source {
    Store(Arc<dyn Embedded>),
    /// Snapshot of a database.
    Snapshot(Arc<dyn Store>),
    #[cfg(unix)]
    Server {
        client: knowledge_server::admin::AdminClient,
        partition: Option<String>,
    },
}

impl Source {
    /// Writes the dump from its beginning.
    async fn write(
        self,
        write: impl FnMut(&[u8]) -> Result<(), BackupError>,
    ) -> Result<Summary, Failure> {
        let mut total = None;
        let store: Arc<dyn Store> = match self {
            Self::Store(store) => {
                total = Some(store.stats().entries);
                store
            }
            Self::Snapshot(store) => store,
            #[cfg(unix)]
            Self::Server { client, partition } => {
                return from_server(&client, partition.as_deref(), write).await;
            }
        };
        let export = Export::begin(store).await.map_err(BackupError::from)?;
        write_all(export, total, write).await
    }
}

async fn to_stream(source: Source) -> Result<Summary, Failure> {
    let mut out = io::stdout().lock();
    let written = source.write(|lines: &[u8]| {
        let written = out.write_all(lines);
        written.map_err(BackupError::io(Path::new("standard output")))
    });
    let summary = written.await?;
    out.flush()
        .map_err(BackupError::io(Path::new("standard output")))?;
    Ok(summary)
}

/// Dumps a directory that no other process has open, or resumes a dump of the same state.
async fn store_to_file(
    data: &DataConfig,
    store: Arc<dyn Embedded>,
    path: &Path,
) -> Result<Summary, Failure> {
    let origin = Origin {
        directory: data.path()?.to_string_lossy().into_owned(),
        revision: store.revision(),
    };
    let mut resumed = None;
    if let Some((file, decoder)) = DumpFile::resume(path, &origin)? {
        let (store, entries) = (store.clone(), decoder.entries());
        let export = Export::resume(store, decoder).await;
        resumed = export.map_err(BackupError::from)?.map(|export| {
            eprintln!("resuming after entry {}", grouped(entries));
            (export, file)
        });
    }
    let (export, mut file) = match resumed {
        Some(resumed) => resumed,
        None => {
            if DumpFile::is_begun(path) {
                eprintln!("starting over: the partial dump is not of the present state");
            }
            let file = DumpFile::create(path, Some(&origin))?;
            let export = Export::begin(store.clone()).await;
            (export.map_err(BackupError::from)?, file)
        }
    };
    let total = Some(store.stats().entries);
    write_all(export, total, |lines| file.write(lines)).await?;
    finish(file)
}

/// Writes the remaining lines of an export.
async fn write_all(
    mut export: Export,
    total: Option<u64>,
    mut write: impl FnMut(&[u8]) -> Result<(), BackupError>,
) -> Result<Summary, Failure> {
    let mut progress = Progress::over_entries("dumping", total);
    let (mut lines, mut has_more) = (Vec::new(), true);
    while has_more {
        has_more = export.read(&mut lines).await.map_err(BackupError::from)?;
        write(&lines)?;
        lines.clear();
        progress.advance(export.entries(), export.entries());
    }
    progress.end();
    Ok(export.summary())
}

/// Verifies the file before it is renamed.
fn finish(file: DumpFile) -> Result<Summary, Failure> {
    let mut progress = Progress::over_entries("verifying", None);
    let checked = file.finish(|bytes, entries| progress.advance(bytes, entries))?;
    progress.end();
    Ok(checked.summary)
}

/// Streams a backup from a running server, checking each line.
#[cfg(unix)]
async fn from_server(
    client: &knowledge_server::admin::AdminClient,
    partition: Option<&str>,
    mut write: impl FnMut(&[u8]) -> Result<(), BackupError>,
) -> Result<Summary, Failure> {
    use knowledge_core::dump::Decoder;

    use knowledge_server::backup::{BACKUP_PATH, ENTRIES_HEADER, PARTITION};

    let broken = |error| {
        Failure::new(format!(
            "the server aborted the backup; see its log: {error}"
        ))
    };
    let path = match partition {
        // A name has only characters that a query may have.
        Some(name) => format!("{BACKUP_PATH}?{PARTITION}={name}"),
        None => BACKUP_PATH.to_owned(),
    };
    let request = http::Request::get(path).body(bytes::Bytes::new());
    let response = client.stream(request.expect("a path")).await;
    let (head, mut stream) = response.map_err(broken)?.into_parts();
    if head.status != http::StatusCode::OK {
        let body = stream.rest().await.map_err(broken)?;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = body["message"].as_str().unwrap_or("no error message");
        let status = head.status;
        return Err(Failure::new(format!(
            "the server rejected the backup ({status}): {message}"
        )));
    }
    let total = head.headers.get(ENTRIES_HEADER);
    let total = total.and_then(|total| total.to_str().ok()?.parse().ok());
    let mut progress = Progress::over_entries("backing up", total);
    let (mut decoder, mut line) = (Decoder::new(), Vec::new());
    while let Some(chunk) = stream.next().await.map_err(broken)? {
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if part.last() == Some(&b'\n') {
                decoder.read(&line)?;
                line.clear();
            }
        }
        write(&chunk)?;
        progress.advance(decoder.entries(), decoder.entries());
    }
    progress.end();
    Ok(decoder.finish()?)
}
