//! Cases about reads of keys, of ranges, and of both in one call.

use super::support::{
    CaseContext, Outcome, commit, contents, expect, expect_eq, key, numbered, put, scan_keys,
};
use crate::{Commit, CommitBuilder, Direction, Found, Key, KeyRange, Read, Store, StoreExt};

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// Returns keys in byte order, which differs here from the order of texts and of lengths.
fn ordered_keys() -> Vec<Key> {
    let keys: [&[u8]; 18] = [
        b"\x00",
        b"\x00\x00",
        b"\x00\x01",
        b"\x00\xff",
        b"\x01",
        b"A",
        b"a",
        b"a\x00",
        b"a\x00\x00",
        b"a\x01",
        b"aa",
        b"a\xff",
        b"a\xff\xff",
        b"b",
        b"\x7f",
        b"\x80",
        b"\xff",
        b"\xff\xff",
    ];
    keys.iter().map(key).collect()
}

/// Puts the keys in an order that is neither ascending nor descending.
async fn put_all(store: &dyn Store, keys: &[Key]) -> Outcome {
    let shuffled = (0..keys.len()).map(|i| &keys[(i * 7 + 3) % keys.len()]);
    let builder: CommitBuilder = shuffled.fold(Commit::builder(), |builder, key| {
        builder.put(key.clone(), key.as_bytes().to_vec())
    });
    commit(store, builder).await?;
    Ok(())
}

async fn put_numbered(store: &dyn Store, prefix: &str, count: usize) -> Outcome<Vec<Key>> {
    let keys: Vec<Key> = (0..count).map(|number| numbered(prefix, number)).collect();
    let builder = keys.iter().fold(Commit::builder(), |builder, key| {
        builder.put(key.clone(), "v")
    });
    commit(store, builder).await?;
    Ok(keys)
}

fn turned(mut keys: Vec<Key>, direction: Direction) -> Vec<Key> {
    if direction == Direction::Reverse {
        keys.reverse();
    }
    keys
}

pub(super) async fn empty_store_has_no_entries(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let found = store.get(&[key("a"), key("b")]).await?;
    expect_eq("a get", &found, &vec![None, None])?;
    for direction in BOTH {
        let keys = scan_keys(&*store, &KeyRange::all(), usize::MAX, direction).await?;
        expect_eq("a scan", &keys, &Vec::new())?;
    }
    Ok(())
}

pub(super) async fn get_returns_entries_in_requested_order(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let keys = ordered_keys();
    put_all(&*store, &keys).await?;
    let mut asked: Vec<Key> = keys.into_iter().rev().collect();
    asked.insert(3, key("missing"));
    let found = store.get(&asked).await?;
    expect_eq("number of results", &found.len(), &asked.len())?;
    for (asked, found) in asked.iter().zip(found) {
        let expected = (asked.as_bytes() != b"missing").then(|| asked.as_bytes().to_vec());
        let value = found.map(|entry| entry.value.to_vec());
        expect_eq(format_args!("the result for {asked}"), &value, &expected)?;
    }
    Ok(())
}

pub(super) async fn get_accepts_repeated_keys_and_none(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    put(&*store, &key("a"), "1").await?;
    let asked = ["a", "z", "a", "z", "a"].map(key);
    let found = store.get(&asked).await?;
    let present: Vec<bool> = found.iter().map(Option::is_some).collect();
    expect_eq(
        "presence of a, z, a, z, a",
        &present,
        &vec![true, false, true, false, true],
    )?;
    expect(found[0] == found[2], "a repeated key has equal results")?;
    expect_eq("a get of no keys", &store.get(&[]).await?, &Vec::new())
}

pub(super) async fn keys_are_ordered_byte_by_byte(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let mut keys = ordered_keys();
    put_all(&*store, &keys).await?;
    keys.sort();
    for direction in BOTH {
        let found = scan_keys(&*store, &KeyRange::all(), usize::MAX, direction).await?;
        expect_eq(
            format_args!("{direction:?}"),
            &found,
            &turned(keys.clone(), direction),
        )?;
    }
    Ok(())
}

