//! The password of the database appears in no output.

use std::fs;

use http::Method;
use knowledge_http_suite::rows;
use knowledge_server::private_file;

use crate::support::{AssertText, Call, Site, knowledge, knowledge_in, start};

const PASSWORD: &str = "postgres-test-password";

#[tokio::test(flavor = "multi_thread")]
async fn password_of_url_is_not_shown() {
    let site = Site::new().await;
    let [store, key] = &site.flags();
    assert!(store.contains(PASSWORD), "the test needs one");
    for output in ["text", "json", "toml"] {
        let format = format!("--output={output}");
        let shown = knowledge(&["config", "show", store, key, &format]).ok();
        shown.shows("postgres://postgres@127.0.0.1:");
        assert!(!shown.stdout.contains(PASSWORD), "{}", shown.stdout);
        assert!(!shown.stderr.contains(PASSWORD), "{}", shown.stderr);
    }
    let variable = [(
        "KNOWLEDGE_STORAGE__STORE",
        store.strip_prefix("--store=").unwrap(),
    )];
    let shown = knowledge_in(&variable, &["config", "show"]).ok().stdout;
    assert!(!shown.contains(PASSWORD), "{shown}");
    for (args, code) in rows! {
        (&["verify", store, key][..], 2),
        (&["serve", &format!("{store}?sslmode=prefer"), key], 2),
        (&["serve", &store.replace("postgres-test", "x@postgres-test"), key], 2),
        (&["copy", &store.replace("--store", "--from"), &store.replace("--store", "--to")], 2),
    } {
        let failed = knowledge(args);
        assert_eq!(failed.code, code, "{args:?} {}", failed.stderr);
        failed.stderr.assert_lacks("test-password");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn password_file_replaces_the_password_of_the_url() {
    let site = Site::new().await;
    let [store, key] = &site.flags();
    let store = store.replace(&format!(":{PASSWORD}"), "");
    assert!(!store.contains(PASSWORD));
    let file = site.arg("password");
    private_file::create(file.as_ref(), &format!("{PASSWORD}\n")).unwrap();
    let settings = site.arg("knowledge.toml");
    let text = format!("[postgres]\npassword_file = \"{file}\"\n");
    fs::write(&settings, text).unwrap();
    let config = format!("--config={settings}");
    knowledge(&["config", "check", &settings]).ok();
    let server = start(&["serve", &config, &store, key, "--listen=127.0.0.1:0"]);
    let ready = Call::new(Method::GET, "/readyz")
        .send_to(&server.base_url())
        .await;
    assert_eq!(ready.status, 200);
    assert_eq!(server.terminate(), 0);

    fs::remove_file(&file).unwrap();
    let missing = knowledge(&["serve", &config, &store, key]).failed();
    missing.assert_has("postgres.password_file cannot be used");
    let checked = knowledge(&["config", "check", &settings]);
    checked.warns("does not exist");
}
