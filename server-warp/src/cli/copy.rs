//! `knowledge copy`: the contents of one store in another one, of whichever engine.

use std::sync::Arc;

use knowledge_core::dump::{RestoreError, Summary};
use knowledge_core::store::Store;
use serde::Serialize;

use super::args::OutputFormat;
use super::failure::Failure;
use super::output::{print, print_json};
use super::settings::FileArgs;
use super::tenant::quiet_log;
use crate::backup::{BackupError, compare, copy_store, summarize};
use crate::data::DataConfig;
use crate::private_file;
use crate::progress::{Progress, grouped};
use crate::sealing;
use crate::store_address::StoreAddress;

/// Copy a store into another one, of the same engine or another
///
/// Reads the source whole, writes the target, and reads the target back: number and checksum of the entries have to agree.
/// Interrupted and started again, it goes on where it was, as long as the source has not changed; until the copy is whole
/// no server opens the target. No server may have either store meanwhile. The sealing key beside the source is copied
/// too, if the target has none.
///
/// A store of an older format, which servers refuse, is carried over this way.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The store to read: sled:DIR or fjall:DIR
    #[arg(long, value_name = "STORE")]
    from: StoreAddress,

    /// The store to write, new or empty: sled:DIR or fjall:DIR
    #[arg(long, value_name = "STORE")]
    to: StoreAddress,

    /// The format of the summary
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    file: FileArgs,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    quiet_log()?;
    let Args {
        from,
        to,
        output,
        file,
    } = args;
    let config = file.load()?.config.data;
    let source = DataConfig {
        store: Some(from.clone()),
        accepts_old_formats: true,
        ..config.clone()
    }
    .resolved()?;
    let target = DataConfig {
        store: Some(to.clone()),
        ..config
    };
    if source.path()? == target.path()? {
        return Err(Failure::usage("--from and --to name the same directory"));
    }
    let summary = copy(&source, &target).await?;
    copy_key(&source, &target)?;
    report(&summary, &from, &to, output)
}

async fn copy(source: &DataConfig, target: &DataConfig) -> Result<Summary, Failure> {
    let opened = source.open_store()?;
    // Before the source is read whole, so that a target which cannot be written is told of at once.
    let target: Arc<dyn Store> = target.make_store()?;
    let entries = opened.entries();
    let mut progress = Progress::counting("entries", "checking the source", Some(entries));
    let checked = opened.check(&mut |entries, _| progress.advance(entries, entries));
    progress.end();
    checked.map_err(BackupError::from)?;
    let source: Arc<dyn Store> = opened;
    let mut progress = Progress::counting("entries", "reading the source", Some(entries));
    let expected = summarize(&source, |entries| progress.advance(entries, entries)).await;
    progress.end();
    let expected = expected?;

    let total = Some(expected.entries);
    let mut progress = Progress::counting("entries", "copying", total);
    let copied = copy_store(&source, &target, Some(expected.clone()), |entries| {
        progress.advance(entries, entries);
        Ok::<_, BackupError>(())
    });
    let copied = copied.await;
    progress.end();
    match copied {
        Ok(copied) if copied == expected => {}
        Ok(_) => return Err(Failure::new("the source changed while it was copied")),
        // A copy that was whole already, and interrupted before it was compared, is compared now.
        Err(BackupError::Restore(RestoreError::NotEmpty)) => {
            return match compare(&target, &expected, |_| {}).await {
                Ok(()) => Ok(expected),
                Err(BackupError::Differs { .. }) => {
                    Err(BackupError::from(RestoreError::NotEmpty).into())
                }
                Err(error) => Err(error.into()),
            };
        }
        Err(error) => return Err(error.into()),
    }

    let mut progress = Progress::counting("entries", "comparing", total);
    let compared = compare(&target, &expected, |entries| {
        progress.advance(entries, entries)
    })
    .await;
    progress.end();
    compared?;
    Ok(expected)
}

/// Copies the key beside the source, if there is one there and none beside the target.
fn copy_key(source: &DataConfig, target: &DataConfig) -> Result<(), Failure> {
    if source.sealing_key_file.is_some() {
        return Ok(());
    }
    let (from, to) = (
        sealing::default_path(&source.path()?),
        sealing::default_path(&target.path()?),
    );
    if let (Some(key), None) = (private_file::read(&from)?, private_file::read(&to)?) {
        private_file::create(&to, &key)?;
        eprintln!("copied the sealing key to {}", to.display());
    }
    Ok(())
}

fn report(
    summary: &Summary,
    from: &StoreAddress,
    to: &StoreAddress,
    output: OutputFormat,
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Report<'r> {
        from: String,
        to: String,
        entries: u64,
        sha256: &'r str,
    }

    let (entries, sha256) = (summary.entries, &*summary.sha256);
    match output {
        OutputFormat::Text => print(&format!(
            "{to}: {} entries from {from}, SHA-256 {sha256}\n",
            grouped(entries)
        )),
        OutputFormat::Json => print_json(&Report {
            from: from.to_string(),
            to: to.to_string(),
            entries,
            sha256,
        }),
    }
}
