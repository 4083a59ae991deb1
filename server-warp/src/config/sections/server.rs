//! `[server]`: the HTTP server.

use std::time::Duration;

use super::{A_DAY, COUNT_MAX, HELD_BYTES_MAX, SIZE_MAX, TIME_MIN};
use crate::config::kind::{Bytes, Count, Ratio, Text, Time, field};
use crate::config::setting::{Section, Setting, nothing};
use crate::config::{Check, Config, format_size};
use crate::net::NetConfig;

pub(super) static SECTION: Section = Section {
    name: "server",
    about: "The HTTP server",
    settings: &[
        Setting::new(
            "server.listen",
            &Text(field!(net.address)),
            "The address to listen on; port 0 selects a free port",
        )
        .flag("listen"),
        Setting::new(
            "server.public_url",
            &Text(field!(public_url)),
            "The base URL under which clients reach this server, used in the URLs of inbound \
             webhooks; if unset these are paths",
        )
        .flag("public-url"),
        Setting::new(
            "server.accept_backlog",
            &Count {
                at: field!(net.accept_backlog),
                unit: "connections",
                min: 1,
                max: COUNT_MAX,
            },
            "Connections that the kernel holds until the server accepts them; the kernel may have \
             a lower limit",
        ),
        Setting::new(
            "server.connections_max",
            &Count {
                at: field!(net.connections_max),
                unit: "connections",
                min: 1,
                max: COUNT_MAX,
            },
            "Maximum number of open connections, fewer if the process may open fewer files; \
             further clients wait",
        )
        .flag("max-connections"),
        Setting::new(
            "server.connections_per_client_ratio",
            &Ratio(field!(net.connections_per_client_ratio)),
            "The fraction of the connections that one client address may hold (IPv6: the first 64 \
             bits); further ones are closed at once; trusted proxies may hold all",
        ),
        Setting::new(
            "server.requests_in_work_max",
            &Count {
                at: field!(net.requests_in_work_max),
                unit: "requests",
                min: 1,
                max: COUNT_MAX,
            },
            "Maximum number of requests in flight, of one organisation at most as many as are \
             free; further ones are rejected with 503",
        )
        .flag("max-requests"),
        Setting::new(
            "server.body_bytes_in_work_max",
            &Bytes {
                at: field!(net.body_bytes_in_work_max),
                min: 1,
                max: HELD_BYTES_MAX,
            },
            "Bytes of request bodies of one organisation that are handled at once, not counting \
             the first 4 KiB of each; further requests wait for their turn",
        ),
        Setting::new(
            "server.header_read_timeout",
            &Time {
                at: field!(net.header_read_timeout),
                min: TIME_MIN,
                max: A_DAY,
            },
            "Time for the header of a request to arrive, and the longest time a connection may be \
             idle",
        ),
        Setting::new(
            "server.header_bytes_max",
            &Bytes {
                at: field!(net.header_bytes_max),
                min: 1,
                max: HELD_BYTES_MAX,
            },
            "First line and header of a request together; a longer one is rejected with 431",
        ),
        Setting::new(
            "server.body_read_timeout",
            &Time {
                at: field!(net.body_read_timeout),
                min: TIME_MIN,
                max: A_DAY,
            },
            "Time for the body of a request to arrive, from the end of its header",
        ),
        Setting::new(
            "server.body_bytes_held_max",
            &Bytes {
                at: field!(net.body_bytes_held_max),
                min: 1,
                max: SIZE_MAX,
            },
            "Memory for bodies that are being read, not counting the first 16 KiB of each; further \
             ones are rejected with 503",
        ),
        Setting::new(
            "server.request_timeout",
            &Time {
                at: field!(net.request_timeout),
                min: TIME_MIN,
                max: A_DAY,
            },
            "Time for a request, from the end of its header to its response; then it is rejected \
             with 503",
        )
        .flag("request-timeout"),
        Setting::new(
            "server.write_stall_timeout",
            &Time {
                at: field!(net.write_stall_timeout),
                min: TIME_MIN,
                max: A_DAY,
            },
            "Time in which the client must accept at least one byte of its response; then the \
             connection is closed",
        ),
        Setting::new(
            "server.linger_timeout",
            &Time {
                at: field!(net.linger_timeout),
                min: Duration::ZERO,
                max: A_DAY,
            },
            "Time for which the rest of a rejected body is read and discarded, so that the client \
             receives the error",
        ),
        Setting::new(
            "server.linger_bytes_max",
            &Bytes {
                at: field!(net.linger_bytes_max),
                min: 0,
                max: SIZE_MAX,
            },
            "Bytes of the rest of a rejected body that are read and discarded",
        ),
        Setting::new(
            "server.ready_timeout",
            &Time {
                at: field!(net.ready_timeout),
                min: TIME_MIN,
                max: A_DAY,
            },
            "Time for the readiness check of the store; then /readyz responds with 503",
        ),
        Setting::new(
            "server.shutdown_delay",
            &Time {
                at: field!(net.shutdown_delay),
                min: Duration::ZERO,
                max: A_DAY,
            },
            "Time for which the server, once told to shut down, serves on while /readyz responds \
             with 503, so that a load balancer takes it out first",
        ),
        Setting::new(
            "server.shutdown_timeout",
            &Time {
                at: field!(net.shutdown_timeout),
                min: Duration::ZERO,
                max: A_DAY,
            },
            "Time for the requests in flight to complete at shutdown",
        )
        .flag("shutdown-timeout"),
        Setting::new(
            "server.retry_after",
            &Time {
                at: field!(net.retry_after),
                min: Duration::ZERO,
                max: A_DAY,
            },
            "Retry-After of an overloaded server, rounded up to whole seconds",
        ),
    ],
    check,
    inspect: nothing,
};

fn check(config: &Config, check: &mut Check<'_>) {
    let body_bytes_max = config.limits.body_bytes_max;
    if config.net.body_bytes_held_max < body_bytes_max {
        let most = format_size(body_bytes_max as u64);
        check.reject(
            "server.body_bytes_held_max",
            &["limits.body_bytes_max"],
            &format!("must be at least limits.body_bytes_max, {most}"),
        );
        return;
    }
    // The optional parts are checked by their own sections.
    let net = NetConfig {
        body_bytes_max,
        ..config.net.clone()
    };
    if let Err(invalid) = net.validate() {
        // Unreachable as long as the ranges above are those of the HTTP server.
        check.reject("server", &[], &invalid.to_string());
    }
}
