//! Tests of what members create: it belongs to them, whatever becomes of their credentials, unless
//! it is ended with one on request; and of what lists say about it.

use knowledge_core::access::{
    Action, ActionSet, BaseRole, BuiltInRole, CredentialKind, RoleRef, TokenScope,
};
use knowledge_core::model::{
    ConfirmationState, CreatedKind, CreatedResource, CredentialId, EndedReason, EndpointId,
    MemberKind, ResourceState, ResourceStatus, SubscriptionId, Timestamp, WebhookId,
};
use knowledge_core::service::{
    Caller, ClientInfo, Issued, NewApiToken, NewTokenScope, PageRequest,
};

use crate::delegation::{token, webhook};
use crate::inbound_sender::Sender;
use crate::make::{
    ADMIN, DAY, HOUR, MEMBER, actions, code, custom, new_mcp_key, new_member, new_subscription,
    new_webhook, with,
};
use crate::sign_in::sign_in;
use crate::world::{ACTIVE, World};

/// One thing of each kind that a caller created.
struct Creations {
    webhook: WebhookId,
    sender: Sender,
    subscription: SubscriptionId,
    mcp_key: CredentialId,
    secret: Caller,
}

impl Creations {
    async fn by(world: &World, caller: &Caller) -> Self {
        let recall = world.recall().await;
        let new = new_subscription(recall, "https://example.com/citations");
        let subscription = world.by(caller).create_subscription(&new).await.unwrap();
        world.confirm(subscription.id.into()).await;
        let new = new_mcp_key("org:acme");
        let key = world.by(caller).create_mcp_key(&new).await.unwrap();
        assert_eq!(key.summary.state, ResourceState::Active);
        Self {
            webhook: webhook(world, caller).await,
            sender: Sender::registered_by(world, caller).await,
            subscription: subscription.id,
            mcp_key: key.summary.id,
            secret: key.secret.unwrap().into(),
        }
    }

    /// Checks whether all of them work, and that every read of them says so.
    async fn assert_status(&self, world: &World, status: ResourceStatus) {
        let works = status == ACTIVE;
        assert_eq!(receives(world, self.webhook).await, works);
        // A message that was accepted once is answered again.
        let message = if works { "m1" } else { "m2" };
        let posted = self.sender.post_one(world, message, "Posted").await;
        assert_eq!(posted.is_ok(), works);
        let kind = CredentialKind::Bearer;
        let authenticated = world.service.authenticate(&self.secret, kind).await;
        assert_eq!(authenticated.is_ok(), works);

        let page = PageRequest::default();
        let found = world.get_webhook(self.webhook).await.unwrap().value;
        assert_eq!((found.is_active, found.status), (works, Some(status)));
        let listed = world.list_webhooks(&page).await.unwrap().data;
        assert_eq!(listed, [found]);
        let found = world.get_inbound(self.sender.webhook).await.unwrap().value;
        assert_eq!(found.status, Some(status));
        assert_eq!(world.list_inbound(&page).await.unwrap().data, [found]);
        let found = world.get_mcp_key(self.mcp_key).await.unwrap();
        let of_key = ResourceStatus {
            state: found.state,
            ended_reason: found.ended_reason,
            ended_at: found.ended_at,
        };
        assert_eq!(of_key, status);
        let listed = world.list_mcp_keys(&page).await.unwrap().data;
        assert_eq!(listed, std::slice::from_ref(&found));
        assert_eq!(world.dashboard().await.mcp_keys, [found]);
        let found = world.get_subscription(self.subscription).await.unwrap();
        assert_eq!(found.status, Some(status));
    }
}

/// Returns true if a webhook receives the event of a new memory.
async fn receives(world: &World, webhook: WebhookId) -> bool {
    world.memories(1).await;
    let (dispatcher, now) = (world.service.dispatcher(), world.time.now());
    while dispatcher.fan_out(now).await.unwrap().has_more {}
    let claimed = world.claim().await.deliveries;
    let endpoint = EndpointId::from(webhook);
    claimed.iter().any(|one| one.lease.endpoint() == endpoint)
}

fn ended(reason: EndedReason, at: Timestamp) -> ResourceStatus {
    ResourceStatus {
        state: ResourceState::Ended,
        ended_reason: Some(reason),
        ended_at: Some(at),
    }
}

