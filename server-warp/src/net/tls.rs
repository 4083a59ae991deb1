//! TLS: the certificate and its key, read from files and read again while the server runs.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

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

use crate::private_file::{self, PrivateFileError};

/// Time between two looks at the files of the certificate.
pub const TLS_RELOAD_INTERVAL_DEFAULT: Duration = Duration::from_secs(60);

/// Time for the handshake of a new connection.
pub const TLS_HANDSHAKE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// The largest file of certificates that is read, in bytes.
const CERTIFICATE_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The first byte of every TLS connection: a record of the handshake.
const HANDSHAKE_RECORD: u8 = 0x16;

/// What a client hears that speaks HTTP where TLS is spoken.
const ANSWER_TO_PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
    Content-Length: 24\r\nConnection: close\r\n\r\nThis port speaks HTTPS.\n";

/// Which certificate the server shows, and how it speaks TLS: versions 1.2 and 1.3, HTTP/1.1 within.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// The certificate chain as PEM, the server's own certificate first.
    pub certificate_file: PathBuf,
    /// The private key of the first certificate as PEM (PKCS #8, PKCS #1 or SEC 1), readable by its owner alone.
    pub private_key_file: PathBuf,
    /// Time between two looks at the files. What changed is taken for new connections; those that are open go on.
    pub reload_interval: Duration,
    /// Time for the handshake of a new connection. Then it is closed.
    pub handshake_timeout: Duration,
}

impl TlsConfig {
    /// With these two files, and everything else at its default.
    #[must_use]
    pub fn new(certificate_file: impl Into<PathBuf>, private_key_file: impl Into<PathBuf>) -> Self {
        Self {
            certificate_file: certificate_file.into(),
            private_key_file: private_key_file.into(),
            reload_interval: TLS_RELOAD_INTERVAL_DEFAULT,
            handshake_timeout: TLS_HANDSHAKE_TIMEOUT_DEFAULT,
        }
    }

    /// Reads the files as a server does when it is bound, and changes nothing.
    ///
    /// # Errors
    /// One by one at [`TlsError`].
    pub fn try_files(&self) -> Result<(), TlsError> {
        Files::read(self)?.server_config(self).map(drop)
    }
}

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file of certificates cannot be read.
    #[error("the certificate {}: {source}", path.display())]
    CertificateFile {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// What is in the file of certificates is no chain.
    #[error("the certificate {}: {problem}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file of the key cannot be read, or others than its owner can.
    #[error("the private key {0}")]
    KeyFile(PrivateFileError),
    /// What is in the file of the key is no key that can be used.
    #[error("the private key {}: {problem}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Certificate and key do not belong together, or cannot be used together.
    #[error(
        "the private key {} and the certificate {}: {problem}",
        private_key_file.display(), certificate_file.display()
    )]
    Pair {
        /// The file of the certificates.
        certificate_file: PathBuf,
        /// The file of the key.
        private_key_file: PathBuf,
        /// What is wrong with the two.
        problem: String,
    },
}

/// What came of looking at the files of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// They are as they were.
    Unchanged,
    /// What they have now is shown to new connections.
    Replaced,
}

/// The certificate that is shown to new connections.
#[derive(Debug)]
pub struct Certificates {
    config: TlsConfig,
    current: RwLock<Arc<ServerConfig>>,
    /// The fingerprint of the files when they were last looked at, usable or not.
    seen: Mutex<[u8; 32]>,
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// One by one at [`TlsError`].
    pub(super) fn open(config: TlsConfig) -> Result<Arc<Self>, TlsError> {
        let files = Files::read(&config);
        let seen = Mutex::new(Files::fingerprint(&files));
        let current = RwLock::new(files?.server_config(&config)?);
        Ok(Arc::new(Self {
            config,
            current,
            seen,
        }))
    }

    /// Looks at the files now, and takes what changed for new connections; open ones go on. Where that fails the
    /// certificate in force stays. Blocks while it reads.
    ///
    /// # Errors
    /// One by one at [`TlsError`].
    pub fn reload(&self) -> Result<Reload, TlsError> {
        self.look(true)
    }

    /// Looks at the files. What was found unusable once is tried again only if `again`.
    fn look(&self, again: bool) -> Result<Reload, TlsError> {
        // Held throughout: of two looks at once the later one stands.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let files = Files::read(&self.config);
        let found = Files::fingerprint(&files);
        if *seen == found && !again {
            return Ok(Reload::Unchanged);
        }
        let is_new = std::mem::replace(&mut *seen, found) != found;
        let server_config = files?.server_config(&self.config)?;
        if !is_new {
            return Ok(Reload::Unchanged);
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = server_config;
        Ok(Reload::Replaced)
    }

    /// Looks at the files at every interval, for ever, and logs what came of it.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(self.config.reload_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await; // The first comes at once.
        loop {
            ticks.tick().await;
            self.look_and_log(false).await;
        }
    }

