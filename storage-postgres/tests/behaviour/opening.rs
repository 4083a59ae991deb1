//! Opening of databases in any state.

use std::sync::{Arc, Mutex};

use futures::future::join_all;
use knowledge_storage_postgres::testing::{self, Pooler, Server};
use knowledge_storage_postgres::{OpenError, PostgresOptions, PostgresStore};
use knowledge_store::Store;

use crate::support::{
    add, assert_committed, commit_when_possible, open, open_with, options, put, read,
};

/// Opens a store that is rejected, and returns the error.
async fn rejected(url: &str) -> OpenError {
    let options = PostgresOptions::new(url).expect("a valid connection string");
    match PostgresStore::open(options).await {
        Ok(_) => panic!("the store opens"),
        Err(error) => error,
    }
}

#[test]
fn concurrent_openers_create_one_schema() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let openers = (0..8).map(|_| {
            let database = database.clone();
            tokio::spawn(async move {
                let store = open(server, &database).await;
                assert_committed(store.commit(add("n", 1)).await);
            })
        });
        for opener in join_all(openers).await {
            opener.expect("an opener ends without a panic");
        }
        let client = server.connect(&database).await;
        let applied = "SELECT part, number FROM knowledge_schema";
        let applied = client.query(applied, &[]).await.unwrap();
        let applied: Vec<(&str, i32)> =
            applied.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(applied, [("tables", 1)]);
        let store = open(server, &database).await;
        assert_eq!(read(&store, "n").await.as_deref(), Some("8"));
    });
}

/// With a pooler that drops them, commits would not wait for standbys, nor reads end in time.
#[test]
fn pooler_that_drops_settings_is_refused() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        for mode in ["session", "transaction"] {
            let ignoring = format!("pool_mode = {mode}\nignore_startup_parameters = options");
            let pooler = Pooler::start(server, &ignoring);
            let error = rejected(&pooler.url(server, &database)).await;
            let is_named = matches!(&error, OpenError::SettingsDropped { .. });
            assert!(is_named, "{mode}: {error}");
            // Without that line, PgBouncer itself refuses the parameter.
            let pooler = Pooler::start(server, &format!("pool_mode = {mode}"));
            let error = rejected(&pooler.url(server, &database)).await.to_string();
            assert!(error.contains("options"), "{mode}: {error}");
        }
        drop(open(server, &database).await);
    });
}

#[test]
fn newer_schema_is_rejected_with_both_numbers() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        drop(open(server, &database).await);
        let client = server.connect(&database).await;
        let newer = "INSERT INTO knowledge_schema (part, number) VALUES ('tables', 99)";
        client.batch_execute(newer).await.unwrap();
        let error = rejected(&server.url(&database)).await;
        let is_newer = matches!(
            error,
            OpenError::NewerSchema {
                found: 99,
                known: 1
            }
        );
        assert!(is_newer, "{error}");
    });
}

#[test]
fn open_error_says_what_to_do_and_hides_the_password() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let (port, password) = (server.port(), server.password());
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = free.local_addr().unwrap().port();
        drop(free);
        let read_only = server.create_database().await;
        let client = server.connect(&read_only).await;
        let set = format!("ALTER DATABASE {read_only} SET default_transaction_read_only = on");
        client.batch_execute(&set).await.unwrap();
        let stranger = format!("stranger_{database}");
        let create = format!("CREATE ROLE {stranger} LOGIN PASSWORD '{password}'");
        client.batch_execute(&create).await.unwrap();
        let forbid =
            format!("ALTER ROLE {stranger} IN DATABASE {database} SET search_path = public");
        client.batch_execute(&forbid).await.unwrap();

        let url = |user: &str, password: &str, port: u16, database: &str| {
            format!("postgres://{user}:{password}@127.0.0.1:{port}/{database}")
        };
        let wrong = format!("{password}-wrong");
        for (url, kind) in [
            (url("postgres", &wrong, port, &database), "Credentials"),
            (url("nobody", password, port, &database), "Credentials"),
            (
                format!("postgres://postgres@127.0.0.1:{port}/{database}"),
                "Credentials",
            ),
            (
                url("postgres", password, port, "missing"),
                "MissingDatabase",
            ),
            (url("postgres", password, nobody, &database), "Unreachable"),
            (url("postgres", password, port, &read_only), "ReadOnly"),
            (
                url(&stranger, password, port, &database),
                "PermissionDenied",
            ),
        ] {
            let error = rejected(&url).await;
            let shown = format!("{error} {error:?}");
            assert!(format!("{error:?}").starts_with(kind), "{shown}");
            assert!(!shown.contains(password), "{shown}");
        }
        let shown = format!(
            "{:?}",
            open_with(PostgresOptions::new(&server.url(&database)).unwrap()).await
        );
        assert!(
            shown.contains(&database) && !shown.contains(password),
            "{shown}"
        );
    });
}

