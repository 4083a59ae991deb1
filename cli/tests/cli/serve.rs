//! Tests of `knowledge serve`: start, stop and obstacles.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use knowledge_storage_sled::{SledOptions, SledStore};

use crate::support::{AssertText, Scratch, get, knowledge, start};

fn health(url: &str, path: &str) -> u16 {
    get(format!("{url}{path}"), "Accept: */*".to_owned()).status
}

#[test]
fn serve_creates_store_and_key_in_empty_directory() {
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
fn serve_creates_nothing_if_the_key_cannot_be_used() {
    let scratch = Scratch::new();
    let key = format!(
        "--sealing-key-file={}",
        scratch.write("key", &"ab".repeat(32))
    );
    let refused = knowledge(&["serve", &scratch.data_dir(), &key]).failed();
    refused.assert_has("may be read by other users");
    assert!(!scratch.path("data").exists());
}

#[test]
fn serve_logs_its_address_in_each_format() {
    let scratch = Scratch::new();
    for log in ["--log-format=text", "--log-format=json", "--log-level=off"] {
        let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0", log]);
        let line = server.error_with("listening on http://127.0.0.1:");
        assert_eq!(log == "--log-format=json", line.starts_with('{'), "{line}");
        assert_eq!(server.terminate(), 0);
    }
}

#[test]
fn serve_goes_on_if_nobody_reads_its_log() {
    let scratch = Scratch::new();
    for log in ["--log-format=text", "--log-format=json"] {
        let mut server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0", log]);
        let url = server.base_url();
        server.close_errors();
        for _ in 0..10 {
            assert_eq!(health(&url, "/unknown"), 404);
        }
        assert_eq!(server.terminate(), 0);
    }
}

#[test]
fn serve_names_the_process_that_has_the_directory() {
    let scratch = Scratch::with_org();
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    server.base_url();
    let expected = format!(
        "error: {} is in use by process {}; stop that process, or choose another directory",
        scratch.arg("data"),
        server.pid()
    );
    let data_dir = scratch.data_dir();
    for args in [
        ["serve", "--listen=127.0.0.1:0", &data_dir].as_slice(),
        &["compact", &data_dir],
    ] {
        assert_eq!(knowledge(args).failed(), expected);
    }
}

#[test]
fn serve_waits_for_a_command_that_has_the_directory() {
    let scratch = Scratch::with_org();
    let options = SledOptions::default();
    let held = SledStore::open(scratch.path("data"), options).expect("the store");
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    server.error_with("waiting for the data directory: ");
    // The signal does not end a server that is still waiting.
    server.hang_up();
    drop(held);
    assert_eq!(health(&server.base_url(), "/readyz"), 200);
    assert_eq!(server.terminate(), 0);
}

#[test]
fn serve_names_an_address_in_use() {
    let scratch = Scratch::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let listen = format!("--listen={address}");
    let message = knowledge(&["serve", &scratch.data_dir(), &listen]).failed();
    assert!(
        message.starts_with(&format!(
            "error: cannot listen on {address}: the address is in use"
        )),
        "{message}"
    );
}

#[test]
fn serve_names_the_setting_of_a_metrics_address_in_use() {
    let scratch = Scratch::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let text = format!("[metrics]\nlisten = \"{address}\"\n");
    let config = format!("--config={}", scratch.write("knowledge.toml", &text));
    let listen = "--listen=127.0.0.1:0";
    let message = knowledge(&["serve", &scratch.data_dir(), listen, &config]).failed();
    assert_eq!(
        message,
        format!(
            "error: cannot listen on {address}: the address is in use; stop the other process or set \
             metrics.listen to another address"
        )
    );
}

#[test]
fn serve_leaves_foreign_directory_unchanged() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("data")).expect("a directory");
    scratch.write("data/letter.txt", "dear");
    let message = knowledge(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]).failed();
    message.assert_has("contains other files, for example letter.txt");
    assert_eq!(
        fs::read_dir(scratch.path("data"))
            .expect("the directory")
            .count(),
        1
    );
    assert!(!scratch.path("data.key").exists());
}

#[test]
fn serve_does_not_open_store_without_its_key() {
    let scratch = Scratch::with_org();
    let serve = |more: &str| {
        knowledge(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0", more]).failed()
    };
    let other = scratch.write("other.key", &"ab".repeat(32));
    let other = format!("--sealing-key-file={other}");
    let message = serve(&other);
    message.assert_has("may be read by other users than its owner (mode 0");
    message.assert_has("chmod 600");
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(scratch.path("other.key"), private).expect("permissions");
    let message = serve(&other);
    message.assert_has("is not the one that sealed this store's secrets");

    let kept = fs::read(scratch.path("data.key")).expect("the key");
    fs::remove_file(scratch.path("data.key")).expect("remove the key");
    let message = serve("--log-level=info");
    message.assert_has("data.key is missing; restore it");
    assert!(!scratch.path("data.key").exists(), "no other key is made");
    fs::write(scratch.path("data.key"), kept).expect("the key");
}

#[test]
fn serve_rejects_invalid_options_as_usage_errors() {
    let scratch = Scratch::new();
    for wrong in [
        "--max-connections=0",
        "--request-timeout=0s",
        "--log-level=loud=x=y",
        "--listen=here",
    ] {
        let run = knowledge(&["serve", &scratch.data_dir(), wrong]);
        assert_eq!(run.code, 2, "{wrong}: {}", run.stderr);
        run.stderr.assert_lacks("panicked");
    }
}
