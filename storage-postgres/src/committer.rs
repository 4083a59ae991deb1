//! Committers: tasks that take waiting commits and write them as groups.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use knowledge_store::{CommitOutcome, StoreError};
use tokio::time::{sleep, timeout};

use crate::backoff::Backoff;
use crate::connection::{Connection, Connector, Purpose};
use crate::error::{Failure, unavailable};
use crate::lane::LaneSet;
use crate::queue::{Group, Outcome, Queue, Request};
use crate::transaction;

/// Number of attempts of a group that conflicts with other users of the tables.
const ATTEMPTS: usize = 4;

/// Committer with a connection of its own.
pub(crate) struct Committer {
    pub(crate) queue: Arc<Queue>,
    pub(crate) connector: Arc<Connector>,
    pub(crate) lock_time_max: Duration,
    pub(crate) write_time_max: Duration,
}

impl Committer {
    /// Handles commits until the queue is closed and empty.
    ///
    /// A panic ends the group under way, whose outcome is then unknown, but not the committer.
    pub(crate) async fn run(self) {
        let mut backoff = Backoff::default();
        while AssertUnwindSafe(self.work()).catch_unwind().await.is_err() {
            tracing::error!("a committer panicked; it starts again");
            sleep(backoff.next_delay()).await;
        }
    }

    async fn work(&self) {
        let mut backoff = Backoff::default();
        loop {
            match self.connector.connect(Purpose::Commit).await {
                Ok(mut connection) => {
                    backoff.reset();
                    if self.serve(&mut connection).await {
                        return;
                    }
                }
                Err(error) => {
                    if self.queue.reject_unless_connected(&error.to_store_error()) {
                        return;
                    }
                }
            }
            sleep(backoff.next_delay()).await;
        }
    }

    /// Handles groups as long as the connection lasts. Returns true after the last commit.
    async fn serve(&self, connection: &mut Connection) -> bool {
        let _connected = self.queue.connect();
        loop {
            let group = tokio::select! {
                group = self.queue.next() => group,
                () = connection.closed() => return false,
            };
            let Some(Group { requests, lanes }) = group else {
                return true;
            };
            let is_usable = self.handle(connection, requests).await;
            drop(lanes);
            if !is_usable {
                return false;
            }
        }
    }

    /// Handles and answers the commits of a group.
    ///
    /// Returns false if the connection cannot be used any more.
    async fn handle(&self, connection: &Connection, requests: Vec<Request>) -> bool {
        for _ in 1..ATTEMPTS {
            match self.attempt(connection, &requests).await {
                Err(Failure::Conflicting(_)) => {}
                Err(Failure::Rejected(_)) if requests.len() > 1 => {
                    // One of them is at fault: the others must not fail with it.
                    return self.handle_one_by_one(connection, requests).await;
                }
                result => return answer(requests, result),
            }
            if transaction::roll_back(connection).await.is_err() {
                break;
            }
        }
        let result = self.attempt(connection, &requests).await;
        answer(requests, result)
    }

    async fn handle_one_by_one(&self, connection: &Connection, requests: Vec<Request>) -> bool {
        let mut is_usable = transaction::roll_back(connection).await.is_ok();
        for request in requests {
            let result = if is_usable {
                self.attempt(connection, std::slice::from_ref(&request))
                    .await
            } else {
                Err(Failure::NotApplied(unavailable("the connection was lost")))
            };
            let is_rejected = matches!(result, Err(Failure::Rejected(_) | Failure::Conflicting(_)));
            is_usable = answer(vec![request], result)
                || is_rejected && transaction::roll_back(connection).await.is_ok();
        }
        is_usable
    }

    /// Handles a group in one transaction, and returns the outcome of each of its commits.
    async fn attempt(
        &self,
        connection: &Connection,
        requests: &[Request],
    ) -> Result<Vec<Outcome>, Failure> {
        let mut lanes = LaneSet::default();
        for request in requests {
            lanes.add_all(&LaneSet::of(&request.commit));
        }
        let lanes = lanes.numbers();
        let begun = transaction::begin(connection, &lanes, requests);
        // The server limits the wait for each lane.
        let begun = timeout(self.lock_time_max.saturating_mul(2), begun).await;
        let mut overlay = begun.unwrap_or_else(|_| {
            let message = "the server did not answer a commit in time";
            Err(Failure::NotApplied(unavailable(message)))
        })?;
        let decided = requests
            .iter()
            .map(|request| overlay.decide(&request.commit));
        let decided: Vec<Outcome> = decided.collect();
        if !decided.iter().any(is_committed) {
            transaction::roll_back(connection).await?;
            return Ok(decided);
        }
        if connection.is_closed() {
            let message = "the connection was lost before the commit";
            return Err(Failure::NotApplied(unavailable(message)));
        }
        let written = transaction::write(connection, &lanes, &overlay);
        let written = timeout(self.write_time_max, written).await;
        written.unwrap_or_else(|_| Err(Failure::unknown("the server did not answer in time")))?;
        Ok(decided)
    }
}

fn is_committed(outcome: &Outcome) -> bool {
    matches!(outcome, Ok(CommitOutcome::Committed(_)))
}

/// Answers the commits of a group, and returns true if the connection can still be used.
fn answer(requests: Vec<Request>, result: Result<Vec<Outcome>, Failure>) -> bool {
    let (error, is_usable): (StoreError, bool) = match result {
        Ok(outcomes) => {
            for (request, outcome) in requests.into_iter().zip(outcomes) {
                // The caller may be gone.
                let _ = request.reply.send(outcome);
            }
            return true;
        }
        Err(
            Failure::NotApplied(error)
            | Failure::Conflicting(error)
            | Failure::Rejected(error)
            | Failure::Unknown(error),
        ) => (error, false),
    };
    tracing::warn!(%error, kind = ?error.kind(), commits = requests.len(), "commits failed");
    for request in requests {
        let _ = request.reply.send(Err(error.clone()));
    }
    is_usable
}
