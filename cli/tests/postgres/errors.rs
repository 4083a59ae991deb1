//! Errors of opening a database: each says what is wrong and what to do.

use std::net::TcpListener;

use knowledge_server::private_file;

use crate::support::{AssertText, Site, knowledge};

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
    wrong.assert_has("rejected the credentials");
    wrong.assert_lacks("wrong-password");
    let missing = error(&site, |url| url.replace(&name, "missing"));
    missing.assert_has("database \"missing\" does not exist");
    missing.assert_has("createdb");

    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let down = error(&site, |_| format!("postgres://postgres@127.0.0.1:{port}/x"));
    down.assert_has("cannot connect to 127.0.0.1");

    let incomplete = knowledge(&["serve", "--store=postgres://127.0.0.1"]).refused();
    incomplete.assert_has("it names no user and no database; write postgres://");

    let read_only = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    site.execute(&read_only).await;
    let standby = error(&site, str::to_owned);
    standby.assert_has("is read-only; connect to the primary");
    let each = error(&site, |url| {
        url.replace("@", &format!("@127.0.0.1:{port},"))
    });
    let first = format!("(1) cannot connect to 127.0.0.1:{port}");
    each.assert_has(&first);
    assert!(
        each.contains("(2) 127.0.0.1:") && each.contains("is read-only"),
        "{each}"
    );

    let other = |url: &str| url.replace("127.0.0.1", "localhost") + "?sslmode=verify-full";
    let untrusted = error(&site, other);
    untrusted.assert_has("name others with postgres.ca_file");
}

#[tokio::test(flavor = "multi_thread")]
async fn database_needs_its_sealing_key() {
    let site = Site::new().await;
    let [store, key] = &site.flags();
    let unset = knowledge(&["serve", store]).failed();
    unset.assert_has("needs a sealing key file, which all its servers share");
    unset.assert_has("head -c 32 /dev/urandom | base64");
    let missing = format!("--sealing-key-file={}", site.arg("missing.key"));
    let new = knowledge(&["serve", store, &missing]).failed();
    new.assert_has("missing.key is missing; create it with");
    let empty = site.run(&["token", "list"]).failed();
    empty.assert_has("create one with `knowledge init`");

    knowledge(&["init", "--org-slug=acme", store, key]).ok();
    let lost = knowledge(&["serve", store, &missing]).failed();
    lost.assert_has("missing.key is missing; restore it");
    let other = site.arg("other.key");
    private_file::create(other.as_ref(), &"07".repeat(32)).unwrap();
    let other = format!("--sealing-key-file={other}");
    let wrong = knowledge(&["serve", store, &other]).failed();
    wrong.assert_has("is not the one that sealed this store's secrets");
}
