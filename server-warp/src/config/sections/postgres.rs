//! `[postgres]`: connections to the database of a store.

use std::time::Duration;

use super::A_DAY;
use crate::config::kind::{Count, Text, Time, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};
use crate::http_client::read_roots;
use crate::private_file::read_secret;

const PASSWORD_FILE: &str = "postgres.password_file";
const CA_FILE: &str = "postgres.ca_file";

/// Maximum number of connections of one kind.
const CONNECTIONS_MAX: u64 = 1_000;
/// Minimum of the time-outs: shorter ones would fail on a busy network.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);

pub(super) static SECTION: Section = Section {
    name: "postgres",
    about: "Connections to the PostgreSQL database that storage.store names",
    settings: &[
        Setting::new(
            PASSWORD_FILE,
            &Text(field!(data.postgres.password_file)),
            "The file with the password, readable by its owner only; if unset, the password in \
             storage.store",
        ),
        Setting::new(
            CA_FILE,
            &Text(field!(data.postgres.ca_file)),
            "The CA certificates (PEM) for the database server; if unset, those of the operating \
             system",
        ),
        Setting::new(
            "postgres.read_connections",
            &Count {
                at: field!(data.postgres.read_connections),
                unit: "connections",
                min: 1,
                max: CONNECTIONS_MAX,
            },
            "Connections that reads share",
        ),
        Setting::new(
            "postgres.write_connections",
            &Count {
                at: field!(data.postgres.write_connections),
                unit: "connections",
                min: 1,
                max: CONNECTIONS_MAX,
            },
            "Connections for commits, each for one group of commits at a time",
        ),
        Setting::new(
            "postgres.connect_timeout",
            &Time {
                at: field!(data.postgres.connect_timeout),
                min: TIMEOUT_MIN,
                max: A_DAY,
            },
            "Time for connecting to one host",
        ),
        Setting::new(
            "postgres.read_timeout",
            &Time {
                at: field!(data.postgres.read_timeout),
                min: TIMEOUT_MIN,
                max: A_DAY,
            },
            "Time for one read",
        ),
        Setting::new(
            "postgres.lock_timeout",
            &Time {
                at: field!(data.postgres.lock_timeout),
                min: TIMEOUT_MIN,
                max: A_DAY,
            },
            "Time for which a commit waits for others, before the request is answered with 503; also \
             the longest time for which a server that has stopped can hold others up",
        ),
        Setting::new(
            "postgres.write_timeout",
            &Time {
                at: field!(data.postgres.write_timeout),
                min: TIMEOUT_MIN,
                max: A_DAY,
            },
            "Time for one group of commits to become durable, on the synchronous standbys too; then \
             their outcome is unknown",
        ),
    ],
    check: nothing,
    inspect,
};

fn inspect(config: &Config, check: &mut Check<'_>) {
    let postgres = &config.data.postgres;
    if let Some(path) = &postgres.password_file
        && let Err(problem) = read_secret(path)
    {
        check.reject(PASSWORD_FILE, &[], &format!("cannot be used: {problem}"));
    }
    if let Some(path) = &postgres.ca_file
        && let Err(problem) = read_roots(path)
    {
        let path = path.display();
        check.reject(CA_FILE, &[], &format!("cannot be used: {path}: {problem}"));
    }
}
