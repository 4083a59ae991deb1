//! `knowledge verify`: consistency check of a directory or a dump.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::dump::CredentialPolicy;
use knowledge_core::env::Env;
use knowledge_core::model::OrgId;
use knowledge_core::partition;
use knowledge_core::service::{SealingKey, SealingKeys, Verification, Verify};
use knowledge_core::store::{Store, StoreError, StoreErrorKind};
use knowledge_server::backup::DumpLines;
use knowledge_server::data::{Backend, DataConfig, DataError, StableView};
use knowledge_server::sealing::{self, KeyFiles};
use knowledge_server::store_address::StoreAddress;
use knowledge_storage_embedded::OpenError;
use serde_json::{Value, json};

use super::args::WithOutput;
use super::failure::Failure;
use super::restore::{check_file, restore_shown};
use super::settings::DataArgs;
use crate::progress::{Progress, counted, grouped};

/// Verify every counter, index, reference and secret of a store or a dump
///
/// Reads the data directory, which no server may hold; to verify the data of a running server,
/// make a backup and pass it with --dump. A database is read as of one point in time, while
/// servers may use it. A dump is restored into a scratch directory, which needs up to five
/// times the size of the file. Nothing is changed. Sealed secrets are opened if the sealing key
/// is available.
///
/// The stores of an organisation that is being moved differ until the move is complete; such
/// organisations are named.
///
/// Exit codes: 0 if the data is consistent; 1 if there are differences, which are listed, or if the
/// store or the dump is damaged; 2 if it was not verified, as there is no store, a server has it
/// open, or the disk is full.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Verify this dump instead of the data directory
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,

    /// Verify this partition of storage.partitions instead of the store in storage.store
    #[arg(long, value_name = "NAME", conflicts_with = "dump")]
    partition: Option<String>,

    /// Parent of the scratch directory for a dump; defaults to the system's temporary directory
    #[arg(long, value_name = "DIR", requires = "dump")]
    scratch: Option<PathBuf>,

    #[command(flatten)]
    data: WithOutput<DataArgs>,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let WithOutput { output, location } = args.data;
    let mut config = location.configure()?.data();
    let found = match args.dump {
        Some(file) => of_dump(&file, args.scratch, &config).await?,
        None => {
            if let Some(name) = &args.partition {
                config = config.partition(name).map_err(not_verified)?;
            }
            let store = config.open_backend().await;
            let store = store.map_err(|error| damaged_or_not_verified(error, &args.partition))?;
            check_entries(&store)?;
            let entries = store.entries();
            let view = StableView::of(&store).await.map_err(not_verified)?;
            of_store(view.store, &config, entries).await?
        }
    };
    output.print(&text(&found), &report(&found))?;
    match found.verification.differences_total {
        0 => Ok(()),
        number => Err(Failure::new(counted(number, "difference", "differences"))),
    }
}

/// Returns a failure with exit code 2, unlike differences, which are 1.
fn not_verified(error: impl ToString) -> Failure {
    Failure::usage(error.to_string())
}

/// Maps the error of opening a store: a corrupt store counts as different.
fn damaged_or_not_verified(error: DataError, partition: &Option<String>) -> Failure {
    let option = match partition {
        Some(name) => format!(" --partition {name}"),
        None => String::new(),
    };
    match error {
        DataError::Store(OpenError::Corrupt { .. }) => error.into(),
        DataError::Store(OpenError::InUse { .. }) => not_verified(format!(
            "{error}; to verify the data of a running server, run `knowledge backup FILE{option}`, \
             then `knowledge verify --dump FILE`"
        )),
        error => not_verified(error),
    }
}