    /// Looks at the files now whatever was found before, and logs what came of it: for a signal of the operator.
    pub async fn reload_and_log(self: &Arc<Self>) {
        self.look_and_log(true).await;
    }

    async fn look_and_log(self: &Arc<Self>, again: bool) {
        let this = Arc::clone(self);
        let Ok(outcome) = tokio::task::spawn_blocking(move || this.look(again)).await else {
            return; // The runtime is ending.
        };
        let certificate_file = self.config.certificate_file.display();
        match outcome {
            Ok(Reload::Replaced) => {
                tracing::info!(%certificate_file, "a new certificate is shown to new connections");
            }
            Ok(Reload::Unchanged) if again => {
                tracing::info!(%certificate_file, "the certificate is as it was");
            }
            Ok(Reload::Unchanged) => {}
            Err(error) => {
                tracing::error!(%error, "a changed certificate cannot be used; the old one stays");
            }
        }
    }

    fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current).into()
    }

    /// Shakes hands with a client, within the time for it. `None` for one that does not get that far.
    pub(super) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let acceptor = self.acceptor();
        let accepted = tokio::time::timeout(self.config.handshake_timeout, async {
            if speaks_plainly(&stream).await? {
                return refuse_plain(stream).await;
            }
            acceptor.accept(stream).await
        });
        match accepted.await {
            Ok(Ok(stream)) => return Some(stream),
            // What clients do wrong is theirs: nothing here asks for an operator.
            Ok(Err(error)) => tracing::debug!(%error, "no TLS connection came about"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
        None
    }
}

/// Whether what the client sends first is the beginning of a text, as that of HTTP is.
async fn speaks_plainly(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let length = stream.peek(&mut first).await?;
    Ok(length > 0 && first[0] != HANDSHAKE_RECORD && first[0].is_ascii_alphabetic())
}

/// Tells a client that it should speak TLS, in the one language that it understands.
async fn refuse_plain<T>(mut stream: TcpStream) -> io::Result<T> {
    stream.write_all(ANSWER_TO_PLAIN_HTTP).await?;
    stream.shutdown().await?;
    // What it sent is read, so that it receives the answer and not a reset.
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Err(io::Error::other("the client does not speak TLS"))
}

/// What the two files hold.
struct Files {
    certificate: Vec<u8>,
    key: String,
}

impl Files {
    fn read(config: &TlsConfig) -> Result<Self, TlsError> {
        let at = |source| TlsError::CertificateFile {
            path: config.certificate_file.clone(),
            source,
        };
        let certificate = read_certificate_file(&config.certificate_file).map_err(at)?;
        let path = &config.private_key_file;
        let key = match private_file::read(path) {
            Ok(Some(key)) => key,
            Ok(None) => {
                return Err(TlsError::Key {
                    path: path.clone(),
                    problem: "there is no such file".to_owned(),
                });
            }
            Err(error) => return Err(TlsError::KeyFile(error)),
        };
        Ok(Self { certificate, key })
    }

    /// Tells whether files are others than before, those that cannot be read by why not.
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

    fn server_config(&self, config: &TlsConfig) -> Result<Arc<ServerConfig>, TlsError> {
        let unusable = |problem: String| TlsError::Certificate {
            path: config.certificate_file.clone(),
            problem,
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(explain(&error)))?;
        if chain.is_empty() {
            return Err(unusable("no PEM with BEGIN CERTIFICATE in it".to_owned()));
        }
        let key =
            PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|error| TlsError::Key {
                path: config.private_key_file.clone(),
                problem: match error {
                    pem::Error::NoItemsFound => "no PEM with BEGIN PRIVATE KEY in it".to_owned(),
                    error => explain(&error),
                },
            })?;
        let mut server_config = build(chain, key).map_err(|error| TlsError::Pair {
            certificate_file: config.certificate_file.clone(),
            private_key_file: config.private_key_file.clone(),
            problem: match error {
                rustls::Error::InconsistentKeys(_) => "they do not belong together".to_owned(),
                error => error.to_string(),
            },
        })?;
        server_config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(server_config))
    }
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

/// What is wrong with a PEM, without a byte of it: it may be of a key.
fn explain(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a PEM section in it does not end",
        pem::Error::IllegalSectionStart { .. } => "a PEM section in it does not begin rightly",
        pem::Error::Base64Decode(_) => "a PEM section in it is not base64",
        _ => "it is not PEM",
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
