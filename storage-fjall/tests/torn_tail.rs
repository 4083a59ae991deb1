//! Batches at the end of the journal that were torn by a power loss or corrupted later.

use std::fs;
use std::path::{Path, PathBuf};

use knowledge_storage_embedded::testing::support::{
    assert_committed, copy_directory, key, open, options, put, read_all, read_text, run,
    temp_directory,
};
use knowledge_storage_fjall::{Fjall, FjallStore, OpenError};
use knowledge_store::{Commit, Store};

const MARK: &str = "knowledge-store.mark";
const TORN: &str = "knowledge-store.torn";
const PAGE_BYTES: usize = 4096;

/// A store with two batches whose positions in the journal are known.
struct TornStore {
    root: tempfile::TempDir,
    /// Offsets in the journal before the last two batches, and after them.
    offsets: [usize; 3],
    /// Mark from before the last batch.
    mark: Vec<u8>,
}

fn journal_path(store: &Path) -> PathBuf {
    let mut found = fs::read_dir(store.join("fjall"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|name| name == "jnl"));
    let journal = found.next().unwrap();
    assert!(found.next().is_none(), "a small store has one journal");
    journal
}

fn used_length(store: &Path) -> usize {
    let bytes = fs::read(journal_path(store)).unwrap();
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1)
}

fn change_journal(store: &Path, change: impl FnOnce(&mut [u8])) {
    let journal = journal_path(store);
    let mut bytes = fs::read(&journal).unwrap();
    change(&mut bytes);
    fs::write(journal, bytes).unwrap();
}

impl TornStore {
    async fn write() -> Self {
        let root = temp_directory();
        let path = root.path().join("store");
        let store = open::<Fjall>(&path);
        assert_committed(store.commit(put("a", "first")).await);
        let mut rng = fastrand::Rng::with_seed(7);
        let mut batch = |name: &str| {
            let commit = (0..3).fold(Commit::builder(), |commit, i| {
                let mut value = vec![0; 20_000];
                rng.fill(&mut value);
                commit.put(key(&format!("{name}{i}")), value)
            });
            commit.build().unwrap()
        };
        let first = used_length(&path);
        assert_committed(store.commit(batch("b")).await);
        let second = used_length(&path);
        let mark = fs::read(path.join(MARK)).unwrap();
        assert_committed(store.commit(batch("c")).await);
        let offsets = [first, second, used_length(&path)];
        drop(store);
        // Shrink the preallocated space, to make copies fast.
        let file = fs::File::options().write(true).open(journal_path(&path));
        file.unwrap().set_len(offsets[2] as u64 + 100_000).unwrap();
        Self {
            root,
            offsets,
            mark,
        }
    }

    /// Copies the store with all three batches, of which two were acknowledged.
    fn copy(&self) -> PathBuf {
        let copy = self.root.path().join("copy");
        let _ = fs::remove_dir_all(&copy);
        copy_directory(&self.root.path().join("store"), &copy);
        fs::write(copy.join(MARK), &self.mark).unwrap();
        copy
    }

    fn pages(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let [_, from, to] = self.offsets;
        let pages = from / PAGE_BYTES..to.div_ceil(PAGE_BYTES);
        pages.map(move |page| (page * PAGE_BYTES).max(from)..((page + 1) * PAGE_BYTES).min(to))
    }
}

async fn assert_without_last_batch(path: &Path, what: &str) {
    for round in 1..=2 {
        let store = open::<Fjall>(path);
        let found = read_all(&store).await.unwrap();
        let is_last = |name: &&knowledge_store::Key| name.as_bytes().starts_with(b"c");
        assert_eq!(found.keys().filter(is_last).count(), 0, "{what}");
        assert!(found.len() >= 4, "{what}");
        store.check(|_, _| {}).unwrap();
        let round = round.to_string();
        assert_committed(store.commit(put("round", &round)).await);
        drop(store);
        let store = open::<Fjall>(path);
        assert_eq!(read_text(&store, "round").await, Some(round), "{what}");
    }
}

#[test]
fn torn_batch_is_truncated_whichever_page_is_missing() {
    run(async {
        let torn = TornStore::write().await;
        let (mut truncated, mut pages) = (0, 0);
        for page in torn.pages() {
            let copy = torn.copy();
            let what = format!("{page:?} of {:?}", torn.offsets);
            change_journal(&copy, |bytes| bytes[page].fill(0));
            let journal = fs::read(journal_path(&copy)).unwrap();
            assert_without_last_batch(&copy, &what).await;
            pages += 1;
            if let Ok(kept) = fs::read(copy.join(TORN)) {
                assert_eq!(kept, journal[torn.offsets[1]..torn.offsets[2]], "{what}");
                truncated += 1;
            }
        }
        // fjall itself drops the others.
        assert!(
            truncated * 2 > pages,
            "{truncated} of {pages} were truncated"
        );
    });
}

#[test]
fn batch_without_its_end_is_dropped() {
    run(async {
        let torn = TornStore::write().await;
        for page in torn.pages() {
            let copy = torn.copy();
            change_journal(&copy, |bytes| bytes[page.start..].fill(0));
            assert_without_last_batch(&copy, &format!("from {}", page.start)).await;
            assert!(!copy.join(TORN).exists());
        }
    });
}

#[test]
fn corrupt_batch_before_a_valid_one_is_rejected() {
    run(async {
        let torn = TornStore::write().await;
        let copy = torn.copy();
        let [first, second, _] = torn.offsets;
        change_journal(&copy, |bytes| bytes[(first + second) / 2] ^= 1);
        let corrupt = fs::read(journal_path(&copy)).unwrap();
        for _ in 0..2 {
            let error = FjallStore::open(&copy, options::<Fjall>()).unwrap_err();
            let expected = format!("the batch at byte {first} of the journal is corrupt");
            assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
            assert!(error.to_string().contains(&expected), "{error}");
        }
        assert!(fs::read(journal_path(&copy)).unwrap() == corrupt);
        assert!(!copy.join(TORN).exists());
    });
}

#[test]
fn lost_acknowledged_batch_is_detected_by_the_mark() {
    run(async {
        let torn = TornStore::write().await;
        let copy = torn.copy();
        let [_, second, third] = torn.offsets;
        let mark = torn.root.path().join("store").join(MARK);
        fs::copy(mark, copy.join(MARK)).unwrap();
        change_journal(&copy, |bytes| bytes[(second + third) / 2] ^= 1);
        let corrupt = fs::read(journal_path(&copy)).unwrap();
        for _ in 0..2 {
            let error = FjallStore::open(&copy, options::<Fjall>()).unwrap_err();
            assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
            let expected = "commit 3 was acknowledged, but the last commit found is 2";
            assert!(error.to_string().ends_with(expected), "{error}");
        }
        // The truncated bytes are saved.
        let kept = fs::read(copy.join(TORN)).unwrap();
        assert_eq!(kept, corrupt[second..third]);
    });
}
