//! The dependencies compared with the RustSec database of advisories.
//!
//! The database is a git repository, not part of a package registry, and may therefore be out of
//! reach. The step is then skipped with a reason, and is not counted as passed.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::process::{Result, Skipped, read, run, succeeds};
use crate::tools::CARGO_DENY;

/// Variable with the directory of a git clone of the database, bare or not.
const DATABASE_VARIABLE: &str = "KNOWLEDGE_ADVISORY_DB";
/// Variable that makes the step fail if it would be skipped.
const REQUIRED_VARIABLE: &str = "KNOWLEDGE_ADVISORIES";
/// Value of [`REQUIRED_VARIABLE`] for that.
const REQUIRED: &str = "required";

/// Address of the database.
const DATABASE_URL: &str = "https://github.com/RustSec/advisory-db";
/// Branch of the database that has the published advisories.
const DATABASE_BRANCH: &str = "main";
/// Age in days from which a clone is too old to pass, and cargo-deny calls it stale.
const DATABASE_DAYS_MAX: u64 = 90;
const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Directory of the configuration and of cargo-deny's own clone.
const DIRECTORY: &str = "target/advisories";
/// Manifests whose lock files are checked.
const MANIFESTS: [&str; 3] = [
    "Cargo.toml",
    "fuzz/Cargo.toml",
    "xtask/public-api/Cargo.toml",
];

/// Checks the lock files against the database.
///
/// # Errors
/// If an advisory applies that `deny.toml` does not name; [`Skipped`] if none does, but the database
/// is out of reach or too old to say so.
pub(crate) fn check() -> Result {
    let skipped = match std::env::var_os(DATABASE_VARIABLE) {
        Some(clone) => check_with_clone(Path::new(&clone))?,
        None => check_with_fetched()?,
    };
    match skipped {
        None => Ok(()),
        Some(reason) => Err(unfinished(reason, std::env::var(REQUIRED_VARIABLE).ok())),
    }
}

/// Returns the error of a step that could not decide.
fn unfinished(reason: String, required: Option<String>) -> Box<dyn Error> {
    match required.as_deref() {
        Some(REQUIRED) => reason.into(),
        _ => Box::new(Skipped(reason)),
    }
}

/// Checks against the database at its address. Returns the reason if it is out of reach.
fn check_with_fetched() -> Result<Option<String>> {
    let mut list = Command::new("git");
    list.args(["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=20"])
        .args(["ls-remote", "--exit-code", DATABASE_URL, DATABASE_BRANCH])
        .env("GIT_TERMINAL_PROMPT", "0");
    if !succeeds(&mut list) {
        return Ok(Some(format!(
            "cannot reach {DATABASE_URL}; set {DATABASE_VARIABLE} to a clone of it"
        )));
    }
    deny(&[])?;
    Ok(None)
}

/// Checks against a clone of the database. Returns the reason if it is too old.
fn check_with_clone(clone: &Path) -> Result<Option<String>> {
    let clone = clone
        .canonicalize()
        .map_err(|error| format!("{DATABASE_VARIABLE}={}: {error}", clone.display()))?;
    let mut log = Command::new("git");
    log.arg("-C").arg(&clone);
    log.args(["log", "-1", "--format=%ct", DATABASE_BRANCH]);
    let committed_at: u64 = read(&mut log)?.parse()?;
    // Git reads the clone instead of the address, so that cargo-deny finds what it expects.
    let replaced = format!("url.file://{}.insteadOf", clone.display());
    deny(&[
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", &replaced),
        ("GIT_CONFIG_VALUE_0", DATABASE_URL),
    ])?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(stale(now.saturating_sub(committed_at) / SECONDS_PER_DAY))
}

/// Returns the reason to reject a database of this age, if it is too old.
fn stale(days: u64) -> Option<String> {
    (days > DATABASE_DAYS_MAX).then(|| {
        format!("nothing found, but the newest advisory of the clone is {days} days old; update it")
    })
}

fn deny(variables: &[(&str, &str)]) -> Result {
    let directory = std::env::current_dir()?.join(DIRECTORY);
    // A clone from elsewhere may be newer than the requested database.
    let database = directory.join("db");
    if database.exists() {
        fs::remove_dir_all(&database)?;
    }
    fs::create_dir_all(&database)?;
    let settings = directory.join("deny.toml");
    let configured = with_database(&fs::read_to_string("deny.toml")?, &database)?;
    fs::write(&settings, configured)?;
    for manifest in MANIFESTS {
        let mut check = CARGO_DENY.command()?;
        check
            .args(["--locked", "--manifest-path", manifest, "--config"])
            .arg(&settings)
            .args(["check", "advisories"])
            .envs(variables.iter().copied());
        run(&mut check)?;
    }
    Ok(())
}

/// Returns the configuration with the directory of cargo-deny's clone.
fn with_database(configuration: &str, database: &Path) -> Result<String> {
    let table = "[advisories]\n";
    if !configuration.contains(table) {
        return Err("deny.toml has no table [advisories]".into());
    }
    let path = format!("{table}db-path = '{}'\n", database.display());
    Ok(configuration.replacen(table, &path, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_step_is_skipped_unless_it_is_required() {
        let reason = || "out of reach".to_owned();
        let skips = |required: Option<&str>| {
            let error = unfinished(reason(), required.map(str::to_owned));
            assert_eq!(error.to_string(), reason());
            error.is::<Skipped>()
        };
        assert!(skips(None));
        assert!(skips(Some("")));
        assert!(!skips(Some(REQUIRED)));
    }

    #[test]
    fn old_database_does_not_suffice() {
        assert_eq!(stale(DATABASE_DAYS_MAX), None);
        let reason =
            "nothing found, but the newest advisory of the clone is 91 days old; update it";
        assert_eq!(stale(DATABASE_DAYS_MAX + 1).as_deref(), Some(reason));
    }

    #[test]
    fn configuration_gets_the_directory_of_the_database() {
        let configuration = "[bans]\n\n[advisories]\nyanked = \"deny\"\n";
        let changed = with_database(configuration, Path::new("/tmp/db")).unwrap();
        assert_eq!(
            changed,
            "[bans]\n\n[advisories]\ndb-path = '/tmp/db'\nyanked = \"deny\"\n"
        );
        assert!(with_database("[bans]\n", Path::new("/tmp/db")).is_err());
    }
}