#[test]
fn user_without_rights_on_the_schema_uses_an_existing_one() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        drop(open(server, &database).await);
        let client = server.connect(&database).await;
        let user = format!("user_{database}");
        let create = format!(
            "CREATE ROLE {user} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user};
             GRANT INSERT, UPDATE, DELETE ON knowledge_entry TO {user};
             GRANT UPDATE ON knowledge_lane TO {user}"
        );
        client.batch_execute(&create).await.unwrap();
        let socket = server
            .socket(&database)
            .replace("user=postgres", &format!("user={user}"));
        let store = open_with(PostgresOptions::new(&socket).unwrap()).await;
        assert_committed(store.commit(put("a", "1")).await);
        assert_eq!(read(&store, "a").await.as_deref(), Some("1"));
    });
}

async fn count(server: &Server, database: &str, relation: &str) -> i64 {
    let client = server.connect(database).await;
    let count = format!("SELECT count(*) FROM {relation}");
    client.query_one(&count, &[]).await.unwrap().get(0)
}

#[test]
fn views_are_applied_once_and_replaced_by_a_higher_number() {
    const FIRST: &str = "CREATE VIEW text_entry AS SELECT key FROM knowledge_entry";
    const SECOND: &str = "DROP VIEW IF EXISTS text_entry; \
        CREATE VIEW text_value AS SELECT convert_from(value, 'UTF8') AS value FROM knowledge_entry";
    testing::run(|server| async move {
        let database = server.create_database().await;
        for _ in 0..2 {
            let store = open_with(options(server, &database).views(1, FIRST)).await;
            assert_committed(store.commit(put("a", "1")).await);
        }
        assert_eq!(count(server, &database, "text_entry").await, 1);
        drop(open_with(options(server, &database).views(2, SECOND)).await);
        assert_eq!(count(server, &database, "text_value").await, 1);
        // An older version of the application leaves them as they are.
        drop(open_with(options(server, &database).views(1, FIRST)).await);
        assert_eq!(count(server, &database, "text_value").await, 1);
    });
}

#[test]
fn error_names_the_reason_of_each_host() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let client = server.connect(&database).await;
        let set = format!("ALTER DATABASE {database} SET default_transaction_read_only = on");
        client.batch_execute(&set).await.unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = free.local_addr().unwrap().port();
        drop(free);
        let (port, password) = (server.port(), server.password());
        let hosts = format!("127.0.0.1:{nobody},127.0.0.1:{port}");
        let error = rejected(&format!(
            "postgres://postgres:{password}@{hosts}/{database}"
        ))
        .await;
        let shown = error.to_string();
        let OpenError::Hosts { errors } = error else {
            panic!("{error:?}");
        };
        let kinds: Vec<_> = errors.iter().map(|error| format!("{error:?}")).collect();
        assert!(kinds[0].starts_with("Unreachable"), "{kinds:?}");
        assert!(kinds[1].starts_with("ReadOnly"), "{kinds:?}");
        let begin =
            format!("none of the 2 hosts can be used: (1) cannot connect to 127.0.0.1:{nobody}");
        assert!(shown.starts_with(&begin), "{shown}");
        assert!(
            shown.contains(&format!("; (2) 127.0.0.1:{port} is read-only")),
            "{shown}"
        );
        assert!(!shown.contains(password), "{shown}");
    });
}

#[test]
fn password_is_read_for_each_connection() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let client = server.connect(&database).await;
        let user = format!("changing_{database}");
        let change = async |password: &str| {
            let change = format!("ALTER ROLE {user} PASSWORD '{password}'");
            client.batch_execute(&change).await.unwrap();
        };
        let create = format!(
            "CREATE ROLE {user} LOGIN PASSWORD 'first'; GRANT CREATE, USAGE ON SCHEMA public TO \
             {user}"
        );
        client.batch_execute(&create).await.unwrap();
        let password = Arc::new(Mutex::new(Ok("first".to_owned())));
        let source = Arc::clone(&password);
        let port = server.port();
        let url = format!("postgres://{user}:unused@127.0.0.1:{port}/{database}");
        let options = PostgresOptions::new(&url).unwrap();
        let options = options.password_source(move || source.lock().unwrap().clone());
        let store = open_with(options.clone()).await;
        assert_committed(store.commit(put("a", "1")).await);

        *password.lock().unwrap() = Ok("second".to_owned());
        change("second").await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1";
        assert!(client.execute(end, &[&user]).await.unwrap() > 0);
        commit_when_possible(&store, &put("a", "2")).await;
        assert_eq!(read(&store, "a").await.as_deref(), Some("2"));

        *password.lock().unwrap() = Err("it is away".to_owned());
        let error = PostgresStore::open(options).await.unwrap_err();
        assert_eq!(error.to_string(), "the password cannot be read: it is away");
    });
}
