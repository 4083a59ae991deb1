//! Every setting of the server, one a row.
//!
//! ```text
//! settings! {
//!     // Section: its name in the file, its description, the part of [`Config`] that has its fields,
//!     // and the rules that its values must fulfil together.
//!     [webhooks] "Deliveries of events to webhooks", in webhooks, check rules::webhooks {
//!         // Setting: its name, its kind and its description, a sentence without a full stop. The
//!         // kind is a function of `kind.rs`; the field is `config.webhooks.deliver`.
//!         deliver: switch, "Send deliveries from this server";
//!         // A kind with arguments, and a setting that is a flag too.
//!         in_flight_max: count(1..=1_024, "deliveries"), flag "max-deliveries",
//!             "Maximum of concurrent deliveries to all endpoints together";
//!         // A field elsewhere: `config.limits.delivery_retention`.
//!         retention at limits.delivery_retention: time(DAY..=DAY * 60), "Time for which …";
//!     }
//! }
//! ```

use std::sync::LazyLock;
use std::time::Duration;

use knowledge_core::limits::DELIVERY_RETENTION_MIN;
use knowledge_core::model::AuditReads;
use knowledge_storage_sled::Mode;

use super::kind::field;
use super::limits::{COUNT_MAX, HELD_BYTES_MAX, RETENTION_MAX, SIZE_MAX, limits};
use super::setting::{Section, Setting};
use super::{files, kind, rules};
use crate::logging::LogFormat;
use crate::sealing;
use crate::telemetry::read_headers;

