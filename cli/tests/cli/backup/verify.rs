//! Tests of `knowledge verify`: damage is found, named and reported by the exit code.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use knowledge_core::service::DifferenceCode;
use knowledge_core::store::{Commit, Direction, Key, KeyRange, Mutation, StoreExt};
use knowledge_http_suite::rows;
use knowledge_server::data::DataConfig;
use serde_json::{Value, json};

use super::{complete, dumped, on, plant, strays};
use crate::support::{AssertText, Scratch, start};

#[tokio::test]
async fn intact_store_and_its_dump_have_no_differences() {
    let scratch = complete().await;
    let verified = on(&scratch, "data", &["verify", "--output=json"]).ok();
    let report: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(report["differences_total"], 0);
    assert_eq!(report["differences"], json!([]));
    assert_eq!(report["secrets_opened"], 6);
    let entries = dumped(&scratch, "data", "dump.jsonl").lines().count() - 2;
    assert_eq!(report["entries"], entries);

    let (dump, temporary) = (scratch.arg("dump.jsonl"), scratch.path("temporary"));
    fs::create_dir(&temporary).unwrap();
    let within = format!("--scratch={}", scratch.arg("temporary"));
    let of_dump = on(
        &scratch,
        "data",
        &["verify", "--output=json", "--dump", &dump, &within],
    );
    assert_eq!(of_dump.ok().stdout, verified.stdout);
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    // Without the key, everything but the secrets is verified.
    let elsewhere = on(&scratch, "nowhere", &["verify", "--dump", &dump, &within]).ok();
    elsewhere.shows("no secrets opened");
}

/// Returns all entries in a directory.
async fn entries(directory: &Path) -> Vec<(Key, Bytes)> {
    let store = DataConfig::at(directory).open_store().unwrap();
    let found = store
        .scan(&KeyRange::all(), usize::MAX, Direction::Forward)
        .await;
    let found = found.unwrap().into_iter();
    found.map(|found| (found.key, found.entry.value)).collect()
}

fn family(key: &Key) -> String {
    key.to_string().split('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn verify_names_each_kind_of_damage() {
    let scratch = complete().await;
    let directory = scratch.path("data");
    let all = entries(&directory).await;
    let first = |name: &str| {
        let mut of_family = all.iter().filter(|(key, _)| family(key) == name);
        of_family
            .next()
            .cloned()
            .unwrap_or_else(|| panic!("no {name}"))
    };
    let with = |name: &str, field: &str, to: Value| {
        let (key, value) = first(name);
        let mut json: Value = serde_json::from_slice(&value).unwrap();
        *json.pointer_mut(field).unwrap() = to;
        let value = Bytes::from(json.to_string());
        Mutation::Put { key, value }
    };
    let other = json!("00000000-0000-7000-8000-000000000001");
    let second_page = all
        .iter()
        .find(|(key, _)| family(key) == "audit" && !key.to_string().ends_with("0000"));
    let second_page = second_page
        .expect("an operation with two pages")
        .0
        .to_string();
    let (page_family, page_id) = second_page.rsplit_once('/').unwrap();
    let page_id = u128::from_str_radix(page_id, 16).unwrap() - 160;
    let first_page = Key::new(format!("{page_family}/{page_id:032x}")).unwrap();
    let (redirect, _) = first("role_redirect");
    let revived = redirect.to_string().replacen("role_redirect", "role", 1);
    let cases = rows! {
        ("unreadable", Mutation::Put { key: first("memory").0, value: "{}".into() }),
        ("unknown_family", Mutation::Put { key: Key::new("stray/1").unwrap(), value: "1".into() }),
        ("missing", Mutation::Delete { key: first("content").0 }),
        ("unexpected", Mutation::Put { key: Key::new(revived).unwrap(), value: first("role").1 }),
        ("mismatch", with("org", "/id", other.clone())),
        ("count", Mutation::Add { key: first("memory_count").0, delta: 1 }),
        ("not_due", with("credential", "/expires_at", json!("2099-01-01T00:00:00.000Z"))),
        ("unknown_role", with("member", "/role", other)),
        ("sealed", with("webhook", "/secret", json!("AAAA"))),
        ("audit_sequence", Mutation::Delete { key: first_page }),
        ("unfinished", with("meta", "/schema", json!(u32::MAX))),
    };
    for (code, damage) in cases {
        let key = damage.key().clone();
        let before = all.iter().find(|(found, _)| *found == key).cloned();
        plant(&directory, Commit::builder().mutate(damage)).await;
        let verified = on(&scratch, "data", &["verify", "--output=json"]);
        assert_eq!(verified.code, 1, "{code}: {}", verified.stderr);
        let report: Value = serde_json::from_str(&verified.stdout).unwrap();
        let differences = report["differences"].as_array().unwrap();
        let is_named = differences.iter().any(|found| found["code"] == code);
        assert!(is_named, "{code} in {report:#}");
        let text = on(&scratch, "data", &["verify"]);
        text.shows(&format!(": {code}: expected "));
        let repair = match before {
            Some((key, value)) => Commit::builder().put(key, value),
            None => Commit::builder().delete(key),
        };
        plant(&directory, repair).await;
    }
    on(&scratch, "data", &["verify"]).ok();
}

#[tokio::test]
async fn verify_report_is_bounded() {
    let scratch = Scratch::with_org();
    plant(&scratch.path("data"), strays(1_500)).await;
    let verified = on(&scratch, "data", &["verify"]);
    assert_eq!(verified.code, 1);
    assert_eq!(verified.stdout.lines().count(), 1_002);
    assert!(verified.stdout.contains("and 500 more"));
    verified.stderr.assert_ends("error: 1,500 differences\n");
}

#[tokio::test]
async fn verify_distinguishes_unreadable_input_from_differences() {
    let scratch = complete().await;
    let not_verified = |directory: &str, args: &[&str]| {
        let ended = on(&scratch, directory, &[&["verify"], args].concat());
        assert_eq!(ended.code, 2, "{}{}", ended.stdout, ended.stderr);
        ended.stderr
    };
    not_verified("nowhere", &[]);
    not_verified("data", &["--dump", &scratch.arg("nothing.jsonl")]);
    let server = start(&["serve", &scratch.data_dir(), "--listen=127.0.0.1:0"]);
    server.base_url();
    let told = not_verified("data", &[]);
    told.assert_has("knowledge backup FILE");
    assert_eq!(server.terminate(), 0);
    // A truncated dump and a store that does not open count as differences.
    let cut = scratch.write("cut.jsonl", "");
    assert_eq!(on(&scratch, "data", &["verify", "--dump", &cut]).code, 1);
    fs::remove_file(scratch.path("data/knowledge-store.mark")).unwrap();
    assert_eq!(on(&scratch, "data", &["verify"]).code, 1);
}

#[test]
fn verify_codes_are_documented() {
    let documented = include_str!("../../../../docs/backup.md").lines();
    let documented = documented
        .skip_while(|line| *line != "| code | meaning |")
        .skip(2);
    let documented = documented.map_while(|line| line.strip_prefix("| `")?.split('`').next());
    let codes = DifferenceCode::ALL.iter().map(|code| code.as_str());
    assert_eq!(documented.collect::<Vec<_>>(), codes.collect::<Vec<_>>());
}