async fn status_of(world: &World, webhook: WebhookId) -> ResourceStatus {
    let found = world.get_webhook(webhook).await.unwrap().value;
    found.status.unwrap()
}

async fn created_with(world: &World, credential: CredentialId) -> Vec<CreatedResource> {
    let page = PageRequest::default();
    let operator = world.service.provisioning();
    let created = operator.list_created_with(world.org.id, credential, &page);
    created.await.unwrap().data
}

/// Signs an administrator in, and returns the session with its access token.
async fn signed_in(world: &World) -> (Issued, Caller) {
    let admin = world.member(ADMIN).await;
    let session = sign_in(world, admin).await;
    let token = world.access_token(&session.secret).await.unwrap();
    (session, token.secret.into())
}

#[tokio::test]
async fn creations_of_a_session_outlive_it() {
    let world = World::new().await;
    let (session, token) = signed_in(&world).await;
    let created = Creations::by(&world, &token).await;
    created.assert_status(&world, ACTIVE).await;
    world.sign_out(&session.secret).await.unwrap();
    created.assert_status(&world, ACTIVE).await;
    world.time.pass(89 * DAY);
    world.maintain().await;
    created.assert_status(&world, ACTIVE).await;
    world.assert_whole().await;
}

#[tokio::test]
async fn creations_of_an_unscoped_token_outlive_it() {
    let world = World::new().await;
    let issued = world.token(world.owner_id, TokenScope::default()).await;
    let created = Creations::by(&world, &issued.secret.clone().into()).await;
    let operator = world.service.provisioning();
    let revoked = operator.revoke(world.org.id, issued.record.id).await;
    assert!(!revoked.unwrap().is_revoked_with_created);
    created.assert_status(&world, ACTIVE).await;
    world.time.pass(2 * HOUR);
    world.maintain().await;
    created.assert_status(&world, ACTIVE).await;
    world.assert_whole().await;
}

#[tokio::test]
async fn creations_end_with_their_session_on_request() {
    let world = World::new().await;
    let (session, token) = signed_in(&world).await;
    let created = Creations::by(&world, &token).await;
    let id = session.record.id;
    let own = session.record.member_id;
    let by = Caller::from(session.secret.clone());
    let new = NewApiToken::builder().name("Script").build();
    let api_token = world.by(&by).create_token(own, &new).await.unwrap();
    let page = PageRequest::default();
    let sessions = world.service.sessions();
    let listed = sessions.created_with(&session.secret, id, &page).await;
    let listed = listed.unwrap().data;
    assert_eq!(listed, created_with(&world, id).await);
    let mut kinds: Vec<CreatedKind> = listed.iter().map(|created| created.kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, CreatedKind::ALL);

    let signed_out = sessions.sign_out(&session.secret, true, ClientInfo::default());
    signed_out.await.unwrap();
    let status = ended(EndedReason::EndedWithCredential, world.time.now());
    created.assert_status(&world, status).await;
    let listed = created_with(&world, id).await;
    assert_eq!(listed.len(), 5);
    assert!(listed.iter().all(|created| created.status == status));
    let owner = world.trusted(own);
    let found = world.by(&owner).get_token(own, api_token.token.id).await;
    assert_eq!(found.unwrap().status, Some(status));
    let refused = Caller::from(api_token.secret.unwrap());
    let refused = world.by(&refused).get_workspace().await;
    assert_eq!(code(refused), "unauthenticated");
    // That does not change when the record of the session is purged.
    world.time.pass(89 * DAY);
    world.maintain().await;
    created.assert_status(&world, status).await;

    // Another credential takes over what it rotates.
    world.rotate_webhook(created.webhook).await.unwrap();
    assert_eq!(status_of(&world, created.webhook).await, ACTIVE);
    assert!(receives(&world, created.webhook).await);
    let rotated = world.rotate_mcp_key(created.mcp_key, None).await.unwrap();
    assert_eq!(rotated.summary.state, ResourceState::Active);
    let key = Caller::from(rotated.secret.unwrap());
    let kind = CredentialKind::Bearer;
    world.service.authenticate(&key, kind).await.unwrap();
    let left = created_with(&world, id).await;
    let mut kinds: Vec<CreatedKind> = left.iter().map(|created| created.kind).collect();
    kinds.sort_unstable();
    let mut rest = CreatedKind::ALL.to_vec();
    rest.retain(|kind| ![CreatedKind::Webhook, CreatedKind::McpKey].contains(kind));
    assert_eq!(kinds, rest);
    world.assert_whole().await;
}

