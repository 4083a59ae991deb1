//! Tests of the round trip: the dump of a restored store has the same bytes.

use knowledge_core::dump::{Header, LINE_BYTES_MAX};
use knowledge_core::env::Env;
use knowledge_core::model::Timestamp;
use knowledge_core::service::{KnowledgeService, Options, SealingKey};
use knowledge_core::store::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use knowledge_store::faults::FaultRates;
use knowledge_testing::simulation::{Simulation, contents};
use knowledge_testing::strategies::operations;
use proptest::collection::{btree_map, vec};
use proptest::prelude::{ProptestConfig, any, prop_oneof};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use sha2::{Digest, Sha256};

use super::*;

async fn assert_comes_back(store: &Arc<dyn Store>) {
    let first = dump(store).await;
    let copy = empty();
    let summary = restore(&copy, &first).await.unwrap();
    assert_eq!(
        contents(&*copy).await.unwrap(),
        contents(&**store).await.unwrap()
    );
    assert_eq!(summary.entries as usize, lines(&first).len() - 2);
    let second = dump(&copy).await;
    assert_eq!(
        String::from_utf8_lossy(&first),
        String::from_utf8_lossy(&second)
    );
}

#[tokio::test]
async fn dump_round_trips_after_all_kinds_of_operations() {
    let ops = operations(120).new_tree(&mut TestRunner::deterministic());
    let store = empty();
    let begun = Simulation::begin(Arc::clone(&store), 5, FaultRates::default()).await;
    let mut simulation = begun.unwrap();
    for op in ops.unwrap().current() {
        simulation.step(&op).await.unwrap();
    }
    assert_comes_back(&store).await;
}

#[test]
fn dump_round_trips_any_entries() {
    let key = prop_oneof![
        "[a-z/\"\\\\\n]{1,12}".prop_map(String::into_bytes),
        vec(any::<u8>(), 1..12)
    ];
    let value = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        "[ \\[\\]{}\",:a0\r\n]{0,8}".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..12),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(200));
    let tried = runner.run(&btree_map(key, value, 0..20), |entries| {
        let entries = entries
            .into_iter()
            .map(|(key, value)| (Key::new(key).unwrap(), value.into()));
        runtime.block_on(async { assert_comes_back(&store_of(entries).await).await });
        Ok(())
    });
    tried.unwrap();
}

#[tokio::test]
async fn dump_round_trips_empty_store_and_largest_entries() {
    assert_comes_back(&empty()).await;
    let key = |byte| Key::new(vec![byte; KEY_BYTES_MAX]).unwrap();
    let large = store_of([
        (key(1), Bytes::from(vec![0xff; VALUE_BYTES_MAX])),
        (key(0xff), Bytes::from(vec![0xff; VALUE_BYTES_MAX])),
    ])
    .await;
    assert_comes_back(&large).await;
    let dump = dump(&large).await;
    let longest = lines(&dump).iter().map(|line| line.len()).max().unwrap();
    assert!(longest > LINE_BYTES_MAX - 64 && longest <= LINE_BYTES_MAX);
}

#[tokio::test]
async fn dump_by_another_version_is_restored_to_the_lines_of_this_one() {
    let store = numbered(3).await;
    let own = dump(&store).await;
    let header = String::from_utf8(lines(&own)[0].to_vec()).unwrap();
    let other = header.replacen("knowledge-core ", "knowledge-core 0.0.0-other+", 1);
    assert_ne!(other, header);
    let entries = lines(&own)[1..5].concat();
    let lines = [other.as_bytes(), &entries].concat();
    let summary = format!(
        "{{\"entries\":4,\"sha256\":\"{}\"}}\n",
        base16ct::lower::encode_string(&Sha256::digest(&lines))
    );
    let other = [&lines, summary.as_bytes()].concat();
    let copy = empty();
    let report = restore_by(&copy, &other, CredentialPolicy::Keep).await;
    let report = report.unwrap();
    assert_eq!(Ok(report.dump), read(&other));
    assert_eq!(Ok(report.store), read(&own));
    assert!(dump(&copy).await == own);
}

#[tokio::test]
async fn dump_header_has_schema_and_sealing_key() {
    let store = empty();
    let key = SealingKey::new([7; 32]);
    let env = Env::new(|| Timestamp::UNIX_EPOCH, |buffer: &mut [u8]| buffer.fill(3));
    let options = Options::new(key.clone());
    KnowledgeService::open(Arc::clone(&store), env, options)
        .await
        .unwrap();
    let dump = dump(&store).await;
    let header: Header = serde_json::from_slice(lines(&dump)[0]).unwrap();
    assert_eq!(header.schema, Some(knowledge_core::service::SCHEMA));
    assert_eq!(header.sealing_key, Some(key.fingerprint()));
    assert!(header.written_by.starts_with("knowledge-core "));
}
