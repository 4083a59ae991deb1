//! Tests of signing in: login links, sessions, and what members see and end of their own.

use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::access::{Action, CredentialKind, Secret, TokenScope};
use knowledge_core::model::{CredentialId, MemberId};
use knowledge_core::service::{
    AuditAction, AuditEntry, Caller, ClientInfo, Issued, NewToken, PageRequest, SessionTimeouts,
};
use knowledge_store::faults::FaultPlan;
use serde_json::json;
use uuid::Uuid;

use crate::admin::get;
use crate::audit::entries;
use crate::make::{
    ADMIN, DAY, HOUR, MEMBER, MILLISECOND, VIEWER, code, new_chat, new_mcp_key, new_role,
    new_token, problem, with,
};
use crate::world::World;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

async fn link(world: &World, member: MemberId) -> Issued {
    let new = with(new_token(member, CredentialKind::Link), |new| {
        new.lifetime = 15 * MINUTE;
    });
    issue(world, &new).await.unwrap()
}

async fn issue(world: &World, new: &NewToken) -> Result<Issued, Error> {
    world.service.provisioning().issue(world.org.id, new).await
}

/// Signs a member in with a new link.
pub(crate) async fn sign_in(world: &World, member: MemberId) -> Issued {
    let link = link(world, member).await;
    world.sign_in(link.secret.expose()).await.unwrap()
}

pub(crate) async fn token(world: &World, session: &Secret) -> Caller {
    world.access_token(session).await.unwrap().secret.into()
}

/// Performs an operation of access tokens.
pub(crate) async fn chat(world: &World, token: &Caller) -> Result<(), Error> {
    let new = new_chat("Hi");
    let created = world.by(token).create_chat(&new).await;
    created.map(|_| ())
}

/// Returns the identifiers of the caller's own credentials, and of the current one.
async fn own(world: &World, session: &Secret) -> (Vec<CredentialId>, Vec<CredentialId>) {
    let page = PageRequest::default();
    let own = world
        .service
        .sessions()
        .own_credentials(session, &page)
        .await
        .unwrap();
    assert_eq!(own.next_cursor, None);
    let all = own.data.iter().map(|own| own.record.id);
    let current = own.data.iter().filter(|own| own.is_current);
    (all.collect(), current.map(|own| own.record.id).collect())
}

pub(crate) async fn verify(world: &World) {
    let verified = world.service.verify().await.unwrap();
    assert_eq!(verified.differences, []);
}

#[tokio::test]
async fn login_link_is_exchanged_once_for_a_session() {
    let world = World::new().await;
    let admin = world.member(ADMIN).await;
    let link = link(&world, admin).await;
    let text = link.secret.expose();
    assert!(text.starts_with("wkl_"), "{text}");
    let session = world.sign_in(text).await.unwrap();
    assert_eq!(session.record.member_id, admin);
    assert_eq!(session.record.expires_at, world.time.now().plus(7 * DAY));
    let known = session.secret.clone().into();
    let new = new_role("new");
    world.by(&known).create_role(&new).await.unwrap();
    for _ in 0..2 {
        assert_eq!(code(world.sign_in(text).await), "unauthenticated");
    }
    // Neither the link nor its hash is stored in clear text.
    let contents = world.contents().await;
    let is_stored = |needle: &str| {
        let values = contents.values();
        values
            .map(|value| String::from_utf8_lossy(value))
            .any(|value| value.contains(needle))
    };
    assert!(!is_stored(text) && !is_stored(session.secret.expose()));
    verify(&world).await;
}

#[tokio::test]
async fn invalid_login_links_are_rejected_alike() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let [used, expired, revoked, removed] = {
        let gone = world.member(MEMBER).await;
        [
            link(&world, member).await,
            link(&world, member).await,
            link(&world, member).await,
            link(&world, gone).await,
        ]
    };
    world.sign_in(used.secret.expose()).await.unwrap();
    let provisioning = world.service.provisioning();
    provisioning
        .revoke(world.org.id, revoked.record.id)
        .await
        .unwrap();
    let gone = removed.record.member_id;
    world.remove_member(gone).await.unwrap();
    let token = world.token(member, TokenScope::default()).await;
    let unknown = Secret::generate(CredentialKind::Link, world.org.id, world.service.env());
    let mut messages = Vec::new();
    for text in [
        used.secret.expose(),
        revoked.secret.expose(),
        removed.secret.expose(),
        token.secret.expose(),
        unknown.expose(),
        "wkl_",
        "",
    ] {
        messages.push(world.sign_in(text).await.unwrap_err().to_string());
    }
    world.time.pass(15 * MINUTE - MILLISECOND);
    let late = link(&world, member).await;
    world.time.pass(MILLISECOND);
    let refused = world.sign_in(expired.secret.expose()).await;
    messages.push(refused.unwrap_err().to_string());
    messages.dedup();
    assert_eq!(
        messages,
        ["the login link is unknown, used, expired or revoked; ask for a new one"]
    );
    world.sign_in(late.secret.expose()).await.unwrap();
}

