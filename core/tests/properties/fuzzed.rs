//! Seeds of the fuzz targets, among which are the inputs of all defects that fuzzing has found.

use std::collections::BTreeSet;

use knowledge_core::api::OPERATIONS;
use knowledge_testing::fuzzing::{
    check_commands, check_decisions, check_parsers, check_requests, seeds,
};

use crate::memory;

#[tokio::test]
async fn requests_of_seeds_keep_invariants_and_succeed() {
    let mut done = BTreeSet::new();
    for (name, script) in seeds("api") {
        println!("{name}");
        let handled = check_requests(&script).await;
        let succeeded = handled.iter().filter(|handled| handled.status.is_success());
        done.extend(succeeded.filter_map(|handled| Some(handled.operation?.id())));
    }
    let all = OPERATIONS.iter().map(|spec| spec.operation.id());
    let missing: Vec<String> = all.filter(|id| !done.contains(id)).collect();
    assert!(missing.is_empty(), "no seed succeeds with {missing:?}");
}

#[tokio::test]
async fn inputs_of_seeds_are_parsed_as_a_second_reading_does() {
    for (name, input) in seeds("parsers") {
        println!("{name}");
        check_parsers(&input).await;
    }
}

#[tokio::test]
async fn cases_of_seeds_are_decided_as_reference_states() {
    for (name, text) in seeds("authorization") {
        println!("{name}");
        check_decisions(&text).await;
    }
}

#[tokio::test]
async fn commands_of_seeds_match_a_map() {
    for (name, script) in seeds("store_model") {
        println!("{name}");
        let empty = memory().await;
        check_commands(&script, |store| store.unwrap_or_else(|| empty.clone())).await;
    }
}
