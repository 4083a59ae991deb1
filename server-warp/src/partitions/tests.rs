use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, StatusCode};
use knowledge_core::access::CredentialKind;
use knowledge_core::api::Api;
use knowledge_core::env::Env;
use knowledge_core::internals::keys;
use knowledge_core::partition::{HoldingStore, Relocation, Stores};
use knowledge_core::service::{NewToken, Options, SealingKey};
use knowledge_core::store::{
    Commit, CommitOutcome, Found, MemoryStore, Read, Store, StoreError, StoreErrorKind, StoreExt,
};
use knowledge_testing::fixture::{OrgFixture, seed_orgs};

use super::*;
use crate::net::Responder as _;
use crate::responder::ApiResponder;

mod operator;
mod signed;

/// Store that counts the reads of the directory.
struct Counting {
    store: Arc<dyn Store>,
    lookups: Arc<AtomicUsize>,
}

#[async_trait]
impl Store for Counting {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let is_lookup = |read: &Read<'_>| match read {
            Read::Keys(keys) => keys
                .iter()
                .any(|key| key.to_string().starts_with("placement/")),
            Read::Range { .. } => false,
        };
        let lookups = reads.iter().filter(|read| is_lookup(read)).count();
        self.lookups.fetch_add(lookups, Ordering::SeqCst);
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.store.commit(commit).await
    }
}

/// Store that cannot be read while it is down.
struct Failing {
    store: Arc<dyn Store>,
    is_down: Arc<AtomicBool>,
}

#[async_trait]
impl Store for Failing {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "is down"));
        }
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.store.commit(commit).await
    }
}

/// Home and the partition `eu`, with a server of both and two organisations at home.
struct Site {
    stores: Stores,
    partitions: Partitions,
    responder: ApiResponder,
    lookups: Arc<AtomicUsize>,
    is_eu_down: Arc<AtomicBool>,
    moved: OrgFixture,
    stays: OrgFixture,
}

