//! `knowledge dump`, also called `backup`: the whole database as one file, from the directory or from its server.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::dump::{Export, Summary};
use knowledge_storage_embedded::Embedded;
use serde::Serialize;

use super::args::OutputFormat;
use super::failure::Failure;
use super::output::{print, print_json};
use super::settings::AdminArgs;
use super::tenant::quiet_log;
use crate::backup::{BackupError, DumpFile, Origin};
use crate::config::Config;
use crate::progress::{Progress, grouped};

/// Write the whole database into one file, as lines of JSON
///
/// While a server has the directory, it is asked for a backup over its admin socket: everything as it stands at one moment,
/// while requests go on. Otherwise the directory is read, and a dump that was interrupted goes on where it was, as long as
/// nothing has changed.
///
/// The file appears under its name once it is whole and was read back; until then it is FILE.partial. The same data make
/// the same bytes. Signing secrets stay sealed in it: keep the sealing key too, and apart from it. Tokens are in it as
/// hashes alone.
#[derive(Debug, clap::Args)]
#[command(visible_alias = "backup")]
pub(super) struct Args {
    /// The file to write, or - for standard output
    file: PathBuf,

    /// Write over a file that is there
    #[arg(long)]
    force: bool,

    /// What the summary looks like
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    quiet_log()?;
    let Args {
        file: path,
        force,
        output,
        admin,
    } = args;
    let config = admin.load()?.config;
    let is_stream = path.as_os_str() == "-";
    if is_stream && io::stdout().is_terminal() {
        return Err(Failure::usage(
            "a dump is not for a terminal: name a file, or pipe it",
        ));
    }
    if !is_stream && !force && path.exists() {
        return Err(Failure::new(format!(
            "{} is there: choose another name, or write over it with --force",
            path.display()
        )));
    }
    let summary = match (Source::find(&config).await?, is_stream) {
        (source, true) => to_stream(source).await?,
        (Source::Store(store), false) => store_to_file(&config, store, &path).await?,
        #[cfg(unix)]
        (source @ Source::Server(_), false) => {
            let file = DumpFile::create(&path, None)?;
            source_to_file(source, file).await?
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
    let text = format!("{} entries, SHA-256 {sha256}", grouped(entries));
    match output {
        // Standard output has the dump.
        _ if file.as_os_str() == "-" => eprintln!("{text}"),
        OutputFormat::Text => print(&format!("{}: {text}\n", file.display()))?,
        OutputFormat::Json => print_json(&Report {
            file,
            entries,
            sha256,
        })?,
    }
    Ok(())
}

/// Where the lines come from.
enum Source {
    Store(Arc<dyn Embedded>),
    #[cfg(unix)]
    Server(crate::admin::AdminClient),
}

impl Source {
    /// The server of the directory where one listens, else the directory.
    async fn find(config: &Config) -> Result<Self, Failure> {
        #[cfg(unix)]
        if let Some(socket) = config.admin_socket.path(&config.data)?
            && let Ok(client) =
                crate::admin::AdminClient::connect_of(&socket, config.data.directory()).await
        {
            return Ok(Self::Server(client));
        }
        let store = config.data.resolved()?.open_store()?;
        // A dump of what is left of a damaged store would look like a whole one.
        let mut progress = Progress::counting("entries", "checking", Some(store.entries()));
        let checked = store.check(&mut |entries, _| progress.advance(entries, entries));
        progress.end();
        checked.map_err(BackupError::from)?;
        Ok(Self::Store(store))
    }
}

async fn to_stream(source: Source) -> Result<Summary, Failure> {
    let mut out = io::stdout().lock();
    let mut write = |lines: &[u8]| {
        let written = out.write_all(lines);
        written.map_err(BackupError::io(Path::new("standard output")))
    };
    let summary = match source {
        Source::Store(store) => {
            let export = Export::begin(store.clone()).await;
            let export = export.map_err(BackupError::from)?;
            all(export, store.stats().entries, &mut write).await?
        }
        #[cfg(unix)]
        Source::Server(client) => from_server(&client, &mut write).await?,
    };
    out.flush()
        .map_err(BackupError::io(Path::new("standard output")))?;
    Ok(summary)
}

/// Dumps a directory that nobody else has open, from where an interrupted dump of the same state was.
async fn store_to_file(
    config: &Config,
    store: Arc<dyn Embedded>,
    path: &Path,
) -> Result<Summary, Failure> {
    let origin = Origin {
        directory: config.data.path()?.to_string_lossy().into_owned(),
        revision: store.revision(),
    };
    let mut resumed = None;
    if let Some((file, decoder)) = DumpFile::resume(path, &origin)? {
        let (store, entries) = (store.clone(), decoder.entries());
        let export = Export::resume(store, decoder).await;
        resumed = export.map_err(BackupError::from)?.map(|export| {
            eprintln!("going on behind entry {}", grouped(entries));
            (export, file)
        });
    }
    let (export, mut file) = match resumed {
        Some(resumed) => resumed,
        None => {
            let file = DumpFile::create(path, Some(&origin))?;
            let export = Export::begin(store.clone()).await;
            (export.map_err(BackupError::from)?, file)
        }
    };
    all(export, store.stats().entries, |lines| file.write(lines)).await?;
    finish(file)
}

/// All lines that an export still has.
async fn all(
    mut export: Export,
    total: u64,
    mut write: impl FnMut(&[u8]) -> Result<(), BackupError>,
) -> Result<Summary, Failure> {
    let mut progress = Progress::counting("entries", "dumping", Some(total));
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

/// Reads the file back before it gets its name.
fn finish(file: DumpFile) -> Result<Summary, Failure> {
    let mut progress = Progress::counting("entries", "reading it back", None);
    let checked = file.finish(|bytes, entries| progress.advance(bytes, entries))?;
    progress.end();
    Ok(checked.summary)
}

#[cfg(unix)]
async fn source_to_file(source: Source, mut file: DumpFile) -> Result<Summary, Failure> {
    if let Source::Server(client) = source {
        from_server(&client, |lines| file.write(lines)).await?;
    }
    finish(file)
}

/// A backup of a running server: each line is checked as it comes.
#[cfg(unix)]
async fn from_server(
    client: &crate::admin::AdminClient,
    mut write: impl FnMut(&[u8]) -> Result<(), BackupError>,
) -> Result<Summary, Failure> {
    use knowledge_core::dump::Decoder;

    use crate::backup::{BACKUP_PATH, ENTRIES_HEADER};

    let broken = |error| {
        Failure::new(format!(
            "the server broke the backup off, its log says why: {error}"
        ))
    };
    let request = http::Request::get(BACKUP_PATH).body(bytes::Bytes::new());
    let response = client.stream(request.expect("a path")).await;
    let (head, mut pieces) = response.map_err(broken)?.into_parts();
    if head.status != http::StatusCode::OK {
        let body = pieces.rest().await.map_err(broken)?;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = body["message"].as_str().unwrap_or("no reason is given");
        let status = head.status;
        return Err(Failure::new(format!(
            "the server makes no backup ({status}): {message}"
        )));
    }
    let total = head.headers.get(ENTRIES_HEADER);
    let total = total.and_then(|total| total.to_str().ok()?.parse().ok());
    let mut progress = Progress::counting("entries", "backing up", total);
    let (mut decoder, mut begun) = (Decoder::new(), Vec::new());
    while let Some(piece) = pieces.next().await.map_err(broken)? {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            begun.extend_from_slice(part);
            if part.last() == Some(&b'\n') {
                decoder
                    .read(&begun)
                    .map_err(|error| Failure::new(error.to_string()))?;
                begun.clear();
            }
        }
        write(&piece)?;
        progress.advance(decoder.entries(), decoder.entries());
    }
    progress.end();
    let summary = decoder.finish();
    summary.map_err(|error| Failure::new(error.to_string()))
}
