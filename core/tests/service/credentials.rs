//! Tests of tokens and sessions: validity, scope, and revocations concurrent with a change.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use knowledge_core::access::{Action, Credential, CredentialKind, Secret, TokenScope};
use knowledge_core::api::{Api, KnownCaller};
use knowledge_core::model::{AudienceLabel, MemberId, OrgId};
use knowledge_core::service::{Caller, NewRecall, NewToken};
use uuid::Uuid;

use crate::make::{
    ADMIN, DAY, HOUR, MEMBER, MILLISECOND, VIEWER, actions, code, in_workspaces, new_chat, new_role,
};
use crate::world::World;

async fn chat(world: &World, caller: &Caller) -> Result<(), knowledge_core::Error> {
    let chat = world.by(caller).create_chat(&new_chat("Hi")).await;
    chat.map(|_| ())
}

#[tokio::test]
async fn token_is_valid_until_exact_expiry() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let issued = world.token(member, TokenScope::default()).await;
    assert_eq!(issued.record.expires_at, world.time.now().plus(HOUR));
    let caller = Caller::from(issued.secret);
    world.time.pass(HOUR - MILLISECOND);
    chat(&world, &caller).await.unwrap();
    world.time.pass(MILLISECOND);
    assert_eq!(code(chat(&world, &caller).await), "unauthenticated");
    // Once purged, the token is as unknown as before.
    world.maintain().await;
    assert_eq!(code(chat(&world, &caller).await), "unauthenticated");
}

#[tokio::test]
async fn revoked_credential_is_rejected() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let issued = world.token(member, TokenScope::default()).await;
    let provisioning = world.service.provisioning();
    let revoked = provisioning
        .revoke(world.org.id, issued.record.id)
        .await
        .unwrap();
    assert_eq!(revoked.revoked_at, Some(world.time.now()));
    assert_eq!(
        code(chat(&world, &issued.secret.into()).await),
        "unauthenticated"
    );
    let contents = world.contents().await;
    world.time.pass(HOUR / 2);
    assert_eq!(
        provisioning
            .revoke(world.org.id, issued.record.id)
            .await
            .unwrap(),
        revoked
    );
    assert_eq!(
        world.contents().await,
        contents,
        "revoked again, nothing changes"
    );
}

/// A change does not happen if a revocation commits between its reads and its commit.
#[tokio::test]
async fn revocation_prevents_concurrent_change() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let issued = world.token(member, TokenScope::default()).await;
    let other = world.served_with(Default::default()).await;
    let id = issued.record.id;
    world.probe.before_commit(async move {
        other
            .service
            .provisioning()
            .revoke(other.org.id, id)
            .await
            .unwrap();
    });
    assert_eq!(
        code(chat(&world, &issued.secret.into()).await),
        "unauthenticated"
    );
    assert!(world.probe.has_happened());
    assert!(world.dashboard().await.recent_chats.is_empty());
}

#[tokio::test]
async fn demotion_prevents_concurrent_change() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let caller = world.trusted(member);
    for in_workspace in [false, true] {
        let other = world.served_with(Default::default()).await;
        world.assign(member, MEMBER).await.unwrap();
        world.probe.before_commit(async move {
            if in_workspace {
                let workspace = other.workspace.id;
                other
                    .assign_in(member, workspace, Some(VIEWER))
                    .await
                    .unwrap();
            } else {
                other.assign(member, VIEWER).await.unwrap();
            }
        });
        assert_eq!(code(chat(&world, &caller).await), "forbidden");
    }
    assert!(world.dashboard().await.recent_chats.is_empty());
}

#[tokio::test]
async fn role_restriction_prevents_concurrent_change() {
    let world = World::new().await;
    let role = world
        .plain_role(knowledge_core::access::BaseRole::Member)
        .await;
    let caller = world.caller(crate::make::custom(role.id)).await;
    let other = world.served_with(Default::default()).await;
    world.probe.before_commit(async move {
        let update = knowledge_core::model::CustomRoleUpdate::builder()
            .base_role(knowledge_core::access::BaseRole::Viewer)
            .build();
        other.update_role(role.id, &update, None).await.unwrap();
    });
    assert_eq!(code(chat(&world, &caller).await), "forbidden");
}

#[tokio::test]
async fn token_and_session_are_not_interchangeable() {
    let world = World::new().await;
    let admin = world.member(ADMIN).await;
    let token = Caller::from(world.token(admin, TokenScope::default()).await.secret);
    let session = Caller::from(world.session(admin).await.secret);
    let create = async |caller: &Caller, slug: &str| {
        let new = new_role(slug);
        world.by(caller).create_role(&new).await
    };
    create(&session, "a").await.unwrap();
    assert_eq!(code(create(&token, "b").await), "unauthenticated");
    chat(&world, &token).await.unwrap();
    assert_eq!(code(chat(&world, &session).await), "unauthenticated");
    for (caller, kind) in [
        (&token, CredentialKind::Bearer),
        (&session, CredentialKind::Session),
    ] {
        let principal = world.service.authenticate(caller, kind).await.unwrap();
        assert_eq!(principal.member_id(), admin);
    }
}