async fn service_over(store: &Arc<dyn Store>) -> KnowledgeService {
    let store = Arc::new(HoldingStore::new(Arc::clone(store)));
    let options = Options::new(SealingKey::new([7; 32]));
    let opened = KnowledgeService::open(store, Env::system(), options);
    opened.await.unwrap()
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

impl Site {
    async fn new() -> Self {
        let (home, eu) = (memory(), memory());
        let lookups = Arc::<AtomicUsize>::default();
        let counting: Arc<dyn Store> = Arc::new(Counting {
            store: Arc::clone(&home),
            lookups: Arc::clone(&lookups),
        });
        let is_eu_down = Arc::<AtomicBool>::default();
        let failing: Arc<dyn Store> = Arc::new(Failing {
            store: Arc::clone(&eu),
            is_down: Arc::clone(&is_eu_down),
        });
        let others = vec![("eu".to_owned(), service_over(&failing).await)];
        let home_service = service_over(&counting).await;
        let seeded = seed_orgs(&home_service, 2).await.unwrap();
        let [moved, stays] = seeded.orgs.try_into().expect("two organisations");
        let partitions = Partitions::open(home_service, others).await.unwrap();
        let responder = ApiResponder::over(partitions.clone(), |service| Api::new(service.clone()));
        Self {
            stores: [(HOME.to_owned(), home), ("eu".to_owned(), eu)].into(),
            partitions,
            responder,
            lookups,
            is_eu_down,
            moved,
            stays,
        }
    }

    async fn move_to(&self, to: &str) {
        let org = self.moved.id;
        let moved = Relocation { org, to }.run(&self.stores, |_, _| {}).await;
        moved.unwrap();
    }

    /// Writes the entry of the directory, as a move in another process does.
    async fn place(&self, entry: &str) {
        let entry = entry.replace("SLUG", &self.moved.slug);
        let commit = Commit::builder().put(keys::placement(self.moved.id), entry);
        let committed = self.stores[HOME].commit(commit.build().unwrap()).await;
        assert!(matches!(committed, Ok(CommitOutcome::Committed(_))));
    }

    /// Sends a request as the server does: it is identified, then answered.
    async fn get(&self, path: &str, token: &str) -> (StatusCode, String) {
        self.get_from(&self.responder, path, token).await
    }

    async fn get_from(
        &self,
        responder: &ApiResponder,
        path: &str,
        token: &str,
    ) -> (StatusCode, String) {
        let request = Request::get(path).header("authorization", format!("Bearer {token}"));
        let mut request = request.body(Bytes::new()).unwrap();
        responder.identify(&mut request).await;
        let response = responder.respond(request).await;
        let body = String::from_utf8(response.body().to_vec()).unwrap();
        (response.status(), body)
    }

    async fn webhooks(&self, org: &OrgFixture) -> StatusCode {
        let path = format!("/v1/workspaces/{}/webhooks", org.main.id);
        self.get(&path, &org.members.owner.token).await.0
    }

    fn lookups(&self) -> usize {
        self.lookups.swap(0, Ordering::SeqCst)
    }
}

#[tokio::test]
async fn request_looks_its_organisation_up_at_most_once() {
    let site = Site::new().await;
    site.lookups();
    assert_eq!(site.webhooks(&site.moved).await, 200);
    assert_eq!(site.lookups(), 0, "nothing is looked up at home");
    for to in ["eu", HOME] {
        site.move_to(to).await;
        site.lookups();
        assert_eq!(site.webhooks(&site.moved).await, 200);
        assert_eq!(site.lookups(), 1, "the first one finds the new partition");
        assert_eq!(site.webhooks(&site.moved).await, 200);
        assert_eq!(site.webhooks(&site.stays).await, 200);
        assert_eq!(site.lookups(), 0, "and it is remembered");
    }
    // Tokens that nobody issued.
    let token = &site.moved.members.owner.token;
    let own = site.moved.id.0.simple().to_string();
    let path = format!("/v1/workspaces/{}/webhooks", site.moved.main.id);
    for forged in [uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(2)] {
        let forged = token.replace(&own, &forged.simple().to_string());
        assert_ne!(forged, *token);
        assert_eq!(site.get(&path, &forged).await.0, 401);
        assert_eq!(site.lookups(), 1);
    }
    let inner = &site.partitions.inner;
    assert!(inner.elsewhere.read().unwrap().is_empty());
    assert!(inner.switches.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn requests_wait_together_until_the_switch_is_over() {
    let site = Site::new().await;
    site.move_to("eu").await;
    site.place(r#"{"slug":"SLUG","partition":"home","moving":{"switching":{"to":"eu"}}}"#)
        .await;
    site.lookups();
    let requests = futures::future::join_all((0..50).map(|_| site.webhooks(&site.moved)));
    let switch = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        site.place(r#"{"slug":"SLUG","partition":"eu"}"#).await;
    };
    let (statuses, ()) = futures::future::join(requests, switch).await;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    // One for each request, and those of one task that waits.
    let lookups = site.lookups();
    assert!(lookups < 50 + 60, "{lookups}");
}

#[tokio::test(start_paused = true)]
async fn organisation_that_cannot_be_reached_is_unavailable_and_not_unknown() {
    let site = Site::new().await;
    site.move_to("eu").await;
    for entry in [
        r#"{"slug":"SLUG","partition":"home","moving":{"switching":{"to":"eu"}}}"#,
        r#"{"slug":"SLUG","partition":"us"}"#,
    ] {
        site.place(entry).await;
        *site.partitions.inner.logged.lock().unwrap() = None;
        assert_eq!(site.webhooks(&site.moved).await, 503);
        let logged = *site.partitions.inner.logged.lock().unwrap();
        assert!(logged.is_some(), "the log says why");
        assert_eq!(site.webhooks(&site.stays).await, 200);
    }
}

#[tokio::test]
async fn server_that_knows_no_partition_rejects_no_credential_of_a_moved_organisation() {
    let site = Site::new().await;
    let alone = ApiResponder::new(Api::new(site.partitions.home().clone()));
    let get = async |org: &OrgFixture, token: &str| {
        let path = format!("/v1/workspaces/{}/webhooks", org.main.id);
        site.get_from(&alone, &path, token).await.0
    };
    let (moved, stays) = (&site.moved, &site.stays);
    let token = &moved.members.owner.token;
    site.lookups();
    assert_eq!(get(moved, token).await, 200);
    assert_eq!(site.lookups(), 0);
    site.move_to("eu").await;
    assert_eq!(get(moved, token).await, 503);
    assert_eq!(get(stays, &stays.members.owner.token).await, 200);
    let [own, other] = [moved, stays].map(|org| org.id.0.simple().to_string());
    let forged = token.replace(&own, &other);
    assert_ne!(forged, *token);
    site.lookups();
    assert_eq!(get(stays, &forged).await, 401);
    assert_eq!(site.lookups(), 1);
    site.move_to(HOME).await;
    assert_eq!(get(moved, token).await, 200);
}

#[cfg(feature = "oidc")]
#[tokio::test]
async fn sign_in_looks_its_organisation_up_after_the_rate_limit_only() {
    let mut site = Site::new().await;
    let config = crate::oidc::OidcConfig {
        issuer: crate::oidc::Issuer::parse("https://sso.test"),
        client_id: Some("client".to_owned()),
        organization: Some(site.moved.slug.clone()),
        ..Default::default()
    };
    let oidc = crate::oidc::Oidc::new(&config).unwrap();
    site.responder.sign_in_with(oidc.expect("a provider"));
    for (path, lookups) in [("/auth/oidc", 0), ("/auth/oidc/callback", 1)] {
        let mut request = Request::get(path).body(Bytes::new()).unwrap();
        site.lookups();
        site.responder.identify(&mut request).await;
        assert_eq!(site.lookups(), 0, "{path}");
        site.responder.respond(request).await;
        assert_eq!(site.lookups(), lookups, "{path}");
    }
}

#[tokio::test]
async fn login_link_is_valid_if_its_organisation_is_moved_after_the_rate_limit() {
    let site = Site::new().await;
    let org = site.moved.id;
    let (kind, lifetime) = (CredentialKind::Link, Duration::from_secs(60));
    let new = NewToken::builder().member(site.moved.members.owner.id);
    let new = new.kind(kind).name("Login link").lifetime(lifetime).build();
    let provisioning = site.partitions.home().provisioning();
    let link = provisioning.issue(org, &new).await.unwrap().secret;
    let body = format!(r#"{{"link":"{}"}}"#, link.expose());
    let request = Request::post("/auth/login").header("content-type", "application/json");
    let mut request = request.body(Bytes::from(body)).unwrap();
    site.lookups();
    site.responder.identify(&mut request).await;
    assert_eq!(site.lookups(), 0);
    site.move_to("eu").await;
    site.lookups();
    let response = site.responder.respond(request).await;
    assert_eq!(response.status(), 200, "{response:?}");
    assert_eq!(site.lookups(), 1);
}

#[tokio::test]
async fn rejected_write_leads_its_repetition_to_the_new_partition() {
    let site = Site::new().await;
    // A webhook of another service, whose caller has no credential, is still known to home.
    site.place(r#"{"slug":"SLUG","partition":"eu","moving":{"removing":{"from":"home"}}}"#)
        .await;
    let hold = r#"{"from":"home","to":"eu","is_sealed":true}"#;
    let commit = Commit::builder().put(keys::hold(site.moved.id), hold);
    site.stores[HOME]
        .commit(commit.build().unwrap())
        .await
        .unwrap();
    assert_eq!(site.partitions.known(Some(site.moved.id)), AT_HOME);
    let memory = site.moved.main.memories.internal[0];
    let token = &site.moved.members.owner.token;
    let request = Request::delete(format!("/v1/memories/{memory}"))
        .header("authorization", format!("Bearer {token}"));
    let response = site.responder.respond(request.body(Bytes::new()).unwrap());
    assert_eq!(response.await.status(), 503);
    assert_ne!(site.partitions.known(Some(site.moved.id)), AT_HOME);
}

#[tokio::test(start_paused = true)]
async fn organisation_whose_move_was_interrupted_is_read_where_it_is() {
    let site = Site::new().await;
    site.move_to("eu").await;
    assert_eq!(site.webhooks(&site.moved).await, 200);
    // Another process moves it back and again, and is killed before the credentials leave home.
    site.move_to(HOME).await;
    site.place(r#"{"slug":"SLUG","partition":"home","moving":{"switching":{"to":"eu"}}}"#)
        .await;
    assert_eq!(site.webhooks(&site.moved).await, 503);
    assert_eq!(site.webhooks(&site.moved).await, 200);
}

#[tokio::test]
async fn request_to_a_partition_that_is_down_reads_the_directory_once() {
    let site = Site::new().await;
    site.move_to("eu").await;
    assert_eq!(site.webhooks(&site.moved).await, 200);
    site.is_eu_down.store(true, Ordering::SeqCst);
    let [own, other] = [&site.moved, &site.stays].map(|org| org.id.0.simple().to_string());
    let path = format!("/v1/workspaces/{}/webhooks", site.moved.main.id);
    // The credential was never issued, and names the organisation only.
    let forged = site.stays.members.owner.token.replace(&other, &own);
    site.lookups();
    assert_eq!(site.get(&path, &forged).await.0, 503);
    assert_eq!(site.lookups(), 1);
}

#[tokio::test]
async fn stores_with_other_names_are_refused() {
    let site = Site::new().await;
    let (home, eu) = (&site.stores[HOME], &site.stores["eu"]);
    for (home, eu) in [(eu, home), (home, home)] {
        let others = vec![("eu".to_owned(), service_over(eu).await)];
        let refused = Partitions::open(service_over(home).await, others).await;
        assert!(
            matches!(refused, Err(PartitionError::Identity(_))),
            "{refused:?}"
        );
    }
    // The store of a partition is not a whole installation.
    let alone = Partitions::open(service_over(eu).await, Vec::new()).await;
    assert!(
        matches!(alone, Err(PartitionError::Identity(_))),
        "{alone:?}"
    );
    // A store without partitions gets no name.
    let other = memory();
    Partitions::open(service_over(&other).await, Vec::new())
        .await
        .unwrap();
    assert_eq!(identity::read(&*other).await.unwrap(), None);
}

#[tokio::test]
async fn new_store_takes_the_place_of_no_partition() {
    for is_in_use in [false, true] {
        let site = Site::new().await;
        if is_in_use {
            site.move_to("eu").await;
        }
        let (home, eu, other) = (&site.stores[HOME], &site.stores["eu"], memory());
        for (home, eu, name) in [(home, &other, "eu"), (&other, eu, HOME)] {
            let others = vec![("eu".to_owned(), service_over(eu).await)];
            let refused = Partitions::open(service_over(home).await, others).await;
            let Err(PartitionError::Identity(IdentityError::New { name: unknown })) = &refused
            else {
                panic!("{refused:?}");
            };
            assert_eq!(unknown, name);
            assert_eq!(identity::read(&*other).await.unwrap(), None);
        }
        // A further one is welcome, and known from then on.
        for (us, is_accepted) in [(other, true), (memory(), false)] {
            let others = vec![
                ("us".to_owned(), service_over(&us).await),
                ("eu".to_owned(), service_over(eu).await),
            ];
            let opened = Partitions::open(service_over(home).await, others).await;
            assert_eq!(opened.is_ok(), is_accepted, "{opened:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_switch_goes_on_without_whoever_waited() {
    let site = Site::new().await;
    let org = site.moved.id;
    site.place(r#"{"slug":"SLUG","partition":"home","moving":{"switching":{"to":"eu"}}}"#)
        .await;
    let waited = tokio::time::timeout(SWITCH_POLL_INTERVAL, site.partitions.settled(org));
    assert!(waited.await.is_err());
    site.place(r#"{"slug":"SLUG","partition":"eu"}"#).await;
    tokio::time::sleep(2 * SWITCH_POLL_INTERVAL).await;
    assert!(site.partitions.inner.switches.lock().unwrap().is_empty());
}

#[tokio::test]
async fn every_partition_in_the_directory_has_to_be_configured() {
    let site = Site::new().await;
    for entry in [
        r#"{"slug":"SLUG","partition":"eu"}"#,
        r#"{"slug":"SLUG","partition":"home","moving":{"copying":{"to":"eu"}}}"#,
        r#"{"slug":"SLUG","partition":"home","moving":{"removing":{"from":"eu"}}}"#,
    ] {
        site.place(entry).await;
        let alone = Partitions::open(service_over(&site.stores[HOME]).await, Vec::new()).await;
        let error = alone.unwrap_err().to_string();
        assert!(
            error.contains("name its store in storage.partitions"),
            "{error}"
        );
    }
    assert_eq!(
        site.stores[HOME]
            .get(&[keys::hold(site.moved.id)])
            .await
            .unwrap(),
        [None]
    );
}
