//! Connections that are lost, stall, or cannot be opened.

use std::time::Duration;

use knowledge_storage_postgres::PostgresOptions;
use knowledge_storage_postgres::testing::{self, Server, ServerOptions};
use knowledge_store::{Store, StoreErrorKind, StoreExt};

use crate::proxy::{Fault, Proxy};
use crate::support::{
    add, assert_committed, assert_failed, commit_when_possible, key, open, open_with, options, put,
    read, wait_for,
};

/// Returns options of a database behind a proxy.
fn behind(proxy: &Proxy, server: &Server, database: &str) -> PostgresOptions {
    let (password, port) = (server.password(), proxy.port());
    let url = format!("postgres://postgres:{password}@127.0.0.1:{port}/{database}");
    PostgresOptions::new(&url).unwrap()
}

#[test]
fn lost_answer_to_a_commit_is_unknown_and_applied_once() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let proxy = Proxy::start(server.port()).await;
        let store = open_with(behind(&proxy, server, &database)).await;
        assert_committed(store.commit(add("n", 1)).await);
        proxy.inject(Fault::LoseAnswerToCommit);
        assert_failed(store.commit(add("n", 10)).await, StoreErrorKind::Unknown);
        assert!(proxy.has_failed());
        assert_eq!(read(&store, "n").await.as_deref(), Some("11"));
        assert_committed(store.commit(add("n", 100)).await);
        assert_eq!(read(&store, "n").await.as_deref(), Some("111"));
    });
}

#[test]
fn stalled_process_does_not_hold_its_lanes() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let proxy = Proxy::start(server.port()).await;
        let stalled = behind(&proxy, server, &database).lock_time_max(Duration::from_secs(1));
        let stalled = open_with(stalled).await;
        let other = open(server, &database).await;
        assert_committed(stalled.commit(add("n", 1)).await);
        // Between the round trips, with the lane locked.
        proxy.inject(Fault::StallBefore("UPDATE knowledge_lane"));
        let (outcome, ()) = futures::join!(stalled.commit(add("n", 10)), async {
            wait_for("the fault", || async { proxy.has_failed().then_some(()) }).await;
            // It waits for the lane until the server ends the session of the stalled process.
            assert_committed(other.commit(add("n", 100)).await);
        });
        assert_failed(outcome, StoreErrorKind::Unavailable);
        assert_eq!(read(&other, "n").await.as_deref(), Some("101"));
    });
}

#[test]
fn restarted_server_is_used_again() {
    testing::run_alone(
        &testing::installations(),
        &ServerOptions::default(),
        |server| async move {
            let database = server.create_database().await;
            let store = open(&server, &database).await;
            assert_committed(store.commit(put("a", "1")).await);
            for is_crash in [false, true] {
                match is_crash {
                    false => server.stop(),
                    true => server.crash(),
                }
                assert_failed(
                    store.commit(put("a", "2")).await,
                    StoreErrorKind::Unavailable,
                );
                let error = store.get(&[key("a")]).await.unwrap_err();
                assert_eq!(error.kind(), StoreErrorKind::Unavailable);
                server.start_again();
                commit_when_possible(&store, &add("n", 1)).await;
                let found = wait_for("a read", || async { store.get(&[key("a")]).await.ok() });
                assert_eq!(found.await[0].as_ref().unwrap().value, "1");
            }
            assert_eq!(read(&store, "n").await.as_deref(), Some("2"));
        },
    );
}

#[test]
fn error_of_a_call_does_not_repeat_the_reasons_of_hosts() {
    testing::run_alone(
        &testing::installations(),
        &ServerOptions::default(),
        |server| async move {
            let database = server.create_database().await;
            let (port, password) = (server.port(), server.password());
            let hosts = format!("127.0.0.1:{port},127.0.0.1:{port}");
            let url = format!("postgres://postgres:{password}@{hosts}/{database}");
            let store = open_with(PostgresOptions::new(&url).unwrap()).await;
            server.stop();
            let read = store.get(&[key("a")]).await.unwrap_err();
            let snapshot = store.snapshot().await.expect_err("no server");
            let commit = wait_for("a refused commit", || async {
                let error = store.commit(put("a", "1")).await.unwrap_err();
                error.to_string().contains("hosts").then_some(error)
            });
            for error in [read, snapshot, commit.await] {
                let shown = error.to_string();
                assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{shown}");
                assert!(shown.contains("none of the 2 hosts can be used"), "{shown}");
                assert!(!shown.contains("127.0.0.1"), "{shown}");
            }
        },
    );
}

