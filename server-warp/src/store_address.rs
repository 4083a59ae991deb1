//! Address of a store: an engine and a directory, a PostgreSQL database, or the memory of the process.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use knowledge_storage_embedded::{OpenError, store_kind};
use knowledge_storage_fjall::Fjall;
use knowledge_storage_sled::Sled;

pub use crate::postgres_address::PostgresAddress;

/// Engine of a store in a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// sled, the default.
    #[default]
    Sled,
    /// fjall.
    Fjall,
}

impl Engine {
    const ALL: [Self; 2] = [Self::Sled, Self::Fjall];

    /// Returns the name in addresses.
    #[must_use]
    pub fn name(self) -> &'static str {
        use knowledge_storage_embedded::Engine as _;

        match self {
            Self::Sled => Sled::NAME,
            Self::Fjall => Fjall::NAME,
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// Returns the engine of the store in a directory, if there is one with a known engine.
    ///
    /// # Errors
    /// Errors of [`store_kind`].
    pub fn of_directory(path: &Path) -> Result<Option<Self>, OpenError> {
        Ok(store_kind(path)?.and_then(|kind| Self::named(&kind.engine)))
    }

    /// Returns the name of a file in a store's directory that is not the store's, if there is one.
    ///
    /// # Errors
    /// Errors of reading the directory.
    pub fn foreign_file(self, directory: &Path) -> io::Result<Option<PathBuf>> {
        for entry in fs::read_dir(directory)? {
            let name = entry?.file_name();
            let text = name.to_string_lossy();
            let is_own = match self {
                Self::Sled => {
                    ["db", "conf", "blobs"].contains(&&*text) || text.starts_with("snap.")
                }
                Self::Fjall => ["fjall", "fjall.new"].contains(&&*text),
            };
            if !is_own && !text.starts_with("knowledge-store.") {
                return Ok(Some(name.into()));
            }
        }
        Ok(None)
    }

    /// Returns the estimated bytes on disk per byte of keys and values in a new store.
    ///
    /// It is for the check of free space; 2.7 were measured with sled and 0.4 with fjall. If it is
    /// exceeded, the new store fails as full.
    #[must_use]
    pub fn bytes_per_content_byte(self) -> u64 {
        match self {
            Self::Sled => 4,
            Self::Fjall => 2,
        }
    }
}

/// Help text on the available stores, with figures for 1,000,000 memories of 300 bytes on 2 cores.
pub const STORES_FOR_HELP: &str = "\
Stores, with figures of 1,000,000 memories of 300 bytes:
  sled:DIR   the default: 5.2 kB on disk per memory, opens in 0.4 to 20 s
  fjall:DIR  for large stores: 0.5 kB on disk per memory, opens in less than 1 s
  postgres://USER@HOST/DATABASE
             for several servers: a PostgreSQL database, see docs/scaling.md
  memory:    for trials: lost when the process ends";

/// Address of a store, written `sled:DIR`, `fjall:DIR`, `postgres://…` or `memory:`; a directory whose
/// engine is not given, as its path only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    /// Directory that contains only the store.
    Directory {
        /// Engine of the store. `None` uses that of the existing store, and sled for a new one.
        engine: Option<Engine>,
        /// Path of the directory.
        path: PathBuf,
    },
    /// PostgreSQL database, which several processes may have open.
    Postgres(PostgresAddress),
    /// Memory of the process. The store ends with the process.
    Memory,
}

impl StoreAddress {
    /// Creates the address of the store in a directory, of any engine.
    #[must_use]
    pub fn in_directory(path: impl Into<PathBuf>) -> Self {
        Self::Directory {
            engine: None,
            path: path.into(),
        }
    }

    /// Returns the directory, if there is one.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory { path, .. } => Some(path),
            Self::Postgres(_) | Self::Memory => None,
        }
    }

    /// Returns true if other processes may change the store while this one has it open.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }
}

/// Error of parsing a store address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be {}", StoreAddress::NOTATION)]
pub struct InvalidAddress;

impl StoreAddress {
    /// Notation of addresses, for messages.
    pub const NOTATION: &'static str =
        "sled:DIR, fjall:DIR, postgres://USER@HOST/DATABASE or, for a server, memory:";
}

impl FromStr for StoreAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        if let Some(address) = PostgresAddress::parse(text) {
            return Ok(Self::Postgres(address));
        }
        let (engine, path) = text.split_once(':').ok_or(InvalidAddress)?;
        if engine == "memory" && path.is_empty() {
            return Ok(Self::Memory);
        }
        let engine = Engine::named(engine).ok_or(InvalidAddress)?;
        if path.is_empty() {
            return Err(InvalidAddress);
        }
        Ok(Self::Directory {
            engine: Some(engine),
            path: path.into(),
        })
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory {
                engine: Some(engine),
                path,
            } => write!(f, "{}:{}", engine.name(), path.display()),
            Self::Directory { engine: None, path } => path.display().fmt(f),
            Self::Postgres(address) => address.fmt(f),
            Self::Memory => f.write_str("memory:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_address_round_trips() {
        for text in [
            "sled:./data",
            "fjall:/var/lib/knowledge",
            "memory:",
            "sled:a:b",
            "postgres://app@db1,db2/knowledge?sslmode=verify-full",
        ] {
            assert_eq!(text.parse::<StoreAddress>().unwrap().to_string(), text);
        }
        for text in [
            "", "sled", "sled:", "memory:x", "redb:x", "./data", "Sled:x",
        ] {
            assert_eq!(text.parse::<StoreAddress>(), Err(InvalidAddress), "{text}");
        }
    }
}
