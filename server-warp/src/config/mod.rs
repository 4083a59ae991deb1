//! The configuration of the server: one registry of settings, from which everything else follows.
//!
//! A value comes from the first of these that has one: a flag of the command line, an environment variable
//! `KNOWLEDGE_SECTION__NAME`, the TOML file, the default. Of each it is known where it came from, and all that is wrong
//! is told at once, with the line, the variable or the flag.
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
//! 1. Give the part that they are for a struct with a [`Default`], and [`Config`] a field of that type.
//! 2. Write `sections/<name>.rs` with a `SECTION`, one `Setting` for each field, and list it in
//!    `sections/mod.rs`. The kinds of values are in `kind.rs`; what must hold between settings goes into the section's
//!    `check`, what is to be looked up on the disk by `knowledge config check` into its `inspect`.
//! 3. `UPDATE_REFERENCE=1 cargo test -p knowledge-server --lib config` writes `docs/configuration.md` and
//!    `deploy/knowledge.toml` anew.
//!
//! The file, the variable, the flag, `knowledge config show` and the help of `knowledge serve` come by themselves. A
//! secret is never the value of a setting: the setting names a file that its owner alone may read.

mod describe;
mod file;
mod kind;
mod load;
mod network;
mod sections;
mod setting;
mod suggest;
mod textual;
mod units;
mod webhooks;

use std::net::SocketAddr;
use std::time::Duration;

use knowledge_core::limits::Limits;
pub use knowledge_core::model::BaseUrl;

pub(crate) use self::describe::{
    example, help_of, settings_for_help, show_json, show_text, show_toml,
};
pub(crate) use self::load::{Check, settings};
pub use self::load::{Loaded, Origin, Position, Problem, Problems, Sources};
pub use self::network::{
    AllowedOrigin, CompressionSettings, CorsSettings, RateLimitSettings, TlsSettings,
};
pub(crate) use self::sections::SECTIONS;
pub(crate) use self::setting::Setting;
pub use self::units::{format_size, format_time};
pub use self::webhooks::WebhookSettings;
use crate::admin::SocketPlace;
use crate::app::MAINTENANCE_INTERVAL_DEFAULT;
use crate::data::DataConfig;
use crate::deliveries::{IN_FLIGHT_MAX_DEFAULT, open_files_max};
use crate::logging::LogConfig;
use crate::net::NetConfig;
use crate::telemetry::TelemetryConfig;

/// The environment variable that names the configuration file where no flag does.
pub const CONFIG_VARIABLE: &str = "KNOWLEDGE_CONFIG";

/// Everything that a server is told. [`Default`] gives what is in force when nothing is.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How the server meets the network. Its `body_bytes_max` follows from the limits and its parts from the settings
    /// below, see [`Config::net`].
    pub net: NetConfig,
    /// The certificate.
    pub tls: TlsSettings,
    /// Which pages may call.
    pub cors: CorsSettings,
    /// Which answers are compressed.
    pub compression: CompressionSettings,
    /// How many requests one principal may make.
    pub rate_limit: RateLimitSettings,
    /// Where clients find the server.
    pub public_url: Option<BaseUrl>,
    /// The store and the key of its secrets.
    pub data: DataConfig,
    /// Where the admin socket is.
    pub admin_socket: SocketPlace,
    /// The limits of the service.
    pub limits: Limits,
    /// How events leave; how long they are kept is one of the limits.
    pub webhooks: WebhookSettings,
    /// Whether this server sends deliveries at all.
    pub delivers: bool,
    /// How many deliveries are sent at once.
    pub deliveries_in_flight_max: usize,
    /// What is logged, and how.
    pub log: LogConfig,
    /// Time between two looks for what is due in the background.
    pub maintenance_interval: Duration,
    /// Where the metrics are served, if they are.
    pub metrics_listen: Option<SocketAddr>,
    /// Which traces go where.
    pub telemetry: TelemetryConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            net: NetConfig::default(),
            tls: TlsSettings::default(),
            cors: CorsSettings::default(),
            compression: CompressionSettings::default(),
            rate_limit: RateLimitSettings::default(),
            public_url: None,
            data: DataConfig::default(),
            admin_socket: SocketPlace::default(),
            limits: Limits::default(),
            webhooks: WebhookSettings::default(),
            delivers: true,
            deliveries_in_flight_max: IN_FLIGHT_MAX_DEFAULT,
            log: LogConfig::default(),
            maintenance_interval: MAINTENANCE_INTERVAL_DEFAULT,
            metrics_listen: None,
            telemetry: TelemetryConfig::default(),
        }
    }
}

impl Config {
    /// How the server meets the network, with the limits that it shares with the service, and with the parts that it
    /// was told of.
    #[must_use]
    pub fn net(&self) -> NetConfig {
        NetConfig {
            body_bytes_max: self.limits.body_bytes_max,
            tls: self.tls.part(),
            cors: self.cors.part(),
            compression: self.compression.part(),
            rate_limit: self.rate_limit.part(),
            open_files_reserved: self.open_files_reserved(),
            ..self.net.clone()
        }
    }

    fn open_files_reserved(&self) -> usize {
        let for_deliveries = if self.delivers {
            open_files_max(self.deliveries_in_flight_max)
        } else {
            0
        };
        self.net.open_files_reserved + for_deliveries
    }
}

#[cfg(test)]
mod tests;