#[tokio::test]
async fn unknown_credential_is_rejected() {
    let world = World::new().await;
    let issued = world.token(world.owner_id, TokenScope::default()).await;
    let text = issued.secret.expose();
    // Changing one character, or the organisation in the hint, yields another secret.
    let last = if text.ends_with('A') { 'E' } else { 'A' };
    let other = format!("{}{last}", &text[..text.len() - 1]);
    let hinted = text.replacen(&world.org.id.0.simple().to_string(), &"0".repeat(32), 1);
    let hashed = format!("wkt__{}", &text[text.len() - 43..]);
    for text in [other, hinted, hashed] {
        if let Ok(secret) = text.parse::<Secret>() {
            assert_eq!(
                code(chat(&world, &secret.into()).await),
                "unauthenticated",
                "{text}"
            );
        }
    }
    for (org, member) in [
        (world.org.id, MemberId(Uuid::nil())),
        (OrgId(Uuid::nil()), world.owner_id),
    ] {
        let stranger = Caller::new(Credential::Trusted { org, member });
        assert_eq!(code(chat(&world, &stranger).await), "unauthenticated");
    }
}

#[tokio::test]
async fn trusted_caller_has_full_role_of_its_member() {
    let world = World::new().await;
    let admin = world.caller(ADMIN).await;
    chat(&world, &admin).await.unwrap();
    let new = new_role("any");
    world.by(&admin).create_role(&new).await.unwrap();
}

#[tokio::test]
async fn token_scoped_to_workspaces_is_rejected_elsewhere() {
    let world = World::new().await;
    let sales = world.workspace("sales").await;
    let scope = in_workspaces(&[sales]);
    let admin = world.member(ADMIN).await;
    let caller = Caller::from(world.token(admin, scope).await.secret);
    world
        .by(&caller)
        .within(sales)
        .create_chat(&new_chat("Hi"))
        .await
        .unwrap();
    assert_eq!(code(chat(&world, &caller).await), "not_found");
    assert_eq!(code(world.by(&caller).get_dashboard().await), "not_found");
    // Nor is it accepted for the whole organisation, and the error says why.
    let unknown = knowledge_core::model::AuditLogId(Uuid::nil());
    let refused = world
        .by(&caller)
        .get_audit_entry(unknown)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "forbidden");
    assert_eq!(refused.to_string(), "outside the scope of this credential");
    let files = knowledge_core::service::NewSource::builder()
        .name("Files")
        .kind("drive")
        .build();
    assert_eq!(
        code(world.by(&caller).create_source(&files).await),
        "forbidden"
    );
}

#[tokio::test]
async fn token_scoped_to_actions_has_only_actions_of_its_member() {
    let world = World::new().await;
    let scope = TokenScope {
        actions: Some(actions(&[Action::DashboardRead, Action::MemoryDelete])),
        ..TokenScope::default()
    };
    let member = world.member(MEMBER).await;
    let caller = Caller::from(world.token(member, scope).await.secret);
    world.by(&caller).get_dashboard().await.unwrap();
    assert_eq!(code(chat(&world, &caller).await), "forbidden");
    let kind = CredentialKind::Bearer;
    let principal = world.service.authenticate(&caller, kind).await.unwrap();
    assert_eq!(principal.org_actions(), actions(&[Action::DashboardRead]));
}

#[tokio::test]
async fn token_scoped_to_audience_sees_nothing_else() {
    let world = World::new().await;
    let ids = world.approved_memories(1).await;
    let recall = async |audience: &str| {
        let audience: AudienceLabel = audience.parse().unwrap();
        let scope = TokenScope {
            audience: Some(vec![audience]),
            ..TokenScope::default()
        };
        let caller = Caller::from(world.token(world.owner_id, scope).await.secret);
        let new = NewRecall::builder()
            .query("Where?")
            .memory_ids(ids.clone())
            .build();
        world.by(&caller).create_recall(&new).await
    };
    recall("workspace:research").await.unwrap();
    let hidden = crate::make::problem(recall("org:acme").await);
    assert_eq!(hidden, "memory_ids[0] not_found");
}

