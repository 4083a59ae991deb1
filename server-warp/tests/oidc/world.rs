//! A server over a seeded store, whose clock the test moves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use knowledge_core::env::{Clock as _, Env, OsRandomness, SystemClock};
use knowledge_core::model::{ChatId, Member, ResourceKind, Timestamp};
use knowledge_core::service::{
    AuditAction, AuditEntry, AuditFilter, KnowledgeService, Options, PageRequest, SealingKey,
};
use knowledge_core::store::{MemoryStore, Store};
use knowledge_server::app::App;
use knowledge_server::net::NetConfig;
use knowledge_server::oidc::{Issuer, Oidc, OidcConfig};
use knowledge_testing::fixture::{self, Fixture, OrgFixture};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// URL under which browsers know the server; a proxy with TLS would be in front of it.
pub(crate) const PUBLIC_URL: &str = "https://knowledge.example.com";
/// Identifier and secret of the server at the providers.
pub(crate) const CLIENT_ID: &str = "knowledge";
pub(crate) const CLIENT_SECRET: &str = "secret of the tests, with %&+ in it";

/// A running server, which dropping stops.
pub(crate) struct World {
    pub(crate) base_url: String,
    pub(crate) service: KnowledgeService,
    fixture: Fixture,
    store: Arc<dyn Store>,
    options: Options,
    env: Env,
    moved: Arc<AtomicI64>,
    config: OidcConfig,
    _secret: TempDir,
    task: JoinHandle<()>,
}

impl World {
    /// Starts a server that signs in with this provider, which has the same time.
    pub(crate) async fn new(issuer: &str, adapt: impl FnOnce(&mut OidcConfig)) -> Self {
        let patience = NetConfig::default().request_timeout;
        Self::start(issuer, || SystemClock.now(), patience, adapt).await
    }

    /// Starts a server that signs in with this provider, and whose clock only the test moves.
    pub(crate) async fn still(issuer: &str, adapt: impl FnOnce(&mut OidcConfig)) -> Self {
        let patience = NetConfig::default().request_timeout;
        Self::impatient(issuer, patience, adapt).await
    }

    /// Starts a server as [`still`](Self::still) does, which cuts requests off after this time.
    pub(crate) async fn impatient(
        issuer: &str,
        patience: Duration,
        adapt: impl FnOnce(&mut OidcConfig),
    ) -> Self {
        let now = SystemClock.now();
        Self::start(issuer, move || now, patience, adapt).await
    }

