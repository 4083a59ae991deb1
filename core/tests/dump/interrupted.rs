//! Tests of interrupted dumps and restores, which resume only if nothing has changed.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use knowledge_core::dump::ExportError;
use knowledge_core::store::{
    Commit, CommitOutcome, Found, Mutation, Read, StoreError, StoreErrorKind, StoreExt,
};

use super::*;

const KEEP: CredentialPolicy = CredentialPolicy::Keep;

#[tokio::test]
async fn restore_resumes_after_interruption() {
    let whole = dump(&numbered(7_000).await).await;
    let expected = read(&whole).unwrap();
    let lines = lines(&whole);
    let copy = empty();
    let mut done = 0;
    for taken in [1_000, 2_500, 4_500, 6_500, lines.len()] {
        let mut restore = Restore::begin(Arc::clone(&copy), Some(expected.clone()), KEEP)
            .await
            .unwrap();
        assert_eq!(restore.resumed_at(), done);
        for line in &lines[..taken] {
            restore.take(line).await.unwrap();
        }
        if taken == lines.len() {
            assert_eq!(restore.finish().await.unwrap().dump, expected);
        }
        done = (taken as u64 - 1) / 2_000 * 2_000;
    }
    assert_eq!(dump(&copy).await, whole);
}

#[tokio::test]
async fn restore_does_not_rewrite_existing_entries() {
    let whole = dump(&numbered(5_000).await).await;
    let copy = empty();
    let begin = || Restore::begin(Arc::clone(&copy), read(&whole).ok(), KEEP);
    let mut first = begin().await.unwrap();
    for line in &lines(&whole)[..4_500] {
        first.take(line).await.unwrap();
    }
    let key = [Key::new("memory/00000000").unwrap()];
    let before = copy.get(&key).await.unwrap();
    let mut second = begin().await.unwrap();
    for line in lines(&whole) {
        second.take(line).await.unwrap();
    }
    second.finish().await.unwrap();
    assert_eq!(copy.get(&key).await.unwrap(), before);
    // A conflict with the remaining writes of the first restore is detected.
    let rest = lines(&whole)[4_500..].to_vec();
    for line in rest {
        first.take(line).await.unwrap();
    }
    assert!(matches!(
        first.finish().await,
        Err(RestoreError::Interfered)
    ));
    assert_eq!(dump(&copy).await, whole);
}

#[tokio::test]
async fn restore_resumes_only_same_dump_into_its_own_remains() {
    let (whole, other) = (
        dump(&numbered(5).await).await,
        dump(&numbered(6).await).await,
    );
    let halfway = async |expected| {
        let copy = empty();
        let mut restore = Restore::begin(Arc::clone(&copy), expected, KEEP)
            .await
            .unwrap();
        for line in &lines(&whole)[..3] {
            restore.take(line).await.unwrap();
        }
        copy
    };
    let known = halfway(read(&whole).ok()).await;
    let refused = restore(&known, &other).await;
    assert!(
        matches!(refused, Err(RestoreError::OtherDump)),
        "{refused:?}"
    );
    let unknown = Restore::begin(Arc::clone(&known), None, KEEP).await;
    assert!(matches!(unknown, Err(RestoreError::OtherDump)));
    restore(&known, &whole).await.unwrap();

    let streamed = halfway(None).await;
    let refused = restore(&streamed, &whole).await;
    assert!(
        matches!(refused, Err(RestoreError::OtherDump)),
        "{refused:?}"
    );

    for full in [numbered(0).await, numbered(1).await, known] {
        let before = dump(&full).await;
        let refused = restore(&full, &whole).await;
        assert!(
            matches!(refused, Err(RestoreError::NotEmpty)),
            "{refused:?}"
        );
        assert_eq!(dump(&full).await, before);
    }
}

#[tokio::test]
async fn restore_of_another_dump_than_the_one_checked_fails() {
    let (whole, other) = (
        dump(&numbered(5).await).await,
        dump(&numbered(6).await).await,
    );
    let copy = empty();
    let mut restore = Restore::begin(Arc::clone(&copy), read(&whole).ok(), KEEP)
        .await
        .unwrap();
    let lines = lines(&other);
    let (last, before) = lines.split_last().unwrap();
    for line in before {
        restore.take(line).await.unwrap();
    }
    assert!(matches!(
        restore.take(last).await,
        Err(RestoreError::OtherDump)
    ));
}

