//! Commits that the server rejects, or cannot make durable.

use std::pin::pin;

use futures::future::{Either, select};
use knowledge_storage_postgres::PostgresStore;
use knowledge_storage_postgres::testing::{self, Server, ServerOptions};
use knowledge_store::{Commit, Store, StoreErrorKind};
use tokio_postgres::Client;

use crate::support::{
    add, assert_committed, assert_failed, commit_when_possible, key, open, put, read, wait_for,
};

/// Makes the server raise an error while it writes the entry of a key.
async fn raise_error(client: &Client, name: &str, sqlstate: &str, times: u32) {
    let sql = format!(
        "CREATE SEQUENCE raised_{name};
         CREATE FUNCTION raise_{name}() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF NEW.key = '{name}' AND nextval('raised_{name}') <= {times} THEN
                 RAISE EXCEPTION 'raised' USING ERRCODE = '{sqlstate}';
             END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER raise_{name} BEFORE INSERT ON knowledge_entry
             FOR EACH ROW EXECUTE FUNCTION raise_{name}();"
    );
    client.batch_execute(&sql).await.unwrap();
}

/// Commits two entries, of which the server rejects one, and checks that neither is stored.
async fn assert_rejected(store: &PostgresStore, name: &str, kind: StoreErrorKind) {
    let commit = Commit::builder().put(key("other"), "1").put(key(name), "1");
    assert_failed(store.commit(commit.build().unwrap()).await, kind);
    assert_eq!(read(store, "other").await, None);
    assert_eq!(read(store, name).await, None);
    commit_when_possible(store, &add("count", 1)).await;
}

#[test]
fn error_while_writing_applies_nothing() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let store = open(server, &database).await;
        let client = server.connect(&database).await;
        for (number, (name, sqlstate, kind)) in [
            ("disk", "53100", StoreErrorKind::Full),
            ("memory", "53200", StoreErrorKind::Unavailable),
            ("damage", "XX001", StoreErrorKind::Corrupt),
            ("data", "22000", StoreErrorKind::Unavailable),
            ("deadlock", "40P01", StoreErrorKind::Unavailable),
        ]
        .into_iter()
        .enumerate()
        {
            raise_error(&client, name, sqlstate, 1_000).await;
            assert_rejected(&store, name, kind).await;
            let commits = (number + 1).to_string();
            assert_eq!(read(&store, "count").await, Some(commits), "{name}");
        }
    });
}

#[test]
fn conflict_with_other_users_of_the_tables_is_retried() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let store = open(server, &database).await;
        let client = server.connect(&database).await;
        raise_error(&client, "serialization", "40001", 2).await;
        assert_committed(store.commit(put("serialization", "1")).await);
        assert_eq!(read(&store, "serialization").await.as_deref(), Some("1"));
    });
}

/// Sets the name of the standby that commits wait for; none if it is empty.
async fn set_standby(client: &Client, name: &str) {
    for sql in [
        // The setting itself is not to wait.
        "SET synchronous_commit = local",
        &format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"),
        "SELECT pg_reload_conf()",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
}

/// Makes commits wait for a standby that does not exist.
///
/// Commits wait from the moment at which the checkpointer has read the setting, which no query
/// shows. Therefore, it commits until a commit waits.
async fn require_missing_standby(server: &Server, database: &str) {
    let client = server.connect(database).await;
    set_standby(&client, "missing").await;
    let other = server.connect(database).await;
    loop {
        let commit = pin!(other.batch_execute("SELECT pg_logical_emit_message(true, 'test', '')"));
        let waiting = pin!(waiting_process(&client));
        match select(commit, waiting).await {
            Either::Left((committed, _)) => committed.unwrap(),
            Either::Right((pid, commit)) => {
                let cancel = format!("SELECT pg_cancel_backend({pid})");
                client.batch_execute(&cancel).await.unwrap();
                commit.await.unwrap();
                return;
            }
        }
    }
}

/// Returns the process that waits for a synchronous standby.
async fn waiting_process(client: &Client) -> i32 {
    let waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' \
        AND datname = current_database()";
    let waiting = wait_for("a wait for the standby", || async {
        let rows = client.query(waiting, &[]).await.unwrap();
        rows.first().map(|row| row.get(0))
    });
    waiting.await
}

#[test]
fn cancelled_wait_for_a_standby_is_unknown() {
    testing::run_alone(
        &testing::installations(),
        &ServerOptions::default(),
        |server| async move {
            let database = server.create_database().await;
            let store = open(&server, &database).await;
            assert_committed(store.commit(add("n", 1)).await);
            let client = server.connect(&database).await;
            require_missing_standby(&server, &database).await;
            for (function, before, after) in [
                ("pg_cancel_backend", "1", "11"),
                ("pg_terminate_backend", "11", "21"),
            ] {
                let (outcome, ()) = futures::join!(store.commit(add("n", 10)), async {
                    let pid = waiting_process(&client).await;
                    assert_eq!(read(&store, "n").await.as_deref(), Some(before));
                    let end = format!("SELECT {function}({pid})");
                    client.batch_execute(&end).await.unwrap();
                });
                assert_failed(outcome, StoreErrorKind::Unknown);
                assert_eq!(read(&store, "n").await.as_deref(), Some(after));
            }
            set_standby(&client, "").await;
            commit_when_possible(&store, &add("n", 100)).await;
            assert_eq!(read(&store, "n").await.as_deref(), Some("121"));
        },
    );
}

#[test]
fn missing_standby_makes_the_outcome_unknown() {
    testing::run_alone(
        &testing::installations(),
        &ServerOptions::default(),
        |server| async move {
            let database = server.create_database().await;
            let time = std::time::Duration::from_secs(1);
            let options = crate::support::options(&server, &database);
            let store = crate::support::open_with(options.write_time_max(time)).await;
            assert_committed(store.commit(add("n", 1)).await);
            let client = server.connect(&database).await;
            require_missing_standby(&server, &database).await;
            assert_failed(store.commit(add("n", 10)).await, StoreErrorKind::Unknown);
            // It is not durable yet.
            assert_eq!(read(&store, "n").await.as_deref(), Some("1"));
            set_standby(&client, "").await;
            // The server completes the commit later, as a whole, before the next one of the lane.
            commit_when_possible(&store, &add("n", 100)).await;
            assert_eq!(read(&store, "n").await.as_deref(), Some("111"));
        },
    );
}
