//! The store: reads, and the submission of commits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use knowledge_store::{Commit, CommitOutcome, Found, Read, Store, StoreError};
use tokio::task::JoinHandle;

use crate::committer::Committer;
use crate::connection::{Connector, Purpose};
use crate::error::OpenError;
use crate::options::PostgresOptions;
use crate::queue::Queue;
use crate::readers::Readers;
use crate::schema;
use crate::snapshot::PostgresSnapshot;
use crate::url::Target;

/// A store in a PostgreSQL database, which any number of processes may have open.
///
/// Its connections are driven by tasks of the tokio runtime in which it was opened. Dropping it
/// rejects further calls; commits that were submitted are still handled. To wait for them, use
/// [`PostgresStore::close`].
pub struct PostgresStore {
    target: Target,
    connector: Arc<Connector>,
    readers: Readers,
    queue: Arc<Queue>,
    committers: Vec<JoinHandle<()>>,
    read_time_max: Duration,
    lock_time_max: Duration,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects, and creates or updates the schema.
    ///
    /// Several processes may open the store at once: one of them changes the schema, and the others
    /// wait.
    ///
    /// # Errors [`OpenError`], whose message says what to do.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and timers.
    pub async fn open(options: PostgresOptions) -> Result<Self, OpenError> {
        let connector = Arc::new(Connector::new(&options)?);
        let connection = connector.connect(Purpose::Schema).await?;
        schema::prepare(&connection, options.views).await?;
        drop(connection);
        let queue = Arc::new(Queue::default());
        let committers = (0..options.committers).map(|_| {
            let committer = Committer {
                queue: Arc::clone(&queue),
                connector: Arc::clone(&connector),
                lock_time_max: options.lock_time_max,
                write_time_max: options.write_time_max,
            };
            tokio::spawn(committer.run())
        });
        Ok(Self {
            committers: committers.collect(),
            readers: Readers::new(
                Arc::clone(&connector),
                options.read_connections,
                options.read_time_max,
            ),
            connector,
            queue,
            target: options.target,
            read_time_max: options.read_time_max,
            lock_time_max: options.lock_time_max,
        })
    }

    /// Returns the current state, readable while others write.
    ///
    /// It contains all commits that were acknowledged before this call, of any process. It
    /// takes one more connection.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`](knowledge_store::StoreErrorKind::Unavailable) without a
    /// connection.
    pub async fn snapshot(&self) -> Result<PostgresSnapshot, StoreError> {
        PostgresSnapshot::begin(Arc::clone(&self.connector), self.read_time_max).await
    }

    /// Handles the commits that were submitted, and closes the connections.
    pub async fn close(mut self) {
        self.queue.close();
        join_all(std::mem::take(&mut self.committers)).await;
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.readers.read(reads).await
    }

    /// Once a committer has taken the commit, it is handled even if the future is dropped.
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.queue.submit(commit, self.lock_time_max).await
    }
}
