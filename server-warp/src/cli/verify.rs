//! `knowledge verify`: every counter, every index and every reference of a directory or of a dump.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::service::{SealingKey, Verification, Verify};
use knowledge_core::store::Store;
use knowledge_core::store::StoreErrorKind;
use knowledge_storage_embedded::{Embedded, OpenError};
use serde_json::{Value, json};

use super::args::OutputFormat;
use super::failure::Failure;
use super::output::{print, print_json};
use super::restore::{check_file, restore_shown};
use super::settings::DataArgs;
use super::tenant::quiet_log;
use crate::backup::DumpLines;
use crate::data::{DataConfig, DataError};
use crate::progress::{Progress, grouped};
use crate::sealing;
use crate::system::system_env;

/// Compare every counter with a recount, every index with its records, and try every reference and secret
///
/// Reads the directory, which no server may have open meanwhile; with --dump a dump, so that the backup of a running server
/// is verified. A dump is restored into a scratch directory for it, which needs up to five times the room of the file. Nothing
/// is changed. Sealed secrets are opened where the sealing key is there.
///
/// Exit codes: 0 where everything is as it should be; 1 where something is not, which the report then names; 2 where it
/// could not be looked at.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Verify this dump instead of the directory
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,

    /// Where the scratch directory for a dump is made; without it where the system has its temporary files
    #[arg(long, value_name = "DIR", requires = "dump")]
    scratch: Option<PathBuf>,

    /// What the report looks like
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    data: DataArgs,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    quiet_log()?;
    let output = args.output;
    let found = match args.dump {
        Some(file) => of_dump(&file, args.scratch, args.data).await?,
        None => {
            let config = args.data.load()?.config.data;
            let store = config.open_store().map_err(damaged_or_not_verified)?;
            check_entries(&*store)?;
            let (key, entries) = (key_of(&config)?, store.stats().entries);
            of_store(store, key.as_ref(), entries).await?
        }
    };
    match output {
        OutputFormat::Text => print(&text(&found))?,
        OutputFormat::Json => print_json(&report(&found))?,
    }
    match found.differences_total {
        0 => Ok(()),
        1 => Err(Failure::new("1 difference")),
        many => Err(Failure::new(format!("{} differences", grouped(many)))),
    }
}

/// Nothing can be said: exit code 2, where differences are 1.
fn not_verified(error: impl ToString) -> Failure {
    Failure::usage(error.to_string())
}

/// A store that is too damaged to be opened is not as it should be.
fn damaged_or_not_verified(error: DataError) -> Failure {
    match error {
        DataError::Store(OpenError::Corrupt { .. }) => error.into(),
        DataError::Store(OpenError::InUse { .. }) => not_verified(format!(
            "{error}: to verify what a server has, `knowledge backup FILE`, then `knowledge verify --dump FILE`"
        )),
        error => not_verified(error),
    }
}

/// The key, where there is one: without it everything else is verified.
fn key_of(config: &DataConfig) -> Result<Option<SealingKey>, Failure> {
    let path = config.sealing_key_path().map_err(not_verified)?;
    if config.sealing_key_file.is_none() && !path.exists() {
        return Ok(None);
    }
    sealing::read(&path).map(Some).map_err(not_verified)
}

/// Compares the entries with the store's own account of them: damage is a difference, too.
fn check_entries(store: &dyn Embedded) -> Result<(), Failure> {
    let mut progress = Progress::counting("entries", "checking", Some(store.stats().entries));
    let checked = store.check(&mut |entries, _| {
        progress.advance(entries, entries);
    });
    progress.end();
    checked.map_err(|error| match error.kind() {
        StoreErrorKind::Corrupt => Failure::new(format!("the store is damaged: {error}")),
        _ => not_verified(error),
    })
}

async fn of_store(
    store: Arc<dyn Store>,
    key: Option<&SealingKey>,
    total: u64,
) -> Result<Verification, Failure> {
    let mut verify = Verify::begin(store, key).await.map_err(not_verified)?;
    let mut progress = Progress::counting("entries", "verifying", Some(total));
    while verify.read().await.map_err(not_verified)? {
        progress.advance(verify.entries(), verify.entries());
    }
    progress.advance(verify.entries(), verify.entries());
    progress.end();
    Ok(verify.finish())
}

/// Verifies what a dump restores to.
async fn of_dump(
    file: &Path,
    scratch: Option<PathBuf>,
    data: DataArgs,
) -> Result<Verification, Failure> {
    let config = data.load()?.config.data;
    let key = key_of(&config)?;
    // Whether it can be read at all, before a dump that is not whole counts as a difference.
    DumpLines::open(file).map_err(not_verified)?;
    let summary = check_file(file)?.summary;
    let scratch = Scratch::make(scratch.unwrap_or_else(std::env::temp_dir))?;
    let config = DataConfig {
        store: None,
        directory: scratch.0.join("store"),
        ..config
    };
    let store: Arc<dyn Store> = config.make_store().map_err(not_verified)?;
    let entries = summary.entries;
    let lines = DumpLines::open(file).map_err(not_verified)?;
    let restored = restore_shown(lines, &store, Some(summary)).await;
    restored.map_err(not_verified)?;
    of_store(store, key.as_ref(), entries).await
}

/// A directory for its owner alone, which goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn make(within: PathBuf) -> Result<Self, Failure> {
        let path = within.join(format!("knowledge-verify-{}", system_env().uuid()));
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let made = builder.create(&path);
        made.map_err(|error| not_verified(format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{} is left behind: {error}", self.0.display());
        }
    }
}

fn text(found: &Verification) -> String {
    let mut text = String::new();
    for difference in &found.differences {
        text.push_str(&format!("{difference}\n"));
    }
    let kept = found.differences.len() as u64;
    if found.differences_total > kept {
        let more = grouped(found.differences_total - kept);
        text.push_str(&format!("and {more} more\n"));
    }
    let secrets = match found.secrets {
        Some(secrets) => format!("{} secrets opened", grouped(secrets)),
        None => "no secrets opened, as there is no sealing key".to_owned(),
    };
    let (entries, differences) = (grouped(found.entries), grouped(found.differences_total));
    text.push_str(&format!(
        "{entries} entries, {secrets}, {differences} differences\n"
    ));
    text
}

fn report(found: &Verification) -> Value {
    let differences = found.differences.iter().map(|difference| {
        json!({
            "code": difference.code.as_str(),
            "key": difference.key.to_string(),
            "because": difference.because.as_ref().map(ToString::to_string),
            "expected": difference.expected,
            "found": difference.found,
        })
    });
    json!({
        "entries": found.entries,
        "secrets_opened": found.secrets,
        "differences_total": found.differences_total,
        "differences": differences.collect::<Vec<_>>(),
    })
}
