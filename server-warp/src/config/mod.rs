//! Configuration of the server: a registry of settings that everything else derives from.
//!
//! A value comes from the first of these sources that sets it: a command-line flag, an environment
//! variable `KNOWLEDGE_SECTION__NAME`, the TOML file, the default. The origin of each value is
//! known, and all errors are reported together, with the line, the variable or the flag.
//!
//! ```
//! use knowledge_server::config::{Origin, Sources};
//!
//! # fn main() -> Result<(), knowledge_server::config::Problems> {
//! let sources = Sources {
//!     environment: vec![("KNOWLEDGE_LIMITS__BODY_BYTES_MAX".into(), "64KiB".into())],
//!     flags: vec![("listen", "127.0.0.1:0".into())],
//!     ..Sources::default()
//! };
//! let loaded = sources.load()?;
//! assert_eq!(loaded.config.net().body_bytes_max, 65_536);
//! assert_eq!(*loaded.origin("server.listen"), Origin::Flag("listen"));
//! assert_eq!(*loaded.origin("server.public_url"), Origin::Default);
//! # Ok(())
//! # }
//! ```
//!
//! # Adding settings
//! 1. Give their module a struct with a [`Default`], and [`Config`] a field of that type.
//! 2. Add a row for each field to `table.rs`, whose first lines explain one. The kinds of values are
//!    in `kind.rs`, rules between settings in `rules.rs`, and checks of files for `knowledge config
//!    check` that are not those of one kind in `files.rs`.
//! 3. Run `UPDATE_REFERENCE=1 cargo test -p knowledge-cli --lib describe` to update
//!    `docs/configuration.md` and `deploy/knowledge.toml`.
//!
//! The file, the variable, the flag, `knowledge config show` and the help of `knowledge serve`
//! follow automatically. A secret is never the value of a setting: the setting names a file that
//! only its owner may read.

mod file;
mod files;
mod kind;
mod limits;
mod load;
mod problem;
mod rules;
mod setting;
mod suggest;
mod table;
mod textual;
mod units;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use knowledge_core::limits::Limits;
use knowledge_core::model::AuditReads;
pub use knowledge_core::model::BaseUrl;
use knowledge_core::service::{Options, SessionTimeouts};

pub use self::kind::Value;
pub use self::load::{Loaded, Sources};
pub(crate) use self::problem::Check;
pub use self::problem::{Origin, Position, Problem, Problems};
pub use self::setting::{Section, Setting};
pub use self::table::{sections, settings};
pub use self::units::{format_size, format_time};
use crate::admin::SocketPlace;
use crate::app::MAINTENANCE_INTERVAL_DEFAULT;
use crate::data::{DATA_DIR_DEFAULT, Data, DataConfig};
pub use crate::deliveries::WebhookSettings;
use crate::deliveries::open_files_max;
use crate::logging::LogConfig;
use crate::net::{NetConfig, OPEN_FILES_RESERVED, RateLimitConfig};
#[cfg(feature = "oidc")]
use crate::oidc::OidcConfig;
use crate::partitions::PartitionAddress;
use crate::store_address::StoreAddress;
use crate::telemetry::TelemetryConfig;

/// Environment variable that names the configuration file if no flag does.
pub const CONFIG_VARIABLE: &str = "KNOWLEDGE_CONFIG";

/// Configuration of a server. [`Default`] has the default of every setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// HTTP server. Its `body_bytes_max` and `open_files_reserved` are derived from other settings,
    /// see [`Config::net`].
    pub net: NetConfig,
    /// Base URL under which clients reach the server.
    pub public_url: Option<BaseUrl>,
    /// Address of the store; without one, the store in [`data_dir`](Self::data_dir) is used.
    pub store: Option<StoreAddress>,
    /// Directory of the store if [`store`](Self::store) is not set.
    pub data_dir: PathBuf,
    /// Options of the store, and its sealing key. Its `store` is derived, see [`Config::data`].
    pub data: DataConfig,
    /// Location of the admin socket.
    pub admin_socket: SocketPlace,
    /// Limits of the service.
    pub limits: Limits,
    /// Reads that the audit log records.
    pub audit_reads: AuditReads,
    /// Time-outs of the sessions that sign-ins create.
    pub session_timeouts: SessionTimeouts,
    /// Sign-ins with an OpenID Connect provider.
    #[cfg(feature = "oidc")]
    pub oidc: OidcConfig,
    /// Deliveries; the retention of events is one of the limits.
    pub webhooks: WebhookSettings,
    /// Logging.
    pub log: LogConfig,
    /// Time between two maintenance runs.
    pub maintenance_interval: Duration,
    /// Address of the metrics, if they are served.
    pub metrics_listen: Option<SocketAddr>,
    /// Tracing.
    pub telemetry: TelemetryConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            net: NetConfig {
                rate_limit: RateLimitConfig::default(),
                ..NetConfig::default()
            },
            public_url: None,
            store: None,
            data_dir: DATA_DIR_DEFAULT.into(),
            data: DataConfig::default(),
            admin_socket: SocketPlace::default(),
            limits: Limits::default(),
            audit_reads: AuditReads::default(),
            session_timeouts: SessionTimeouts::default(),
            #[cfg(feature = "oidc")]
            oidc: OidcConfig::default(),
            webhooks: WebhookSettings::default(),
            log: LogConfig::default(),
            maintenance_interval: MAINTENANCE_INTERVAL_DEFAULT,
            metrics_listen: None,
            telemetry: TelemetryConfig::default(),
        }
    }
}

impl Config {
    /// Returns the configuration of the HTTP server, with the limits it shares with the service.
    #[must_use]
    pub fn net(&self) -> NetConfig {
        NetConfig {
            body_bytes_max: self.limits.body_bytes_max,
            open_files_reserved: self.open_files_reserved(),
            ..self.net.clone()
        }
    }

    /// Returns the options of a service over this store.
    #[must_use]
    pub fn options(&self, data: &Data) -> Options {
        let mut options = data.options(self.limits.clone());
        options.public_url = self.public_url.as_ref().map(BaseUrl::to_string);
        options.audit_reads = self.audit_reads;
        options.session_timeouts = self.session_timeouts;
        options.webhook_addresses = self.webhooks.addresses.clone();
        options
    }

    /// Returns the configuration of the store and its key.
    #[must_use]
    pub fn data(&self) -> DataConfig {
        let in_directory = || StoreAddress::in_directory(&self.data_dir);
        DataConfig {
            store: self.store.clone().unwrap_or_else(in_directory),
            ..self.data.clone()
        }
    }

    #[cfg(feature = "postgres")]
    fn database_connections_max(&self) -> usize {
        let data = self.data();
        let others = data.partitions.iter().map(|partition| &partition.store);
        let stores = std::iter::once(&data.store).chain(others);
        let shared = stores.filter(|store| store.is_shared()).count();
        shared * data.postgres.connections_max()
    }

    #[cfg(not(feature = "postgres"))]
    fn database_connections_max(&self) -> usize {
        0
    }

    fn open_files_reserved(&self) -> usize {
        let others = &self.data.partitions;
        let for_deliveries = if self.webhooks.deliver {
            open_files_max(self.webhooks.in_flight_max) * (1 + others.len())
        } else {
            0
        };
        let in_directory = |found: &&PartitionAddress| found.store.directory().is_some();
        let for_stores = OPEN_FILES_RESERVED * others.iter().filter(in_directory).count();
        let for_server = self.net.open_files_reserved;
        for_server + for_stores + for_deliveries + self.database_connections_max()
    }
}

#[cfg(test)]
mod tests;
