//! `knowledge serve`: starting, stopping, and what hinders it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use knowledge_storage_sled::{SledOptions, SledStore};

use crate::support::{Scratch, get, knowledge, start};

fn health(url: &str, path: &str) -> u16 {
    get(format!("{url}{path}"), "Accept: */*".to_owned()).status
}

#[test]
fn an_empty_directory_is_served_and_the_key_stands_beside_it() {
    let scratch = Scratch::new();
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    let url = server.base_url();
    assert_eq!(
        (health(&url, "/healthz"), health(&url, "/readyz")),
        (200, 200)
    );
    assert_eq!(server.terminate(), 0);
    let key = fs::metadata(scratch.path("data.key")).expect("the key");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let directory = fs::metadata(scratch.path("data")).expect("the directory");
    assert_eq!(directory.permissions().mode() & 0o777, 0o700);
    let stored = fs::metadata(scratch.path("data/db")).expect("the store");
    assert_eq!(stored.permissions().mode() & 0o077, 0);
    let inside: Vec<_> = fs::read_dir(scratch.path("data"))
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name())
        .filter(|name| name.to_string_lossy().contains("key"))
        .collect();
    assert!(inside.is_empty(), "{inside:?}");
}

#[test]
fn where_it_listens_is_told_in_every_log_format() {
    let scratch = Scratch::new();
    for log in ["--log-format=text", "--log-format=json", "--log-level=off"] {
        let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0", log]);
        let line = server.error_with("listening on http://127.0.0.1:");
        assert_eq!(log == "--log-format=json", line.starts_with('{'), "{line}");
        assert_eq!(server.terminate(), 0);
    }
}

#[test]
fn a_second_process_is_told_who_has_the_directory() {
    let scratch = Scratch::with_org();
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    server.base_url();
    let expected = format!(
        "error: {} is in use by process {}",
        scratch.arg("data"),
        server.pid()
    );
    let data_dir = scratch.data_dir();
    for args in [
        ["serve", "--listen=127.0.0.1:0", &data_dir].as_slice(),
        &["dashboard", "support", &data_dir],
    ] {
        assert_eq!(knowledge(args).failed(), expected);
    }
}

#[test]
fn a_server_waits_for_a_command_that_has_the_directory() {
    let scratch = Scratch::with_org();
    let options = SledOptions::default();
    let held = SledStore::open(scratch.path("data"), options).expect("the store");
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    server.error_with("waiting: ");
    // One that is not served yet is not ended by this either.
    server.hang_up();
    drop(held);
    assert_eq!(health(&server.base_url(), "/readyz"), 200);
    assert_eq!(server.terminate(), 0);
}

#[test]
fn an_address_in_use_is_named() {
    let scratch = Scratch::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let listen = format!("--listen={address}");
    let message = knowledge(&["serve", &scratch.data_dir(), &listen]).failed();
    assert!(
        message.starts_with(&format!(
            "error: cannot listen on {address}: another process does"
        )),
        "{message}"
    );
}

#[test]
fn a_foreign_directory_stays_as_it_is() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("data")).expect("a directory");
    scratch.write("data/letter.txt", "dear");
    let message = knowledge(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]).failed();
    assert!(
        message.contains("holds files of another kind, for example letter.txt"),
        "{message}"
    );
    assert_eq!(
        fs::read_dir(scratch.path("data"))
            .expect("the directory")
            .count(),
        1
    );
    assert!(!scratch.path("data.key").exists());
}

#[test]
fn another_key_or_none_does_not_open_the_store() {
    let scratch = Scratch::with_org();
    let serve = |more: &str| {
        knowledge(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0", more]).failed()
    };
    let other = scratch.write("other.key", &"ab".repeat(32));
    let other = format!("--sealing-key-file={other}");
    let message = serve(&other);
    assert!(
        message.contains("may be read by others than its owner (mode 0"),
        "{message}"
    );
    assert!(message.contains("chmod 600"), "{message}");
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(scratch.path("other.key"), private).expect("permissions");
    let message = serve(&other);
    assert!(
        message.contains("is not the one that this store's secrets are sealed with"),
        "{message}"
    );

    let kept = fs::read(scratch.path("data.key")).expect("the key");
    fs::remove_file(scratch.path("data.key")).expect("remove the key");
    let message = serve("--log-level=info");
    assert!(
        message.contains("data.key is missing: put it back"),
        "{message}"
    );
    assert!(!scratch.path("data.key").exists(), "no other key is made");
    fs::write(scratch.path("data.key"), kept).expect("the key");
}

#[test]
fn options_that_make_no_sense_are_usage() {
    let scratch = Scratch::new();
    for wrong in [
        "--max-connections=0",
        "--request-timeout=0s",
        "--log-level=loud=x=y",
        "--listen=here",
    ] {
        let run = knowledge(&["serve", &scratch.data_dir(), wrong]);
        assert_eq!(run.code, 2, "{wrong}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }
}
