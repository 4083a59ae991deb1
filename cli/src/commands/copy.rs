//! `knowledge copy`: the contents of one store into another, of any engine.

use knowledge_core::dump::{RestoreError, Summary};
use knowledge_server::backup::{BackupError, copy_store, is_copy, summarize};
use knowledge_server::data::{DataConfig, StableView};
use knowledge_server::private_file;
use knowledge_server::sealing;
use knowledge_server::store_address::StoreAddress;
use serde::Serialize;

use super::args::{OutputFormat, StoreParser, WithOutput};
use super::failure::Failure;
use super::restore::CopyProgress;
use super::settings::FileArgs;
use super::verify::check;
use crate::progress::{Progress, counted};

/// Copy a store into another one, of the same or another engine
///
/// Reads the whole source, writes the target, and reads it back: the number and the checksum of the
/// entries must match. An interrupted copy is resumed by running it again if the source has not
/// changed; until it is complete, no server opens the target. No server may use either store
/// meanwhile: directories are locked, and changes to a source database make the copy fail. The
/// sealing key beside the source is copied too, unless the target has one. A database has no key
/// beside it: its servers need that of the source, named by --sealing-key-file. Unlike in a
/// restored dump, the tokens, sessions and MCP keys stay valid.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Source: sled:DIR, fjall:DIR or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "STORE", value_parser = StoreParser)]
    from: StoreAddress,

    /// Target, new or empty: sled:DIR, fjall:DIR or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "STORE", value_parser = StoreParser)]
    to: StoreAddress,

    #[command(flatten)]
    file: WithOutput<FileArgs>,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let (from, to) = (args.from, args.to);
    let WithOutput { output, location } = args.file;
    let config = location.configure()?.data();
    let source = DataConfig {
        store: from.clone(),
        ..config.clone()
    }
    .resolved()?;
    let target = DataConfig {
        store: to.clone(),
        ..config
    };
    if is_same(&source, &target)? {
        return Err(Failure::usage("--from and --to name the same store"));
    }
    let summary = copy(&source, &target).await?;
    copy_key(&source, &target)?;
    report(&summary, &from, &to, output)
}

fn is_same(source: &DataConfig, target: &DataConfig) -> Result<bool, Failure> {
    Ok(match (&source.store, &target.store) {
        (StoreAddress::Postgres(source), StoreAddress::Postgres(target)) => source == target,
        (StoreAddress::Postgres(_), _) | (_, StoreAddress::Postgres(_)) => false,
        _ => source.path()? == target.path()?,
    })
}

async fn copy(source: &DataConfig, target: &DataConfig) -> Result<Summary, Failure> {
    let opened = source.open_backend().await?;
    // Created before the source is read, so that an unusable target is reported immediately.
    let target = target.make_backend().await?.store();
    let entries = opened.entries();
    check("checking the source", &opened).map_err(BackupError::from)?;
    let view = StableView::of(&opened).await.map_err(BackupError::from)?;
    let source = &view.store;
    let mut progress = Progress::over_entries("reading the source", entries);
    let expected = summarize(source, |entries| progress.advance(entries, entries)).await;
    progress.end();
    let expected = expected?;
    let begun = Progress::over_entries("copying", Some(expected.entries));
    let mut progress = CopyProgress::begin(begun, Some(expected.entries));
    let copied = copy_store(source, &target, Some(expected.clone()), |phase, entries| {
        progress.advance(phase, entries, entries);
        Ok::<_, BackupError>(())
    });
    let copied = copied.await;
    progress.end();
    match copied {
        Ok(copied) if copied == expected => {}
        Ok(_) => return Err(Failure::new("the source changed while it was copied")),
        // The copy may have been complete when it was interrupted before the key was copied.
        Err(BackupError::Restore(error @ RestoreError::NotEmpty)) => {
            return if is_copy(&target, &expected).await? {
                Ok(expected)
            } else {
                Err(rejected(error))
            };
        }
        Err(BackupError::Restore(error)) => return Err(rejected(error)),
        Err(error) => return Err(error.into()),
    }
    if view.is_outdated().await.map_err(BackupError::from)? {
        Err(Failure::new(
            "a server has changed the source during the copy, which lacks the change; stop all \
             servers, empty the target and copy again",
        ))
    } else {
        Ok(expected)
    }
}

/// Returns the failure for a target that the copy cannot be written to.
fn rejected(error: RestoreError) -> Failure {
    Failure::new(match error {
        RestoreError::NotEmpty => {
            "the target is not empty, and is no copy of the source; copy into a new one".to_owned()
        }
        RestoreError::OtherDump => {
            "the target contains an interrupted copy of other contents: the source has changed \
             since, or is another one; empty the target and copy again"
                .to_owned()
        }
        RestoreError::Interfered => {
            "another process writes to the target during the copy".to_owned()
        }
        error => return BackupError::Restore(error).into(),
    })
}

/// Copies the key beside the source unless the target has one, or says which key it needs.
fn copy_key(source: &DataConfig, target: &DataConfig) -> Result<(), Failure> {
    if source.sealing_key_file.is_some() {
        return Ok(());
    }
    match (&source.store, &target.store) {
        (StoreAddress::Postgres(_), StoreAddress::Postgres(_)) => return Ok(()),
        (StoreAddress::Postgres(_), _) => {
            let to = sealing::default_path(&target.path()?);
            eprintln!(
                "serve {} with the sealing key file of the database: copy it to {}, or name it \
                 with --sealing-key-file",
                target.name(),
                to.display()
            );
            return Ok(());
        }
        (_, StoreAddress::Postgres(_)) => {
            let from = sealing::default_path(&source.path()?);
            eprintln!(
                "serve {} with the sealing key {}: copy the file to every server, and name it with \
                 --sealing-key-file",
                target.name(),
                from.display()
            );
            return Ok(());
        }
        _ => {}
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
    let counted = counted(entries, "entry", "entries");
    let text = format!("{to}: {counted} from {from}, SHA-256 {sha256}\n");
    let report = Report {
        from: from.to_string(),
        to: to.to_string(),
        entries,
        sha256,
    };
    output.print(&text, &report)
}
