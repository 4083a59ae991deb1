//! `[webhooks]`: deliveries of events.

use knowledge_core::limits::DELIVERY_RETENTION_MIN;

use super::RETENTION_MAX;
use crate::config::kind::{Count, List, Switch, Text, Time, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config};
use crate::http_client::read_roots;

/// Maximum of concurrent deliveries. Each has a connection, beside those of clients, and up to some
/// 400 KiB of memory.
const IN_FLIGHT_MAX: u64 = 1_024;
const CA_FILE: &str = "webhooks.ca_file";

pub(super) static SECTION: Section = Section {
    name: "webhooks",
    about: "Deliveries of events to webhooks and citation subscriptions",
    settings: &[
        Setting::new(
            "webhooks.deliver",
            &Switch(field!(webhooks.deliver)),
            "Send deliveries from this server; otherwise they wait in the store for another server \
             or the next start",
        ),
        Setting::new(
            "webhooks.in_flight_max",
            &Count {
                at: field!(webhooks.in_flight_max),
                unit: "deliveries",
                min: 1,
                max: IN_FLIGHT_MAX,
            },
            "Maximum of concurrent deliveries to all endpoints together; each has a connection and \
             up to 400 KiB of response headers",
        ),
        Setting::new(
            "webhooks.allow",
            &List(field!(webhooks.addresses.allow)),
            "Address ranges that deliveries may be sent to besides public addresses; anyone who \
             may register a webhook can reach them",
        ),
        Setting::new(
            "webhooks.allow_http",
            &Switch(field!(webhooks.addresses.allow_http)),
            "Allow deliveries over plain http",
        ),
        Setting::new(
            CA_FILE,
            &Text(field!(webhooks.ca_file)),
            "The CA certificates (PEM) for the hosts of webhooks; if unset, those of the operating \
             system",
        ),
        Setting::new(
            "webhooks.retention",
            &Time {
                at: field!(limits.delivery_retention),
                min: DELIVERY_RETENTION_MIN,
                max: RETENTION_MAX,
            },
            "Time for which an event and the results of its deliveries are kept",
        ),
    ],
    check: nothing,
    inspect,
};

fn inspect(config: &Config, check: &mut Check<'_>) {
    if let Some(path) = &config.webhooks.ca_file
        && let Err(problem) = read_roots(path)
    {
        let reason = format!("cannot be used: {}: {problem}", path.display());
        check.reject(CA_FILE, &[], &reason);
    }
}