    async fn start(
        issuer: &str,
        time: impl Fn() -> Timestamp + Send + Sync + 'static,
        patience: Duration,
        adapt: impl FnOnce(&mut OidcConfig),
    ) -> Self {
        let moved = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&moved);
        let now = move || {
            let now = time().as_millis();
            Timestamp::from_millis(now + clock.load(Ordering::SeqCst))
        };
        let env = Env::new(now, OsRandomness);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut options = Options::new(SealingKey::generate(&env));
        options.public_url = Some(PUBLIC_URL.to_owned());
        let service = open(&store, &env, &options).await;
        let fixture = fixture::seed_orgs(&service, 1)
            .await
            .expect("seed the store");
        let secret = tempfile::tempdir().expect("a directory");
        let file = secret.path().join("secret");
        let line = format!("{CLIENT_SECRET}\n");
        knowledge_server::private_file::create(&file, &line).expect("write the secret");
        let mut config = OidcConfig {
            issuer: Some(Issuer::parse(issuer).expect("an issuer")),
            client_id: Some(CLIENT_ID.to_owned()),
            client_secret_file: Some(file),
            organization: Some(fixture.orgs[0].slug.clone()),
            label: "Example & Sons".to_owned(),
            scopes: ["profile", "email", "groups"].map(str::to_owned).into(),
            ..OidcConfig::default()
        };
        adapt(&mut config);
        let (base_url, task) = serve(service.clone(), &config, patience).await;
        Self {
            base_url,
            service,
            fixture,
            store,
            options,
            env,
            moved,
            config,
            _secret: secret,
            task,
        }
    }

    /// Starts another server over the same store.
    pub(crate) async fn twin(&self) -> Self {
        let service = open(&self.store, &self.env, &self.options).await;
        let patience = NetConfig::default().request_timeout;
        let (base_url, task) = serve(service.clone(), &self.config, patience).await;
        Self {
            base_url,
            service,
            fixture: self.fixture.clone(),
            store: Arc::clone(&self.store),
            options: self.options.clone(),
            env: self.env.clone(),
            moved: Arc::clone(&self.moved),
            config: self.config.clone(),
            _secret: tempfile::tempdir().expect("a directory"),
            task,
        }
    }

    pub(crate) fn org(&self) -> &OrgFixture {
        &self.fixture.orgs[0]
    }

    /// Lets time pass for the server.
    pub(crate) fn pass(&self, time: Duration) {
        let millis = i64::try_from(time.as_millis()).expect("a time");
        self.moved.fetch_add(millis, Ordering::SeqCst);
    }

    /// Returns the time of the server.
    pub(crate) fn now(&self) -> Timestamp {
        self.env.now()
    }

    pub(crate) async fn member(&self, handle: &str) -> Option<Member> {
        let provisioning = self.service.provisioning();
        let found = provisioning.member(self.org().id, handle).await;
        found.expect("a working store")
    }

    /// Returns the number of sessions and tokens of a member.
    pub(crate) async fn credentials(&self, handle: &str) -> usize {
        let Some(member) = self.member(handle).await else {
            return 0;
        };
        let provisioning = self.service.provisioning();
        let all = provisioning.credentials(self.org().id).await;
        let all = all.expect("a working store").into_iter();
        all.filter(|one| one.member_id == member.id).count()
    }

    /// Returns the teams of a member.
    pub(crate) async fn teams(&self, handle: &str) -> BTreeSet<String> {
        let member = self.member(handle).await.expect("the member");
        member.teams.into_iter().collect()
    }

    /// Returns the entry of the audit log about a chat.
    pub(crate) async fn entry_of_chat(&self, chat: ChatId) -> AuditEntry {
        let owner = self.org().trusted_owner();
        let filter = AuditFilter::builder()
            .resource_kind(ResourceKind::Chat)
            .resource_id(chat.0)
            .build();
        let page = PageRequest::default();
        let listed = self.service.audit_log().list(&owner, &filter, &page);
        let mut listed = listed.await.expect("the audit log").data.into_iter();
        listed.next().expect("an entry")
    }

    /// Returns the number of changes of members that the audit log has, by the operator.
    pub(crate) async fn changes(&self) -> usize {
        let owner = self.org().trusted_owner();
        let (filter, mut page) = (AuditFilter::default(), PageRequest::default());
        let actions = [AuditAction::MemberUpdate, AuditAction::RoleAssign];
        let mut count = 0;
        // Entries of one millisecond are in no order, so that all pages have to be read.
        loop {
            let listed = self.service.audit_log().list(&owner, &filter, &page);
            let listed = listed.await.expect("the audit log");
            let changes = listed
                .data
                .iter()
                .filter(|entry| entry.actor_id.is_none() && actions.contains(&entry.action));
            count += changes.count();
            page.cursor = listed.next_cursor;
            if page.cursor.is_none() {
                return count;
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn open(store: &Arc<dyn Store>, env: &Env, options: &Options) -> KnowledgeService {
    let (store, env) = (Arc::clone(store), env.clone());
    let opened = KnowledgeService::open(store, env, options.clone()).await;
    opened.expect("open the service")
}

async fn serve(
    service: KnowledgeService,
    config: &OidcConfig,
    patience: Duration,
) -> (String, JoinHandle<()>) {
    let net = NetConfig {
        address: "127.0.0.1:0".parse().expect("an address"),
        request_timeout: patience,
        ..NetConfig::default()
    };
    let oidc = Oidc::new(config).expect("a client");
    let app = App::bind(service, net).await.expect("bind");
    let app = app.sign_in_with(oidc);
    let base_url = app.base_url();
    let task = tokio::spawn(async move {
        app.run(std::future::pending()).await;
    });
    (base_url, task)
}