#[tokio::test]
async fn concurrent_sign_ins_with_one_link_create_one_session() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let link = link(&world, member).await;
    let other = world.served_with(FaultPlan::none()).await;
    let text = link.secret.expose().to_owned();
    // Another process commits its sign-in between the reads and the commit of this one.
    world.probe.before_commit(async move {
        other.sign_in(&text).await.unwrap();
    });
    let late = world.sign_in(link.secret.expose()).await;
    assert_eq!(code(late), "unauthenticated");
    assert!(world.probe.has_happened());
    let provisioning = world.service.provisioning();
    let credentials = provisioning.credentials(world.org.id);
    let credentials = credentials.await.unwrap();
    let sessions = credentials
        .iter()
        .filter(|record| record.kind == CredentialKind::Session);
    assert_eq!(sessions.count(), 1);

    let link = self::link(&world, member).await;
    let text = link.secret.expose();
    let attempts = (0..8).map(|_| world.sign_in(text));
    let outcomes = futures::future::join_all(attempts).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
}

#[tokio::test]
async fn login_link_authenticates_no_operation() {
    let world = World::new().await;
    let link = link(&world, world.owner_id).await;
    let caller = Caller::from(link.secret);
    assert_eq!(code(chat(&world, &caller).await), "unauthenticated");
    let listed = world.by(&caller).list_roles().await;
    assert_eq!(code(listed), "unauthenticated");
}

#[tokio::test]
async fn login_link_lives_a_day_at_most_and_has_no_scope() {
    let world = World::new().await;
    let issue = async |adapt: fn(&mut NewToken)| {
        let new = with(new_token(world.owner_id, CredentialKind::Link), adapt);
        issue(&world, &new).await
    };
    issue(|new| new.lifetime = DAY).await.unwrap();
    for adapt in [
        (|new: &mut NewToken| new.lifetime = DAY + MILLISECOND) as fn(&mut NewToken),
        |new| {
            new.lifetime = 2 * DAY;
            new.is_long_lived = true;
        },
    ] {
        assert_eq!(problem(issue(adapt).await), "lifetime invalid_value");
    }
    let scoped = issue(|new| new.scope.workspaces = Some(Vec::new())).await;
    assert_eq!(problem(scoped), "narrowing invalid_value");
}

#[tokio::test]
async fn session_tells_member_and_actions() {
    let world = World::new().await;
    let viewer = world.member(VIEWER).await;
    let session = sign_in(&world, viewer).await;
    let found = world.service.sessions().get(&session.secret).await.unwrap();
    assert_eq!(found.session, session.record);
    assert_eq!(found.principal.member.id, viewer);
    assert_eq!(found.principal.org.id, world.org.id);
    let actions = found.principal.org_actions();
    assert!(actions.contains(Action::DashboardRead) && !actions.contains(Action::MemberManage));
    world.assign(viewer, ADMIN).await.unwrap();
    let found = world.service.sessions().get(&session.secret).await.unwrap();
    assert!(found.principal.org_actions().contains(Action::MemberManage));
}

#[tokio::test]
async fn session_without_use_ends_after_idle_timeout() {
    let timeouts = SessionTimeouts {
        idle: 2 * HOUR,
        absolute: 30 * DAY,
    };
    let world = World::with(|options| options.session_timeouts = timeouts).await;
    let is_valid = async |session: &Issued| {
        let is_valid = world.service.sessions().get(&session.secret).await.is_ok();
        let listed = get(&world, "/orgs/acme/credentials?kind=session").await;
        let mut listed = listed["data"].as_array().unwrap().iter();
        let listed = listed.find(|listed| listed["id"] == json!(session.record.id));
        let state = if is_valid { "valid" } else { "expired" };
        assert_eq!(listed.unwrap()["state"], state);
        is_valid
    };
    let session = sign_in(&world, world.owner_id).await;
    // The time-out begins at the end of the hour of the sign-in.
    world.time.pass(3 * HOUR - MILLISECOND);
    assert!(is_valid(&session).await);
    // The exchange for a token is a use, which counts from the end of its hour too.
    token(&world, &session.secret).await;
    world.time.pass(MILLISECOND + 2 * HOUR - MILLISECOND);
    assert!(is_valid(&session).await);
    world.time.pass(MILLISECOND);
    assert!(!is_valid(&session).await);
    assert_eq!(
        code(world.access_token(&session.secret).await),
        "unauthenticated"
    );
    let other = sign_in(&world, world.owner_id).await.secret;
    let listed = own(&world, &other).await.0;
    assert!(
        !listed.contains(&session.record.id),
        "an idle session has ended"
    );
    world.maintain().await;
    verify(&world).await;
}

