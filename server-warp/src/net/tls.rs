//! TLS: certificate and private key, read from files and reloaded while the server runs.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use http::HeaderValue;
use prometheus::IntGauge;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::rate_limit::whole_seconds;
use crate::private_file::{self, PrivateFileError};

/// Maximum size of a certificate file.
const CERTIFICATE_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// First byte of every TLS connection: a handshake record.
const HANDSHAKE_RECORD: u8 = 0x16;

/// Response to a client that speaks plain HTTP on a TLS port.
const PLAINTEXT_RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
    Content-Length: 24\r\nConnection: close\r\n\r\nThis port speaks HTTPS.\n";

/// TLS configuration of the server: versions 1.2 and 1.3, with HTTP/1.1. By default it has no
/// certificate and speaks plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificate chain as PEM, the server's own certificate first.
    pub certificate_file: Option<PathBuf>,
    /// Private key of the first certificate as PEM (PKCS #8, PKCS #1 or SEC 1), for its owner only.
    /// It is set together with the certificate or not at all.
    pub private_key_file: Option<PathBuf>,
    /// Time between two checks of the files. Changes apply to new connections; open ones continue.
    pub reload_interval: Duration,
    /// Time for the handshake of a new connection. Then the connection is closed.
    pub handshake_timeout: Duration,
    /// Time for which a browser that received a response uses the server by HTTPS only
    /// (`Strict-Transport-Security`), rounded up to whole seconds. Zero omits the header.
    pub hsts_max_age: Duration,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            certificate_file: None,
            private_key_file: None,
            reload_interval: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(10),
            hsts_max_age: Duration::from_secs(365 * 24 * 60 * 60),
        }
    }
}

impl TlsConfig {
    /// Creates a configuration with these files and defaults for everything else.
    #[must_use]
    pub fn new(certificate_file: impl Into<PathBuf>, private_key_file: impl Into<PathBuf>) -> Self {
        Self {
            certificate_file: Some(certificate_file.into()),
            private_key_file: Some(private_key_file.into()),
            ..Self::default()
        }
    }

    /// True if the server speaks HTTPS.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.certificate_file.is_some() && self.private_key_file.is_some()
    }

    /// Returns the files, if the server has a certificate.
    fn paths(&self) -> Option<Paths> {
        Some(Paths {
            certificate_file: self.certificate_file.clone()?,
            private_key_file: self.private_key_file.clone()?,
        })
    }

    /// Returns the invalid field and its requirement, if any.
    pub(crate) fn problem(&self) -> Option<(&'static str, &'static str)> {
        match (&self.certificate_file, &self.private_key_file) {
            (Some(_), None) => Some(("tls.private_key_file", "set if tls.certificate_file is")),
            (None, Some(_)) => Some(("tls.certificate_file", "set if tls.private_key_file is")),
            _ => None,
        }
    }

    /// Returns the value of `Strict-Transport-Security`, if the header is sent.
    pub(super) fn hsts(&self) -> Option<HeaderValue> {
        let seconds = whole_seconds(self.hsts_max_age);
        let value = HeaderValue::try_from(format!("max-age={seconds}"));
        (self.is_enabled() && seconds > 0).then(|| value.expect("a number is visible ASCII"))
    }

    /// Reads and checks the files, if any, as [`Server::bind`](super::Server::bind) does, without
    /// effect.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn check_files(&self) -> Result<(), TlsError> {
        let Some(paths) = self.paths() else {
            return Ok(());
        };
        Files::read(&paths)?.load(&paths).map(drop)
    }

    /// Reads and checks the private key only, if there is one.
    ///
    /// # Errors
    /// [`TlsError::KeyFile`]; [`TlsError::Key`].
    pub(crate) fn check_private_key(&self) -> Result<(), TlsError> {
        let Some(paths) = self.paths() else {
            return Ok(());
        };
        parse_private_key(&read_private_key(&paths)?, &paths).map(drop)
    }
}

