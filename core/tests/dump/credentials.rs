//! Tests of the credentials in a dump: a restore revokes them unless it is told to keep them.

use std::sync::Mutex;

use knowledge_core::access::{ActionSet, CredentialKind, Secret};
use knowledge_core::dump::{CredentialPolicy, RestoreReport, RevokedCredentials};
use knowledge_core::env::Env;
use knowledge_core::model::{
    EndedReason, EndpointId, EventType, InboundWebhook, InboundWebhookId, NewCitationSubscription,
    NewInboundWebhook, NewWebhook, OrgId, ResourceState, Timestamp, WebhookId,
};
use knowledge_core::service::{
    Caller, ClientInfo, InFlight, KnowledgeService, Options, PageRequest, SealingKey,
    SignedMessage, SigningSecret, Verification, Verify,
};
use knowledge_testing::fixture::{OrgFixture, complete};
use knowledge_testing::requests::{create_memory, new_token};

use super::*;

const SEALING_KEY: [u8; 32] = [7; 32];

fn now() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}

/// Opens a store; the random numbers follow from the seed.
async fn open(store: &Arc<dyn Store>, seed: u64) -> KnowledgeService {
    let random = Mutex::new(fastrand::Rng::with_seed(seed));
    let env = Env::new(now, move |buffer: &mut [u8]| {
        random.lock().unwrap().fill(buffer);
    });
    let options = Options::new(SealingKey::new(SEALING_KEY));
    let opened = KnowledgeService::open(Arc::clone(store), env, options).await;
    opened.unwrap()
}

async fn verified(store: &Arc<dyn Store>) -> Verification {
    let key = SealingKey::new(SEALING_KEY);
    let mut verify = Verify::begin(Arc::clone(store), Some(&key)).await.unwrap();
    while verify.read().await.unwrap() {}
    verify.finish()
}

/// A dump of a store with an entry of each family.
struct Dumped {
    bytes: Vec<u8>,
    org: OrgFixture,
    /// Token of the owner that was revoked after the dump.
    revoked: String,
    /// Secret of a login link.
    link: String,
    /// Outbound webhook of `side` that was created with a token.
    webhook: WebhookId,
    inbound: InboundWebhook,
}

impl Dumped {
    async fn new() -> Self {
        let store = empty();
        let service = open(&store, 1).await;
        let org = complete(&service).await.unwrap();
        let operator = service.provisioning();
        let mut token = new_token(org.members.owner.id, CredentialKind::Bearer);
        token.scope.actions = Some(ActionSet::ALL);
        let issued = operator.issue(org.id, &token).await.unwrap();
        let by = Caller::new(issued.secret.clone());
        let url = |path: &str| format!("https://hooks.invalid/{path}").parse().unwrap();
        let webhook = NewWebhook::builder()
            .event_type(EventType::ChunkCreated)
            .url(url("unconfirmed"))
            .build();
        let webhook = service.webhooks().create(&by, org.side.id, &webhook).await;
        let subscription = NewCitationSubscription::builder()
            .recall_id(org.recall)
            .webhook_url(url("citations"))
            .build();
        let subscribed = service.citation_subscriptions().create(&by, &subscription);
        subscribed.await.unwrap();
        let inbound = NewInboundWebhook::builder().name("Trusted").build();
        let owner = org.trusted_owner();
        let inbound = service
            .inbound_webhooks()
            .create(&owner, org.side.id, &inbound);
        let (webhook, inbound) = (webhook.unwrap().id, inbound.await.unwrap());
        let link = new_token(org.members.owner.id, CredentialKind::Link);
        let link = operator.issue(org.id, &link).await.unwrap();
        let bytes = dump(&store).await;
        operator.revoke(org.id, issued.record.id).await.unwrap();
        Self {
            bytes,
            org,
            revoked: issued.secret.expose().to_owned(),
            link: link.secret.expose().to_owned(),
            webhook,
            inbound,
        }
    }

    async fn restored(&self, policy: CredentialPolicy) -> (Arc<dyn Store>, RestoreReport) {
        let store = empty();
        let report = restore_by(&store, &self.bytes, policy).await.unwrap();
        assert_eq!(Ok(report.dump.clone()), read(&self.bytes));
        assert_eq!(Ok(report.store.clone()), read(&dump(&store).await));
        assert_eq!(verified(&store).await.differences, []);
        (store, report)
    }

