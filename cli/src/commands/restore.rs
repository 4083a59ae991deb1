//! `knowledge restore`: a dump into an empty directory or database.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::dump::{CredentialPolicy, Header, RestoreReport, RevokedCredentials, Summary};
use knowledge_core::store::Store;
use knowledge_server::backup::{CheckedDump, DumpLines, check, compare, restore};
use knowledge_server::data::{DataConfig, DataError};
use knowledge_server::sealing;
use serde::Serialize;

use super::args::{OutputFormat, WithOutput};
use super::failure::Failure;
use super::settings::DataArgs;
use crate::progress::{Progress, counted};

/// Restore a dump into an empty directory or database
///
/// The whole dump is verified before anything is written. An interrupted restore is resumed by
/// running it again with the same file; until it is complete, no server opens the store.
/// Finally the store is read back and compared with the dump.
///
/// A dump may have credentials that were revoked since. Therefore none is restored: tokens,
/// sessions, login links and MCP keys are dropped, and the secrets of inbound webhooks are revoked
/// until they are rotated. Outbound webhooks and citation subscriptions that were created with a
/// scoped token deliver nothing until their secrets are rotated. The members and everything
/// else are restored; `knowledge token create` issues new tokens, and with `knowledge login-link`
/// members sign in again. To move a live store, use `knowledge copy`, which keeps the credentials.
///
/// A dump does not contain the sealing key: before serving, put the key file that its secrets are
/// sealed with beside the directory, or name it with --sealing-key-file, which a database requires.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Dump file, or - for standard input, from which a restore cannot be resumed
    file: PathBuf,

    /// Restore the credentials too, which revives those that were revoked since the dump
    #[arg(long)]
    keep_credentials: bool,

    #[command(flatten)]
    data: WithOutput<DataArgs>,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let WithOutput { output, location } = args.data;
    let config = location.configure()?.data();
    let is_stream = args.file.as_os_str() == "-";
    let (lines, expected) = if is_stream {
        (DumpLines::of(io::stdin(), "standard input"), None)
    } else {
        let expected = check_file(&args.file)?.summary;
        (DumpLines::open(&args.file)?, Some(expected))
    };
    let policy = if args.keep_credentials {
        CredentialPolicy::Keep
    } else {
        CredentialPolicy::Revoke
    };
    let store = config.make_backend().await?.store();
    let (header, restored) = restore_shown(lines, &store, expected, policy).await?;
    compare_shown(&store, &restored.store).await?;
    drop(store);
    if let Some(fingerprint) = header.and_then(|header| header.sealing_key) {
        print_missing_key(&config, &fingerprint)?;
    }
    print_revoked(&restored.revoked);
    report(&restored, &config.name(), output)
}

fn report(restored: &RestoreReport, store: &str, output: OutputFormat) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Report<'r> {
        directory: &'r str,
        entries: u64,
        sha256: &'r str,
        revoked: RevokedCredentials,
    }

    let (entries, sha256) = (restored.store.entries, &*restored.store.sha256);
    let report = Report {
        directory: store,
        entries,
        sha256,
        revoked: restored.revoked,
    };
    let counted = counted(entries, "entry", "entries");
    output.print(&format!("{store}: {counted}, SHA-256 {sha256}\n"), &report)
}

/// Prints which credentials are gone, and how to replace them.
fn print_revoked(revoked: &RevokedCredentials) {
    let dropped = [
        (revoked.tokens, "token", "tokens"),
        (revoked.sessions, "session", "sessions"),
        (revoked.mcp_keys, "MCP key", "MCP keys"),
    ];
    let rejecting = [(
        revoked.inbound_webhooks,
        "inbound webhook",
        "inbound webhooks",
    )];
    let stopped = [
        (revoked.webhooks, "webhook", "webhooks"),
        (
            revoked.subscriptions,
            "citation subscription",
            "citation subscriptions",
        ),
    ];
    if let Some(dropped) = listed(&dropped) {
        eprintln!(
            "not restored: {dropped}; issue a new token with `knowledge token create --member \
             HANDLE`, or a login link with `knowledge login-link HANDLE`"
        );
    }
    if let Some(rejecting) = listed(&rejecting) {
        eprintln!("rejecting messages until the secret is rotated: {rejecting}");
    }
    if let Some(stopped) = listed(&stopped) {
        eprintln!("delivering nothing until the secret is rotated with a new token: {stopped}");
    }
}

/// Returns the numbers that are not zero, as a list for people.
fn listed(numbers: &[(u64, &str, &str)]) -> Option<String> {
    let numbers = numbers.iter().filter(|(number, ..)| *number > 0);
    let shown = numbers.map(|(number, one, many)| counted(*number, one, many));
    let shown: Vec<_> = shown.collect();
    (!shown.is_empty()).then(|| shown.join(", "))
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
    policy: CredentialPolicy,
) -> Result<(Option<Header>, RestoreReport), Failure> {
    let mut progress = Progress::over_entries("restoring", lines.length());
    let restored = restore(lines, store, expected, policy, |bytes, entries| {
        progress.advance(bytes, entries);
    });
    let restored = restored.await;
    progress.end();
    Ok(restored?)
}

/// Reads a store back, compares it with its dump and shows the progress.
pub(super) async fn compare_shown(
    store: &Arc<dyn Store>,
    summary: &Summary,
) -> Result<(), Failure> {
    let mut progress = Progress::over_entries("comparing", Some(summary.entries));
    let compared = compare(store, summary, |entries| progress.advance(entries, entries)).await;
    progress.end();
    Ok(compared?)
}

/// Prints the fingerprint of the required sealing key unless the key is in place.
fn print_missing_key(config: &DataConfig, fingerprint: &str) -> Result<(), Failure> {
    let path = match config.sealing_key_path() {
        Ok(path) => path,
        Err(DataError::KeyFileUnset { .. }) => {
            eprintln!(
                "the secrets are sealed with the key of fingerprint {fingerprint}; serve the store \
                 with that key (--sealing-key-file)"
            );
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let found = sealing::read(&path).map(|key| key.fingerprint());
    if found.as_ref().is_ok_and(|found| found == fingerprint) {
        return Ok(());
    }
    let problem = match found {
        Ok(other) => format!("the key there has the fingerprint {other}"),
        Err(error) => error.to_string(),
    };
    eprintln!(
        "the secrets are sealed with the key of fingerprint {fingerprint}; put it into {} before \
         the store is served ({problem})",
        path.display()
    );
    Ok(())
}
