//! Cases about counters.

use super::support::{
    CaseContext, Outcome, add, commit, conflict, contents, delete, entry, expect, expect_eq,
    expect_value, invalid, key, put,
};
use crate::Commit;

pub(super) async fn counter_starts_at_zero(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    add(&*store, &key("up"), 5).await?;
    add(&*store, &key("down"), -5).await?;
    add(&*store, &key("nothing"), 0).await?;
    expect_value(&*store, &key("up"), "5").await?;
    expect_value(&*store, &key("down"), "-5").await?;
    expect_value(&*store, &key("nothing"), "0").await?;
    delete(&*store, &key("up")).await?;
    add(&*store, &key("up"), 2).await?;
    expect_value(&*store, &key("up"), "2").await
}

pub(super) async fn counter_is_decimal_text(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let a = key("a");
    for (delta, sum) in [
        (9, "9"),
        (1, "10"),
        (1_000_000_007, "1000000017"),
        (-2_000_000_000, "-999999983"),
    ] {
        add(&*store, &a, delta).await?;
        expect_value(&*store, &a, sum).await?;
        let scanned = contents(&*store).await?.remove(0).1.value;
        expect_eq("the value in a scan", &scanned, &sum.into())?;
    }
    Ok(())
}

pub(super) async fn counter_may_be_negative_and_stays_at_zero(
    context: &CaseContext<'_>,
) -> Outcome {
    let store = context.open().await;
    let a = key("a");
    for (delta, sum) in [
        (3, "3"),
        (-10, "-7"),
        (7, "0"),
        (0, "0"),
        (-1, "-1"),
        (1, "0"),
    ] {
        add(&*store, &a, delta).await?;
        expect_value(&*store, &a, sum).await?;
    }
    Ok(())
}

pub(super) async fn put_number_is_a_counter(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let a = key("a");
    put(&*store, &a, "-41").await?;
    add(&*store, &a, -1).await?;
    expect_value(&*store, &a, "-42").await?;
    put(&*store, &a, "7").await?;
    expect_value(&*store, &a, "7").await
}

pub(super) async fn add_rejects_value_that_is_no_counter(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let a = key("a");
    let too_large = format!("{}0", i64::MAX);
    for value in ["", "{}", "x", "1.5", "1e3", "\"1\"", "1 ", "-", &too_large] {
        put(&*store, &a, value).await?;
        let before = entry(&*store, &a).await?;
        let why = format!("add to \"{value}\"");
        invalid(&*store, Commit::builder().add(a.clone(), 1), &why).await?;
        expect_eq(why, &entry(&*store, &a).await?, &before)?;
    }
    let not_text = Commit::builder().put(a.clone(), vec![0xff, 0x31]);
    commit(&*store, not_text).await?;
    let builder = Commit::builder().add(a, 1);
    invalid(&*store, builder, "add to a value that is not text").await
}

pub(super) async fn add_rejects_overflow(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    for (name, edge, step) in [("max", i64::MAX, 1), ("min", i64::MIN, -1)] {
        let counter = key(name);
        add(&*store, &counter, edge).await?;
        expect_value(&*store, &counter, &edge.to_string()).await?;
        let builder = Commit::builder().add(counter.clone(), step);
        invalid(&*store, builder, "add beyond 64 bits").await?;
        expect_value(&*store, &counter, &edge.to_string()).await?;
        add(&*store, &counter, -step).await?;
        expect_value(&*store, &counter, &(edge - step).to_string()).await?;
    }
    Ok(())
}

pub(super) async fn invalid_add_applies_nothing_of_its_commit(
    context: &CaseContext<'_>,
) -> Outcome {
    let store = context.open().await;
    put(&*store, &key("text"), "x").await?;
    put(&*store, &key("deleted"), "1").await?;
    add(&*store, &key("counter"), 1).await?;
    let before = contents(&*store).await?;
    let builder = Commit::builder()
        .put(key("new"), "1")
        .delete(key("deleted"))
        .add(key("counter"), 1)
        .add(key("text"), 1)
        .put(key("newer"), "1");
    invalid(&*store, builder, "one of five mutations is invalid").await?;
    expect_eq("the contents", &contents(&*store).await?, &before)?;
    // The store stays open: the request was invalid, the store has not failed.
    add(&*store, &key("counter"), 1).await?;
    expect_value(&*store, &key("counter"), "2").await
}

pub(super) async fn failed_check_precedes_invalid_add(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    put(&*store, &key("text"), "x").await?;
    let builder = Commit::builder()
        .check(key("text"), None)
        .add(key("text"), 1);
    conflict(
        &*store,
        builder,
        "the check fails before the add is evaluated",
    )
    .await
}

pub(super) async fn add_changes_the_version(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let a = key("a");
    let first = add(&*store, &a, 1).await?;
    let read = entry(&*store, &a).await?.version;
    expect_eq("the version of the first add", &read, &first)?;
    let second = add(&*store, &a, 1).await?;
    expect(first != second, "the second add assigns another version")?;
    let stale = Commit::builder()
        .check(a.clone(), Some(first))
        .put(key("b"), "1");
    conflict(&*store, stale, "the counter was added to").await?;
    let fresh = Commit::builder().check(a, Some(second)).put(key("b"), "1");
    commit(&*store, fresh).await?;
    Ok(())
}

pub(super) async fn add_combines_with_puts_and_deletes(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    put(&*store, &key("row"), "1").await?;
    let guard = add(&*store, &key("rows"), 1).await?;
    // Guard of a range: checked and added to by the same commit.
    let builder = Commit::builder()
        .check(key("rows"), Some(guard))
        .delete(key("row"))
        .add(key("rows"), -1)
        .put(key("log"), "removed");
    commit(&*store, builder.clone()).await?;
    expect_value(&*store, &key("rows"), "0").await?;
    conflict(&*store, builder, "the first commit changed the guard").await
}