#[tokio::test]
async fn creations_of_a_revoked_token_can_be_ended_later() {
    let world = World::new().await;
    let issued = world.token(world.owner_id, TokenScope::default()).await;
    let id = webhook(&world, &issued.secret.clone().into()).await;
    let operator = world.service.provisioning();
    let (org, credential) = (world.org.id, issued.record.id);
    operator.revoke(org, credential).await.unwrap();
    assert_eq!(status_of(&world, id).await, ACTIVE);
    let revoked_at = world.time.now();
    world.time.pass(HOUR / 2);
    let revoked = operator.revoke_with_created(org, credential).await.unwrap();
    assert_eq!(revoked.revoked_at, Some(revoked_at));
    let status = ended(EndedReason::EndedWithCredential, world.time.now());
    assert_eq!(status_of(&world, id).await, status);
    assert!(!receives(&world, id).await);
    world.assert_whole().await;
}

#[tokio::test]
async fn creations_of_a_scoped_token_say_when_it_was_revoked() {
    let world = World::new().await;
    let issued = token(&world, world.owner_id, &[Action::WebhookManage]).await;
    let id = webhook(&world, &issued.secret.clone().into()).await;
    assert_eq!(status_of(&world, id).await, ACTIVE);
    let operator = world.service.provisioning();
    let revoked = operator.revoke(world.org.id, issued.record.id).await;
    revoked.unwrap();
    let status = ended(EndedReason::CredentialRevoked, world.time.now());
    assert_eq!(status_of(&world, id).await, status);
    world.time.pass(2 * HOUR);
    world.maintain().await;
    assert_eq!(status_of(&world, id).await, status);
    world.assert_whole().await;
}

/// The index of the session lists it before and after.
#[tokio::test]
async fn creation_of_a_token_is_taken_over_by_another_credential_of_its_session() {
    let world = World::new().await;
    let (session, access) = signed_in(&world).await;
    let own = session.record.member_id;
    let by = Caller::from(session.secret.clone());
    let new = NewApiToken::builder().name("Script").build();
    let made = world.by(&by).create_token(own, &new).await.unwrap();
    let (token, secret) = (made.token.id, made.secret.unwrap());
    let id = webhook(&world, &Caller::from(secret)).await;
    assert_eq!(created_with(&world, token).await.len(), 1);
    world.by(&access).rotate_webhook(id).await.unwrap();
    assert_eq!(status_of(&world, id).await, ACTIVE);
    assert_eq!(created_with(&world, token).await, []);
    assert_eq!(created_with(&world, session.record.id).await.len(), 2);
    world.assert_whole().await;
}

/// The token has ended with the session.
#[tokio::test]
async fn creations_of_a_scoped_token_end_with_its_session_on_request() {
    let world = World::new().await;
    let (session, _) = signed_in(&world).await;
    let own = session.record.member_id;
    let by = Caller::from(session.secret.clone());
    let actions = ActionSet::of(&[Action::WebhookManage]);
    let scope = NewTokenScope::builder().actions(actions).build();
    let new = NewApiToken::builder().name("Script").scope(scope).build();
    let made = world.by(&by).create_token(own, &new).await.unwrap();
    let id = webhook(&world, &Caller::from(made.secret.unwrap())).await;
    assert_eq!(status_of(&world, id).await, ACTIVE);
    let sessions = world.service.sessions();
    let signed_out = sessions.sign_out(&session.secret, true, ClientInfo::default());
    signed_out.await.unwrap();
    let status = ended(EndedReason::EndedWithCredential, world.time.now());
    assert_eq!(status_of(&world, id).await, status);
    let listed = created_with(&world, session.record.id).await;
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|created| created.status == status));
    assert!(!receives(&world, id).await);
    world.assert_whole().await;
}

