//! `knowledge restore`: a dump into an empty directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::dump::{Header, Summary};
use knowledge_core::store::Store;
use serde::Serialize;

use super::args::OutputFormat;
use super::failure::Failure;
use super::output::{print, print_json};
use super::settings::DataArgs;
use super::tenant::quiet_log;
use crate::backup::{CheckedDump, DumpLines, check, compare, restore};
use crate::data::DataConfig;
use crate::progress::{Progress, counted};
use crate::sealing;

/// Restore a dump into an empty directory
///
/// The whole dump is verified before anything is written. An interrupted restore is resumed by
/// running it again with the same file; until it is complete, no server opens the directory.
/// Finally the store is read back and compared with the dump.
///
/// A dump does not contain the sealing key: before serving, put the key file that its secrets are
/// sealed with beside the directory, or name it with --sealing-key-file.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Dump file, or - for standard input, from which a restore cannot be resumed
    file: PathBuf,

    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    data: DataArgs,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    quiet_log()?;
    let config = args.data.load()?.config.data();
    let is_stream = args.file.as_os_str() == "-";
    let (lines, expected) = if is_stream {
        (DumpLines::of(io::stdin(), "standard input"), None)
    } else {
        let expected = check_file(&args.file)?.summary;
        (DumpLines::open(&args.file)?, Some(expected))
    };
    let store: Arc<dyn Store> = config.make_store()?;
    let (header, summary) = restore_shown(lines, &store, expected).await?;
    compare_shown(&store, &summary).await?;
    drop(store);
    if let Some(fingerprint) = header.and_then(|header| header.sealing_key) {
        print_missing_key(&config, &fingerprint)?;
    }
    report(&summary, &config.name(), args.output)
}

fn report(summary: &Summary, store: &str, output: OutputFormat) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Report<'r> {
        directory: &'r str,
        entries: u64,
        sha256: &'r str,
    }

    let (entries, sha256) = (summary.entries, &*summary.sha256);
    match output {
        OutputFormat::Text => print(&format!(
            "{store}: {}, SHA-256 {sha256}\n",
            counted(entries, "entry", "entries")
        )),
        OutputFormat::Json => print_json(&Report {
            directory: store,
            entries,
            sha256,
        }),
    }
}

/// Verifies a dump and shows the progress.
pub(super) fn check_file(file: &Path) -> Result<CheckedDump, Failure> {
    let lines = DumpLines::open(file)?;
    let mut progress = Progress::over_entries("checking the dump", lines.length());
    let checked = check(lines, |bytes, entries| progress.advance(bytes, entries));
    progress.end();
    Ok(checked?)
}

/// Restores a dump and shows the progress.
pub(super) async fn restore_shown(
    lines: DumpLines,
    store: &Arc<dyn Store>,
    expected: Option<Summary>,
) -> Result<(Option<Header>, Summary), Failure> {
    let mut progress = Progress::over_entries("restoring", lines.length());
    let restored = restore(lines, store, expected, |bytes, entries| {
        progress.advance(bytes, entries);
    });
    let restored = restored.await;
    progress.end();
    Ok(restored?)
}

async fn compare_shown(store: &Arc<dyn Store>, summary: &Summary) -> Result<(), Failure> {
    let mut progress = Progress::over_entries("comparing", Some(summary.entries));
    let compared = compare(store, summary, |entries| progress.advance(entries, entries)).await;
    progress.end();
    Ok(compared?)
}

/// Prints the fingerprint of the required sealing key unless the key is in place.
fn print_missing_key(config: &DataConfig, fingerprint: &str) -> Result<(), Failure> {
    let path = config.sealing_key_path()?;
    let found = sealing::read(&path).map(|key| key.fingerprint());
    if found.as_ref().is_ok_and(|found| found == fingerprint) {
        return Ok(());
    }
    let problem = match found {
        Ok(other) => format!("the key there has the fingerprint {other}"),
        Err(error) => error.to_string(),
    };
    eprintln!(
        "the secrets are sealed with the key of fingerprint {fingerprint}; put it into {} before the store is \
         served ({problem})",
        path.display()
    );
    Ok(())
}