#[tokio::test]
async fn member_sees_and_ends_only_own_credentials() {
    let world = World::new().await;
    let (mia, bob) = (world.member(MEMBER).await, world.member(ADMIN).await);
    let session = sign_in(&world, mia).await;
    let elsewhere = sign_in(&world, mia).await;
    let token = world.token(mia, TokenScope::default()).await;
    let link = link(&world, mia).await;
    let others = [
        sign_in(&world, bob).await,
        world.token(bob, TokenScope::default()).await,
    ];
    let access = world.access_token(&session.secret).await.unwrap();
    let (listed, current) = own(&world, &session.secret).await;
    assert_eq!(
        listed,
        [&session, &elsewhere, &token].map(|issued| issued.record.id)
    );
    assert_eq!(current, [session.record.id]);

    let end = async |id| world.end_own_credential(&session.secret, id).await;
    let contents = world.contents().await;
    let others = others.map(|issued| issued.record.id);
    for id in [
        others[0],
        others[1],
        link.record.id,
        access.record.id,
        CredentialId(Uuid::nil()),
    ] {
        assert_eq!(code(end(id).await), "not_found");
    }
    assert_eq!(world.contents().await, contents, "nothing has changed");
    end(token.record.id).await.unwrap();
    assert_eq!(
        code(chat(&world, &token.secret.into()).await),
        "unauthenticated"
    );
    end(elsewhere.record.id).await.unwrap();
    assert_eq!(code(end(elsewhere.record.id).await), "not_found");
    assert_eq!(own(&world, &session.secret).await.0, [session.record.id]);
    end(session.record.id).await.unwrap();
    assert_eq!(
        code(world.service.sessions().get(&session.secret).await),
        "unauthenticated"
    );
    verify(&world).await;
}

#[tokio::test]
async fn member_sees_and_ends_mcp_keys_of_ended_sessions() {
    let timeouts = SessionTimeouts {
        idle: 2 * HOUR,
        absolute: 30 * DAY,
    };
    let world = World::with(|options| options.session_timeouts = timeouts).await;
    let new = new_mcp_key("org:acme");
    for is_signed_out in [true, false] {
        let session = sign_in(&world, world.owner_id).await.secret;
        let token = token(&world, &session).await;
        let created = world.by(&token).create_mcp_key(&new);
        let key = created.await.unwrap().summary.id;
        assert!(own(&world, &session).await.0.contains(&key));
        match is_signed_out {
            true => world.sign_out(&session).await.unwrap(),
            false => world.time.pass(3 * HOUR),
        }
        let later = sign_in(&world, world.owner_id).await.secret;
        assert!(own(&world, &later).await.0.contains(&key));
        world.end_own_credential(&later, key).await.unwrap();
        assert!(!own(&world, &later).await.0.contains(&key));
        let ended = world.end_own_credential(&later, key).await;
        assert_eq!(code(ended), "not_found");
    }
    verify(&world).await;
}

#[tokio::test]
async fn sessions_and_tokens_are_audited() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let link = link(&world, member).await;
    let client = ClientInfo {
        address: Some("192.0.2.7".parse().unwrap()),
        request_id: None,
    };
    let service = &world.service;
    let signed_in = service
        .sessions()
        .sign_in(link.secret.expose(), client)
        .await;
    let session = signed_in.unwrap();
    let token = service
        .sessions()
        .access_token(&session.secret, client)
        .await;
    let token = token.unwrap();
    service
        .sessions()
        .sign_out(&session.secret, false, client)
        .await
        .unwrap();
    let all = entries(&world).await;
    let of = |action, id: CredentialId| -> &AuditEntry {
        let mut found = all.iter().filter(|entry| entry.action == action);
        found.find(|entry| entry.resource.id == id.0).unwrap()
    };
    let create = AuditAction::CredentialCreate;
    assert_eq!(of(create, link.record.id).actor_id, None);
    for (action, id, credential) in [
        (create, session.record.id, link.record.id),
        (create, token.record.id, session.record.id),
        (
            AuditAction::CredentialRevoke,
            session.record.id,
            session.record.id,
        ),
    ] {
        let entry = of(action, id);
        assert_eq!(entry.actor_id, Some(member));
        assert_eq!(entry.credential_id, Some(credential));
        assert_eq!(entry.client_address, client.address);
    }
}

#[tokio::test]
async fn session_is_created_for_a_member_authenticated_elsewhere() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let provisioning = world.service.provisioning();
    let create = async |member, name| {
        provisioning
            .create_session(world.org.id, member, name)
            .await
    };
    let session = create(member, "OpenID Connect").await.unwrap();
    assert_eq!(session.record.idle_timeout_seconds, Some(12 * 60 * 60));
    let found = world.service.sessions().get(&session.secret).await.unwrap();
    assert_eq!(found.principal.member.id, member);
    assert_eq!(problem(create(member, "").await), "name too_small");
    let nobody = create(MemberId(Uuid::nil()), "OpenID Connect").await;
    assert_eq!(code(nobody), "unauthenticated");
}
