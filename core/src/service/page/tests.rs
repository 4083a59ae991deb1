//! Tests of pages of lists with hidden and excluded records.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::store::{Commit, MemoryStore, Store};

/// Kind of a record of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
enum Kind {
    Hidden,
    Excluded,
    Shown,
}

/// A page as the caller receives it, and the record that its cursor names.
#[derive(Debug, PartialEq, Eq)]
struct Received {
    items: Vec<u32>,
    cursor: Option<(String, u32)>,
}

fn key(number: u32) -> Key {
    Key::new([b"list/".as_slice(), &number.to_be_bytes()].concat()).unwrap()
}

fn number(key: &Key) -> u32 {
    let number = key.as_bytes().strip_prefix(b"list/".as_slice()).unwrap();
    u32::from_be_bytes(number.try_into().unwrap())
}

fn listing(direction: Direction) -> Listing {
    let range = KeyRange::prefix(&Key::new("list/").unwrap());
    Listing::new("records", &(), range, direction)
}

/// Receives all pages that follow a record.
async fn pages(
    listing: &Listing,
    records: impl Iterator<Item = (u32, Kind)>,
    limit: usize,
    after: Option<u32>,
) -> Vec<Received> {
    let store = MemoryStore::new();
    let records: Vec<_> = records.collect();
    for chunk in records.chunks(1_000) {
        let commit = chunk.iter().fold(Commit::builder(), |commit, (at, kind)| {
            commit.put(key(*at), serde_json::to_vec(kind).unwrap())
        });
        store.commit(commit.build().unwrap()).await.unwrap();
    }
    let store: Arc<dyn Store> = Arc::new(store);
    let mut request = PageRequest {
        limit: Some(limit),
        cursor: after.map(|after| listing.cursor(&key(after)).unwrap()),
    };
    let mut received = Vec::new();
    loop {
        let show = |key: &Key, kind: Kind| {
            Ok(match kind {
                Kind::Hidden => PageRecord::Hidden,
                kind => PageRecord::matching(number(key), kind == Kind::Shown),
            })
        };
        let mut transaction = Transaction::begin(Arc::clone(&store));
        let page = listing.page(&mut transaction, &request, show).await;
        let page = page.unwrap();
        let text = page.next_cursor.as_ref().map(ToString::to_string);
        request.cursor = text.as_ref().map(|text| text.parse().unwrap());
        let named = request.cursor.as_ref();
        let named = named.map(|cursor| u32::from_be_bytes(cursor.last[..].try_into().unwrap()));
        received.push(Received {
            items: page.data,
            cursor: text.zip(named),
        });
        if request.cursor.is_none() {
            return received;
        }
    }
}

/// Runs of records, some longer than a page may examine.
fn runs() -> impl Strategy<Value = Vec<(Kind, usize)>> {
    let short = prop_oneof![Just(Kind::Hidden), Just(Kind::Excluded), Just(Kind::Shown)];
    let long = prop_oneof![Just(Kind::Hidden), Just(Kind::Excluded)];
    let run = prop_oneof![
        12 => (short, 1_usize..5),
        1 => (long, 800_usize..2_400),
    ];
    prop::collection::vec(run, 0..30)
}

proptest! {
    #[test]
    fn pages_depend_only_on_records_that_exist_for_caller(
        runs in runs(),
        limit in prop_oneof![1_usize..10, 1..=PAGE_ITEMS_MAX],
        is_reverse: bool,
        after in proptest::option::weighted(0.3, 0_u32..40),
    ) {
        let runs = runs.into_iter();
        let records: Vec<Kind> = runs.flat_map(|(kind, count)| vec![kind; count]).collect();
        let listing = listing(if is_reverse { Direction::Reverse } else { Direction::Forward });
        let all = || (0..).zip(records.iter().copied());
        let existing = || all().filter(|(_, kind)| *kind != Kind::Hidden);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let received = runtime.block_on(pages(&listing, all(), limit, after));
        let without = runtime.block_on(pages(&listing, existing(), limit, after));
        prop_assert_eq!(&received, &without, "hidden records change a page or a cursor");

        let is_left = |at: u32, after: Option<u32>| {
            after.is_none_or(|after| if is_reverse { at < after } else { at > after })
        };
        let left = existing().filter(|(at, _)| is_left(*at, after));
        let mut expected: Vec<u32> =
            left.clone().filter(|(_, kind)| *kind == Kind::Shown).map(|(at, _)| at).collect();
        if is_reverse {
            expected.reverse();
        }
        let items: Vec<u32> = received.iter().flat_map(|page| page.items.clone()).collect();
        prop_assert_eq!(&items, &expected);
        if left.count() <= PAGE_RECORDS_MAX {
            prop_assert_eq!(received.len(), expected.len().div_ceil(limit).max(1));
        }
        let mut after = after;
        for page in &received {
            let Some((_, last)) = page.cursor else {
                continue;
            };
            prop_assert_ne!(records[last as usize], Kind::Hidden);
            prop_assert_ne!(page.items.len(), 0, "an empty page before the end");
            if page.items.len() == limit {
                prop_assert_eq!(page.items.last(), Some(&last));
            } else {
                let examined = existing().filter(|(at, _)| {
                    is_left(*at, after) && (*at == last || !is_left(*at, Some(last)))
                });
                let examined = examined.count();
                // A page that found nothing went on to the first item.
                let went_on = examined > PAGE_RECORDS_MAX && page.items == [last];
                prop_assert!(examined == PAGE_RECORDS_MAX || went_on, "{}", examined);
            }
            after = Some(last);
        }
    }
}

/// A page that finds nothing ends when its time is used up, after the last record that it examined.
#[tokio::test]
async fn page_without_items_ends_with_its_time() {
    let store = MemoryStore::new();
    for start in (0..3_000).step_by(1_000) {
        let commit = (start..start + 1_000).fold(Commit::builder(), |commit, at| {
            commit.put(key(at), serde_json::to_vec(&Kind::Excluded).unwrap())
        });
        store.commit(commit.build().unwrap()).await.unwrap();
    }
    let store: Arc<dyn Store> = Arc::new(store);
    let listing = listing(Direction::Forward);
    let request = PageRequest::default();
    let ends = async |is_late: bool| {
        // A clock that is read once at the beginning, and then has moved on.
        let readings = std::sync::atomic::AtomicU32::new(0);
        let clock = move || {
            let first = readings.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
            let moves = is_late && !first;
            let passed = if moves {
                PAGE_SEARCH_TIME_MAX
            } else {
                std::time::Duration::ZERO
            };
            Timestamp::UNIX_EPOCH.plus(passed)
        };
        let env = Env::new(clock, |bytes: &mut [u8]| bytes.fill(0));
        let mut transaction = Transaction::begin(Arc::clone(&store));
        let mut scan = PageScan::begin(&listing, &request).unwrap().searching(&env);
        let mut data: Vec<u32> = Vec::new();
        while let Some(found) = scan.next(&mut transaction).await.unwrap() {
            let records = found.iter().map(|_| Ok(PageRecord::Excluded));
            scan.add(&mut data, &found, records).unwrap();
        }
        let page = scan.end(data);
        (page.data.len(), page.next_cursor.is_some())
    };
    assert_eq!(ends(false).await, (0, false), "the end of the list");
    assert_eq!(ends(true).await, (0, true), "the end of the time");
}
