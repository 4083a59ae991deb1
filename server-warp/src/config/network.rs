//! Settings of the optional parts of [`NetConfig`](crate::net::NetConfig).
//!
//! The settings are independent of each other, while `NetConfig` has a whole part or none.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::net::{
    COMPRESSION_BYTES_MIN_DEFAULT, CORS_MAX_AGE_DEFAULT, CompressionConfig, CorsConfig,
    CorsOrigins, RATE_LIMIT_REQUESTS_DEFAULT, RATE_LIMIT_WINDOW_DEFAULT, RateLimitConfig,
    TLS_HANDSHAKE_TIMEOUT_DEFAULT, TLS_HSTS_MAX_AGE_DEFAULT, TLS_RELOAD_INTERVAL_DEFAULT,
    TlsConfig,
};

/// Settings of [`TlsConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// Certificate chain.
    pub certificate_file: Option<PathBuf>,
    /// Private key; set together with the certificate or not at all.
    pub private_key_file: Option<PathBuf>,
    /// Time between two checks of the files.
    pub reload_interval: Duration,
    /// Timeout of a handshake.
    pub handshake_timeout: Duration,
    /// Time for which browsers use the server by HTTPS only; zero for no such promise.
    pub hsts_max_age: Duration,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            certificate_file: None,
            private_key_file: None,
            reload_interval: TLS_RELOAD_INTERVAL_DEFAULT,
            handshake_timeout: TLS_HANDSHAKE_TIMEOUT_DEFAULT,
            hsts_max_age: TLS_HSTS_MAX_AGE_DEFAULT,
        }
    }
}

impl TlsSettings {
    /// Returns the configuration; `None` if the server speaks plain HTTP.
    pub(super) fn part(&self) -> Option<TlsConfig> {
        let (certificate_file, private_key_file) = self
            .certificate_file
            .as_ref()
            .zip(self.private_key_file.as_ref())?;
        Some(TlsConfig {
            certificate_file: certificate_file.clone(),
            private_key_file: private_key_file.clone(),
            reload_interval: self.reload_interval,
            handshake_timeout: self.handshake_timeout,
            hsts_max_age: self.hsts_max_age,
        })
    }
}

/// Origin whose pages may call the server, or `*` for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOrigin(pub(super) String);

impl AllowedOrigin {
    /// Notation of every origin.
    pub(super) const ANY: &'static str = "*";

    pub(super) fn is_any(&self) -> bool {
        self.0 == Self::ANY
    }
}

/// Settings of [`CorsConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsSettings {
    /// Allowed origins; empty for none.
    pub origins: Vec<AllowedOrigin>,
    /// True if their pages may send the session cookie.
    pub credentials: bool,
    /// Time for which browsers may cache the result of a preflight.
    pub max_age: Duration,
}

impl Default for CorsSettings {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            credentials: false,
            max_age: CORS_MAX_AGE_DEFAULT,
        }
    }
}

impl CorsSettings {
    /// Returns the configuration; `None` if no other origin may call.
    pub(super) fn part(&self) -> Option<CorsConfig> {
        if self.origins.is_empty() {
            return None;
        }
        let origins = match self.origins.iter().any(AllowedOrigin::is_any) {
            true => CorsOrigins::Any,
            false => CorsOrigins::List(self.origins.iter().map(|it| it.0.clone()).collect()),
        };
        Some(CorsConfig {
            origins,
            credentials: self.credentials,
            max_age: self.max_age,
        })
    }
}

/// Settings of [`CompressionConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionSettings {
    /// True if responses are compressed.
    pub enabled: bool,
    /// Shortest body that is compressed, in bytes.
    pub bytes_min: usize,
}

impl Default for CompressionSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            bytes_min: COMPRESSION_BYTES_MIN_DEFAULT,
        }
    }
}

impl CompressionSettings {
    /// Returns the configuration; `None` if responses are not compressed.
    pub(super) fn part(&self) -> Option<CompressionConfig> {
        self.enabled.then_some(CompressionConfig {
            bytes_min: self.bytes_min,
        })
    }
}

/// Settings of [`RateLimitConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimitSettings {
    /// Requests of a full quota; 0 for no limit.
    pub requests: u32,
    /// Time in which an empty quota refills, in whole seconds.
    pub window: Duration,
}

impl Default for RateLimitSettings {
    fn default() -> Self {
        Self {
            requests: RATE_LIMIT_REQUESTS_DEFAULT,
            window: RATE_LIMIT_WINDOW_DEFAULT,
        }
    }
}

impl RateLimitSettings {
    /// Returns the configuration; `None` if there is no limit.
    pub(super) fn part(&self) -> Option<RateLimitConfig> {
        Some(RateLimitConfig {
            requests: NonZeroU32::new(self.requests)?,
            window: self.window,
        })
    }
}
