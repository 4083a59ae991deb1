//! Cases about the contents of a reopened store.

use std::collections::HashSet;
use std::sync::Arc;

use super::sizes::largest_commit;
use super::support::{
    CaseContext, Outcome, add, commit, conflict, contents, delete, entry, expect, expect_absent,
    expect_eq, expect_value, key, numbered, put,
};
use crate::Commit;

pub(super) async fn contents_survive_reopen(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    for round in 0..50 {
        put(&*store, &numbered("n", round), &round.to_string()).await?;
    }
    let bytes = [b"\x00".as_slice(), b"\x00\xff", b"\xff", b"\xff\xff"];
    let builder = bytes.iter().fold(Commit::builder(), |builder, name| {
        builder.put(key(name), name.to_vec())
    });
    commit(&*store, builder).await?;
    let before = contents(&*store).await?;
    expect_eq("the entries before", &before.len(), &54)?;
    let store = context.reopen(store).await;
    expect_eq("values and versions", &contents(&*store).await?, &before)
}

pub(super) async fn last_commit_survives_reopen(context: &CaseContext<'_>) -> Outcome {
    let mut store = context.open().await;
    for round in 0..10 {
        let value = round.to_string();
        put(&*store, &key("a"), &value).await?;
        store = context.reopen(store).await;
        expect_value(&*store, &key("a"), &value).await?;
    }
    Ok(())
}

pub(super) async fn deletes_survive_reopen(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    put(&*store, &key("a"), "1").await?;
    put(&*store, &key("b"), "1").await?;
    delete(&*store, &key("a")).await?;
    let store = context.reopen(store).await;
    expect_absent(&*store, &key("a")).await?;
    expect_value(&*store, &key("b"), "1").await
}

pub(super) async fn versions_are_not_reused_after_reopen(context: &CaseContext<'_>) -> Outcome {
    let mut store = context.open().await;
    let a = key("a");
    let mut seen = HashSet::new();
    for round in 0..6 {
        put(&*store, &a, "1").await?;
        let version = entry(&*store, &a).await?.version;
        expect(
            seen.insert(version),
            format_args!("a version is not reused (round {round})"),
        )?;
        // When the store is reopened, no entry has the last version any more.
        delete(&*store, &a).await?;
        store = context.reopen(store).await;
        if round % 2 == 0 {
            let builder = Commit::builder()
                .check(a.clone(), Some(version))
                .delete(a.clone());
            conflict(&*store, builder, "the entry was deleted").await?;
        }
    }
    Ok(())
}

pub(super) async fn check_is_valid_after_reopen(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let a = key("a");
    let stale = put(&*store, &a, "1").await?;
    let version = put(&*store, &a, "2").await?;
    let store = context.reopen(store).await;
    let update = |version| {
        Commit::builder()
            .check(a.clone(), Some(version))
            .put(a.clone(), "3")
    };
    conflict(
        &*store,
        update(stale),
        "an earlier version than the current one",
    )
    .await?;
    commit(&*store, update(version)).await?;
    expect_value(&*store, &a, "3").await
}

pub(super) async fn counters_continue_after_reopen(context: &CaseContext<'_>) -> Outcome {
    let mut store = context.open().await;
    for sum in 1..=5 {
        add(&*store, &key("up"), 1).await?;
        add(&*store, &key("down"), -2).await?;
        store = context.reopen(store).await;
        expect_value(&*store, &key("up"), &sum.to_string()).await?;
        expect_value(&*store, &key("down"), &(-2 * sum).to_string()).await?;
    }
    Ok(())
}

pub(super) async fn largest_commit_survives_reopen(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let (builder, _) = largest_commit("l", 7);
    commit(&*store, builder).await?;
    let before = contents(&*store).await?;
    let store = context.reopen(store).await;
    let after = contents(&*store).await?;
    expect_eq("the entries", &after.len(), &before.len())?;
    expect(after == before, "every large value is unchanged")
}

pub(super) async fn concurrent_commits_survive_reopen(context: &CaseContext<'_>) -> Outcome {
    const TASKS: usize = 8;
    const ROUNDS: usize = 15;
    let store = context.open().await;
    let tasks = (0..TASKS).map(|task| {
        let store = Arc::clone(&store);
        async move {
            for round in 0..ROUNDS {
                let builder = Commit::builder()
                    .put(numbered("n", task * ROUNDS + round), "v")
                    .add(key("total"), 1);
                commit(&*store, builder).await?;
            }
            Ok(())
        }
    });
    context.concurrently(tasks).await?;
    let before = contents(&*store).await?;
    let store = context.reopen(store).await;
    expect_eq("the contents", &contents(&*store).await?, &before)?;
    expect_value(&*store, &key("total"), &(TASKS * ROUNDS).to_string()).await
}

pub(super) async fn store_may_be_reopened_many_times(context: &CaseContext<'_>) -> Outcome {
    let mut store = context.open().await;
    // Also before the first write.
    store = context.reopen(store).await;
    expect_eq("the contents", &contents(&*store).await?, &Vec::new())?;
    for round in 0..8 {
        put(&*store, &numbered("n", round), "v").await?;
        let before = contents(&*store).await?;
        store = context.reopen(store).await;
        store = context.reopen(store).await;
        expect_eq("the contents", &contents(&*store).await?, &before)?;
    }
    Ok(())
}
