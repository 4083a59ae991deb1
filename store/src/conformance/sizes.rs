//! Cases at the limits of [`Key`] and [`Commit`].

use super::support::{
    CaseContext, Outcome, commit, conflict, contents, entry, expect_absent, expect_eq, get, key,
    numbered, put, scan_keys,
};
use crate::{
    COMMIT_BYTES_MAX, COMMIT_MUTATIONS_MAX, Commit, CommitBuilder, Direction, KEY_BYTES_MAX, Key,
    KeyRange, StoreExt, VALUE_BYTES_MAX,
};

/// Returns incompressible bytes, which depend on `seed`.
pub(super) fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut value = vec![0; bytes];
    rng.fill(&mut value);
    value
}

/// Returns a commit of nearly [`COMMIT_BYTES_MAX`] in values of the maximum size, and its keys.
pub(super) fn largest_commit(prefix: &str, seed: u64) -> (CommitBuilder, Vec<Key>) {
    let key_bytes = numbered(prefix, 0).as_bytes().len();
    let count = COMMIT_BYTES_MAX / (VALUE_BYTES_MAX + key_bytes);
    let keys: Vec<Key> = (0..count).map(|i| numbered(prefix, i)).collect();
    let builder = keys
        .iter()
        .zip(seed..)
        .fold(Commit::builder(), |builder, (key, seed)| {
            builder.put(key.clone(), noise(VALUE_BYTES_MAX, seed))
        });
    (builder, keys)
}

pub(super) async fn longest_key_is_stored(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let mut longest = vec![b'k'; KEY_BYTES_MAX];
    let first = key(&longest);
    longest[KEY_BYTES_MAX - 1] = b'l';
    let second = key(&longest);
    put(&*store, &first, "1").await?;
    put(&*store, &second, "2").await?;
    let found = contents(&*store).await?;
    let found: Vec<_> = found
        .into_iter()
        .map(|(key, entry)| (key, entry.value))
        .collect();
    let expected = vec![(first, "1".into()), (second.clone(), "2".into())];
    expect_eq("keys that differ in their last byte", &found, &expected)?;
    commit(&*store, Commit::builder().delete(second.clone())).await?;
    expect_absent(&*store, &second).await
}

pub(super) async fn bounds_may_be_longer_than_a_key(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let bytes = vec![b'k'; KEY_BYTES_MAX];
    let longest = key(&bytes);
    let before = key(&bytes[..KEY_BYTES_MAX - 1]);
    let behind = key("l");
    for key in [&before, &longest, &behind] {
        put(&*store, key, "v").await?;
    }
    let after = KeyRange::all().after(&longest);
    for direction in [Direction::Forward, Direction::Reverse] {
        let found = scan_keys(&*store, &after, 10, direction).await?;
        let expected = vec![behind.clone()];
        expect_eq("keys after the longest key", &found, &expected)?;
    }
    let until = KeyRange::new(key("a"), longest.successor());
    let found = scan_keys(&*store, &until, 10, Direction::Reverse).await?;
    let expected = vec![longest.clone(), before];
    expect_eq("keys up to the longest key", &found, &expected)?;
    // A bound cannot be stored as a key, but reading it is not an error.
    let missing = get(&*store, &longest.successor()).await?;
    expect_eq("a get of the bound", &missing, &None)
}

pub(super) async fn largest_value_is_stored(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let a = key("a");
    for bytes in [VALUE_BYTES_MAX - 1, VALUE_BYTES_MAX] {
        let value = noise(bytes, bytes as u64);
        commit(&*store, Commit::builder().put(a.clone(), value.clone())).await?;
        let found = entry(&*store, &a).await?;
        expect_eq("by get", &found.value, &value.clone().into())?;
        let scanned = contents(&*store).await?.remove(0).1;
        expect_eq("by scan", &scanned.value, &value.into())?;
    }
    Ok(())
}

pub(super) async fn maximum_of_mutations_is_one_commit(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let keys: Vec<Key> = (0..COMMIT_MUTATIONS_MAX)
        .map(|i| numbered("m", i))
        .collect();
    let builder = keys.iter().fold(Commit::builder(), |builder, key| {
        builder.put(key.clone(), "v")
    });
    let version = commit(&*store, builder).await?;
    let found = contents(&*store).await?;
    expect_eq("the entries", &found.len(), &COMMIT_MUTATIONS_MAX)?;
    let others = found.iter().filter(|(_, entry)| entry.version != version);
    expect_eq("entries of another version", &others.count(), &0)?;
    let builder = keys
        .into_iter()
        .fold(Commit::builder(), CommitBuilder::delete);
    commit(&*store, builder).await?;
    expect_eq("the contents", &contents(&*store).await?, &Vec::new())
}

pub(super) async fn largest_commit_is_committed(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let (builder, keys) = largest_commit("l", 1);
    commit(&*store, builder).await?;
    let found = store.get(&keys).await?;
    for ((key, found), seed) in keys.iter().zip(found).zip(1..) {
        let value = found.map(|entry| entry.value);
        let expected = Some(noise(VALUE_BYTES_MAX, seed).into());
        expect_eq(format_args!("the value under {key}"), &value, &expected)?;
    }
    let (builder, _) = largest_commit("l", 1_000);
    let refused = builder.check(key("missing"), Some(crate::Version::FIRST));
    conflict(&*store, refused, "a check of the largest commit fails").await?;
    let first = entry(&*store, &keys[0]).await?;
    expect_eq(
        "the first value",
        &first.value,
        &noise(VALUE_BYTES_MAX, 1).into(),
    )
}

pub(super) async fn maximum_of_checks_is_one_commit(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let keys: Vec<Key> = (0..COMMIT_MUTATIONS_MAX)
        .map(|i| numbered("c", i))
        .collect();
    let present = &keys[..keys.len() / 2];
    let builder = present.iter().fold(Commit::builder(), |builder, key| {
        builder.put(key.clone(), "v")
    });
    let version = commit(&*store, builder).await?;
    let checked = keys.iter().enumerate().fold(
        Commit::builder().put(key("done"), "1"),
        |builder, (i, key)| builder.check(key.clone(), (i < present.len()).then_some(version)),
    );
    commit(&*store, checked.clone()).await?;
    put(&*store, &keys[present.len() - 1], "w").await?;
    conflict(&*store, checked, "one of thousands of checks fails").await
}

pub(super) async fn get_accepts_thousands_of_keys(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let keys: Vec<Key> = (0..COMMIT_MUTATIONS_MAX)
        .map(|i| numbered("g", i))
        .collect();
    let builder = keys
        .iter()
        .step_by(2)
        .fold(Commit::builder(), |builder, key| {
            builder.put(key.clone(), key.as_bytes().to_vec())
        });
    commit(&*store, builder).await?;
    let found = store.get(&keys).await?;
    expect_eq("number of results", &found.len(), &keys.len())?;
    for (i, (key, found)) in keys.iter().zip(found).enumerate() {
        let value = found.map(|entry| entry.value.to_vec());
        let expected = (i % 2 == 0).then(|| key.as_bytes().to_vec());
        expect_eq(format_args!("the result for {key}"), &value, &expected)?;
    }
    Ok(())
}