/// Error of loading a certificate and its key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The certificate file cannot be read.
    #[error("the certificate {}: {source}", path.display())]
    CertificateFile {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The certificate file contains no valid chain.
    #[error("the certificate {}: {problem}", path.display())]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// The error in the file.
        problem: String,
    },
    /// The key file cannot be read, or users other than its owner can read it.
    #[error("the private key {0}")]
    KeyFile(PrivateFileError),
    /// The key file contains no usable key.
    #[error("the private key {}: {problem}", path.display())]
    Key {
        /// Path of the file.
        path: PathBuf,
        /// The error in the file.
        problem: String,
    },
    /// Certificate and key do not match, or cannot be used together.
    #[error(
        "the private key {} and the certificate {}: {problem}",
        private_key_file.display(), certificate_file.display()
    )]
    Pair {
        /// Path of the certificate file.
        certificate_file: PathBuf,
        /// Path of the key file.
        private_key_file: PathBuf,
        /// The reason.
        problem: String,
    },
}

/// Result of reloading the certificate files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// The files have not changed.
    Unchanged,
    /// New connections use the new certificate.
    Replaced,
}

/// Certificate for new connections.
#[derive(Debug)]
pub struct Certificates {
    paths: Paths,
    reload_interval: Duration,
    handshake_timeout: Duration,
    current: RwLock<Current>,
    /// Fingerprint of the files at the last check, usable or not.
    seen: Mutex<[u8; 32]>,
    /// Gauge of the expiry, if it is exported.
    expiry: OnceLock<IntGauge>,
}

/// Certificate in use.
#[derive(Debug)]
struct Current {
    server_config: Arc<ServerConfig>,
    /// Earliest expiry in the chain, in seconds since the Unix epoch.
    expires_at: i64,
}

impl Certificates {
    /// Loads the files; `None` if there are none.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub(super) fn open(config: &TlsConfig) -> Result<Option<Arc<Self>>, TlsError> {
        let Some(paths) = config.paths() else {
            return Ok(None);
        };
        let files = Files::read(&paths);
        let seen = Mutex::new(Files::fingerprint(&files));
        let current = RwLock::new(files?.load(&paths)?);
        Ok(Some(Arc::new(Self {
            paths,
            reload_interval: config.reload_interval,
            handshake_timeout: config.handshake_timeout,
            current,
            seen,
            expiry: OnceLock::new(),
        })))
    }

    /// Checks the files now and applies changes to new connections; open ones continue. On failure
    /// the current certificate stays in use. Blocks while it reads.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn reload(&self) -> Result<Reload, TlsError> {
        self.check(true)
    }

    /// Checks the files. Files that were unusable at the last check are retried only if `force`.
    fn check(&self, force: bool) -> Result<Reload, TlsError> {
        // Held throughout: of two concurrent checks the later one wins.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let files = Files::read(&self.paths);
        let found = Files::fingerprint(&files);
        if *seen == found && !force {
            return Ok(Reload::Unchanged);
        }
        let is_new = std::mem::replace(&mut *seen, found) != found;
        let loaded = files?.load(&self.paths)?;
        if !is_new {
            return Ok(Reload::Unchanged);
        }
        if let Some(expiry) = self.expiry.get() {
            expiry.set(loaded.expires_at);
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(Reload::Replaced)
    }

    /// Keeps a gauge at the expiry of the certificate in use from now on.
    pub(super) fn record_expiry(&self, expiry: IntGauge) {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        expiry.set(current.expires_at);
        let _ = self.expiry.set(expiry);
    }

    /// Checks the files at every interval and logs the result; never returns.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(self.reload_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await; // The first tick is immediate.
        loop {
            ticks.tick().await;
            self.check_and_log(false).await;
        }
    }

    /// Checks the files now, also if they were unusable before, and logs the result: for `SIGHUP`.
    pub async fn reload_and_log(self: &Arc<Self>) {
        self.check_and_log(true).await;
    }

    async fn check_and_log(self: &Arc<Self>, force: bool) {
        let this = Arc::clone(self);
        let Ok(outcome) = tokio::task::spawn_blocking(move || this.check(force)).await else {
            return; // The runtime is ending.
        };
        let certificate_file = self.paths.certificate_file.display();
        match outcome {
            Ok(Reload::Replaced) => {
                tracing::info!(%certificate_file, "certificate reloaded");
            }
            Ok(Reload::Unchanged) if force => {
                tracing::info!(%certificate_file, "certificate unchanged");
            }
            Ok(Reload::Unchanged) => {}
            Err(error) => {
                tracing::error!(%error, "certificate reload failed; keeping the old one");
            }
        }
    }

    fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current.server_config).into()
    }

    /// Performs the handshake with a client, within its timeout. `None` if it fails.
    pub(super) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let acceptor = self.acceptor();
        let accepted = tokio::time::timeout(self.handshake_timeout, async {
            if is_plaintext(&stream).await? {
                return reject_plaintext(stream).await;
            }
            acceptor.accept(stream).await
        });
        match accepted.await {
            Ok(Ok(stream)) => return Some(stream),
            // Errors of clients are not the operator's concern.
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake timed out"),
        }
        None
    }
}

