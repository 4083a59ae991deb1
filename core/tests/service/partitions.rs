//! Tests of moves of organisations between partitions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use knowledge_core::Error;
use knowledge_core::access::{CredentialKind, Secret};
use knowledge_core::env::Env;
use knowledge_core::model::OrgId;
use knowledge_core::partition::{
    Directory, HOME, HoldingStore, MoveError, MoveOutcome, MoveStep, Relocation, Stores, identity,
    moving,
};
use knowledge_core::service::{Caller, InFlight, KnowledgeService, Options, SealingKey, Verify};
use knowledge_core::store::{
    Commit, CommitBuilder, CommitOutcome, Found, Key, KeyRange, MemoryStore, Read, Store,
    StoreError, StoreErrorKind, StoreExt,
};
use knowledge_testing::fixture::{OrgFixture, complete, seed_orgs};

use crate::make::SEALING_KEY;

pub(crate) type Contents = BTreeMap<Key, Bytes>;

/// Two partitions: home with an organisation of every kind of entry and another one, and `eu`.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) home: Arc<MemoryStore>,
    pub(crate) eu: Arc<MemoryStore>,
    /// Organisation that is moved.
    pub(crate) org: OrgFixture,
    /// Organisation that stays.
    pub(crate) other: OrgFixture,
}

pub(crate) async fn service_over(store: &Arc<MemoryStore>) -> KnowledgeService {
    let store = Arc::new(HoldingStore::new(Arc::<MemoryStore>::clone(store)));
    let options = Options::new(SealingKey::new(SEALING_KEY));
    let opened = KnowledgeService::open(store, Env::system(), options);
    opened.await.expect("a service")
}

impl Site {
    pub(crate) async fn new() -> Self {
        let (home, eu) = named_stores().await;
        let org = complete(&service_over(&home).await).await;
        let org = org.expect("an organisation");
        let other = other_org(&home).await;
        Self {
            home,
            eu,
            org,
            other,
        }
    }

    /// Creates partitions with two small organisations.
    pub(crate) async fn small() -> Self {
        let (home, eu) = named_stores().await;
        let seeded = seed_orgs(&service_over(&home).await, 2).await;
        let orgs = seeded.expect("organisations").orgs;
        let [org, other] = orgs.try_into().expect("two organisations");
        Self {
            home,
            eu,
            org,
            other,
        }
    }

    /// Returns the same entries in stores of their own.
    pub(crate) async fn copy(&self) -> Self {
        let copied = async |store: &MemoryStore| {
            let copy = Arc::new(MemoryStore::new());
            put_all(&copy, contents(store).await).await;
            copy
        };
        Self {
            home: copied(&self.home).await,
            eu: copied(&self.eu).await,
            org: self.org.clone(),
            other: self.other.clone(),
        }
    }

    fn stores(&self) -> Stores {
        self.stores_with(|store| store)
    }

    pub(crate) fn stores_with(&self, wrap: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>) -> Stores {
        let home: Arc<dyn Store> = Arc::<MemoryStore>::clone(&self.home);
        let eu: Arc<dyn Store> = Arc::<MemoryStore>::clone(&self.eu);
        [(HOME.to_owned(), wrap(home)), ("eu".to_owned(), wrap(eu))].into()
    }

    pub(crate) async fn move_to(&self, to: &str) -> Result<MoveOutcome, MoveError> {
        let relocation = Relocation {
            org: self.org.id,
            to,
        };
        relocation.run(&self.stores(), |_, _| {}).await
    }

    async fn placement(&self) -> Option<String> {
        let directory = Directory::new(Arc::<MemoryStore>::clone(&self.home));
        let found = directory.placement(self.org.id).await.unwrap();
        found.map(|placement| {
            assert_eq!(placement.moving, None);
            placement.partition
        })
    }

    /// Asserts that one partition has all of the organisation, and that both are consistent.
    async fn assert_only_in(&self, place: &str, before: &Contents) {
        let wanted = (place != HOME).then(|| place.to_owned());
        assert_eq!(self.placement().await, wanted);
        let (home, eu) = (contents(&*self.home).await, contents(&*self.eu).await);
        let (has, lacks) = match place {
            HOME => (&home, &eu),
            _ => (&eu, &home),
        };
        let left: Vec<_> = of(self.org.id, lacks).into_keys().collect();
        let left: Vec<_> = left.iter().filter(|key| !is_directory(key)).collect();
        assert_eq!(left, [] as [&Key; 0]);
        let without_directory = |all: &Contents| {
            let mut of_org = of(self.org.id, all);
            of_org.retain(|key, _| !is_directory(key));
            of_org
        };
        let (found, wanted) = (without_directory(has), without_directory(before));
        let difference = |one: &Contents, other: &Contents| {
            let missing = one
                .iter()
                .filter(|(key, value)| other.get(key) != Some(value));
            missing.map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            difference(&wanted, &found),
            [],
            "nothing is lost or changed"
        );
        assert_eq!(difference(&found, &wanted), [], "nothing is added");
        assert_eq!(of(self.other.id, &home), of(self.other.id, before));
        for store in [&self.home, &self.eu] {
            verify(store).await;
        }
    }
}