#[tokio::test]
async fn token_requires_name_lifetime_and_member() {
    let world = World::new().await;
    let issue = async |member, name: &str, lifetime, kind, scope| {
        let new = NewToken::builder()
            .member(member)
            .kind(kind)
            .name(name.to_owned())
            .scope(scope)
            .lifetime(lifetime)
            .build();
        world.service.provisioning().issue(world.org.id, &new).await
    };
    let (owner, bearer) = (world.owner_id, CredentialKind::Bearer);
    let whole = TokenScope::default;
    let scoped = || TokenScope {
        actions: Some(actions(&[])),
        ..TokenScope::default()
    };
    issue(owner, "a", 400 * DAY, bearer, scoped())
        .await
        .unwrap();
    let nobody = issue(MemberId(Uuid::nil()), "a", DAY, bearer, whole()).await;
    assert_eq!(code(nobody), "not_found");
    for (name, lifetime, kind, scope, expected) in [
        ("", DAY, bearer, whole(), "name too_small"),
        (
            "a",
            Duration::ZERO,
            bearer,
            whole(),
            "lifetime invalid_value",
        ),
        ("a", 401 * DAY, bearer, whole(), "lifetime invalid_value"),
        (
            "a",
            DAY,
            CredentialKind::Session,
            scoped(),
            "narrowing invalid_value",
        ),
    ] {
        let issued = issue(owner, name, lifetime, kind, scope).await;
        assert_eq!(crate::make::problem(issued), expected);
    }
}

#[tokio::test]
async fn lifetime_of_years_must_be_asked_for() {
    let world = World::new().await;
    let issue = async |lifetime| {
        let new = NewToken::builder()
            .member(world.owner_id)
            .kind(CredentialKind::Bearer)
            .name("a")
            .lifetime(lifetime)
            .is_long_lived(true)
            .build();
        world.service.provisioning().issue(world.org.id, &new).await
    };
    issue(10 * 365 * DAY).await.unwrap();
    let refused = issue(11 * 366 * DAY).await;
    assert_eq!(crate::make::problem(refused), "lifetime invalid_value");
}

/// The largest accepted scope fits into its record; a larger one is reported as invalid.
#[tokio::test]
async fn token_scope_is_limited_to_storable_size() {
    let world = World::new().await;
    let issue = async |workspaces: usize, labels: usize| {
        let label = |number| format!("team:{number:0>64}").parse().unwrap();
        let new = NewToken::builder()
            .member(world.owner_id)
            .kind(CredentialKind::Bearer)
            .name("a")
            .scope(TokenScope {
                workspaces: Some(vec![world.workspace.id; workspaces]),
                actions: None,
                audience: Some((0..labels).map(label).collect()),
            })
            .lifetime(DAY)
            .build();
        world.service.provisioning().issue(world.org.id, &new).await
    };
    issue(100, 100).await.unwrap();
    assert_eq!(
        crate::make::problem(issue(3_000, 3_000).await),
        "narrowing.workspaces too_large, narrowing.audience too_large"
    );
}

#[tokio::test]
async fn caller_can_be_identified_before_the_call() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let issued = world.token(member, TokenScope::default()).await;
    let api = Api::new(world.service.clone());
    let (memories, roles) = ("/v1/memories/bulk", "/v1/orgs/acme/custom-roles");
    let caller = async |path: &str, value: String| {
        let request = Request::get(path).header(header::AUTHORIZATION, value);
        api.identify(&mut request.body(Bytes::new()).unwrap()).await
    };
    let token = format!("Bearer {}", issued.secret.expose());
    let known = KnownCaller {
        organization: world.org.id,
        principal: member.0,
        acts_for: None,
    };
    assert_eq!(caller(memories, token.clone()).await, Some(known));
    // This operation requires a session, so a token identifies no caller.
    assert_eq!(caller(roles, token.clone()).await, None);
    assert_eq!(caller(memories, String::new()).await, None);
    let other = Secret::generate(CredentialKind::Bearer, world.org.id, world.service.env());
    let unknown = format!("Bearer {}", other.expose());
    assert_eq!(caller(memories, unknown).await, None);
    world.time.pass(HOUR);
    assert_eq!(caller(memories, token).await, None, "it has expired");
}

/// Over a store without marks, a credential counts as known within five seconds of reading it.
#[tokio::test]
async fn revoked_credential_soon_identifies_nobody() {
    for is_rejected in [false, true] {
        let world = World::new().await;
        let member = world.member(MEMBER).await;
        let issued = world.token(member, TokenScope::default()).await;
        let api = Api::new(world.service.clone());
        let is_identified = async || {
            let token = format!("Bearer {}", issued.secret.expose());
            let request = Request::get("/v1/sources").header(header::AUTHORIZATION, token);
            let mut request = request.body(Bytes::new()).unwrap();
            api.identify(&mut request).await.is_some()
        };
        assert!(is_identified().await);
        let operator = world.service.provisioning();
        let revoked = operator.revoke(world.org.id, issued.record.id);
        revoked.await.unwrap();
        assert!(is_identified().await);
        match is_rejected {
            true => {
                let refused = chat(&world, &issued.secret.clone().into()).await;
                assert_eq!(code(refused), "unauthenticated");
            }
            false => world.time.pass(Duration::from_secs(5)),
        }
        assert!(!is_identified().await);
    }
}
