//! Versions: what they change with, and that none comes twice.

use std::collections::HashSet;

use super::support::{
    Outcome, Trial, add, commit, contents, delete, entry, expect, expect_eq, key, put,
};
use crate::Commit;

pub(super) async fn a_commit_gives_its_version_to_its_entries(trial: &Trial<'_>) -> Outcome {
    let store = trial.open().await;
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

pub(super) async fn every_write_changes_the_version(trial: &Trial<'_>) -> Outcome {
    let store = trial.open().await;
    let a = key("a");
    let mut seen = HashSet::new();
    for round in 0..4 {
        // The same value each time: the write counts, not the difference.
        put(&*store, &a, "1").await?;
        let by_put = entry(&*store, &a).await?.version;
        add(&*store, &a, 0).await?;
        let by_add = entry(&*store, &a).await?.version;
        for (how, version) in [("put", by_put), ("add", by_add)] {
            expect(
                seen.insert(version),
                format_args!("a {how} gives a new version, in round {round} too"),
            )?;
        }
    }
    Ok(())
}

pub(super) async fn a_write_of_one_key_leaves_the_others(trial: &Trial<'_>) -> Outcome {
    let store = trial.open().await;
    put(&*store, &key("a"), "1").await?;
    put(&*store, &key("b"), "1").await?;
    let before = entry(&*store, &key("a")).await?;
    put(&*store, &key("b"), "2").await?;
    delete(&*store, &key("b")).await?;
    add(&*store, &key("c"), 1).await?;
    expect_eq("the entry", &entry(&*store, &key("a")).await?, &before)
}

pub(super) async fn versions_are_not_used_again_after_a_delete(trial: &Trial<'_>) -> Outcome {
    let store = trial.open().await;
    let a = key("a");
    let mut seen = HashSet::new();
    for round in 0..6 {
        match round % 2 {
            0 => put(&*store, &a, "1").await?,
            _ => add(&*store, &a, 1).await?,
        };
        expect(
            seen.insert(entry(&*store, &a).await?.version),
            format_args!("what is made again has a new version, in round {round} too"),
        )?;
        delete(&*store, &a).await?;
    }
    Ok(())
}
