//! Connections that reads share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use knowledge_store::{Found, Read, StoreError};
use tokio::time::{Instant, timeout};
use tokio_postgres::Row;

use crate::backoff::Backoff;
use crate::connection::{Connection, Connector, Purpose};
use crate::error::{is_lost, store_error, unavailable};
use crate::read_plan::ReadPlan;

/// Time that a read gets beyond its limit, within which the server ends it.
const GRACE: Duration = Duration::from_secs(5);

/// Connections that reads share, in turn.
///
/// A lost connection is replaced by the next read that would use it.
pub(crate) struct Readers {
    connector: Arc<Connector>,
    slots: Vec<Slot>,
    turn: AtomicUsize,
    /// Locked by the one read that connects.
    outage: tokio::sync::Mutex<Outage>,
    time_max: Duration,
}

/// Failed attempts to connect since the last success.
#[derive(Default)]
struct Outage {
    backoff: Backoff,
    /// Last error, and the time until which it is the answer to all reads.
    error: Option<(StoreError, Instant)>,
}

impl Readers {
    pub(crate) fn new(connector: Arc<Connector>, connections: usize, time_max: Duration) -> Self {
        Self {
            connector,
            slots: (0..connections).map(|_| Mutex::default()).collect(),
            turn: AtomicUsize::new(0),
            outage: tokio::sync::Mutex::default(),
            time_max,
        }
    }

    /// Performs reads as one statement. A read whose connection is lost is repeated.
    pub(crate) async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let Some(plan) = ReadPlan::new(reads) else {
            return Ok(ReadPlan::nothing(reads));
        };
        // Every connection may be lost, and none of the losses noticed yet.
        let mut repeats = self.slots.len();
        loop {
            let connection = self.connection().await?;
            let error = match execute(&connection, &plan, self.time_max).await {
                Ok(Ok(rows)) => return plan.distribute(&rows),
                Ok(Err(error)) => error,
                Err(error) => {
                    self.forget(&connection);
                    return Err(error);
                }
            };
            if !is_lost(&error) {
                return Err(store_error(&error));
            }
            self.forget(&connection);
            if repeats == 0 {
                return Err(store_error(&error));
            }
            repeats -= 1;
        }
    }

    /// Returns the connection whose turn it is; if it is lost, a new one, or any other.
    async fn connection(&self) -> Result<Arc<Connection>, StoreError> {
        let slot = &self.slots[self.turn.fetch_add(1, Ordering::Relaxed) % self.slots.len()];
        if let Some(connection) = live(slot) {
            return Ok(connection);
        }
        let mut outage = self.outage.lock().await;
        if let Some(connection) = live(slot) {
            return Ok(connection);
        }
        if let Some((error, until)) = &outage.error
            && Instant::now() < *until
        {
            return self.any_live().ok_or_else(|| error.clone());
        }
        match self.connector.connect(Purpose::Read).await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *lock(slot) = Some(Arc::clone(&connection));
                *outage = Outage::default();
                Ok(connection)
            }
            Err(error) => {
                let error = error.to_store_error();
                let until = Instant::now() + outage.backoff.next_delay();
                outage.error = Some((error.clone(), until));
                self.any_live().ok_or(error)
            }
        }
    }

    fn any_live(&self) -> Option<Arc<Connection>> {
        self.slots.iter().find_map(live)
    }

    fn forget(&self, lost: &Arc<Connection>) {
        for slot in &self.slots {
            let mut slot = lock(slot);
            if slot.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, lost)) {
                *slot = None;
            }
        }
    }
}

/// Executes a plan, and returns the result of the server.
///
/// # Errors
/// [`StoreErrorKind::Unavailable`](knowledge_store::StoreErrorKind::Unavailable) without a result
/// in time.
pub(crate) async fn execute(
    connection: &Connection,
    plan: &ReadPlan<'_>,
    time_max: Duration,
) -> Result<Result<Vec<Row>, tokio_postgres::Error>, StoreError> {
    let parameters = plan.parameters();
    let query = connection.client().query_typed(plan.text(), &parameters);
    let result = timeout(time_max + GRACE, query).await;
    result.map_err(|_| unavailable("the server did not answer a read in time"))
}

type Slot = Mutex<Option<Arc<Connection>>>;

fn lock(slot: &Slot) -> MutexGuard<'_, Option<Arc<Connection>>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

fn live(slot: &Slot) -> Option<Arc<Connection>> {
    lock(slot)
        .clone()
        .filter(|connection| !connection.is_closed())
}