async fn named_stores() -> (Arc<MemoryStore>, Arc<MemoryStore>) {
    let (home, eu) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    for store in [&home, &eu] {
        service_over(store).await;
    }
    let named = identity::establish(&*home, &[("eu", &*eu)], []).await;
    named.expect("new stores");
    (home, eu)
}

/// Adds an organisation with other slugs, which is seeded elsewhere.
async fn other_org(home: &MemoryStore) -> OrgFixture {
    let elsewhere = Arc::new(MemoryStore::new());
    let seeded = seed_orgs(&service_over(&elsewhere).await, 2).await;
    let org = seeded.expect("organisations").orgs.pop().expect("two");
    put_all(home, of(org.id, &contents(&*elsewhere).await)).await;
    org
}

async fn put_all(store: &MemoryStore, contents: Contents) {
    let put = |commit: CommitBuilder, (key, value)| commit.put(key, value);
    let commit = contents.into_iter().fold(Commit::builder(), put);
    store.commit(commit.build().unwrap()).await.unwrap();
}

fn is_directory(key: &Key) -> bool {
    let key = key.to_string();
    key.starts_with("placement/") || key.starts_with("org_slug/")
}

pub(crate) async fn contents(store: &dyn Store) -> Contents {
    let found = store.scan_all(&KeyRange::all()).await.unwrap();
    found
        .into_iter()
        .map(|found| (found.key, found.entry.value))
        .collect()
}