/// Whoever had the session may have created more with a token, and ended that.
#[tokio::test]
async fn creations_of_an_unscoped_token_end_with_its_session_on_request() {
    for is_ended_before in [false, true] {
        let world = World::new().await;
        let (session, _) = signed_in(&world).await;
        let (id, own) = (session.record.id, session.record.member_id);
        let by = Caller::from(session.secret.clone());
        let new = NewApiToken::builder().name("Script").build();
        let made = world.by(&by).create_token(own, &new).await.unwrap();
        let created = Creations::by(&world, &Caller::from(made.secret.unwrap())).await;
        let mut expected = CreatedKind::ALL.to_vec();
        if is_ended_before {
            let ended = world.by(&by).end_token(own, made.token.id, false).await;
            ended.unwrap();
            expected.retain(|kind| *kind != CreatedKind::Token);
        }
        created.assert_status(&world, ACTIVE).await;
        let listed = created_with(&world, id).await;
        let mut kinds: Vec<CreatedKind> = listed.iter().map(|created| created.kind).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, expected);

        let sessions = world.service.sessions();
        let signed_out = sessions.sign_out(&session.secret, true, ClientInfo::default());
        signed_out.await.unwrap();
        let status = ended(EndedReason::EndedWithCredential, world.time.now());
        created.assert_status(&world, status).await;
        let listed = created_with(&world, id).await;
        assert_eq!(listed.len(), expected.len());
        assert!(listed.iter().all(|created| created.status == status));
        // That does not change when the records of the session and the token are purged.
        world.time.pass(89 * DAY);
        world.maintain().await;
        created.assert_status(&world, status).await;
        // Another credential takes over what it rotates.
        world.rotate_webhook(created.webhook).await.unwrap();
        assert_eq!(status_of(&world, created.webhook).await, ACTIVE);
        let left = created_with(&world, id).await;
        assert_eq!(left.len(), expected.len() - 1);
        world.assert_whole().await;
    }
}

#[tokio::test]
async fn creations_of_a_scoped_token_say_when_it_expired() {
    let world = World::new().await;
    let issued = token(&world, world.owner_id, &[Action::WebhookManage]).await;
    let id = webhook(&world, &issued.secret.clone().into()).await;
    world.time.pass(2 * HOUR);
    let status = ended(EndedReason::CredentialExpired, issued.record.expires_at);
    assert_eq!(status_of(&world, id).await, status);
    world.maintain().await;
    assert_eq!(status_of(&world, id).await, status);
    assert!(!receives(&world, id).await);
    world.rotate_webhook(id).await.unwrap();
    assert_eq!(status_of(&world, id).await, ACTIVE);
    world.assert_whole().await;
}

#[tokio::test]
async fn unconfirmed_webhook_that_has_ended_is_not_asked() {
    let world = World::new().await;
    let issued = token(&world, world.owner_id, &[Action::WebhookManage]).await;
    let new = new_webhook("https://example.com/unconfirmed");
    let caller: Caller = issued.secret.clone().into();
    let created = world.by(&caller).create_webhook(&new).await.unwrap();
    let shown = async || {
        let found = world.get_webhook(created.id).await.unwrap().value;
        let page = PageRequest::default();
        let listed = world.list_webhooks(&page).await.unwrap().data;
        assert_eq!(listed, std::slice::from_ref(&found));
        (
            found.status.unwrap().state,
            found.confirmation.unwrap().state,
        )
    };
    let asked = (ResourceState::Unconfirmed, ConfirmationState::Pending);
    assert_eq!(shown().await, asked);
    let operator = world.service.provisioning();
    let revoked = operator.revoke(world.org.id, issued.record.id).await;
    revoked.unwrap();
    let ended = (ResourceState::Ended, ConfirmationState::Stopped);
    assert_eq!(shown().await, ended);
    world.rotate_webhook(created.id).await.unwrap();
    assert_eq!(shown().await, asked);
}

#[tokio::test]
async fn webhook_says_that_its_member_lacks_the_permission() {
    let world = World::new().await;
    let admin = world.member(ADMIN).await;
    let id = webhook(&world, &world.trusted(admin)).await;
    let roles = [BuiltInRole::Viewer, BuiltInRole::Admin].map(RoleRef::BuiltIn);
    world.assign(admin, roles[0]).await.unwrap();
    let suspended = ResourceStatus {
        state: ResourceState::Suspended,
        ended_reason: Some(EndedReason::PermissionMissing),
        ended_at: None,
    };
    assert_eq!(status_of(&world, id).await, suspended);
    assert!(!receives(&world, id).await);
    world.assign(admin, roles[1]).await.unwrap();
    assert_eq!(status_of(&world, id).await, ACTIVE);
    assert!(receives(&world, id).await);
    world.remove_member(admin).await.unwrap();
    let status = ended(EndedReason::MemberRemoved, world.time.now());
    assert_eq!(status_of(&world, id).await, status);
}

