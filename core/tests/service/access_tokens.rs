//! Tests of the access tokens that sessions are exchanged for.

use knowledge_core::access::{CredentialKind, TokenScope};
use knowledge_core::service::{ACCESS_TOKEN_LIFETIME_MAX, AuditAction, Caller, SessionTimeouts};
use knowledge_store::faults::{CommitFault, FaultPlan};
use serde_json::json;

use crate::admin::get;
use crate::audit::entries;
use crate::inbound_sender::Sender;
use crate::make::{ADMIN, DAY, HOUR, MEMBER, MILLISECOND, code, new_mcp_key};
use crate::sign_in::{MINUTE, chat, sign_in, token, verify};
use crate::world::World;

#[tokio::test]
async fn access_token_acts_for_its_session() {
    let world = World::new().await;
    let admin = world.member(ADMIN).await;
    let session = sign_in(&world, admin).await;
    let issued = world.access_token(&session.secret).await.unwrap();
    assert_eq!(
        issued.record.expires_at,
        world.time.now().plus(ACCESS_TOKEN_LIFETIME_MAX)
    );
    let token = Caller::from(issued.secret);
    chat(&world, &token).await.unwrap();
    let all = entries(&world).await;
    let chat_entry = all
        .iter()
        .find(|entry| entry.action == AuditAction::ChatCreate)
        .unwrap();
    assert_eq!(chat_entry.actor_id, Some(admin));
    assert_eq!(chat_entry.credential_id, Some(session.record.id));
    // What it creates belongs to the member: it outlives the token and the session.
    let new = new_mcp_key("org:acme");
    let key = world.by(&token).create_mcp_key(&new).await.unwrap();
    let provisioning = world.service.provisioning();
    let record = provisioning.credential(world.org.id, key.summary.id).await;
    let record = record.unwrap().unwrap();
    assert_eq!(record.created_with, Some(session.record.id));
    assert!(record.expires_at > session.record.expires_at);
    let key = Caller::from(key.secret.unwrap());
    let reads = async || {
        let kind = CredentialKind::Bearer;
        world.service.authenticate(&key, kind).await.is_ok()
    };
    world.time.pass(ACCESS_TOKEN_LIFETIME_MAX);
    world.maintain().await;
    assert_eq!(code(chat(&world, &token).await), "unauthenticated");
    assert!(reads().await);
    world.sign_out(&session.secret).await.unwrap();
    assert!(reads().await);
    world.time.pass(90 * DAY);
    world.maintain().await;
    assert!(reads().await);
    verify(&world).await;
}

#[tokio::test]
async fn access_token_is_the_same_within_a_period() {
    let world = World::new().await;
    let session = sign_in(&world, world.owner_id).await.secret;
    let first = world.access_token(&session).await.unwrap();
    world.time.pass(5 * MINUTE - MILLISECOND);
    let contents = world.contents().await;
    assert_eq!(world.access_token(&session).await.unwrap(), first);
    assert_eq!(world.contents().await, contents, "nothing is stored again");
    let remaining = first.record.expires_at.as_millis() - world.time.now().as_millis();
    assert!(remaining > 5 * 60 * 1_000);
    world.time.pass(MILLISECOND);
    let second = world.access_token(&session).await.unwrap();
    assert_ne!(second.secret, first.secret);
    // Another session has other tokens.
    let other = sign_in(&world, world.owner_id).await.secret;
    let others = world.access_token(&other).await.unwrap();
    assert_ne!(others.secret, second.secret);
    for issued in [first, second, others] {
        chat(&world, &issued.secret.into()).await.unwrap();
    }
}

#[tokio::test]
async fn access_token_is_never_valid_longer_than_its_session() {
    let world = World::with(|options| options.session_timeouts.absolute = 7 * MINUTE).await;
    let session = sign_in(&world, world.owner_id).await;
    world.time.pass(6 * MINUTE);
    let issued = world.access_token(&session.secret).await.unwrap();
    assert_eq!(issued.record.expires_at, session.record.expires_at);
    world.time.pass(MINUTE);
    assert_eq!(
        code(chat(&world, &issued.secret.into()).await),
        "unauthenticated"
    );
    let again = world.access_token(&session.secret).await;
    assert_eq!(code(again), "unauthenticated");
    world.maintain().await;
    verify(&world).await;
}

#[tokio::test]
async fn access_tokens_end_with_their_session() {
    let world = World::new().await;
    let provisioning = world.service.provisioning();
    for end in 0..3 {
        let member = world.member(MEMBER).await;
        let session = sign_in(&world, member).await;
        let token = token(&world, &session.secret).await;
        chat(&world, &token).await.unwrap();
        match end {
            0 => world.sign_out(&session.secret).await.unwrap(),
            1 => {
                let revoked = provisioning.revoke(world.org.id, session.record.id);
                revoked.await.unwrap();
            }
            _ => {
                world.remove_member(member).await.unwrap();
            }
        }
        assert_eq!(code(chat(&world, &token).await), "unauthenticated");
        for refused in [
            world
                .service
                .sessions()
                .get(&session.secret)
                .await
                .map(|_| ()),
            world.access_token(&session.secret).await.map(|_| ()),
            world.sign_out(&session.secret).await,
        ] {
            assert_eq!(code(refused), "unauthenticated");
        }
    }
    world.maintain().await;
    verify(&world).await;
}