    /// Returns which of these are valid: a token, a session, an MCP key, and the revoked token.
    async fn valid(&self, service: &KnowledgeService) -> [bool; 4] {
        use CredentialKind::{Bearer, Session};

        let owner = &self.org.members.owner;
        let mut valid = [false; 4];
        for (valid, (secret, kind)) in valid.iter_mut().zip([
            (&owner.token, Bearer),
            (&owner.session, Session),
            (&self.org.tokens.mcp_key, Bearer),
            (&self.revoked, Bearer),
        ]) {
            let credential = Caller::new(secret.parse::<Secret>().unwrap());
            let found = service.authenticate(&credential, kind).await;
            *valid = found
                .inspect_err(|error| assert_eq!(error.code(), "unauthenticated"))
                .is_ok();
        }
        valid
    }

    /// Returns true if the webhook, which is not confirmed, receives a ping, and not the event of a
    /// new memory.
    async fn is_pinged(&self, service: &KnowledgeService) -> bool {
        let new = create_memory("New", self.org.sources[0]);
        let owner = self.org.trusted_owner();
        let created = service.memories().create(&owner, self.org.side.id, &new);
        created.await.unwrap();
        while service.dispatcher().fan_out(now()).await.unwrap().has_more {}
        let in_flight = InFlight::default();
        let claimed = service.dispatcher().claim(now(), 100, &in_flight);
        let webhook = EndpointId::from(self.webhook);
        let deliveries = claimed.await.unwrap().deliveries;
        let mut own = deliveries
            .iter()
            .filter(|one| one.lease.endpoint() == webhook);
        own.next().is_some_and(|one| {
            assert_eq!(one.event_type, EventType::WebhookPing);
            own.next().is_none()
        })
    }
}

/// Returns true if a message that is signed with the secret is accepted.
async fn is_accepted(
    service: &KnowledgeService,
    (org, webhook): (OrgId, InboundWebhookId),
    secret: &str,
) -> bool {
    let secret: SigningSecret = secret.parse().unwrap();
    let (signature, timestamp) = (
        secret.sign("m1", now(), b""),
        now().as_seconds().to_string(),
    );
    let message = SignedMessage {
        id: b"m1",
        timestamp: timestamp.as_bytes(),
        signature: signature.as_bytes(),
        body: b"",
    };
    let verified = service
        .inbound_webhooks()
        .verify_message(org, webhook, &message)
        .await;
    let verified = verified.inspect_err(|error| assert_eq!(error.code(), "unauthenticated"));
    verified.is_ok()
}

#[tokio::test]
async fn restore_revokes_every_credential() {
    let dumped = Dumped::new().await;
    let (store, report) = dumped.restored(CredentialPolicy::Revoke).await;
    let service = open(&store, 2).await;
    assert_eq!(dumped.valid(&service).await, [false; 4]);
    assert!(
        service
            .sessions()
            .sign_in(&dumped.link, ClientInfo::default())
            .await
            .is_err()
    );

    let text = String::from_utf8(dump(&store).await).unwrap();
    let before = String::from_utf8(dumped.bytes.clone()).unwrap();
    let hashes = before.lines().filter_map(|line| {
        let rest = line.strip_prefix("{\"key\":\"credential/")?;
        rest.split('"').next()
    });
    let hashes: Vec<_> = hashes.collect();
    assert!(hashes.len() > 20);
    assert!(hashes.iter().all(|hash| !text.contains(hash)));
    for family in [
        "\"credential/",
        "credential_id/",
        "credential_use/",
        "mcp_key/",
        "mcp_key_count/",
        "mcp_key_use/",
        "\"token/",
        "token_count/",
    ] {
        assert!(
            before.contains(family) && !text.contains(family),
            "{family}"
        );
    }

    let org = dumped.org.id;
    let original = empty();
    restore(&original, &dumped.bytes).await.unwrap();
    let original = open(&original, 2).await;
    let found = original.provisioning().credentials(org).await.unwrap();
    let valid = found.iter().filter(|record| record.revoked_at.is_none());
    // Links are not counted.
    let valid = valid.filter(|record| record.kind != CredentialKind::Link);
    let (sessions, others): (Vec<_>, Vec<_>) =
        valid.partition(|record| record.kind == CredentialKind::Session);
    let expected = RevokedCredentials {
        tokens: others.len() as u64 - 1,
        sessions: sessions.len() as u64,
        mcp_keys: 1,
        inbound_webhooks: 3,
        webhooks: 1,
        subscriptions: 1,
    };
    assert_eq!(report.revoked, expected);

    let fresh = new_token(dumped.org.members.owner.id, CredentialKind::Bearer);
    let fresh = service.provisioning().issue(org, &fresh).await.unwrap();
    let fresh = Caller::new(fresh.secret);
    let id = dumped.webhook;
    assert!(!dumped.is_pinged(&service).await);
    let rotated = service
        .webhooks()
        .rotate_secret(&fresh, dumped.org.side.id, id);
    rotated.await.unwrap();
    assert!(dumped.is_pinged(&service).await);
    assert_eq!(service.verify().await.unwrap().differences, []);
}