#[tokio::test]
async fn export_rejects_unfinished_store() {
    let whole = dump(&numbered(5).await).await;
    let copy = empty();
    let mut restore = Restore::begin(Arc::clone(&copy), None, KEEP).await.unwrap();
    restore.take(lines(&whole)[0]).await.unwrap();
    let begun = Export::begin(copy).await;
    assert!(matches!(begun, Err(ExportError::Unfinished)));
}

#[tokio::test]
async fn export_resumes_after_any_line() {
    let store = numbered(1_200).await;
    let whole = dump(&store).await;
    let lines = lines(&whole);
    for kept in [1, 2, 512, 513, 514, 1_000, lines.len() - 1] {
        let mut decoder = Decoder::new();
        for line in &lines[..kept] {
            decoder.read(line).unwrap();
        }
        let mut resumed = lines[..kept].concat();
        let export = Export::resume(Arc::clone(&store), decoder).await.unwrap();
        let mut export = export.expect("the store did not change");
        while export.read(&mut resumed).await.unwrap() {}
        assert!(resumed == whole, "behind line {kept}");
        assert_eq!(export.summary(), read(&whole).unwrap());
    }
}

#[tokio::test]
async fn export_does_not_resume_over_another_store() {
    let store = numbered(20).await;
    let whole = dump(&store).await;
    let resume = async |store: &Arc<dyn Store>, kept: usize| {
        let mut decoder = Decoder::new();
        for line in &lines(&whole)[..kept] {
            decoder.read(line).unwrap();
        }
        Export::resume(Arc::clone(store), decoder).await.unwrap()
    };
    assert!(
        resume(&store, lines(&whole).len()).await.is_none(),
        "it is whole"
    );
    assert!(resume(&store, 0).await.is_none(), "nothing was written");
    assert!(resume(&empty(), 10).await.is_none(), "another header");
    let key = Key::new("memory/00000008").unwrap();
    for change in [
        Mutation::Put {
            key: key.clone(),
            value: Bytes::from_static(b"1"),
        },
        Mutation::Delete { key },
    ] {
        let commit = Commit::builder().mutate(change).build().unwrap();
        store.commit(commit).await.unwrap();
        assert!(resume(&store, 10).await.is_none(), "the last entry changed");
    }
}

#[tokio::test]
async fn unavailable_store_is_not_taken_for_an_empty_or_a_full_one() {
    let unavailable = |result: Result<(), &StoreError>| {
        result.is_err_and(|error| error.kind() == StoreErrorKind::Unavailable)
    };
    // The restore of a full store reads its first entry, and then the record about the store.
    for reads in 0..2 {
        let store = Arc::new(FailingReads::after(reads, numbered(5).await));
        let begun = Restore::begin(store, None, KEEP).await;
        let found = match &begun {
            Err(RestoreError::Store(error)) => Err(error),
            _ => Ok(()),
        };
        assert!(unavailable(found), "{reads}: {:?}", begun.err());
    }
    let store = Arc::new(FailingReads::after(0, numbered(5).await));
    let begun = Export::begin(store).await;
    let found = match &begun {
        Err(ExportError::Store(error)) => Err(error),
        _ => Ok(()),
    };
    assert!(unavailable(found), "{:?}", begun.err());
}

/// A store that fails after some reads.
struct FailingReads {
    store: Arc<dyn Store>,
    left: AtomicUsize,
}

impl FailingReads {
    fn after(reads: usize, store: Arc<dyn Store>) -> Self {
        let left = AtomicUsize::new(reads);
        Self { store, left }
    }
}

#[async_trait]
impl Store for FailingReads {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let left = self.left.load(Ordering::SeqCst);
        if left == 0 {
            return Err(StoreError::new(
                StoreErrorKind::Unavailable,
                "no reads are left",
            ));
        }
        self.left.store(left - 1, Ordering::SeqCst);
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.store.commit(commit).await
    }
}
