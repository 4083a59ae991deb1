//! The schema of the database, and its migrations.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connection::Connection;
use crate::error::OpenError;
use crate::options::Views;

/// Migrations in ascending order: the number of each is its place, from 1.
///
/// Servers of the previous version may still run while a migration is applied, and after it.
const MIGRATIONS: &[&str] = &[include_str!("../migrations/0001_entries.sql")];

/// Lock that one process at a time holds to change the schema.
const LOCK: i64 = 0x6b6e_6f77_6c65_6467;

/// Parts of the schema that have numbers of their own.
const TABLES: &str = "tables";
const VIEWS: &str = "views";

const EXISTS: &str = "SELECT to_regclass('knowledge_schema') IS NOT NULL";
const CREATE: &str = "CREATE TABLE IF NOT EXISTS knowledge_schema (\
    part text NOT NULL, number integer NOT NULL, \
    applied_at timestamptz NOT NULL DEFAULT now(), \
    PRIMARY KEY (part, number))";
const NUMBER: &str = "SELECT coalesce(max(number), 0) FROM knowledge_schema WHERE part = $1";
const RECORD: &str = "INSERT INTO knowledge_schema (part, number) VALUES ($1, $2)";

/// Numbers of the parts of a schema; 0 for a part that does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Numbers {
    tables: u32,
    views: u32,
}

/// Creates or updates the schema, unless it is up to date.
///
/// # Errors
/// [`OpenError::NewerSchema`] if this crate is too old for it, [`OpenError::PermissionDenied`] and
/// other errors of the server.
pub(crate) async fn prepare(
    connection: &Connection,
    views: Option<Views>,
) -> Result<(), OpenError> {
    let failed = |error: tokio_postgres::Error| OpenError::new(connection.server(), &error);
    let client = connection.client();
    let found = numbers(client).await.map_err(failed)?;
    if !is_outdated(found, views)? {
        return Ok(());
    }
    // After an error the connection is closed, and with it the transaction.
    client.batch_execute("BEGIN").await.map_err(failed)?;
    let lock = "SELECT pg_advisory_xact_lock($1)";
    let lock = client.query_typed(lock, &[(&LOCK, Type::INT8)]).await;
    lock.map_err(failed)?;
    // Another process may have been first. Unlike the check above, this statement sees its tables:
    // the server may remember within a transaction that a table does not exist.
    client.batch_execute(CREATE).await.map_err(failed)?;
    let found = applied(client).await.map_err(failed)?;
    if is_outdated(found, views)? {
        update(client, found, views).await.map_err(failed)?;
    }
    client.batch_execute("COMMIT").await.map_err(failed)
}

fn is_outdated(found: Numbers, views: Option<Views>) -> Result<bool, OpenError> {
    let known = u32::try_from(MIGRATIONS.len()).expect("the migrations are few");
    if found.tables > known {
        let found = found.tables;
        return Err(OpenError::NewerSchema { found, known });
    }
    // Views of a higher number belong to a newer version of the application, and serve it too.
    Ok(found.tables < known || views.is_some_and(|views| found.views < views.number))
}

async fn numbers(client: &Client) -> Result<Numbers, tokio_postgres::Error> {
    let exists: bool = client.query_typed_one(EXISTS, &[]).await?.try_get(0)?;
    if !exists {
        return Ok(Numbers {
            tables: 0,
            views: 0,
        });
    }
    applied(client).await
}

async fn applied(client: &Client) -> Result<Numbers, tokio_postgres::Error> {
    Ok(Numbers {
        tables: number(client, TABLES).await?,
        views: number(client, VIEWS).await?,
    })
}

async fn number(client: &Client, part: &str) -> Result<u32, tokio_postgres::Error> {
    let row = client
        .query_typed_one(NUMBER, &[(&part, Type::TEXT)])
        .await?;
    let number: i32 = row.try_get(0)?;
    Ok(u32::try_from(number).unwrap_or(0))
}

async fn update(
    client: &Client,
    found: Numbers,
    views: Option<Views>,
) -> Result<(), tokio_postgres::Error> {
    for (number, sql) in (1..).zip(MIGRATIONS) {
        if number > found.tables {
            client.batch_execute(sql).await?;
            record(client, TABLES, number).await?;
        }
    }
    if let Some(views) = views.filter(|views| views.number > found.views) {
        client.batch_execute(views.sql).await?;
        record(client, VIEWS, views.number).await?;
    }
    Ok(())
}

async fn record(client: &Client, part: &str, number: u32) -> Result<(), tokio_postgres::Error> {
    let number = number.cast_signed();
    let parameters: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] =
        &[(&part, Type::TEXT), (&number, Type::INT4)];
    client.execute_typed(RECORD, parameters).await?;
    Ok(())
}
