//! Checks of the files that several settings name together, for `knowledge config check`.

use std::path::Path;

#[cfg(unix)]
use rustix::fs::Access;

use super::rules::{DATA_DIR, STORE};
use super::{Check, Config};
use crate::http_client::read_roots;
use crate::net::TlsError;

pub(super) fn tls(config: &Config, check: &mut Check<'_>) {
    let tls = &config.net.tls;
    match tls.check_files() {
        // Reported below, and possibly hidden here by a problem with the certificate.
        Ok(()) | Err(TlsError::KeyFile(_) | TlsError::Key { .. }) => {}
        Err(error) => {
            let reason = format!("cannot be used: {error}");
            check.reject("tls.certificate_file", &[], &reason);
        }
    }
    if let Err(error) = tls.check_private_key() {
        let reason = format!("cannot be used: {error}");
        check.reject("tls.private_key_file", &[], &reason);
    }
}

pub(super) fn storage(config: &Config, check: &mut Check<'_>) {
    let data = config.data();
    if data.store.is_shared() && data.sealing_key_file.is_none() {
        let reason = "must be set if storage.store is a PostgreSQL database";
        check.reject("storage.sealing_key_file", &[STORE], reason);
    }
    if let Some(reason) = data.directory().and_then(obstacle) {
        check.reject(DATA_DIR, &[], &reason);
    }
}

/// Returns the reason why a directory can be neither used nor created, if there is one.
fn obstacle(directory: &Path) -> Option<String> {
    let ancestors = directory.ancestors().map(|path| {
        let is_current = path.as_os_str().is_empty();
        if is_current { Path::new(".") } else { path }
    });
    let mut existing = ancestors.filter(|path| path.symlink_metadata().is_ok());
    let existing = existing.next()?;
    if !existing.is_dir() {
        let reason = format!("must be a directory; {} is not", existing.display());
        return Some(reason);
    }
    #[cfg(unix)]
    if let Err(error) = rustix::fs::access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        return Some(format!("cannot be used: {}: {error}", existing.display()));
    }
    None
}

pub(super) fn telemetry(config: &Config, check: &mut Check<'_>) {
    let telemetry = &config.telemetry;
    let endpoint = telemetry.otlp_endpoint.as_ref().map(ToString::to_string);
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("https:"))
        && let Err(problem) = read_roots(&telemetry.otlp_ca_file)
    {
        let reason = format!("cannot be used: {problem}");
        check.reject(
            "telemetry.otlp_ca_file",
            &["telemetry.otlp_endpoint"],
            &reason,
        );
    }
}
