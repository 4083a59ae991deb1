//! Tests of truncated, reordered and altered dumps.
//!
//! Each is rejected with its line number, and no service opens a store that was restored from one
//! in part.

use knowledge_core::dump::{DumpError, LINE_BYTES_MAX, LineProblem};
use knowledge_core::env::Env;
use knowledge_core::model::Timestamp;
use knowledge_core::service::{KnowledgeService, OpenError, Options, SCHEMA, SealingKey};
use sha2::{Digest, Sha256};

use super::*;

fn refused(dump: &[u8]) -> (u64, LineProblem) {
    let DumpError { number, problem } = read(dump).unwrap_err();
    (number, problem)
}

async fn whole() -> Vec<u8> {
    dump(&numbered(5).await).await
}

/// Returns the dump with its lines changed.
fn changed<'d>(dump: &'d [u8], change: impl FnOnce(&mut Vec<&'d [u8]>)) -> Vec<u8> {
    let mut lines = lines(dump);
    change(&mut lines);
    lines.concat()
}

fn without(lines: &mut Vec<&[u8]>, index: usize) {
    lines.remove(index);
}

#[tokio::test]
async fn dump_reader_reports_line_of_each_kind_of_damage() {
    use LineProblem::*;

    let dump = whole().await;
    assert_eq!(lines(&dump).len(), 8); // header, five memories, meta, summary
    let other = String::from_utf8(dump.clone()).unwrap();
    let other = other.replace("\"number\":3", "\"number\":4").into_bytes();
    let long = [vec![b' '; LINE_BYTES_MAX], vec![b'\n']].concat();
    let cases: Vec<(&str, Vec<u8>, (u64, LineProblem))> = vec![
        ("nothing", Vec::new(), (1, CutOff)),
        (
            "no header",
            changed(&dump, |l| without(l, 0)),
            (1, NotADump),
        ),
        (
            "another file",
            b"{\"title\":\"a\"}\n".to_vec(),
            (1, NotADump),
        ),
        (
            "no last line",
            changed(&dump, |l| l.truncate(7)),
            (8, CutOff),
        ),
        ("half a line", dump[..dump.len() / 2].to_vec(), (4, CutOff)),
        (
            "no last line feed",
            dump[..dump.len() - 1].to_vec(),
            (8, CutOff),
        ),
        (
            "one line less",
            changed(&dump, |l| without(l, 2)),
            (7, Count { said: 6, found: 5 }),
        ),
        (
            "two lines exchanged",
            changed(&dump, |l| l.swap(2, 3)),
            (4, OutOfOrder),
        ),
        (
            "one line twice",
            changed(&dump, |l| l.insert(2, l[2])),
            (4, OutOfOrder),
        ),
        ("an altered value", other, (8, Checksum)),
        (
            "an empty line",
            changed(&dump, |l| l.insert(2, b"\n")),
            (3, Malformed),
        ),
        (
            "a long line",
            changed(&dump, |l| l.insert(2, &long)),
            (3, TooLong),
        ),
        (
            "more behind it",
            changed(&dump, |l| l.push(b"\n")),
            (9, BehindTheEnd),
        ),
        (
            "two dumps",
            [&dump[..], &dump[..]].concat(),
            (9, BehindTheEnd),
        ),
    ];
    for (what, dump, expected) in cases {
        assert_eq!(refused(&dump), expected, "{what}");
    }
}

#[tokio::test]
async fn dump_reader_rejects_later_format() {
    let dump = String::from_utf8(whole().await).unwrap();
    let later = dump.replacen("\"version\":1", "\"version\":2,\"more\":true", 1);
    assert_eq!(
        refused(later.as_bytes()),
        (1, LineProblem::UnknownFormat { found: 2 })
    );
}

#[tokio::test]
async fn dump_reader_detects_any_altered_byte() {
    let dump = whole().await;
    for index in 0..dump.len() {
        for mask in [1, 0x20, 0x80] {
            let mut altered = dump.clone();
            altered[index] ^= mask;
            assert!(read(&altered).is_err(), "byte {index} with {mask:#x}");
        }
    }
}