pub(super) async fn scan_runs_in_both_directions(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let keys = put_numbered(&*store, "n", 300).await?;
    let range = KeyRange::new(keys[10].clone(), keys[290].clone());
    for direction in BOTH {
        let found = scan_keys(&*store, &range, usize::MAX, direction).await?;
        let expected = turned(keys[10..290].to_vec(), direction);
        expect_eq(format_args!("{direction:?}"), &found, &expected)?;
    }
    Ok(())
}

pub(super) async fn scan_stops_at_its_limit(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let keys = put_numbered(&*store, "n", 20).await?;
    for direction in BOTH {
        let all = turned(keys.clone(), direction);
        for limit in [0, 1, 2, 19, 20, 21, usize::MAX] {
            let found = scan_keys(&*store, &KeyRange::all(), limit, direction).await?;
            let expected = all[..limit.min(20)].to_vec();
            expect_eq(
                format_args!("{direction:?}, limit {limit}, 20 entries"),
                &found,
                &expected,
            )?;
        }
    }
    Ok(())
}

pub(super) async fn scan_stays_within_its_range(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let mut keys = ordered_keys();
    put_all(&*store, &keys).await?;
    keys.sort();
    let mut bounds = keys.clone();
    bounds.extend(
        [
            b"a\x02".as_slice(),
            b"`",
            b"c",
            b"\xfe\xff",
            b"\xff\xff\xff",
        ]
        .map(key),
    );
    for start in &bounds {
        let ends = bounds.iter().map(Some).chain([None]);
        for end in ends {
            let range = KeyRange {
                start: start.clone(),
                end: end.cloned(),
            };
            let inside: Vec<Key> = keys
                .iter()
                .filter(|key| range.contains(key))
                .cloned()
                .collect();
            for direction in BOTH {
                let found = scan_keys(&*store, &range, usize::MAX, direction).await?;
                let expected = turned(inside.clone(), direction);
                expect_eq(format_args!("{range:?} {direction:?}"), &found, &expected)?;
            }
        }
    }
    Ok(())
}

pub(super) async fn scan_of_empty_range_finds_nothing(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    put_numbered(&*store, "n", 20).await?;
    let empty = KeyRange::new(key("n000005"), key("n000005"));
    let inverted = KeyRange::new(key("n000009"), key("n000002"));
    let between = KeyRange::new(key("n000005a"), key("n000006"));
    let behind = KeyRange {
        start: key("o"),
        end: None,
    };
    for range in [empty, inverted, between, behind] {
        for direction in BOTH {
            let found = scan_keys(&*store, &range, 10, direction).await?;
            expect_eq(format_args!("{range:?}"), &found, &Vec::new())?;
        }
    }
    Ok(())
}

pub(super) async fn pages_cover_a_range_once(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    put_numbered(&*store, "m", 5).await?;
    let keys = put_numbered(&*store, "n", 100).await?;
    put_numbered(&*store, "o", 5).await?;
    for direction in BOTH {
        for limit in [1, 7, 25, 100] {
            let mut rest = KeyRange::prefix(&key("n"));
            let mut found = Vec::new();
            // One more page may follow, which is empty.
            for _ in 0..=keys.len() {
                let page = scan_keys(&*store, &rest, limit, direction).await?;
                let Some(last) = page.last() else { break };
                rest = match direction {
                    Direction::Forward => rest.after(last),
                    Direction::Reverse => rest.before(last),
                };
                found.extend(page);
            }
            let expected = turned(keys.clone(), direction);
            expect_eq(
                format_args!("pages of {limit}, {direction:?}"),
                &found,
                &expected,
            )?;
        }
    }
    Ok(())
}

pub(super) async fn prefix_range_finds_only_its_keys(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let mut keys = ordered_keys();
    put_all(&*store, &keys).await?;
    keys.sort();
    for prefix in [
        b"\x00".as_slice(),
        b"a",
        b"a\x00",
        b"a\xff",
        b"\xff",
        b"\xff\xff",
        b"x",
    ] {
        let range = KeyRange::prefix(&key(prefix));
        let found = scan_keys(&*store, &range, usize::MAX, Direction::Forward).await?;
        let expected: Vec<Key> = keys
            .iter()
            .filter(|key| key.as_bytes().starts_with(prefix))
            .cloned()
            .collect();
        expect_eq(
            format_args!("prefix \"{}\"", prefix.escape_ascii()),
            &found,
            &expected,
        )?;
    }
    Ok(())
}