/// Minimum of every time that must not be zero.
const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Defines [`SECTIONS`] from their declarations, see above.
macro_rules! settings {
    ($(
        $(#[$meta:meta])*
        [$section:ident] $about:literal
        $(, in $($part:ident).+)? $(, check $check:path)? $(, inspect $inspect:path)?
        { $($rows:tt)+ }
    )+) => {
        /// All sections in display order.
        pub(crate) static SECTIONS: LazyLock<Box<[Section]>> = LazyLock::new(|| {
            Box::new([$(
                $(#[$meta])*
                Section {
                    name: stringify!($section),
                    about: $about,
                    settings: settings!(@rows $section ($($($part).+)?) $($rows)+),
                    check: &[$($check)?],
                    inspect: &[$($inspect)?],
                }
            ),+])
        });
    };
    (@rows $section:ident $part:tt ..$settings:ident();) => {
        $settings()
    };
    (@rows $section:ident $part:tt $(
        $name:ident $(at $($step:ident).+)?: $kind:ident $(($($argument:expr),+))?,
        $(flag $flag:literal,)? $about:literal;
    )+) => {
        vec![$(Setting {
            path: concat!(stringify!($section), ".", stringify!($name)),
            kind: kind::$kind(
                settings!(@field $part $name $($($step).+)?)
                $($(, $argument)+)?
            ),
            about: $about,
            flag: None$(.or(Some($flag)))?,
        }),+]
    };
    (@field ($($part:ident).*) $name:ident) => {
        field!($($part.)*$name)
    };
    (@field $part:tt $name:ident $($step:ident).+) => {
        field!($($step).+)
    };
}

settings! {
    [server] "The HTTP server", in net, check rules::server {
        listen at net.address: text, flag "listen",
            "The address to listen on; port 0 selects a free port";
        public_url at public_url: text, flag "public-url",
            "The base URL under which clients reach this server, used in the URLs of inbound \
             webhooks; if unset these are paths";
        accept_backlog: count(1..=COUNT_MAX, "connections"),
            "Connections that the kernel holds until the server accepts them; the kernel may have \
             a lower limit";
        connections_max: count(1..=COUNT_MAX, "connections"), flag "max-connections",
            "Maximum number of open connections, fewer if the process may open fewer files; \
             further clients wait";
        connections_per_client_ratio: ratio,
            "The fraction of the connections that one client address may hold (IPv6: the first 64 \
             bits); further ones are closed at once; trusted proxies may hold all";
        requests_in_work_max: count(1..=COUNT_MAX, "requests"), flag "max-requests",
            "Maximum number of requests in flight, of one organisation at most as many as are \
             free; further ones are rejected with 503";
        body_bytes_in_work_max: bytes(1..=HELD_BYTES_MAX),
            "Bytes of request bodies of one organisation that are handled at once, not counting \
             the first 4 KiB of each; further requests wait for their turn";
        header_read_timeout: time(MILLISECOND..=DAY),
            "Time for the header of a request to arrive, from the opening of the connection or \
             from its first byte";
        idle_timeout: time(MILLISECOND..=DAY),
            "Time between a response and the next request of a connection; longer than that of the \
             proxies in front of the server";
        header_bytes_max: bytes(1..=HELD_BYTES_MAX),
            "First line and header of a request together; a longer one is rejected with 431";
        body_read_timeout: time(MILLISECOND..=DAY),
            "Time for the body of a request to arrive, from the end of its header";
        body_bytes_held_max: bytes(1..=SIZE_MAX),
            "Memory for bodies that are being read, not counting the first 16 KiB of each; further \
             ones are rejected with 503";
        request_timeout: time(MILLISECOND..=DAY), flag "request-timeout",
            "Time for a request, from the end of its header to its response; then it is rejected \
             with 503";
        write_stall_timeout: time(MILLISECOND..=DAY),
            "Time in which the client must accept at least one byte of its response; then the \
             connection is closed";
        linger_timeout: time(Duration::ZERO..=DAY),
            "Time for which the rest of a rejected body is read and discarded, so that the client \
             receives the error";
        linger_bytes_max: bytes(0..=SIZE_MAX),
            "Bytes of the rest of a rejected body that are read and discarded";
        ready_timeout: time(MILLISECOND..=DAY),
            "Time for the readiness check of the store; then /readyz responds with 503";
        shutdown_delay: time(Duration::ZERO..=DAY),
            "Time for which the server, once told to shut down, serves on while /readyz responds \
             with 503, so that a load balancer takes it out first";
        shutdown_timeout: time(Duration::ZERO..=DAY), flag "shutdown-timeout",
            "Time for the requests in flight to complete at shutdown";
        retry_after: time(Duration::ZERO..=DAY),
            "Retry-After of an overloaded server, rounded up to whole seconds";
    }
    [tls] "The certificate of the server; without one it speaks plain HTTP",
        in net.tls, check rules::tls, inspect files::tls
    {
        certificate_file: text, "The certificate chain as PEM, the server's own certificate first";
        private_key_file: text,
            "The private key of the first certificate as PEM, readable by its owner only";
        reload_interval: time(SECOND..=DAY),
            "Time between two checks of the files; changes apply to new connections; SIGHUP checks \
             immediately";
        handshake_timeout: time(MILLISECOND..=DAY),
            "Time for the handshake of a new connection; then it is closed";
        hsts_max_age: time(Duration::ZERO..=RETENTION_MAX),
            "Time for which browsers use the server by HTTPS only (Strict-Transport-Security); 0s \
             omits the header";
    }
    [proxy] "Proxies in front of the server, which report the addresses of their clients",
        in net.proxy
    {
        trusted: list, "The addresses of the proxies; the header of any other client is ignored";
        header: text,
            "The header to which each proxy appends the address of its client; the other one is \
             ignored";
        protocol: switch,
            "Require a PROXY protocol header (version 2) at the start of every connection from a \
             proxy, before TLS";
    }
    [cors] "Cross-origin requests from browsers", in net.cors, check rules::cors {
        origins: list,
            "The origins whose pages may call the server, or only * for all; none if empty";
        credentials: switch, "Allow these pages to send the session cookie; not with *";
        max_age: time(Duration::ZERO..=DAY), "Time for which a browser may cache the permission";
    }
    [compression] "Compression of responses with gzip; responses with a new secret are never \
                   compressed",
        in net.compression
    {
        enabled: switch, "Compress responses; the largest take some 0.6 ms of CPU time";
        bytes_min: bytes(1..=HELD_BYTES_MAX), "The shortest body that is compressed";
    }
    [rate_limit] "Rate limit of each member, or of each address if unauthenticated, per server \
                  process",
        in net.rate_limit, check rules::rate_limit
    {
        requests: count(0..=1_000_000, "requests"),
            "The quota, which may be spent in one burst; excess requests are rejected with 429; 0 \
             for no limit";
        window: time(SECOND..=DAY),
            "Time in which an empty quota refills evenly, in whole seconds";
    }
    [sign_in] "Sessions of members who sign in with a login link or a provider; changes apply to \
               new sessions",
        in session_timeouts, check rules::sign_in
    {
        idle_timeout at session_timeouts.idle: time(MINUTE..=DAY * 400),
            "Time without a use after which a session ends, in whole seconds; as uses are recorded \
             once an hour, it ends up to an hour later, but never earlier";
        absolute_timeout at session_timeouts.absolute: time(MINUTE..=DAY * 400),
            "Time from the sign-in after which a session ends, whatever its use";
    }
    #[cfg(feature = "oidc")]
    [oidc] "Signing in with an OpenID Connect provider, besides login links",
        in oidc, check rules::oidc
    {
        issuer: text,
            "The issuer of the provider, in its own spelling; if unset, members sign in with login \
             links only";
        client_id: text,
            "The client identifier of this server at the provider, where its redirect URI is \
             server.public_url followed by /auth/oidc/callback";
        client_secret_file: secret_file,
            "The file with the client secret, readable by its owner only; without one this server \
             is a public client";
        organization: text, "The slug of the organisation whose members sign in";
        label: text, "The name of the provider on the sign-in page, after \"Sign in with\"";
        scopes: list, "The requested scopes, besides openid";
        member_claim: text,
            "The claim that identifies a member, whose handle follows from it; email only where \
             email_verified is true";
        access_token_audience: text,
            "The audience (aud) of the provider's access tokens (RFC 9068) that are accepted as \
             bearer tokens of members; if unset, none are";
        groups_claim: text, "The claim with the groups of a person";
        groups_required: switch,
            "Refuse the sign-in of a person of whom the provider does not state that claim; \
             otherwise teams and roles stay as they are";
        groups: list,
            "The teams and roles of groups, which every sign-in brings in line; of several roles \
             in one place the first in this list counts";
        default_role: text,
            "The role of new members, and of members with a role of oidc.groups, to whom no group \
             grants one";
        create_members: switch, "Add people who belong to a group in oidc.groups as members";
        ca_file: ca_file,
            "The CA certificates (PEM) for the provider; if unset, those of the operating system";
        // A browser waits for it.
        timeout: time(MILLISECOND..=SECOND * 30), "Time for each request to the provider";
    }
    [storage] "The store and its key", in data, check rules::storage, inspect files::storage {
        store at store: text, flag "store",
            "The store: sled:DIR or fjall:DIR, in a directory of its own, \
             postgres://USER@HOST/DATABASE, which several servers may share, or memory:, which is \
             lost when the process ends; if unset, the store in storage.data_dir";
        data_dir at data_dir: text, flag "data-dir",
            "The directory of the store, opened with the engine of the existing store; a new store \
             uses sled; only one process at a time can open it";
        sealing_key_file: file(sealing::read), flag "sealing-key-file",
            "The file of the key that seals stored secrets: 32 bytes as base64 or hexadecimal \
             digits, readable by its owner only; if unset, DIR.key beside the directory, created \
             with the store; required for postgres:, the same key on every server";
        partitions: partitions,
            "Further stores by name, to which `knowledge org move` moves organisations; the store \
             of storage.store or storage.data_dir is the partition `home`, which records where \
             each organisation is; all partitions have its sealing key";
        cache_bytes: bytes(1 << 20..=SIZE_MAX),
            "Caches of the store; with sled the process needs about twice as much memory";
        free_bytes_min: bytes(0..=SIZE_MAX),
            "Minimum free space of the file system: with less, writes are rejected with 503 while \
             reads continue; below 32 MiB a full disk may corrupt the store";
        write_timeout: time(SECOND..=DAY),
            "Time for one group of commits to be synced to disk; then the store is closed until \
             the next start";
        mode: choice(Mode::ALL, "MODE"),
            "The mode of sled: high_throughput, or low_space for a smaller file at the cost of \
             more writes";
        verify_entries at data.verifies_entries: switch,
            "Verify every entry in the background after an unclean shutdown, while the store is \
             served; otherwise corruption is found on reading or by `knowledge verify`";
    }
    #[cfg(feature = "postgres")]
    [postgres] "Connections to the PostgreSQL database that storage.store names", in data.postgres {
        password_file: secret_file,
            "The file with the password, readable by its owner only; if unset, the password in \
             storage.store";
        ca_file: ca_file,
            "The CA certificates (PEM) for the database server; if unset, those of the operating \
             system";
        read_connections: count(1..=1_000, "connections"), "Connections that reads share";
        write_connections: count(1..=1_000, "connections"),
            "Connections for commits, each for one group of commits at a time";
        // Shorter time-outs would fail on a busy network.
        connect_timeout: time(MILLISECOND * 100..=DAY), "Time for connecting to one host";
        read_timeout: time(MILLISECOND * 100..=DAY), "Time for one read";
        lock_timeout: time(MILLISECOND * 100..=DAY),
            "Time for which a commit waits for others, before the request is answered with 503; \
             also the longest time for which a server that has stopped can hold others up";
        write_timeout: time(MILLISECOND * 100..=DAY),
            "Time for one group of commits to become durable, on the synchronous standbys too; \
             then their outcome is unknown";
    }
    [admin] "Access of the commands for organisations, members and tokens to a running server" {
        socket at admin_socket: text, flag "admin-socket",
            "The admin socket, which only root and the server's user can open; DIR.sock beside the \
             data directory if unset; off for none";
    }
    [limits] "Limits of the service", check rules::limits {
        ..limits();
    }
    [audit] "Audit log" {
        reads at audit_reads: choice(AuditReads::ALL, "READS"),
            "Reads that the audit log records: none, or confidential for those that return the \
             title or the content of a confidential or restricted memory; their answers wait for a \
             commit";
    }
    [webhooks] "Deliveries of events to webhooks and citation subscriptions", in webhooks {
        deliver: switch,
            "Send deliveries from this server; otherwise they wait in the store for another server \
             or the next start";
        // Each delivery has a connection, in addition to those of clients, and up to some 400 KiB
        // of memory.
        in_flight_max: count(1..=1_024, "deliveries"),
            "Maximum of concurrent deliveries to all endpoints together; each has a connection and \
             up to 400 KiB of response headers";
        allow at webhooks.addresses.allow: list,
            "Address ranges that deliveries may be sent to besides public addresses; anyone who \
             may register a webhook can reach them";
        allow_http at webhooks.addresses.allow_http: switch, "Allow deliveries over plain http";
        ca_file: ca_file,
            "The CA certificates (PEM) for the hosts of webhooks; if unset, those of the operating \
             system";
        retention at limits.delivery_retention: time(DELIVERY_RETENTION_MIN..=RETENTION_MAX),
            "Time for which an event and the results of its deliveries are kept";
    }
    [log] "Logging", in log, check rules::log {
        level: text, flag "log-level",
            "The log level: error, warn, info, debug, trace or off, also by target such as \
             `info,knowledge_server::access=warn`";
        format: choice(LogFormat::ALL, "FORMAT"), flag "log-format",
            "The format of log lines: auto (text on a terminal, otherwise json), text, or json \
             (one object per line)";
    }
    [maintenance] "Background work: purging expired data, and publishing changes that depend only \
                   on time"
    {
        interval at maintenance_interval: time(SECOND..=DAY), "Time between two runs";
    }
    [metrics] "Metrics for Prometheus on their own address, separate from the service",
        check rules::metrics
    {
        listen at metrics_listen: text,
            "The address of /metrics, such as 127.0.0.1:9464; no metrics if unset";
    }
    [telemetry] "Traces for OpenTelemetry, sent to a collector by OTLP over HTTP",
        in telemetry, inspect files::telemetry
    {
        otlp_endpoint: text,
            "The collector, such as http://127.0.0.1:4318, to which /v1/traces is appended; if \
             unset, that of OTEL_EXPORTER_OTLP_ENDPOINT; without either there are no traces";
        otlp_headers_file: file(read_headers),
            "The file with headers for the collector, such as its token: one `name: value` per \
             line, readable by its owner only";
        otlp_ca_file: text, "The CA certificates (PEM) for a collector whose address is https";
        sample_ratio: ratio,
            "The fraction of traces that are kept, among those that no trusted proxy has decided \
             on";
        service_name: text,
            "The service name of traces; if unset, that of OTEL_SERVICE_NAME, or knowledge";
        // Each takes about a kilobyte.
        queue_spans_max: count(1..=1_000_000, "spans"),
            "Maximum of spans that wait for their export; further ones are dropped";
        export_interval: time(MILLISECOND..=DAY),
            "Time between two exports; a full batch is sent immediately";
        export_timeout: time(MILLISECOND..=DAY), "Time for one export, all attempts together";
        flush_timeout: time(MILLISECOND..=MINUTE),
            "Time for exporting the last spans at shutdown";
    }
}

/// Returns all sections in display order.
pub fn sections() -> &'static [Section] {
    &SECTIONS
}

/// Returns all settings in display order.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| &section.settings)
}