#[tokio::test]
async fn service_does_not_open_store_restored_from_damaged_dump() {
    let dump = whole().await;
    for cut in 0..lines(&dump).len() {
        let store = empty();
        let cut = changed(&dump, |lines| lines.truncate(cut));
        assert!(matches!(
            restore(&store, &cut).await,
            Err(RestoreError::Dump(_))
        ));
        if cut.is_empty() {
            continue; // Nothing was written.
        }
        assert_unfinished(&store).await;
    }
}

/// Asserts that no service opens the store.
async fn assert_unfinished(store: &Arc<dyn Store>) {
    let env = Env::new(|| Timestamp::UNIX_EPOCH, |buffer: &mut [u8]| buffer.fill(3));
    let options = Options::new(SealingKey::new([7; 32]));
    let opened = KnowledgeService::open(Arc::clone(store), env, options).await;
    assert!(matches!(opened, Err(OpenError::Unfinished)), "{opened:?}");
}

/// Returns the dump with another text, and with the checksum that it then has.
fn forged(dump: &[u8], text: &str, other: &str) -> Vec<u8> {
    let dump = String::from_utf8(dump.to_vec()).unwrap();
    assert!(dump.contains(text), "{text}");
    let forged = dump.replacen(text, other, 1);
    let end = forged.rfind("{\"entries\"").unwrap();
    let (lines, entries) = (&forged[..end], forged[..end].lines().count() - 1);
    let sha256 = base16ct::lower::encode_string(&Sha256::digest(lines));
    format!("{lines}{{\"entries\":{entries},\"sha256\":\"{sha256}\"}}\n").into_bytes()
}

/// The first line says what the store has: it leads to the key, and to the program for it.
#[tokio::test]
async fn service_does_not_open_store_that_differs_from_its_dump() {
    let dump = whole().await;
    assert_eq!(forged(&dump, "\"schema\":1", "\"schema\":1"), dump);
    for (text, other) in [
        ("\"schema\":1", "\"schema\":null"),
        ("\"0123456789abcdef\"", "null"),
        ("\"0123456789abcdef\"", "\"fedcba9876543210\""),
    ] {
        let (store, forged) = (empty(), forged(&dump, text, other));
        // Started again, it differs again.
        for _ in 0..2 {
            let refused = restore(&store, &forged).await;
            assert!(
                matches!(refused, Err(RestoreError::Differs { .. })),
                "{other}: {refused:?}"
            );
            assert_unfinished(&store).await;
        }
    }
}

/// What a store lost is noticed before it can be opened.
#[tokio::test]
async fn service_does_not_open_store_that_lost_an_entry() {
    let dump = whole().await;
    let store = empty();
    let mut restoring = Restore::begin(Arc::clone(&store), None, CredentialPolicy::Keep)
        .await
        .unwrap();
    for line in lines(&dump) {
        restoring.take(line).await.unwrap();
    }
    assert!(restoring.compare().await.unwrap(), "the header");
    let lost = Commit::builder().delete(Key::new("memory/00000002").unwrap());
    store.commit(lost.build().unwrap()).await.unwrap();
    let refused = restoring.finish().await;
    assert!(
        matches!(refused, Err(RestoreError::Differs { .. })),
        "{refused:?}"
    );
    assert_unfinished(&store).await;
}

#[tokio::test]
async fn restore_rejects_other_schemas_before_writing() {
    for schema in [SCHEMA - 1, SCHEMA + 1] {
        let meta = format!("{{\"schema\":{schema},\"sealing_key\":\"0123456789abcdef\"}}");
        let meta = Bytes::from(meta);
        let other = dump(&store_of([(Key::new("meta").unwrap(), meta)]).await).await;
        let store = empty();
        let refused = restore(&store, &other).await;
        let is_expected = match &refused {
            Err(RestoreError::LaterSchema { found }) => *found == schema && schema > SCHEMA,
            Err(RestoreError::EarlierSchema { found }) => *found == schema && schema < SCHEMA,
            _ => false,
        };
        assert!(is_expected, "{refused:?}");
        assert_eq!(dump(&store).await, dump(&empty()).await);
    }
}
