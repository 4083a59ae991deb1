//! What the server does for the network only when told to, as settings: each of them stands by itself, where
//! [`NetConfig`](crate::net::NetConfig) has a whole part or none.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::net::{
    COMPRESSION_BYTES_MIN_DEFAULT, CORS_MAX_AGE_DEFAULT, CompressionConfig, CorsConfig,
    CorsOrigins, RATE_LIMIT_WINDOW_DEFAULT, RateLimitConfig, TLS_HANDSHAKE_TIMEOUT_DEFAULT,
    TLS_RELOAD_INTERVAL_DEFAULT, TlsConfig,
};

/// The settings of [`TlsConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate chain.
    pub certificate_file: Option<PathBuf>,
    /// Its private key. Both files or none.
    pub private_key_file: Option<PathBuf>,
    /// Time between two looks at the files.
    pub reload_interval: Duration,
    /// Time for a handshake.
    pub handshake_timeout: Duration,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            certificate_file: None,
            private_key_file: None,
            reload_interval: TLS_RELOAD_INTERVAL_DEFAULT,
            handshake_timeout: TLS_HANDSHAKE_TIMEOUT_DEFAULT,
        }
    }
}

impl TlsSettings {
    /// `None` where the server speaks plain HTTP.
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
        })
    }
}

/// An origin whose pages may call the server, or `*` for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOrigin(pub(super) String);

impl AllowedOrigin {
    /// Stands for every origin.
    pub(super) const ANY: &'static str = "*";

    pub(super) fn is_any(&self) -> bool {
        self.0 == Self::ANY
    }
}

/// The settings of [`CorsConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsSettings {
    /// The origins whose pages may call; without any no page of another origin may.
    pub origins: Vec<AllowedOrigin>,
    /// Whether they may with the session cookie.
    pub credentials: bool,
    /// Time for which a browser may remember what a preflight said.
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
    /// `None` where no page of another origin may call.
    pub(super) fn part(&self) -> Option<CorsConfig> {
        if self.origins.is_empty() {
            return None;
        }
        let origins = match self.origins.iter().any(AllowedOrigin::is_any) {
            true => CorsOrigins::Any,
            false => CorsOrigins::These(self.origins.iter().map(|it| it.0.clone()).collect()),
        };
        Some(CorsConfig {
            origins,
            credentials: self.credentials,
            max_age: self.max_age,
        })
    }
}

/// The settings of [`CompressionConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionSettings {
    /// Whether answers are compressed at all.
    pub enabled: bool,
    /// The shortest body that is, in bytes.
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
    /// `None` where answers are not compressed.
    pub(super) fn part(&self) -> Option<CompressionConfig> {
        self.enabled.then_some(CompressionConfig {
            bytes_min: self.bytes_min,
        })
    }
}

/// The settings of [`RateLimitConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimitSettings {
    /// The requests of a full quota; 0 for no limit.
    pub requests: u32,
    /// Time in which an empty quota becomes full, in whole seconds.
    pub window: Duration,
}

impl Default for RateLimitSettings {
    fn default() -> Self {
        Self {
            requests: 0,
            window: RATE_LIMIT_WINDOW_DEFAULT,
        }
    }
}

impl RateLimitSettings {
    /// `None` where there is no limit.
    pub(super) fn part(&self) -> Option<RateLimitConfig> {
        Some(RateLimitConfig {
            requests: NonZeroU32::new(self.requests)?,
            window: self.window,
        })
    }
}
