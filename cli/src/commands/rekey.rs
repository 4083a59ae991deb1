//! `knowledge rekey`: replacement of the sealing key.

use std::path::PathBuf;
use std::sync::Arc;

use knowledge_core::env::Env;
use knowledge_core::partition::{Directory, HOME, identity};
use knowledge_core::service::{OpenError, Rekey, SealingKey, SealingKeys};
use knowledge_core::store::Store;
use knowledge_server::data::{DataConfig, DataError};
use knowledge_server::sealing::{self, KeyFileError, KeyFiles};
use serde_json::json;

use super::args::WithOutput;
use super::confirm::confirm;
use super::failure::Failure;
use super::settings::DataArgs;
use crate::progress::counted;

/// Replace the sealing key and reseal every signing secret with the new one
///
/// Generates a new key, or takes the one in --new-key-file, and writes it to the sealing key file.
/// The old key is kept beside it, in FILE.FINGERPRINT: dumps made before need it. Signing secrets
/// stay the same, so no receiver is affected. No server may use the store meanwhile. The lock of a
/// directory ensures that; for a database, the command asks whether its servers are stopped. If the
/// command is interrupted, no server starts until it has been repeated.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File with the new key: 32 bytes in base64 or hexadecimal
    #[arg(long, value_name = "FILE")]
    new_key_file: Option<PathBuf>,

    /// Confirm that all servers of the database are stopped
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    data: WithOutput<DataArgs>,
}

/// Returns true if a store is a partition other than home, or has a directory of such.
async fn has_partitions(store: &Arc<dyn Store>) -> Result<bool, DataError> {
    let identity = identity::read(&**store).await?;
    let directory = Directory::new(Arc::clone(store));
    Ok(identity.is_some_and(|found| found.name != HOME)
        || !directory.placements().await?.is_empty())
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let WithOutput { output, location } = args.data;
    let config = location.configure()?.data();
    let given = args.new_key_file.as_deref().map(sealing::read);
    let given = given.transpose()?;
    if config.store.is_shared() {
        // A server that still has the old key would seal secrets that nobody can open.
        let question = format!("Are all servers of {} stopped?", config.name());
        confirm(
            args.yes,
            &question,
            "stop all servers, and pass --yes to confirm",
        )?;
    }
    let store = config.open_backend().await?.store();
    if !config.partitions.is_empty() || has_partitions(&store).await? {
        // All have one key, and the others would be left with the old one.
        return Err(Failure::new(
            "the sealing key of several partitions cannot be replaced; move all organisations \
             home, and remove storage.partitions",
        ));
    }
    let files = KeyFiles::of(config.sealing_key_path()?);
    let env = Env::system();
    let of_service = |source| DataError::Service {
        store: config.name(),
        source,
    };
    let (old, new) = keys(&config, &store, &files, given, &env).await?;
    let begun = Rekey::begin(store, env, &old, &new).await;
    let mut rekey = begun.map_err(of_service)?;
    while rekey.step().await.map_err(of_service)? {}
    // Before the last commit: as long as the files are not in place, no server starts.
    if old != new {
        files.switch(&old, &new)?;
    }
    let report = rekey.finish().await.map_err(of_service)?;
    if report.damaged > 0 {
        let damaged = counted(report.damaged, "secret is", "secrets are");
        eprintln!("{damaged} damaged and unchanged; `knowledge verify` lists them");
    }
    let (present, former) = (&files.present, files.former(&old.fingerprint()));
    let resealed = report.resealed + report.resealed_before;
    let done = if old == new {
        "sealed with this key already; nothing to do".to_owned()
    } else {
        format!(
            "{} resealed; the new key is {}, the old one {}",
            counted(resealed, "secret", "secrets"),
            present.display(),
            former.display(),
        )
    };
    let report = json!({
        "directory": config.name(),
        "secrets_resealed": resealed,
        "secrets_damaged": report.damaged,
        "sealing_key": new.fingerprint(),
        "sealing_key_file": present,
        "old_sealing_key": old.fingerprint(),
        "old_sealing_key_file": (old != new).then_some(former),
    });
    output.print(&format!("{}: {done}\n", config.name()), &report)
}

/// Returns the old and the new key, both from an unfinished replacement if there is one.
async fn keys(
    config: &DataConfig,
    store: &Arc<dyn Store>,
    files: &KeyFiles,
    given: Option<SealingKey>,
    env: &Env,
) -> Result<(SealingKey, SealingKey), Failure> {
    let stored = SealingKeys::of(&**store).await.map_err(DataError::from)?;
    let next = stored.as_ref().and_then(|stored| stored.next.as_ref());
    let (Some(stored), Some(next)) = (&stored, next) else {
        let old = sealing::read(&files.present)?;
        if let Some(stored) = stored.filter(|stored| stored.present != old.fingerprint()) {
            return Err(Failure::from(DataError::Service {
                store: config.name(),
                source: OpenError::OtherSealingKey {
                    given: old.fingerprint(),
                    stored: stored.present,
                },
            }));
        }
        if given.as_ref() == Some(&old) {
            return Ok((old.clone(), old));
        }
        let new = files.prepare(given, env)?;
        return Ok((old, new));
    };
    let missing = |fingerprint: &str| {
        Failure::new(format!(
            "the replacement of the sealing key {} by {next} is unfinished, and the key \
             {fingerprint} is missing; put it into {} and repeat the command",
            stored.present,
            files.former(fingerprint).display()
        ))
    };
    let old = files.find(&stored.present)?;
    let old = old.ok_or_else(|| missing(&stored.present))?;
    let new = match given {
        Some(given) if given.fingerprint() != *next => {
            return Err(Failure::new(format!(
                "the replacement of the sealing key {} by {next} is unfinished; complete it first, \
                 without --new-key-file",
                stored.present
            )));
        }
        Some(given) => given,
        None => files.find(next)?.ok_or_else(|| missing(next))?,
    };
    Ok((old, new))
}

impl From<KeyFileError> for Failure {
    fn from(error: KeyFileError) -> Self {
        DataError::Key(error).into()
    }
}
