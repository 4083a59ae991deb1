//! Errors of opening the data.

use std::io;
use std::path::PathBuf;

use knowledge_core::service::OpenError;
use knowledge_core::store::StoreError;

use crate::backup::switch::SwitchError;
use crate::partitions::PartitionError;
use crate::sealing::KeyFileError;

/// Error of opening the data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The directory contains no store, and none is to be created.
    #[error(
        "there is no store in {}; create one with `knowledge init` or `knowledge serve`",
        path.display()
    )]
    Missing {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The path has no name to append a suffix to, such as `/`.
    #[error("{} cannot be a data directory", path.display())]
    Unnamed {
        /// The path.
        path: PathBuf,
    },
    /// The directory is inside that of another store.
    #[error(
        "{} is inside the store {}; choose a directory outside it",
        path.display(), outer.display()
    )]
    Nested {
        /// Path of the directory.
        path: PathBuf,
        /// Path of the other store's directory.
        outer: PathBuf,
    },
    /// The directory belongs to another user, who could not read the files of this process.
    #[error(
        "{} is owned by UID {owner}, and this process runs as UID {user}; run the command as its \
         owner, for example with sudo -u '#{owner}'", path.display()
    )]
    OtherOwner {
        /// The directory, a file in it, or its parent if it is missing.
        path: PathBuf,
        /// UID of its owner.
        owner: u32,
        /// UID of this process.
        user: u32,
    },
    /// The system reported an error before the directory was opened.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A command cannot open a store in the memory of another process.
    #[error(
        "a store in memory exists only in the process of `knowledge serve` or `knowledge demo`; \
         only commands that use its admin socket can reach it"
    )]
    InMemory,
    /// The database is empty, and no store is to be created.
    #[error("there is no store in {store}; create one with `knowledge init` or `knowledge serve`")]
    Empty {
        /// Name of the store.
        store: String,
    },
    /// No partition has this name.
    #[error("there is no partition {name:?} (storage.partitions); known partitions: {known}")]
    UnknownPartition {
        /// The name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The stores cannot be used together.
    #[error(transparent)]
    Partitions(#[from] PartitionError),
    /// The store is in no directory.
    #[error("{store} is a database and has no directory")]
    NoDirectory {
        /// Name of the store.
        store: String,
    },
    /// No file is named for the sealing key of a database, which several servers share.
    #[error(
        "{store} needs a sealing key file, which all its servers share; name it with \
         --sealing-key-file (storage.sealing_key_file); for a new database, create it with \
         `(umask 077; head -c 32 /dev/urandom | base64 > FILE)`"
    )]
    KeyFileUnset {
        /// Name of the store.
        store: String,
    },
    /// The sealing key file of an empty database does not exist.
    #[error(
        "the sealing key file {file} is missing; create it with \
         `(umask 077; head -c 32 /dev/urandom | base64 > {file})` and copy it to every server of \
         the database",
        file = path.display()
    )]
    KeyFileMissing {
        /// Path of the file.
        path: PathBuf,
    },
    /// The database cannot be opened.
    #[cfg(feature = "postgres")]
    #[error("{store}: {source}{hint}")]
    Postgres {
        /// Name of the store.
        store: String,
        /// The error of the database.
        source: knowledge_storage_postgres::OpenError,
        /// Setting that may be the reason, in parentheses; often empty.
        hint: String,
    },
    /// The file with the password of the database cannot be read.
    #[cfg(feature = "postgres")]
    #[error("postgres.password_file cannot be used: {0}")]
    PostgresPassword(String),
    /// The program was built without PostgreSQL.
    #[error("this program was built without PostgreSQL (feature postgres) and cannot open {store}")]
    WithoutPostgres {
        /// Name of the store.
        store: String,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] knowledge_storage_embedded::OpenError),
    /// The store was opened but cannot be read.
    #[error("the store cannot be read: {0}")]
    Read(#[from] StoreError),
    /// The store is being compacted, or an interrupted compaction cannot be recovered.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The sealing key cannot be read.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The service cannot use the store, for example because its sealing key is another one.
    #[error("{store}: {source}")]
    Service {
        /// Name of the store.
        store: String,
        /// The error of the service.
        source: OpenError,
    },
}