/// Returns the entries that name an organisation in key or value, without those that bound pings
/// to a host, which each partition keeps for itself.
pub(crate) fn of(org: OrgId, contents: &Contents) -> Contents {
    let (simple, text) = (org.0.simple().to_string(), org.to_string());
    let is_theirs = |key: &Key, value: &Bytes| {
        let value = String::from_utf8_lossy(value);
        if key.to_string().starts_with("host_pings/") {
            return false;
        }
        key.to_string().contains(&simple) || value.contains(&text) || value.contains(&simple)
    };
    let found = contents.iter().filter(|(key, value)| is_theirs(key, value));
    found
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

pub(crate) async fn verify(store: &Arc<MemoryStore>) {
    let key = SealingKey::new(SEALING_KEY);
    let store: Arc<dyn Store> = Arc::<MemoryStore>::clone(store);
    let mut verify = Verify::begin(store, [&key]).await.unwrap();
    while verify.read().await.unwrap() {}
    assert_eq!(verify.finish().differences, []);
}

pub(crate) fn token(org: &OrgFixture) -> Caller {
    Caller::new(org.members.owner.token.parse::<Secret>().expect("a token"))
}

pub(crate) async fn knows(store: &Arc<MemoryStore>, org: &OrgFixture) -> bool {
    let service = service_over(store).await;
    let found = service
        .authenticate(&token(org), CredentialKind::Bearer)
        .await;
    match found {
        Ok(principal) => principal.org.id == org.id,
        Err(Error::Unauthenticated { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn moved_organisation_is_complete_and_leaves_nothing_behind() {
    let site = Site::new().await;
    let before = contents(&*site.home).await;
    site.move_to("eu").await.unwrap();
    site.assert_only_in("eu", &before).await;
    assert!(knows(&site.eu, &site.org).await && !knows(&site.home, &site.org).await);
    assert!(knows(&site.home, &site.other).await && !knows(&site.eu, &site.other).await);
    // It is there already.
    site.move_to("eu").await.unwrap();
    site.move_to(HOME).await.unwrap();
    assert_eq!(contents(&*site.home).await, before);
    site.assert_only_in(HOME, &before).await;
}

/// Store that fails from a number of commits on, as if the process were killed there.
pub(crate) struct Stopping {
    store: Arc<dyn Store>,
    left: Arc<AtomicUsize>,
}

#[async_trait]
impl Store for Stopping {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let take = |left: usize| left.checked_sub(1);
        if self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
            .is_err()
        {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "stopped"));
        }
        self.store.commit(commit).await
    }
}

impl Site {
    /// Moves the organisation until a number of commits; returns true if that suffices.
    pub(crate) async fn stopped_after(&self, to: &str, commits: usize) -> bool {
        let left = Arc::new(AtomicUsize::new(commits));
        let stores = self.stores_with(|store| {
            let left = Arc::clone(&left);
            Arc::new(Stopping { store, left })
        });
        let org = self.org.id;
        let ended = Relocation { org, to }.run(&stores, |_, _| {}).await;
        ended.is_ok()
    }

    /// Asserts that home has nothing of the organisation but its place in the directory.
    pub(crate) async fn assert_nothing_left_at_home(&self) {
        let mut left = of(self.org.id, &contents(&*self.home).await);
        left.retain(|key, _| !is_directory(key));
        assert_eq!(left, Contents::new());
    }
}

#[tokio::test]
async fn move_is_resumed_after_every_commit() {
    let original = Site::new().await;
    for commits in 0.. {
        let site = original.copy().await;
        let is_complete = site.stopped_after("eu", commits).await;
        for store in [&site.home, &site.eu] {
            assert!(
                !(knows(&site.home, &site.org).await && knows(&site.eu, &site.org).await)
                    || site.placement_is_moving().await,
                "after {commits} commits"
            );
            // Work of others, and of the organisation where it is served, goes on.
            let service = service_over(store).await;
            let now = service.env().now();
            let fanned_out = service.dispatcher().fan_out(now).await;
            assert!(fanned_out.is_ok(), "{commits}: {fanned_out:?}");
            let claimed = service
                .dispatcher()
                .claim(now, 256, &InFlight::default())
                .await;
            assert!(claimed.is_ok(), "{commits}: {claimed:?}");
            let maintained = service.maintain(now).await;
            assert!(maintained.is_ok(), "{commits}: {maintained:?}");
            // A part of an organisation is known to be one.
            let verified = service.verify().await.unwrap();
            let named = moving(&**store).await.unwrap();
            assert!(
                verified.differences.is_empty() || named == [site.org.id],
                "after {commits} commits: {verified:?}"
            );
        }
        site.move_to("eu")
            .await
            .unwrap_or_else(|error| panic!("{commits}: {error}"));
        assert_eq!(
            site.placement().await.as_deref(),
            Some("eu"),
            "after {commits} commits"
        );
        assert!(knows(&site.eu, &site.org).await && !knows(&site.home, &site.org).await);
        site.assert_nothing_left_at_home().await;
        for store in [&site.home, &site.eu] {
            verify(store).await;
            assert_eq!(moving(&**store).await.unwrap(), []);
        }
        if is_complete {
            assert!(commits > 20, "the move has only {commits} commits");
            break;
        }
    }
}

impl Site {
    async fn placement_is_moving(&self) -> bool {
        let directory = Directory::new(Arc::<MemoryStore>::clone(&self.home));
        let found = directory.placement(self.org.id).await.unwrap();
        found.is_some_and(|placement| placement.moving.is_some())
    }
}

#[tokio::test]
async fn move_is_cancelled_until_it_switches() {
    let original = Site::new().await;
    let before = contents(&*original.home).await;
    let mut cancelled = 0;
    for commits in 0.. {
        let site = original.copy().await;
        if site.stopped_after("eu", commits).await {
            break;
        }
        match site.move_to(HOME).await {
            Ok(MoveOutcome::Unmoved | MoveOutcome::Cancelled { .. }) => {
                site.assert_only_in(HOME, &before).await;
                cancelled += 1;
            }
            Ok(_) | Err(MoveError::OtherMove { .. }) => break,
            Err(error) => panic!("{commits}: {error}"),
        }
    }
    assert!(cancelled > 5, "{cancelled}");
}

#[tokio::test]
async fn second_move_of_an_organisation_supersedes_the_first() {
    let site = Site::new().await;
    let stores = site.stores();
    let relocation = Relocation {
        org: site.org.id,
        to: "eu",
    };
    // The second one runs to its end while the first one is about to hold the writes.
    let (stop, mut stopped) = tokio::sync::mpsc::unbounded_channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let first = tokio::task::spawn_blocking(move || {
        let run = relocation.run(&stores, move |step, _| {
            if step == MoveStep::Holding {
                let _ = stop.send(());
                let _ = wait.recv();
            }
        });
        tokio::runtime::Handle::current().block_on(run)
    });
    stopped.recv().await.unwrap();
    site.move_to("eu").await.unwrap();
    drop(go);
    assert!(first.await.unwrap().is_err());
    assert_eq!(site.placement().await.as_deref(), Some("eu"));
    for store in [&site.home, &site.eu] {
        verify(store).await;
    }
    assert!(knows(&site.eu, &site.org).await && !knows(&site.home, &site.org).await);
}

#[tokio::test]
async fn deliveries_of_a_moved_organisation_are_made_once() {
    let site = Site::new().await;
    let claim = async |store: &Arc<MemoryStore>| {
        let service = service_over(store).await;
        let now = service.env().now();
        while service.dispatcher().fan_out(now).await.unwrap().has_more {}
        let claimed = service
            .dispatcher()
            .claim(now, 1_000, &InFlight::default())
            .await;
        claimed.unwrap().deliveries.len()
    };
    let unmoved = claim(&site.copy().await.home).await;
    assert!(unmoved > 0, "the fixture has pending deliveries");
    site.move_to("eu").await.unwrap();
    assert_eq!(
        (claim(&site.home).await, claim(&site.eu).await),
        (0, unmoved)
    );
}
