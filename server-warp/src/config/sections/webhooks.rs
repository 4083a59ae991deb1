//! `[webhooks]`: how events leave.

use knowledge_core::limits::DELIVERY_RETENTION_MIN;

use super::RETENTION_MAX;
use crate::config::kind::{Count, List, Switch, Text, Time, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};
use crate::http_client::trusting;

/// The most deliveries at once: each has a connection, beside those of clients, and up to some 400 KiB of memory.
const IN_FLIGHT_MAX: u64 = 1_024;
const CA_FILE: &str = "webhooks.ca_file";

pub(super) static SECTION: Section = Section {
    name: "webhooks",
    about: "How events leave: the deliveries to webhooks and to those who subscribed to citations",
    settings: &[
        Setting::new(
            "webhooks.deliver",
            &Switch(field!(delivers)),
            "Whether this server sends deliveries; without it they wait in the store, for another server or the next start",
        ),
        Setting::new(
            "webhooks.in_flight_max",
            &Count {
                at: field!(deliveries_in_flight_max),
                unit: "deliveries",
                min: 1,
                max: IN_FLIGHT_MAX,
            },
            "Deliveries that are being sent at once, to all endpoints together; each has a connection, and its answer a header \
             of up to 400 KiB",
        ),
        Setting::new(
            "webhooks.allow",
            &List(field!(webhooks.addresses.allow)),
            "What deliveries may go to besides public addresses; whoever may register a webhook can reach it",
        ),
        Setting::new(
            "webhooks.allow_http",
            &Switch(field!(webhooks.addresses.allow_http)),
            "Whether deliveries may go over plain http too",
        ),
        Setting::new(
            CA_FILE,
            &Text(field!(webhooks.ca_file)),
            "The certificates (PEM) of the authorities that vouch for the hosts of webhooks; without it those that the \
             operating system trusts",
        ),
        Setting::new(
            "webhooks.retention",
            &Time {
                at: field!(limits.delivery_retention),
                min: DELIVERY_RETENTION_MIN,
                max: RETENTION_MAX,
            },
            "How long an event and what became of its deliveries is kept",
        ),
    ],
    check: nothing,
    inspect,
};

fn inspect(config: &Config, check: &mut Check<'_>) {
    if let Some(path) = &config.webhooks.ca_file
        && let Err(problem) = trusting(path)
    {
        let reason = format!("cannot be used: {}: {problem}", path.display());
        check.refuse(CA_FILE, &[], &reason);
    }
}