/// True if the first byte from the client starts text, as HTTP does.
async fn is_plaintext(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let length = stream.peek(&mut first).await?;
    Ok(length > 0 && first[0] != HANDSHAKE_RECORD && first[0].is_ascii_alphabetic())
}

/// Responds in plain HTTP that the port requires TLS.
async fn reject_plaintext<T>(mut stream: TcpStream) -> io::Result<T> {
    stream.write_all(PLAINTEXT_RESPONSE).await?;
    stream.shutdown().await?;
    // The request is read, so that the client receives the response and not a reset.
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Err(io::Error::other("the client does not speak TLS"))
}

/// Paths of the two files.
#[derive(Debug)]
struct Paths {
    certificate_file: PathBuf,
    private_key_file: PathBuf,
}

/// Contents of the two files.
struct Files {
    certificate: Vec<u8>,
    key: String,
}

impl Files {
    fn read(paths: &Paths) -> Result<Self, TlsError> {
        let at = |source| TlsError::CertificateFile {
            path: paths.certificate_file.clone(),
            source,
        };
        let certificate = read_certificate_file(&paths.certificate_file).map_err(at)?;
        let key = read_private_key(paths)?;
        Ok(Self { certificate, key })
    }

    /// Returns a hash that changes with the files; unreadable files are identified by their error.
    fn fingerprint(files: &Result<Self, TlsError>) -> [u8; 32] {
        let mut hash = Sha256::new();
        match files {
            Ok(files) => {
                hash.update((files.certificate.len() as u64).to_be_bytes());
                hash.update(&files.certificate);
                hash.update(&files.key);
            }
            Err(error) => hash.update(error.to_string()),
        }
        hash.finalize().into()
    }

    fn load(&self, paths: &Paths) -> Result<Current, TlsError> {
        let unusable = |problem: String| TlsError::Certificate {
            path: paths.certificate_file.clone(),
            problem,
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(explain(&error)))?;
        if chain.is_empty() {
            return Err(unusable("no BEGIN CERTIFICATE section".to_owned()));
        }
        let key = parse_private_key(&self.key, paths)?;
        let expires_at = chain.iter().filter_map(expiry).min().unwrap_or(0);
        let mut server_config = build(chain, key).map_err(|error| TlsError::Pair {
            certificate_file: paths.certificate_file.clone(),
            private_key_file: paths.private_key_file.clone(),
            problem: match error {
                rustls::Error::InconsistentKeys(_) => "do not match".to_owned(),
                error => error.to_string(),
            },
        })?;
        server_config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Current {
            server_config: Arc::new(server_config),
            expires_at,
        })
    }
}

/// Returns the end of a certificate's validity; `None` if it cannot be read.
fn expiry(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

fn read_private_key(paths: &Paths) -> Result<String, TlsError> {
    let missing = || TlsError::Key {
        path: paths.private_key_file.clone(),
        problem: "no such file".to_owned(),
    };
    let read = private_file::read(&paths.private_key_file).map_err(TlsError::KeyFile)?;
    read.ok_or_else(missing)
}

fn parse_private_key(text: &str, paths: &Paths) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| TlsError::Key {
        path: paths.private_key_file.clone(),
        problem: match error {
            pem::Error::NoItemsFound => "no BEGIN PRIVATE KEY section".to_owned(),
            error => explain(&error),
        },
    })
}

fn build(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
}

/// Describes an error in a PEM file without quoting it: the file may contain a key.
fn explain(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a PEM section has no end",
        pem::Error::IllegalSectionStart { .. } => "a PEM section has an invalid beginning",
        pem::Error::Base64Decode(_) => "a PEM section is not base64",
        _ => "not PEM",
    }
    .to_owned()
}

fn read_certificate_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(CERTIFICATE_FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > CERTIFICATE_FILE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}