#[tokio::test]
async fn dashboard_tag_changes_when_a_key_ends() {
    let world = World::new().await;
    let (session, token) = signed_in(&world).await;
    let new = new_mcp_key("org:acme");
    world.by(&token).create_mcp_key(&new).await.unwrap();
    let before = world.get_dashboard().await.unwrap();
    assert_eq!(world.get_dashboard().await.unwrap().etag, before.etag);
    let sessions = world.service.sessions();
    let signed_out = sessions.sign_out(&session.secret, true, ClientInfo::default());
    signed_out.await.unwrap();
    let after = world.get_dashboard().await.unwrap();
    assert_eq!(after.value.mcp_keys[0].state, ResourceState::Ended);
    assert_ne!(after.etag, before.etag);
}

/// The task that purged the key before a rotation does not know its new creator.
#[tokio::test]
async fn late_purge_of_a_rotated_key_leaves_no_index_entry() {
    let world = World::new().await;
    let (_, first) = signed_in(&world).await;
    let new = new_mcp_key("org:acme");
    let key = world.by(&first).create_mcp_key(&new).await.unwrap();
    world.time.pass(DAY);
    let (_, second) = signed_in(&world).await;
    let rotated = world.by(&second).rotate_mcp_key(key.summary.id, None).await;
    rotated.unwrap();
    world.assert_whole().await;
    world.time.pass(200 * DAY);
    world.maintain().await;
    world.assert_whole().await;
    assert!(world.family("created_with").await.is_empty());
}

#[tokio::test]
async fn member_lists_only_creations_of_its_own_credentials() {
    let world = World::new().await;
    let (session, _) = signed_in(&world).await;
    let (other, _) = signed_in(&world).await;
    let page = PageRequest::default();
    let sessions = world.service.sessions();
    let listed = sessions.created_with(&session.secret, other.record.id, &page);
    assert_eq!(code(listed.await), "not_found");
    let unknown = CredentialId(uuid::Uuid::nil());
    let listed = sessions.created_with(&session.secret, unknown, &page);
    assert_eq!(code(listed.await), "not_found");
}

#[tokio::test]
async fn manager_lists_creations_of_the_tokens_of_a_service_account() {
    let world = World::new().await;
    let bot = with(new_member("bot", ADMIN), |new| {
        new.kind = MemberKind::ServiceAccount;
    });
    let bot = world.add(&bot).await;
    let new = NewApiToken::builder().name("Script").build();
    let made = world.create_token(bot, &new).await.unwrap();
    let (id, token) = (made.token.id, Caller::from(made.secret.unwrap()));
    let key = new_mcp_key("org:acme");
    let key = world.by(&token).create_mcp_key(&key).await.unwrap();
    let (page, sessions) = (PageRequest::default(), world.service.sessions());

    let admin = world.session(world.member(ADMIN).await).await.secret;
    let listed = sessions.created_with(&admin, id, &page).await.unwrap().data;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id, key.summary.id.0);
    assert_eq!(listed, created_with(&world, id).await);
    // Nobody else, not even whoever manages tokens, but does not cover the account.
    let manage = actions(&[Action::TokenManage]);
    let manager = world.role(BaseRole::Viewer, manage, ActionSet::EMPTY).await;
    for role in [MEMBER, custom(manager.id)] {
        let other = world.session(world.member(role).await).await.secret;
        let refused = sessions.created_with(&other, id, &page).await;
        assert_eq!(code(refused), "not_found");
    }
    // Those of people are their own, and an MCP key is no token.
    let person = world.member(MEMBER).await;
    let theirs = world.token(person, TokenScope::default()).await.record.id;
    for foreign in [theirs, key.summary.id] {
        let refused = sessions.created_with(&admin, foreign, &page).await;
        assert_eq!(code(refused), "not_found");
    }
    world.end_token(bot, id, true).await.unwrap();
    let refused = sessions.created_with(&admin, id, &page).await;
    assert_eq!(code(refused), "not_found");
    world.assert_whole().await;
}