/// Returns the keys of the store, if there are any: without them everything else is verified.
async fn keys_of(config: &DataConfig, store: &dyn Store) -> Result<Vec<SealingKey>, Failure> {
    let path = match config.sealing_key_path() {
        Err(DataError::KeyFileUnset { .. }) => return Ok(Vec::new()),
        path => path.map_err(not_verified)?,
    };
    if config.sealing_key_file.is_none() && !path.exists() {
        return Ok(Vec::new());
    }
    let present = sealing::read(&path).map_err(not_verified)?;
    let files = KeyFiles::of(path);
    // An unreadable record is a difference.
    let stored = SealingKeys::of(store).await.ok().flatten();
    let stored = stored.map(|stored| [Some(stored.present), stored.next]);
    let mut keys = Vec::new();
    for fingerprint in stored.into_iter().flatten().flatten() {
        keys.extend(files.find(&fingerprint).map_err(not_verified)?);
    }
    if keys.is_empty() {
        keys.push(present);
    }
    Ok(keys)
}

/// Compares the entries with the store's ledger; damage counts as a difference.
fn check_entries(store: &Backend) -> Result<(), Failure> {
    check("checking", store).map_err(|error| match error.kind() {
        StoreErrorKind::Corrupt => Failure::new(format!("the store is corrupt: {error}")),
        _ => not_verified(error),
    })
}

/// Compares the entries with the store's ledger, and shows the progress.
pub(super) fn check(what: &'static str, store: &Backend) -> Result<(), StoreError> {
    let mut progress = Progress::over_entries(what, store.entries());
    let checked = store.check(&mut |entries, _| progress.advance(entries, entries));
    progress.end();
    checked
}

/// Result for a store.
struct Found {
    verification: Verification,
    /// Organisations of which the store may have a part only.
    moving: Vec<OrgId>,
}

async fn of_store(
    store: Arc<dyn Store>,
    config: &DataConfig,
    total: Option<u64>,
) -> Result<Found, Failure> {
    let keys = keys_of(config, &*store).await?;
    let moving = partition::moving(&*store).await.map_err(not_verified)?;
    let mut verify = Verify::begin(store, &keys).await.map_err(not_verified)?;
    let mut progress = Progress::over_entries("verifying", total);
    while verify.read().await.map_err(not_verified)? {
        progress.advance(verify.entries(), verify.entries());
    }
    progress.advance(verify.entries(), verify.entries());
    progress.end();
    Ok(Found {
        verification: verify.finish(),
        moving,
    })
}

/// Verifies the store that a dump restores to.
async fn of_dump(
    file: &Path,
    scratch: Option<PathBuf>,
    config: &DataConfig,
) -> Result<Found, Failure> {
    // A file that cannot be read is no difference, unlike an incomplete dump.
    DumpLines::open(file).map_err(not_verified)?;
    let summary = check_file(file)?.summary;
    let scratch = Scratch::create(scratch.unwrap_or_else(std::env::temp_dir))?;
    let restored_to = DataConfig {
        store: StoreAddress::in_directory(scratch.0.join("store")),
        ..config.clone()
    };
    let store: Arc<dyn Store> = restored_to.make_store().map_err(not_verified)?;
    let entries = Some(summary.entries);
    let lines = DumpLines::open(file).map_err(not_verified)?;
    // What is verified is the dump itself.
    let policy = CredentialPolicy::Keep;
    let restored = restore_shown(lines, &store, Some(summary), policy).await;
    restored.map_err(not_verified)?;
    of_store(store, config, entries).await
}

/// Private directory that is removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn create(within: PathBuf) -> Result<Self, Failure> {
        let path = within.join(format!("knowledge-verify-{}", Env::system().uuid()));
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let created = builder.create(&path);
        created.map_err(|error| not_verified(format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

fn text(found: &Found) -> String {
    let (found, moving) = (&found.verification, &found.moving);
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
        Some(secrets) => format!("{} opened", counted(secrets, "secret", "secrets")),
        None => "no secrets opened (no sealing key)".to_owned(),
    };
    let entries = counted(found.entries, "entry", "entries");
    let differences = counted(found.differences_total, "difference", "differences");
    text.push_str(&format!("{entries}, {secrets}, {differences}\n"));
    for org in moving {
        text.push_str(&format!(
            "the organisation {org} is being moved, and differs until `knowledge org move` has \
             completed it\n"
        ));
    }
    text
}

fn report(found: &Found) -> Value {
    let (found, moving) = (&found.verification, &found.moving);
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
        "moving": moving,
    })
}