pub(super) async fn values_keep_their_bytes(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let values: Vec<Vec<u8>> = vec![
        Vec::new(),
        vec![0],
        vec![0; 100],
        vec![0xff; 100],
        (0..=u8::MAX).collect(),
        "{\"text\":\"żółw \\u0000 🐢\"}".as_bytes().to_vec(),
    ];
    let keys: Vec<Key> = (0..values.len()).map(|i| numbered("v", i)).collect();
    let builder = keys
        .iter()
        .zip(&values)
        .fold(Commit::builder(), |builder, (key, value)| {
            builder.put(key.clone(), value.clone())
        });
    commit(&*store, builder).await?;
    let got = store.get(&keys).await?;
    let got = got
        .into_iter()
        .map(|entry| entry.map(|entry| entry.value.to_vec()));
    let expected: Vec<_> = values.iter().cloned().map(Some).collect();
    expect_eq("by get", &got.collect::<Vec<_>>(), &expected)?;
    let scanned = contents(&*store).await?;
    let scanned = scanned.into_iter().map(|(_, entry)| entry.value.to_vec());
    expect_eq("by scan", &scanned.collect::<Vec<_>>(), &values)
}

pub(super) async fn mixed_reads_have_one_result_each(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let keys = put_numbered(&*store, "n", 30).await?;
    let asked = [keys[7].clone(), key("missing"), keys[2].clone()];
    let range = KeyRange::new(keys[10].clone(), keys[20].clone());
    let nothing = KeyRange::new(key("x"), key("y"));
    let part = |limit, direction| Read::Range {
        range: &range,
        limit,
        direction,
    };
    let reads = [
        part(3, Direction::Reverse),
        Read::Keys(&asked),
        Read::all(&nothing),
        part(4, Direction::Forward),
        Read::Keys(&asked[..1]),
        Read::all(&range),
    ];
    let found = store.read(&reads).await?;
    expect_eq("number of results", &found.len(), &reads.len())?;
    for (number, (read, found)) in reads.iter().zip(found).enumerate() {
        let alone = store.read(&[*read]).await?.pop();
        expect_eq(format_args!("result {number}"), &Some(found), &alone)?;
    }
    let reversed: Vec<Key> = keys[17..20].iter().rev().cloned().collect();
    let found = store.read(&reads[..1]).await?.pop();
    let found = found.map_or(Ok(Vec::new()), Found::into_range)?;
    let found = found.into_iter().map(|found| found.key);
    expect_eq("the last three", &found.collect::<Vec<_>>(), &reversed)
}

pub(super) async fn reads_accept_any_mixture(context: &CaseContext<'_>) -> Outcome {
    let store = context.open().await;
    let keys = put_numbered(&*store, "n", 3).await?;
    expect_eq("no reads", &store.read(&[]).await?, &Vec::new())?;
    let no_keys = store.read(&[Read::Keys(&[]), Read::Keys(&[])]).await?;
    expect_eq(
        "two reads of no keys",
        &no_keys,
        &vec![Found::Keys(Vec::new()), Found::Keys(Vec::new())],
    )?;
    // Many reads, more than a backend would have parameters for.
    let range = KeyRange::prefix(&key("n"));
    let reads: Vec<Read<'_>> = (0..400)
        .map(|number| match number % 2 {
            0 => Read::Keys(&keys),
            _ => Read::all(&range),
        })
        .collect();
    let found = store.read(&reads).await?;
    expect_eq("number of results", &found.len(), &400)?;
    for found in found {
        let entries = match found {
            Found::Keys(entries) => entries.iter().flatten().count(),
            Found::Range(entries) => entries.len(),
        };
        expect_eq("entries of a result", &entries, &3)?;
    }
    Ok(())
}
