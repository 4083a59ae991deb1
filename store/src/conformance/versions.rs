//! Cases about versions: every write changes them, and none is reused.

use std::collections::HashSet;

use super::support::{
    CaseContext, Outcome, add, commit, contents, delete, entry, expect, expect_eq, key, put,
};
use crate::Commit;

pub(super) async fn commit_gives_its_version_to_its_entries(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    for round in 0..3 {
        let builder = Commit::builder()
            .put(key("a"), round.to_string())
            .put(key("b"), "same")
            .add(key("c"), 1);
        let version = commit(&*store, builder).await?;
        for name in ["a", "b", "c"] {
            let found = entry(&*store, &key(name)).await?.version;
            expect_eq(format_args!("the version of {name}"), &found, &version)?;
        }
        for (key, entry) in contents(&*store).await? {
            expect_eq(
                format_args!("the version of {key} in a scan"),
                &entry.version,
                &version,
            )?;
        }
    }
    Ok(())
}

pub(super) async fn every_write_changes_the_version(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let a = key("a");
    let mut seen = HashSet::new();
    for round in 0..4 {
        // The same value each time: every write counts, even without a difference.
        put(&*store, &a, "1").await?;
        let by_put = entry(&*store, &a).await?.version;
        add(&*store, &a, 0).await?;
        let by_add = entry(&*store, &a).await?.version;
        for (how, version) in [("put", by_put), ("add", by_add)] {
            expect(
                seen.insert(version),
                format_args!("a {how} assigns a new version (round {round})"),
            )?;
        }
    }
    Ok(())
}

pub(super) async fn write_of_one_key_keeps_the_others(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    put(&*store, &key("a"), "1").await?;
    put(&*store, &key("b"), "1").await?;
    let before = entry(&*store, &key("a")).await?;
    put(&*store, &key("b"), "2").await?;
    delete(&*store, &key("b")).await?;
    add(&*store, &key("c"), 1).await?;
    expect_eq("the entry", &entry(&*store, &key("a")).await?, &before)
}

pub(super) async fn versions_are_not_reused_after_delete(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let a = key("a");
    let mut seen = HashSet::new();
    for round in 0..6 {
        match round % 2 {
            0 => put(&*store, &a, "1").await?,
            _ => add(&*store, &a, 1).await?,
        };
        expect(
            seen.insert(entry(&*store, &a).await?.version),
            format_args!("a recreated entry has a new version (round {round})"),
        )?;
        delete(&*store, &a).await?;
    }
    Ok(())
}