#[tokio::test]
async fn restored_inbound_webhook_accepts_only_a_new_secret() {
    let dumped = Dumped::new().await;
    let (store, _) = dumped.restored(CredentialPolicy::Revoke).await;
    let service = open(&store, 2).await;
    let place = (dumped.org.id, dumped.inbound.id);
    let old = dumped.inbound.signing_secret.as_deref().unwrap();
    assert!(!is_accepted(&service, place, old).await);
    let owner = dumped.org.trusted_owner();
    let workspace = dumped.org.side.id;
    let shown = async || {
        let found = service.inbound_webhooks().get(&owner, workspace, place.1);
        let found = found.await.unwrap().value;
        let page = PageRequest::default();
        let listed = service.inbound_webhooks().list(&owner, workspace, &page);
        assert!(listed.await.unwrap().data.contains(&found));
        let status = found.status.unwrap();
        (status.state, status.ended_reason)
    };
    let ended = (ResourceState::Ended, Some(EndedReason::CredentialRevoked));
    assert_eq!(shown().await, ended);
    let rotated = service
        .inbound_webhooks()
        .rotate_secret(&owner, workspace, place.1);
    let rotated = rotated.await.unwrap();
    assert_eq!(shown().await, (ResourceState::Active, None));
    assert_eq!(rotated.previous_secret_expires_at, now());
    assert!(!is_accepted(&service, place, old).await);
    assert!(is_accepted(&service, place, &rotated.signing_secret).await);
    assert_eq!(service.verify().await.unwrap().differences, []);
}

#[tokio::test]
async fn restore_keeps_credentials_on_request() {
    let dumped = Dumped::new().await;
    let (store, report) = dumped.restored(CredentialPolicy::Keep).await;
    assert_eq!(report.revoked, RevokedCredentials::default());
    assert!(dump(&store).await == dumped.bytes);
    let service = open(&store, 2).await;
    assert_eq!(dumped.valid(&service).await, [true; 4]);
    assert!(
        service
            .sessions()
            .sign_in(&dumped.link, ClientInfo::default())
            .await
            .is_ok()
    );
    assert!(dumped.is_pinged(&service).await);
    let place = (dumped.org.id, dumped.inbound.id);
    let secret = dumped.inbound.signing_secret.as_deref().unwrap();
    assert!(is_accepted(&service, place, secret).await);
}

#[tokio::test]
async fn interrupted_restore_resumes_only_with_its_policy() {
    use CredentialPolicy::{Keep, Revoke};

    let dumped = Dumped::new().await;
    let store = empty();
    restore(&store, &dumped.bytes).await.unwrap();
    // Before and after the credentials, so that each part is more than one batch.
    for family in ["a", "z"] {
        for part in 0..25 {
            let commit = (0..100).fold(Commit::builder(), |commit, number| {
                let key = Key::new(format!("{family}/{part:02}/{number:02}")).unwrap();
                commit.put(key, "null")
            });
            store.commit(commit.build().unwrap()).await.unwrap();
        }
    }
    let whole = dump(&store).await;
    let once = empty();
    let expected = restore_by(&once, &whole, Revoke).await.unwrap();
    for (policy, other) in [(Revoke, Keep), (Keep, Revoke)] {
        let copy = empty();
        let begin = |policy| Restore::begin(Arc::clone(&copy), read(&whole).ok(), policy);
        let mut begun = begin(policy).await.unwrap();
        let lines = lines(&whole);
        for line in &lines[..lines.len() - 100] {
            begun.take(line).await.unwrap();
        }
        let refused = begin(other).await.unwrap_err();
        assert!(
            matches!(refused, RestoreError::OtherPolicy { begun } if begun == policy),
            "{refused:?}"
        );
        assert!(begin(policy).await.unwrap().resumed_at() > 4_000);
        let report = restore_by(&copy, &whole, policy).await.unwrap();
        if policy == Revoke {
            assert_eq!(report, expected);
            assert!(dump(&copy).await == dump(&once).await);
        } else {
            assert!(dump(&copy).await == whole);
        }
    }
}
