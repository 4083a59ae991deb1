//! A state of the store that remains readable while others write.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use knowledge_store::{Commit, CommitOutcome, Found, Read, Store, StoreError, StoreErrorKind};

use crate::connection::{Connection, Connector, Purpose};
use crate::error::store_error;
use crate::read_plan::{ReadPlan, column};
use crate::readers::execute;

/// Begins the transaction of a snapshot; its first query determines the state that it sees.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// Sum that every commit increases.
const REVISION: &str = "SELECT sum(version)::text FROM knowledge_lane";

/// State of a store at one point in time, read-only, for example for a backup while others write.
///
/// A snapshot holds no entries in memory: it is a transaction of the database, and has a connection
/// of its own until it is dropped. Neither readers nor writers wait for it, but the database keeps
/// replaced and deleted rows meanwhile. It is lost, so that all further reads fail, if the
/// connection is lost, if a read fails, or if it is not read for
/// [`SNAPSHOT_IDLE_TIME_MAX`](crate::SNAPSHOT_IDLE_TIME_MAX).
pub struct PostgresSnapshot {
    connection: Connection,
    connector: Arc<Connector>,
    revision: String,
    read_time_max: Duration,
}

impl fmt::Debug for PostgresSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSnapshot")
            .field("server", &self.connection.server())
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl PostgresSnapshot {
    pub(crate) async fn begin(
        connector: Arc<Connector>,
        read_time_max: Duration,
    ) -> Result<Self, StoreError> {
        let connection = connector.connect(Purpose::Snapshot).await;
        let connection = connection.map_err(|error| error.to_store_error())?;
        let begun = connection.client().batch_execute(BEGIN).await;
        begun.map_err(|error| store_error(&error))?;
        Ok(Self {
            revision: revision(&connection).await?,
            connection,
            connector,
            read_time_max,
        })
    }

    /// Returns true if nothing has been committed to the store since.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] without another connection to the database.
    pub async fn is_current(&self) -> Result<bool, StoreError> {
        let connection = self.connector.connect(Purpose::Read).await;
        let connection = connection.map_err(|error| error.to_store_error())?;
        Ok(revision(&connection).await? == self.revision)
    }
}

async fn revision(connection: &Connection) -> Result<String, StoreError> {
    let found = connection.client().query_typed_one(REVISION, &[]).await;
    column(&found.map_err(|error| store_error(&error))?, 0)
}

#[async_trait]
impl Store for PostgresSnapshot {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let Some(plan) = ReadPlan::new(reads) else {
            return Ok(ReadPlan::nothing(reads));
        };
        let error = match execute(&self.connection, &plan, self.read_time_max).await {
            Ok(Ok(rows)) => return plan.distribute(&rows),
            Ok(Err(error)) => store_error(&error),
            Err(error) => error,
        };
        let message = format!("the snapshot is lost: {error}; take a new one");
        Err(StoreError::new(error.kind(), message))
    }

    /// Rejects the commit: a snapshot is read-only.
    async fn commit(&self, _: Commit) -> Result<CommitOutcome, StoreError> {
        let message = "a snapshot is read-only";
        Err(StoreError::new(StoreErrorKind::Invalid, message))
    }
}
