//! `[tls]`: the certificate of the server.

use std::time::Duration;

use super::{A_DAY, RETENTION_MAX, TIME_MIN};
use crate::config::kind::{Text, Time, field};
use crate::config::setting::{Section, Setting};
use crate::config::{Check, Config};
use crate::net::TlsError;

const CERTIFICATE: &str = "tls.certificate_file";
const KEY: &str = "tls.private_key_file";

pub(super) static SECTION: Section = Section {
    name: "tls",
    about: "The certificate of the server; without one it speaks plain HTTP",
    settings: &[
        Setting::new(
            CERTIFICATE,
            &Text(field!(tls.certificate_file)),
            "The certificate chain as PEM, the server's own certificate first",
        ),
        Setting::new(
            KEY,
            &Text(field!(tls.private_key_file)),
            "The private key of the first certificate as PEM, readable by its owner only",
        ),
        Setting::new(
            "tls.reload_interval",
            &Time {
                at: field!(tls.reload_interval),
                min: Duration::from_secs(1),
                max: A_DAY,
            },
            "Time between two checks of the files; changes apply to new connections; SIGHUP checks \
             immediately",
        ),
        Setting::new(
            "tls.handshake_timeout",
            &Time {
                at: field!(tls.handshake_timeout),
                min: TIME_MIN,
                max: A_DAY,
            },
            "Time for the handshake of a new connection; then it is closed",
        ),
        Setting::new(
            "tls.hsts_max_age",
            &Time {
                at: field!(tls.hsts_max_age),
                min: Duration::ZERO,
                max: RETENTION_MAX,
            },
            "Time for which browsers use the server by HTTPS only (Strict-Transport-Security); 0s \
             omits the header",
        ),
    ],
    check,
    inspect,
};

fn check(config: &Config, check: &mut Check<'_>) {
    match (&config.tls.certificate_file, &config.tls.private_key_file) {
        (Some(_), None) => check.reject(
            KEY,
            &[CERTIFICATE],
            "must be set if tls.certificate_file is",
        ),
        (None, Some(_)) => check.reject(
            CERTIFICATE,
            &[KEY],
            "must be set if tls.private_key_file is",
        ),
        _ => {}
    }
}

fn inspect(config: &Config, check: &mut Check<'_>) {
    let Some(tls) = config.tls.part() else {
        return;
    };
    match tls.check_files() {
        // Reported below, and possibly hidden here by a problem with the certificate.
        Ok(()) | Err(TlsError::KeyFile(_) | TlsError::Key { .. }) => {}
        Err(error) => check.reject(CERTIFICATE, &[], &format!("cannot be used: {error}")),
    }
    if let Err(error) = tls.check_private_key() {
        check.reject(KEY, &[], &format!("cannot be used: {error}"));
    }
}
