use std::collections::BTreeSet;

use super::*;

fn descriptions() -> Descriptions {
    let mut descriptions = Descriptions::new();
    operations::describe(&mut descriptions);
    descriptions
}

#[test]
fn operations_are_described_once_each() {
    let described: Vec<String> = descriptions()
        .all
        .iter()
        .map(|(operation, _)| operation.id())
        .collect();
    let missing: Vec<String> = OPERATIONS
        .iter()
        .map(|spec| spec.operation.id())
        .filter(|id| !described.contains(id))
        .collect();
    assert!(missing.is_empty(), "described nowhere: {missing:?}");
    let distinct: BTreeSet<&String> = described.iter().collect();
    assert_eq!(
        distinct.len(),
        described.len(),
        "described twice: {described:?}"
    );
    assert_eq!(described.len(), OPERATIONS.len());
}
