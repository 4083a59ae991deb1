//! Errors of opening a database: each says what is wrong and what to do.

use std::net::TcpListener;

use knowledge_server::private_file;

use crate::support::{Site, knowledge};

/// Returns the error of a server with another URL.
fn error(site: &Site, change: impl Fn(&str) -> String) -> String {
    let [_, key] = site.flags();
    let store = format!("--store={}", change(&site.url()));
    knowledge(&["serve", &store, &key, "--listen=127.0.0.1:0"]).failed()
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_database_is_named_with_a_remedy() {
    let site = Site::new().await;
    let name = site.name();
    let wrong = error(&site, |url| {
        url.replace("postgres-test-password", "wrong-password")
    });
    assert!(wrong.contains("rejected the credentials"), "{wrong}");
    assert!(!wrong.contains("wrong-password"), "{wrong}");
    let missing = error(&site, |url| url.replace(&name, "missing"));
    assert!(
        missing.contains("database \"missing\" does not exist"),
        "{missing}"
    );
    assert!(missing.contains("createdb"), "{missing}");

    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let down = error(&site, |_| format!("postgres://postgres@127.0.0.1:{port}/x"));
    assert!(down.contains("cannot connect to 127.0.0.1"), "{down}");

    let incomplete = knowledge(&["serve", "--store=postgres://127.0.0.1"]).refused();
    assert!(
        incomplete.contains("it names no user and no database; write postgres://"),
        "{incomplete}"
    );

    let read_only = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    site.execute(&read_only).await;
    let standby = error(&site, str::to_owned);
    assert!(
        standby.contains("is read-only; connect to the primary"),
        "{standby}"
    );
    let each = error(&site, |url| {
        url.replace("@", &format!("@127.0.0.1:{port},"))
    });
    let first = format!("(1) cannot connect to 127.0.0.1:{port}");
    assert!(each.contains(&first), "{each}");
    assert!(
        each.contains("(2) 127.0.0.1:") && each.contains("is read-only"),
        "{each}"
    );

    let other = |url: &str| url.replace("127.0.0.1", "localhost") + "?sslmode=verify-full";
    let untrusted = error(&site, other);
    assert!(
        untrusted.contains("name others with postgres.ca_file"),
        "{untrusted}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn database_needs_its_sealing_key() {
    let site = Site::new().await;
    let [store, key] = &site.flags();
    let unset = knowledge(&["serve", store]).failed();
    assert!(
        unset.contains("needs a sealing key file, which all its servers share"),
        "{unset}"
    );
    assert!(
        unset.contains("head -c 32 /dev/urandom | base64"),
        "{unset}"
    );
    let missing = format!("--sealing-key-file={}", site.arg("missing.key"));
    let new = knowledge(&["serve", store, &missing]).failed();
    assert!(
        new.contains("missing.key is missing; create it with"),
        "{new}"
    );
    let empty = site.run(&["token", "list"]).failed();
    assert!(
        empty.contains("create one with `knowledge init`"),
        "{empty}"
    );

    knowledge(&["init", "--org-slug=acme", store, key]).ok();
    let lost = knowledge(&["serve", store, &missing]).failed();
    assert!(
        lost.contains("missing.key is missing; restore it"),
        "{lost}"
    );
    let other = site.arg("other.key");
    private_file::create(other.as_ref(), &"07".repeat(32)).unwrap();
    let other = format!("--sealing-key-file={other}");
    let wrong = knowledge(&["serve", store, &other]).failed();
    assert!(
        wrong.contains("is not the one that sealed this store's secrets"),
        "{wrong}"
    );
}
