//! Dumps: a whole store as lines of text in canonical form, so that equal data gives equal bytes.
//!
//! | line | content |
//! | --- | --- |
//! | first | [`Header`]: format, schema, fingerprint of the sealing key, program that wrote it |
//! | one per entry, in byte order of the keys | `{"key":…,"value":…}` |
//! | last | [`Summary`]: number of entries, SHA-256 of all lines before it |
//!
//! Each line is one JSON object and ends with a line feed. A value that is JSON on one line is
//! embedded byte by byte, any other as `value_base64`; a key that is not text is written as
//! `key_base64`. A dump contains no time and no [`Version`](crate::store::Version): versions belong
//! to the store that assigned them, and no stored data refers to one. Restoring a dump with its
//! credentials into an empty store and dumping that store gives the same bytes.
//!
//! Signing secrets remain sealed in a dump: they can only be used with the sealing key whose
//! fingerprint is in the header. Tokens and sessions are present as hashes. Everything else is
//! readable: a dump needs the same protection as the store.
//!
//! This module writes and reads lines; the caller transports them. [`Export`] reads any
//! [`Store`](crate::store::Store). [`Decoder`] reads lines and rejects a truncated, reordered or
//! altered dump. [`Restore`] writes the entries into an empty store, which no service opens before
//! it is complete. By its [`CredentialPolicy`] it revokes the credentials in the dump, or keeps them.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use knowledge_core::dump::{CredentialPolicy, Export, Restore};
//! use knowledge_core::store::{Commit, Key, MemoryStore, Store, StoreExt};
//!
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! store.commit(Commit::builder().put(Key::new("greeting")?, "\"hello\"").build()?).await?;
//! let mut lines = Vec::new();
//! let mut export = Export::begin(store).await?;
//! while export.read(&mut lines).await? {}
//!
//! let copy: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! let policy = CredentialPolicy::Keep;
//! let mut restore = Restore::begin(Arc::clone(&copy), None, policy).await?;
//! for line in lines.split_inclusive(|byte| *byte == b'\n') {
//!     restore.take(line).await?;
//! }
//! assert_eq!(restore.finish().await?.dump.entries, 1);
//! assert_eq!(copy.get(&[Key::new("greeting")?]).await?[0].as_ref().unwrap().value, "\"hello\"");
//! # Ok(())
//! # }
//! ```

mod credentials;
mod decoder;
mod export;
mod line;
mod restore;

use serde::{Deserialize, Serialize};

pub use self::credentials::{CredentialPolicy, RevokedCredentials};
pub use self::decoder::{Decoder, DumpError, Line, LineProblem};
pub use self::export::{Export, ExportError};
pub use self::restore::{Restore, RestoreError, RestoreReport};
use crate::store::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Name of the format in the first line of every dump.
const FORMAT: &str = "knowledge-dump";
/// Version of the format that this program writes and reads.
pub const FORMAT_VERSION: u32 = 1;
/// Maximum length of a line, in bytes with its line feed.
///
/// The longest key with every character escaped and the longest value in base64 fit. A reader can
/// reject a longer line without reading it to its end.
pub const LINE_BYTES_MAX: usize = 6 * KEY_BYTES_MAX + VALUE_BYTES_MAX.div_ceil(3) * 4 + 64;

/// The first line of a dump.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    format: String,
    version: u32,
    /// Schema number of the store; `None` if no service has ever opened it.
    pub schema: Option<u32>,
    /// Fingerprint of the key that seals the secrets in the store.
    pub sealing_key: Option<String>,
    /// Package that wrote the dump, and its version.
    pub written_by: String,
}

impl Header {
    fn new(schema: Option<u32>, sealing_key: Option<String>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: FORMAT_VERSION,
            schema,
            sealing_key,
            written_by: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// The last line of a dump: count and checksum of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of entries.
    pub entries: u64,
    /// SHA-256 of every line before this one, line feeds included, in hexadecimal digits.
    pub sha256: String,
}
