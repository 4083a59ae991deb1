//! Cases about checks and atomicity.

use super::support::{
    CaseContext, Outcome, commit, conflict, contents, delete, entry, expect_absent, expect_eq,
    expect_value, get, key, put,
};
use crate::{Commit, Version};

pub(super) async fn commit_is_visible_immediately(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    for round in 0..20 {
        let value = round.to_string();
        put(&*store, &key("a"), &value).await?;
        expect_value(&*store, &key("a"), &value).await?;
    }
    Ok(())
}

pub(super) async fn failed_check_changes_nothing(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let stale = put(&*store, &key("checked"), "1").await?;
    put(&*store, &key("checked"), "2").await?;
    put(&*store, &key("deleted"), "1").await?;
    put(&*store, &key("counted"), "1").await?;
    let before = contents(&*store).await?;
    let all_kinds = Commit::builder()
        .check(key("checked"), Some(stale))
        .put(key("checked"), "3")
        .put(key("new"), "1")
        .delete(key("deleted"))
        .add(key("counted"), 1);
    conflict(
        &*store,
        all_kinds,
        "the checked version is not the current one",
    )
    .await?;
    expect_eq("the contents", &contents(&*store).await?, &before)
}

pub(super) async fn one_failed_check_of_many_is_a_conflict(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let a = put(&*store, &key("a"), "1").await?;
    let b = put(&*store, &key("b"), "1").await?;
    put(&*store, &key("b"), "2").await?;
    for last_fails in [true, false] {
        let builder = Commit::builder().check(key("missing"), None);
        let builder = if last_fails {
            builder.check(key("a"), Some(a)).check(key("b"), Some(b))
        } else {
            builder.check(key("b"), Some(b)).check(key("a"), Some(a))
        };
        let builder = builder.put(key("c"), "1");
        conflict(&*store, builder, "one of three checks fails").await?;
    }
    expect_absent(&*store, &key("c")).await
}

pub(super) async fn checks_compare_with_current_version(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let a = key("a");
    let create = Commit::builder().check(a.clone(), None).put(a.clone(), "1");
    let first = commit(&*store, create.clone()).await?;
    conflict(&*store, create, "creation of an existing key").await?;

    let update = Commit::builder()
        .check(a.clone(), Some(first))
        .put(a.clone(), "2");
    let second = commit(&*store, update.clone()).await?;
    conflict(&*store, update, "update from an earlier version").await?;
    expect_value(&*store, &a, "2").await?;

    let never = Version::new(u64::MAX / 2);
    let ahead = Commit::builder()
        .check(a.clone(), never)
        .put(a.clone(), "3");
    conflict(&*store, ahead, "check of a version that was never assigned").await?;
    let absent = Commit::builder()
        .check(key("b"), Some(second))
        .delete(a.clone());
    conflict(&*store, absent, "check of a version of an absent key").await?;

    let twice = Commit::builder()
        .check(a.clone(), Some(second))
        .check(a.clone(), Some(second))
        .put(key("c"), "1");
    commit(&*store, twice).await?;
    let torn = Commit::builder()
        .check(a.clone(), Some(second))
        .check(a.clone(), None)
        .put(key("c"), "2");
    conflict(
        &*store,
        torn,
        "two checks of one key with different versions",
    )
    .await
}

pub(super) async fn commit_may_check_without_mutations(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let version = put(&*store, &key("a"), "1").await?;
    let before = contents(&*store).await?;
    let holds = Commit::builder()
        .check(key("a"), Some(version))
        .check(key("b"), None);
    commit(&*store, holds).await?;
    let fails = Commit::builder().check(key("a"), None);
    conflict(&*store, fails, "check for absence of an existing key").await?;
    expect_eq("the contents", &contents(&*store).await?, &before)
}

pub(super) async fn commit_may_mutate_without_checks(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    put(&*store, &key("a"), "1").await?;
    put(&*store, &key("b"), "1").await?;
    let blind = Commit::builder()
        .put(key("a"), "2")
        .delete(key("b"))
        .add(key("c"), 3)
        .put(key("d"), "4");
    commit(&*store, blind).await?;
    expect_value(&*store, &key("a"), "2").await?;
    expect_absent(&*store, &key("b")).await?;
    expect_value(&*store, &key("c"), "3").await?;
    expect_value(&*store, &key("d"), "4").await
}

pub(super) async fn empty_commit_is_committed(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    commit(&*store, Commit::builder()).await?;
    put(&*store, &key("a"), "1").await?;
    let before = contents(&*store).await?;
    commit(&*store, Commit::builder()).await?;
    expect_eq("the contents", &contents(&*store).await?, &before)
}

pub(super) async fn delete_removes_entry(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    delete(&*store, &key("never")).await?;
    expect_absent(&*store, &key("never")).await?;
    put(&*store, &key("a"), "1").await?;
    put(&*store, &key("b"), "1").await?;
    delete(&*store, &key("a")).await?;
    expect_absent(&*store, &key("a")).await?;
    delete(&*store, &key("a")).await?;
    let left: Vec<_> = contents(&*store)
        .await?
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    expect_eq("the remaining keys", &left, &vec![key("b")])?;
    put(&*store, &key("a"), "2").await?;
    expect_value(&*store, &key("a"), "2").await
}

pub(super) async fn stale_check_fails_after_delete(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let a = key("a");
    put(&*store, &a, "1").await?;
    let stale = entry(&*store, &a).await?.version;
    let update = Commit::builder()
        .check(a.clone(), Some(stale))
        .put(a.clone(), "9");
    delete(&*store, &a).await?;
    conflict(&*store, update.clone(), "the entry was deleted").await?;
    put(&*store, &a, "1").await?;
    conflict(&*store, update, "the entry was deleted and created again").await?;
    let found = get(&*store, &a).await?.map(|entry| entry.value);
    expect_eq("the value", &found, &Some("1".into()))
}
