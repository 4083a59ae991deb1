//! A batch at the end of the journal that a loss of power tore, and one that was damaged later.

use std::fs;
use std::path::{Path, PathBuf};

use knowledge_store::{Commit, Store};
use knowledge_storage_embedded::testing::support::{
    committed, contents, copy_directory, directory, key, open, options, put, run, value,
};
use knowledge_storage_fjall::{Fjall, FjallStore, OpenError};

const MARK: &str = "knowledge-store.mark";
const TORN: &str = "knowledge-store.torn";
const PAGE_BYTES: usize = 4096;

/// A store whose last batch reached the journal from one place to another.
struct Torn {
    root: tempfile::TempDir,
    /// The places in the journal before the last two batches, and after them.
    places: [usize; 3],
    /// The mark from before the last batch.
    mark: Vec<u8>,
}

fn journal(store: &Path) -> PathBuf {
    let mut found = fs::read_dir(store.join("fjall"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|name| name == "jnl"));
    let journal = found.next().unwrap();
    assert!(found.next().is_none(), "a small store has one journal");
    journal
}

fn used_bytes(store: &Path) -> usize {
    let bytes = fs::read(journal(store)).unwrap();
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1)
}

fn change_journal(store: &Path, change: impl FnOnce(&mut [u8])) {
    let journal = journal(store);
    let mut bytes = fs::read(&journal).unwrap();
    change(&mut bytes);
    fs::write(journal, bytes).unwrap();
}

impl Torn {
    async fn write() -> Self {
        let root = directory();
        let path = root.path().join("store");
        let store = open::<Fjall>(&path);
        committed(store.commit(put("a", "first")).await);
        let mut rng = fastrand::Rng::with_seed(7);
        let mut batch = |name: &str| {
            let commit = (0..3).fold(Commit::builder(), |commit, i| {
                let mut value = vec![0; 20_000];
                rng.fill(&mut value);
                commit.put(key(&format!("{name}{i}")), value)
            });
            commit.build().unwrap()
        };
        let first = used_bytes(&path);
        committed(store.commit(batch("b")).await);
        let second = used_bytes(&path);
        let mark = fs::read(path.join(MARK)).unwrap();
        committed(store.commit(batch("c")).await);
        let places = [first, second, used_bytes(&path)];
        drop(store);
        // Of what is allocated ahead a part will do.
        let file = fs::File::options().write(true).open(journal(&path));
        file.unwrap().set_len(places[2] as u64 + 100_000).unwrap();
        Self { root, places, mark }
    }

    /// A copy with all three batches, of which two were acknowledged.
    fn copy(&self) -> PathBuf {
        let copy = self.root.path().join("copy");
        let _ = fs::remove_dir_all(&copy);
        copy_directory(&self.root.path().join("store"), &copy);
        fs::write(copy.join(MARK), &self.mark).unwrap();
        copy
    }

    fn pages(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let [_, from, to] = self.places;
        let pages = from / PAGE_BYTES..to.div_ceil(PAGE_BYTES);
        pages.map(move |page| (page * PAGE_BYTES).max(from)..((page + 1) * PAGE_BYTES).min(to))
    }
}

async fn assert_without_last_batch(path: &Path, what: &str) {
    for round in 1..=2 {
        let store = open::<Fjall>(path);
        let found = contents(&store).await.unwrap();
        let is_last = |name: &&knowledge_store::Key| name.as_bytes().starts_with(b"c");
        assert_eq!(found.keys().filter(is_last).count(), 0, "{what}");
        assert!(found.len() >= 4, "{what}");
        store.check(|_, _| {}).unwrap();
        let round = round.to_string();
        committed(store.commit(put("round", &round)).await);
        drop(store);
        let store = open::<Fjall>(path);
        assert_eq!(value(&store, "round").await, Some(round), "{what}");
    }
}

#[test]
fn torn_batch_is_cut_off_whichever_page_is_missing() {
    run(async {
        let torn = Torn::write().await;
        let (mut cut, mut pages) = (0, 0);
        for page in torn.pages() {
            let copy = torn.copy();
            let what = format!("{page:?} of {:?}", torn.places);
            change_journal(&copy, |bytes| bytes[page].fill(0));
            let journal = fs::read(journal(&copy)).unwrap();
            assert_without_last_batch(&copy, &what).await;
            pages += 1;
            if let Ok(kept) = fs::read(copy.join(TORN)) {
                assert_eq!(kept, journal[torn.places[1]..torn.places[2]], "{what}");
                cut += 1;
            }
        }
        // The others are dropped by fjall itself.
        assert!(cut * 2 > pages, "{cut} of {pages} were cut off");
    });
}

#[test]
fn batch_without_its_end_is_dropped() {
    run(async {
        let torn = Torn::write().await;
        for page in torn.pages() {
            let copy = torn.copy();
            change_journal(&copy, |bytes| bytes[page.start..].fill(0));
            assert_without_last_batch(&copy, &format!("from {}", page.start)).await;
            assert!(!copy.join(TORN).exists());
        }
    });
}

#[test]
fn damaged_batch_before_a_whole_one_is_refused() {
    run(async {
        let torn = Torn::write().await;
        let copy = torn.copy();
        let [first, second, _] = torn.places;
        change_journal(&copy, |bytes| bytes[(first + second) / 2] ^= 1);
        let damaged = fs::read(journal(&copy)).unwrap();
        for _ in 0..2 {
            let error = FjallStore::open(&copy, options::<Fjall>()).unwrap_err();
            let expected = format!("a batch at byte {first} of the journal is damaged");
            assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
            assert!(error.to_string().contains(&expected), "{error}");
        }
        assert!(fs::read(journal(&copy)).unwrap() == damaged);
        assert!(!copy.join(TORN).exists());
    });
}

#[test]
fn acknowledged_batch_is_missed_by_the_mark() {
    run(async {
        let torn = Torn::write().await;
        let copy = torn.copy();
        let [_, second, third] = torn.places;
        let mark = torn.root.path().join("store").join(MARK);
        fs::copy(mark, copy.join(MARK)).unwrap();
        change_journal(&copy, |bytes| bytes[(second + third) / 2] ^= 1);
        let damaged = fs::read(journal(&copy)).unwrap();
        for _ in 0..2 {
            let error = FjallStore::open(&copy, options::<Fjall>()).unwrap_err();
            assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
            let expected = "commit 3 was acknowledged, but nothing after commit 2 was found";
            assert!(error.to_string().ends_with(expected), "{error}");
        }
        // Nothing is lost that could be looked at.
        let kept = fs::read(copy.join(TORN)).unwrap();
        assert_eq!(kept, damaged[second..third]);
    });
}