#[tokio::test]
async fn session_outlives_the_revocation_of_its_access_token() {
    let world = World::new().await;
    let session = sign_in(&world, world.owner_id).await.secret;
    let issued = world.access_token(&session).await.unwrap();
    let provisioning = world.service.provisioning();
    let revoked = provisioning.revoke(world.org.id, issued.record.id);
    revoked.await.unwrap();
    let refused = chat(&world, &issued.secret.into()).await;
    assert_eq!(code(refused), "unauthenticated");
    assert_eq!(code(world.access_token(&session).await), "forbidden");
    world.service.sessions().get(&session).await.unwrap();
    world.time.pass(5 * MINUTE);
    let token = token(&world, &session).await;
    chat(&world, &token).await.unwrap();
    verify(&world).await;
}

/// A sign-out that commits before a change with a token prevents the change.
#[tokio::test]
async fn sign_out_prevents_concurrent_change() {
    let world = World::new().await;
    let session = sign_in(&world, world.owner_id).await.secret;
    let token = token(&world, &session).await;
    let other = world.served_with(FaultPlan::none()).await;
    world.probe.before_commit(async move {
        other.sign_out(&session).await.unwrap();
    });
    assert_eq!(code(chat(&world, &token).await), "unauthenticated");
    assert!(world.probe.has_happened());
}

#[tokio::test]
async fn use_of_access_token_is_a_use_of_its_session() {
    let timeouts = SessionTimeouts {
        idle: MINUTE,
        absolute: DAY,
    };
    let world = World::with(|options| options.session_timeouts = timeouts).await;
    world.time.pass(HOUR - MINUTE / 2);
    let session = sign_in(&world, world.owner_id).await.secret;
    let token = token(&world, &session).await;
    world.time.pass(MINUTE / 2 + MINUTE - MILLISECOND);
    chat(&world, &token).await.unwrap();
    let copy = world.copy(FaultPlan::none()).await;
    world.service.note_use(&token).await;
    for world in [&world, &copy] {
        world.time.pass(MILLISECOND);
    }
    chat(&world, &token).await.unwrap();
    world.service.sessions().get(&session).await.unwrap();
    // Without the use, the session ends, and its token with it.
    assert_eq!(code(chat(&copy, &token).await), "unauthenticated");
    assert_eq!(
        code(copy.service.sessions().get(&session).await),
        "unauthenticated"
    );
    verify(&world).await;
}

#[tokio::test]
async fn what_a_session_creates_outlives_its_idle_timeout() {
    let timeouts = SessionTimeouts {
        idle: 2 * HOUR,
        absolute: 30 * DAY,
    };
    let world = World::with(|options| options.session_timeouts = timeouts).await;
    let session = sign_in(&world, world.owner_id).await;
    let token = token(&world, &session.secret).await;
    let new = new_mcp_key("org:acme");
    let created = world.by(&token).create_mcp_key(&new).await.unwrap();
    let (id, key) = (created.summary.id, Caller::from(created.secret.unwrap()));
    let sender = Sender::registered_by(&world, &token).await;
    let state = async || {
        let listed = get(&world, "/orgs/acme/credentials?kind=bearer").await;
        let mut listed = listed["data"].as_array().unwrap().iter();
        let listed = listed.find(|listed| listed["id"] == json!(id));
        listed.unwrap()["state"].as_str().unwrap().to_owned()
    };
    let kind = CredentialKind::Bearer;
    world.time.pass(3 * HOUR - MILLISECOND);
    world.service.authenticate(&key, kind).await.unwrap();
    sender.post_one(&world, "m1", "First").await.unwrap();
    assert_eq!(state().await, "valid");
    // A use of the key is not one of the session.
    world.service.note_use(&key).await;
    world.time.pass(MILLISECOND);
    let refused = world.service.sessions().get(&session.secret).await;
    assert_eq!(code(refused), "unauthenticated");
    world.service.authenticate(&key, kind).await.unwrap();
    sender.post_one(&world, "m2", "Second").await.unwrap();
    assert_eq!(state().await, "valid");
    verify(&world).await;
}

#[tokio::test]
async fn use_is_recorded_by_a_later_one_if_its_write_fails() {
    let world = World::new().await;
    let token = world.token(world.owner_id, TokenScope::default()).await;
    let (id, token) = (token.record.id, Caller::from(token.secret));
    let plan = FaultPlan::none().at_commit(1, CommitFault::Unavailable);
    let world = world.served_with(plan).await;
    let last_use = async || {
        let provisioning = world.service.provisioning();
        provisioning.last_use(world.org.id, id).await.unwrap()
    };
    world.service.note_use(&token).await;
    assert_eq!(last_use().await, None);
    world.time.pass(MINUTE);
    let recorded = world.time.now();
    for _ in 0..2 {
        world.service.note_use(&token).await;
        assert_eq!(last_use().await, Some(recorded));
        world.time.pass(MINUTE);
    }
}

/// A session of the operator has no idle time-out, and is exchanged for tokens as well.
#[tokio::test]
async fn session_of_the_operator_is_exchanged_for_tokens() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let session = world.session(member).await.secret;
    world.time.pass(HOUR - MINUTE);
    let token = token(&world, &session).await;
    chat(&world, &token).await.unwrap();
    world.time.pass(MINUTE);
    assert_eq!(code(chat(&world, &token).await), "unauthenticated");
}
