//! The transaction of a group: two round trips, to lock and read, and to write and commit.

use bytes::Bytes;
use knowledge_store::{Key, Mutation, Version};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::connection::Connection;
use crate::error::{Failure, corrupt};
use crate::overlay::{Changes, Overlay};
use crate::queue::Request;
use crate::read_plan::{column, version};

/// The following statements must see every commit from before the locks were granted, so each has a
/// new snapshot.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const LOCK: &str = "SELECT lane, version FROM knowledge_lane WHERE lane = ANY($1) \
    ORDER BY lane FOR UPDATE";
const READ: &str = "SELECT key, version, CASE WHEN key = ANY($2) THEN value END \
    FROM knowledge_entry WHERE key = ANY($1)";
const ADVANCE: &str = "UPDATE knowledge_lane SET version = $2 WHERE lane = ANY($1)";
const PUT: &str = "INSERT INTO knowledge_entry AS e (key, value, version) \
    SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::int8[]) \
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version";
const DELETE: &str = "DELETE FROM knowledge_entry WHERE key = ANY($1)";

type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Begins a transaction, locks the lanes in ascending order, and reads what the commits depend on.
///
/// # Errors
/// [`Failure`]; nothing was applied.
pub(crate) async fn begin(
    connection: &Connection,
    lanes: &[i16],
    requests: &[Request],
) -> Result<Overlay, Failure> {
    let counters = sorted(requests.iter().flat_map(|request| {
        let mutations = request.commit.mutations().iter();
        mutations.filter_map(|mutation| match mutation {
            Mutation::Add { key, .. } => Some(key),
            Mutation::Put { .. } | Mutation::Delete { .. } => None,
        })
    }));
    let checked = requests
        .iter()
        .flat_map(|request| request.commit.checks().iter().map(|check| &check.key));
    let mut keys = sorted(checked);
    keys.extend(&counters);
    let client = connection.client();
    let to_lock: [Parameter<'_>; 1] = [(&lanes, Type::INT2_ARRAY)];
    let to_read: [Parameter<'_>; 2] = [(&keys, Type::BYTEA_ARRAY), (&counters, Type::BYTEA_ARRAY)];
    // The first poll sends the statements in this order; all answers are read in any case.
    let (begun, locked, found) = futures::join!(
        client.batch_execute(BEGIN),
        client.query_typed(LOCK, &to_lock),
        client.query_typed(READ, &to_read),
    );
    begun.map_err(|error| Failure::before_write(&error))?;
    let locked = locked.map_err(|error| Failure::before_write(&error))?;
    let found = found.map_err(|error| Failure::before_write(&error))?;
    overlay(lanes, &locked, &found).map_err(Failure::NotApplied)
}

fn overlay(
    lanes: &[i16],
    locked: &[Row],
    found: &[Row],
) -> Result<Overlay, knowledge_store::StoreError> {
    if locked.len() != lanes.len() {
        return Err(corrupt("the table of lanes is incomplete"));
    }
    let mut highest = 0;
    for row in locked {
        let number: i64 = column(row, 1)?;
        let number = u64::try_from(number).map_err(|_| corrupt("the version of a lane is invalid"));
        highest = highest.max(number?);
    }
    let mut overlay = Overlay::new(highest);
    for row in found {
        let key = Key::new(column::<&[u8]>(row, 0)?);
        let key = key.map_err(|error| corrupt(error.to_string()))?;
        let value: Option<&[u8]> = column(row, 2)?;
        let version: Version = version(row, 1)?;
        overlay.insert(key, version, value.map(Bytes::copy_from_slice));
    }
    Ok(overlay)
}

/// Writes the changes of an overlay and commits.
///
/// # Errors [`Failure`]; the changes are applied as a whole or not at all.
pub(crate) async fn write(
    connection: &Connection,
    lanes: &[i16],
    overlay: &Overlay,
) -> Result<(), Failure> {
    let version = overlay.last_version().cast_signed();
    let changes = overlay.changes();
    let client = connection.client();
    let to_advance: [Parameter<'_>; 2] = [(&lanes, Type::INT2_ARRAY), (&version, Type::INT8)];
    connection.take_warning();
    // The first poll sends the statements in this order; all answers are read in any case. The
    // answer to a COMMIT does not tell whether it was a rollback; only the other ones do.
    let (advanced, put, deleted, committed) = futures::join!(
        client.execute_typed(ADVANCE, &to_advance),
        put(client, &changes),
        delete(client, &changes),
        client.batch_execute("COMMIT"),
    );
    let failed = |error: tokio_postgres::Error| Failure::of_write(&error);
    let (advanced, put) = (advanced.map_err(failed)?, put.map_err(failed)?);
    deleted.map_err(failed)?;
    committed.map_err(failed)?;
    if connection.take_warning() {
        // As after a cancelled wait for a synchronous standby.
        return Err(Failure::unknown("the server sent a warning with it"));
    }
    let (written, expected) = ((advanced, put), (lanes.len(), changes.put_keys.len()));
    if written != (expected.0 as u64, expected.1 as u64) {
        let reason = format!("{written:?} rows were written instead of {expected:?}");
        return Err(Failure::unknown(reason));
    }
    Ok(())
}

async fn put(
    client: &tokio_postgres::Client,
    changes: &Changes<'_>,
) -> Result<u64, tokio_postgres::Error> {
    if changes.put_keys.is_empty() {
        return Ok(0);
    }
    let columns: [Parameter<'_>; 3] = [
        (&changes.put_keys, Type::BYTEA_ARRAY),
        (&changes.put_values, Type::BYTEA_ARRAY),
        (&changes.put_versions, Type::INT8_ARRAY),
    ];
    client.execute_typed(PUT, &columns).await
}

async fn delete(
    client: &tokio_postgres::Client,
    changes: &Changes<'_>,
) -> Result<u64, tokio_postgres::Error> {
    if changes.deleted_keys.is_empty() {
        return Ok(0);
    }
    let keys: [Parameter<'_>; 1] = [(&changes.deleted_keys, Type::BYTEA_ARRAY)];
    client.execute_typed(DELETE, &keys).await
}

/// Ends a transaction that changes nothing, or has failed.
///
/// # Errors
/// [`Failure::NotApplied`] if the connection cannot be used any more.
pub(crate) async fn roll_back(connection: &Connection) -> Result<(), Failure> {
    let ended = connection.client().batch_execute("ROLLBACK").await;
    ended.map_err(|error| Failure::before_write(&error))
}

fn sorted<'k>(keys: impl Iterator<Item = &'k Key>) -> Vec<&'k [u8]> {
    let mut keys: Vec<&[u8]> = keys.map(Key::as_bytes).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