#[test]
fn terminated_sessions_are_replaced() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let store = open(server, &database).await;
        assert_committed(store.commit(put("a", "1")).await);
        let client = server.connect(&database).await;
        let terminate = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        for round in 0..5 {
            // Until every connection of the store has been used and lost once.
            for _ in 0..4 {
                assert_eq!(
                    read(&store, "a").await.as_deref(),
                    Some("1"),
                    "round {round}"
                );
            }
            let ended: i64 = client.query_one(terminate, &[]).await.unwrap().get(0);
            assert!(ended > 0);
            assert_eq!(
                read(&store, "a").await.as_deref(),
                Some("1"),
                "round {round}"
            );
            commit_when_possible(&store, &add("n", 1)).await;
        }
        assert_eq!(read(&store, "n").await.as_deref(), Some("5"));
    });
}

#[test]
fn store_works_with_fewer_connections_than_it_wants() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let client = server.connect(&database).await;
        let user = format!("limited_{database}");
        let create = format!(
            "CREATE ROLE {user} LOGIN CONNECTION LIMIT 2; GRANT ALL ON SCHEMA public TO {user}"
        );
        client.batch_execute(&create).await.unwrap();
        let limited = server
            .socket(&database)
            .replace("user=postgres", &format!("user={user}"));
        let store = open_with(PostgresOptions::new(&limited).unwrap()).await;
        // The committers may hold all connections, but one of them is enough.
        for _ in 0..10 {
            commit_when_possible(&store, &add("n", 1)).await;
        }
        let raise = format!("ALTER ROLE {user} CONNECTION LIMIT 20");
        client.batch_execute(&raise).await.unwrap();
        let value = wait_for("a read", || async { store.get(&[key("n")]).await.ok() });
        assert_eq!(value.await[0].as_ref().unwrap().value, "10");
    });
}

#[test]
fn unreachable_host_is_passed_over() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = free.local_addr().unwrap().port();
        drop(free);
        // It accepts connections and never answers.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (silent_port, port) = (silent.local_addr().unwrap().port(), server.port());
        let hosts = format!("127.0.0.1:{nobody},127.0.0.1:{silent_port},127.0.0.1:{port}");
        let url = format!(
            "postgres://postgres:{}@{hosts}/{database}",
            server.password()
        );
        let options = PostgresOptions::new(&url).unwrap();
        let store = open_with(options.connect_time_max(Duration::from_millis(500))).await;
        commit_when_possible(&store, &put("a", "1")).await;
        assert_eq!(read(&store, "a").await.as_deref(), Some("1"));
    });
}

#[test]
fn server_that_becomes_read_only_is_left() {
    testing::run_alone(
        &testing::installations(),
        &ServerOptions::default(),
        |server| async move {
            let database = server.create_database().await;
            let store = open_with(options(&server, &database).committers(1)).await;
            assert_committed(store.commit(put("a", "1")).await);
            let client = server.connect(&database).await;
            let set = |value| {
                let client = &client;
                async move {
                    let set = format!("ALTER SYSTEM SET default_transaction_read_only = {value}");
                    client.batch_execute(&set).await.unwrap();
                    client
                        .batch_execute("SELECT pg_reload_conf()")
                        .await
                        .unwrap();
                }
            };
            set("on").await;
            wait_for("the end of writing", || async {
                match store.commit(put("a", "2")).await {
                    Ok(_) => None,
                    Err(error) => {
                        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
                        Some(())
                    }
                }
            })
            .await;
            set("off").await;
            commit_when_possible(&store, &put("a", "3")).await;
            assert_eq!(read(&store, "a").await.as_deref(), Some("3"));
        },
    );
}
