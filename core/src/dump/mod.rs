//! Dumps: a whole store as lines of text, in one form only, so that the same data makes the same bytes.
//!
//! | line | what it is |
//! | --- | --- |
//! | the first | the [`Header`]: format, schema, fingerprint of the sealing key, what wrote it |
//! | one for each entry, by the byte order of the keys | `{"key":…,"value":…}` |
//! | the last | the [`Summary`]: how many entries, and the SHA-256 of all lines before it |
//!
//! Each line is one JSON object and ends with a line feed. A value stands as the JSON that it is, byte by byte; what is no
//! JSON on one line stands as `value_base64`, and a key that is not text as `key_base64`. There is no time in a dump, and no
//! [`Version`](crate::store::Version): those belong to the store that gave them, and nothing that is stored refers to one.
//! A dump that was read into an empty store and written again has the same bytes.
//!
//! Signing secrets stand in a dump as they are stored, sealed: it is of use together with the sealing key alone, whose
//! fingerprint the header tells. Of tokens and sessions it has the hashes. Everything else can be read by whoever has the
//! dump: it needs the protection that the store has.
//!
//! This module makes lines and takes lines; where they go to and come from is the caller's. [`Export`] reads any
//! [`Store`](crate::store::Store), [`Decoder`] reads lines and refuses what was cut off, reordered or altered, and
//! [`Restore`] writes them into an empty store, which no service opens before it is whole.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use knowledge_core::dump::{Export, Restore};
//! use knowledge_core::store::{Commit, Key, MemoryStore, Store, StoreExt};
//!
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! store.commit(Commit::builder().put(Key::new("greeting")?, "\"hello\"").build()?).await?;
//! let mut lines = Vec::new();
//! let mut export = Export::begin(store).await?;
//! while export.read(&mut lines).await? {}
//!
//! let copy: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! let mut restore = Restore::begin(Arc::clone(&copy), None).await?;
//! for line in lines.split_inclusive(|byte| *byte == b'\n') {
//!     restore.take(line).await?;
//! }
//! assert_eq!(restore.finish().await?.entries, 1);
//! assert_eq!(copy.get(&[Key::new("greeting")?]).await?[0].as_ref().unwrap().value, "\"hello\"");
//! # Ok(())
//! # }
//! ```

mod decoder;
mod export;
mod line;
mod restore;

use serde::{Deserialize, Serialize};

pub use self::decoder::{Decoder, DumpError, Line, LineProblem};
pub use self::export::{Export, ExportError};
pub(crate) use self::restore::UNFINISHED_SCHEMA;
pub use self::restore::{Restore, RestoreError};
use crate::store::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// What the first line of every dump calls itself.
const FORMAT: &str = "knowledge-dump";
/// The number of the format that is written and read here.
pub const FORMAT_VERSION: u32 = 1;
/// The longest line, in bytes with its line feed: the longest key with every character escaped and the longest value in
/// base64 fit into it. Whoever reads lines needs not read further.
pub const LINE_BYTES_MAX: usize = 6 * KEY_BYTES_MAX + VALUE_BYTES_MAX.div_ceil(3) * 4 + 64;

/// The first line of a dump.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    format: String,
    version: u32,
    /// The schema number of the store; none for a store that no service ever opened.
    pub schema: Option<u32>,
    /// The fingerprint of the key that the secrets in the store are sealed with.
    pub sealing_key: Option<String>,
    /// The package that wrote the dump, and its version.
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

/// The last line of a dump: what all the others come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// How many entries there are.
    pub entries: u64,
    /// The SHA-256 of every line before this one, line feeds included, in hexadecimal digits.
    pub sha256: String,
}
