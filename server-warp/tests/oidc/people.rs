//! Claims about people that no certified provider makes, and what they lead to.

use knowledge_core::access::{BaseRole, BuiltInRole, RoleRef};
use knowledge_core::model::{CustomRole, CustomRoleUpdate, NewCustomRole, WorkspaceId};
use knowledge_http_suite::rows;
use serde_json::{Value, json};

use crate::browser::{Browser, assert_refused};
use crate::fake::{FakeProvider, Key};
use crate::world::World;

/// Starts a provider, its key, and a server that adds members by these groups.
async fn start(member_claim: &str, groups: &[&str]) -> (FakeProvider, Key, World) {
    let provider = FakeProvider::start().await;
    let key = Key::ecdsa();
    provider.publish_keys(&[key.jwk("a")]);
    let groups = groups.iter().map(|text| text.parse().expect(text));
    let world = World::still(&provider.issuer, |config| {
        config.member_claim = member_claim.to_owned();
        config.create_members = true;
        config.groups = groups.collect();
    });
    let world = world.await;
    (provider, key, world)
}

/// Creates a custom role, which can be held in this workspace only.
async fn custom_role(world: &World, slug: &str, workspace: Option<WorkspaceId>) -> CustomRole {
    let mut new = NewCustomRole::builder()
        .name(slug)
        .slug(slug)
        .base_role(BaseRole::Viewer)
        .build();
    new.workspace_id = workspace;
    let (owner, org) = (world.org().trusted_owner(), &world.org().slug);
    let created = world.service.roles().create(&owner, org, &new);
    created.await.expect("created")
}

#[tokio::test]
async fn address_is_verified_by_the_document_that_states_it() {
    let (provider, key, world) = start("email", &["staff = team:staff"]).await;
    let (own, other) = ("grace@example.com", "owner@example.com");
    for (token, info, expected) in rows! {
        (json!({ "email": own }), json!({ "email": other, "email_verified": true }), 403),
        (json!({ "email_verified": true }), json!({ "email": other }), 403),
        (
            json!({ "email": own, "email_verified": false }),
            json!({ "email": own, "email_verified": true }),
            403,
        ),
        (json!({ "email": own }), json!({ "email_verified": true }), 403),
        (json!({ "email": own }), json!({ "email": own, "email_verified": true }), 303),
        (json!({}), json!({ "email": own, "email_verified": true }), 303),
    } {
        let mut info = info;
        info["sub"] = json!("viewer");
        info["groups"] = json!(["staff"]);
        provider.answer("/userinfo", 200, info.to_string());
        let mut browser = Browser::new(&world);
        let answer = provider.sign_in(&world, &mut browser, (&key, &token)).await;
        assert_eq!(answer.status, expected, "{token} {info}");
    }
}

#[tokio::test]
async fn name_without_its_controls_is_the_one_of_the_member() {
    let (provider, key, world) = start("id", &["staff = team:staff"]).await;
    for (id, name, expected) in [
        ("grace", json!("Grace\u{202e} Hopper"), "Grace Hopper"),
        ("ada", json!("\u{202e}"), "ada"),
    ] {
        let claims = json!({ "id": id, "name": name, "groups": ["staff"] });
        let mut browser = Browser::new(&world);
        let answer = provider
            .sign_in(&world, &mut browser, (&key, &claims))
            .await;
        assert_eq!(answer.status, 303, "{answer:?}");
        let member = world.member(id).await.expect("the member");
        assert_eq!(member.name, expected);
    }
}

#[tokio::test]
async fn groups_that_cannot_be_read_take_nothing_away() {
    let (provider, key, world) = start("sub", &["staff = team:staff"]).await;
    let mut browser = Browser::new(&world);
    let staff = json!({ "groups": ["staff"] });
    let answer = provider.sign_in(&world, &mut browser, (&key, &staff)).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let before = world.teams("viewer").await;
    assert!(before.contains("staff"));
    provider.answer("/userinfo", 200, json!({ "sub": "viewer" }).to_string());
    for claims in [
        // As Entra ID does above some number of groups.
        json!({
            "_claim_names": { "groups": "src1" },
            "_claim_sources": { "src1": { "endpoint": "https://graph.example.com/" } },
        }),
        json!({ "groups": { "staff": true } }),
        json!({ "groups": [["staff"]] }),
        json!({ "groups": null }),
    ] {
        let answer = provider
            .sign_in(&world, &mut browser, (&key, &claims))
            .await;
        assert_refused(&answer, 502);
        assert_eq!(world.teams("viewer").await, before, "{claims}");
    }
}

#[tokio::test]
async fn groups_that_are_not_stated_change_nothing_and_empty_ones_do() {
    let groups = ["staff = team:staff", "leads = role:admin"];
    let (provider, key, world) = start("sub", &groups).await;
    let mut browser = Browser::new(&world);
    let stated = |groups: Value| json!({ "groups": groups });
    let role = async || world.member("viewer").await.expect("the member").role;
    let all = stated(json!(["staff", "leads"]));
    let answer = provider.sign_in(&world, &mut browser, (&key, &all)).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let (teams, before) = (world.teams("viewer").await, role().await);
    assert!(teams.contains("staff"));
    let changes = world.changes().await;
    provider.answer("/userinfo", 200, json!({ "sub": "viewer" }).to_string());
    let missing = json!({});
    let answer = provider
        .sign_in(&world, &mut browser, (&key, &missing))
        .await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert_eq!((world.teams("viewer").await, role().await), (teams, before));
    assert_eq!(world.changes().await, changes);
    let answer = provider
        .sign_in(&world, &mut browser, (&key, &stated(json!([]))))
        .await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert!(!world.teams("viewer").await.contains("staff"));
    assert_ne!(role().await, before);
    assert_eq!(
        world.changes().await,
        changes + 2,
        "of teams and of the role"
    );
    // Nobody becomes a member without a group.
    let new = json!({ "sub": "newcomer" });
    let answer = provider.sign_in(&world, &mut browser, (&key, &new)).await;
    assert!(answer.status.is_client_error() || answer.status.is_server_error());
}

#[tokio::test]
async fn groups_that_are_required_have_to_be_stated() {
    let provider = FakeProvider::start().await;
    let key = Key::ecdsa();
    provider.publish_keys(&[key.jwk("a")]);
    let world = World::still(&provider.issuer, |config| {
        config.groups = vec!["staff = team:staff".parse().expect("a grant")];
        config.groups_required = true;
    });
    let world = world.await;
    provider.answer("/userinfo", 200, json!({ "sub": "viewer" }).to_string());
    let mut browser = Browser::new(&world);
    for (claims, expected) in [(json!({}), 502), (json!({ "groups": [] }), 303)] {
        let answer = provider
            .sign_in(&world, &mut browser, (&key, &claims))
            .await;
        assert_eq!(answer.status, expected, "{claims}");
    }
}

#[tokio::test]
async fn group_is_the_same_in_every_spelling_of_unicode() {
    let (provider, key, world) = start("sub", &["caf\u{e9} = team:staff"]).await;
    let mut browser = Browser::new(&world);
    let claims = json!({ "groups": ["cafe\u{301}"] });
    let answer = provider
        .sign_in(&world, &mut browser, (&key, &claims))
        .await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert!(world.teams("viewer").await.contains("staff"));
}

#[tokio::test]
async fn userinfo_as_a_jwt_is_verified() {
    let (provider, key, world) = start("sub", &["staff = team:staff"]).await;
    let issuer = &provider.issuer;
    let info = |iss: &str, aud: Value, sub: &str| {
        let mut claims = json!({ "iss": iss, "sub": sub, "groups": ["staff"] });
        claims["aud"] = aud;
        claims
    };
    let good = info(issuer, json!("knowledge"), "viewer");
    let bare = json!({ "sub": "viewer", "groups": [] });
    for (token, expected) in [
        (Key::ecdsa().sign("a", &good), 502),
        (key.sign("b", &good), 502),
        (
            key.sign(
                "a",
                &info("https://evil.example", json!("knowledge"), "viewer"),
            ),
            502,
        ),
        (
            key.sign("a", &info(issuer, json!(["other"]), "viewer")),
            502,
        ),
        (
            key.sign("a", &info(issuer, json!("knowledge"), "grace")),
            502,
        ),
        (
            "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ2aWV3ZXIifQ.".to_owned(),
            502,
        ),
        ("eyNonsense".to_owned(), 502),
        (key.sign("a", &good), 303),
    ] {
        provider.answer("/userinfo", 200, token.clone());
        let mut browser = Browser::new(&world);
        let answer = provider
            .sign_in(&world, &mut browser, (&key, &json!({})))
            .await;
        assert_eq!(answer.status, expected, "{token}: {answer:?}");
        assert_eq!(
            world.teams("viewer").await.contains("staff"),
            expected == 303
        );
    }
    provider.answer("/userinfo", 200, key.sign("a", &bare));
    let mut browser = Browser::new(&world);
    let answer = provider
        .sign_in(&world, &mut browser, (&key, &json!({})))
        .await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert!(!world.teams("viewer").await.contains("staff"));
}

#[tokio::test]
async fn inactive_role_is_taken_away_and_not_granted() {
    let groups = ["staff = role:auditor@handbook", "staff = team:staff"];
    let (provider, key, world) = start("sub", &groups).await;
    let place = world.org().main.id;
    let auditor = custom_role(&world, "auditor", Some(place)).await;
    let held = async || {
        let member = world.member("viewer").await.expect("the member");
        let provisioning = world.service.provisioning();
        let roles = provisioning.workspace_roles(world.org().id, member.id);
        let roles = roles.await.expect("a working store").into_iter();
        let mut here = roles.filter(|(workspace, _)| *workspace == place);
        here.next().map(|(_, role)| role)
    };
    let mut browser = Browser::new(&world);
    let (staff, nobody) = (json!({ "groups": ["staff"] }), json!({ "groups": [] }));
    let answer = provider.sign_in(&world, &mut browser, (&key, &staff)).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert_eq!(held().await, Some(RoleRef::Custom(auditor.id)));
    let update = CustomRoleUpdate::builder().is_active(false).build();
    let (owner, org) = (world.org().trusted_owner(), &world.org().slug);
    let (service, id) = (&world.service, auditor.id);
    let updated = service.roles().update(&owner, org, id, &update, None);
    updated.await.expect("updated");
    let answer = provider.sign_in(&world, &mut browser, (&key, &staff)).await;
    assert_refused(&answer, 500);
    let answer = provider
        .sign_in(&world, &mut browser, (&key, &nobody))
        .await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert_eq!(held().await, None);
}

#[tokio::test]
async fn role_of_another_place_is_reported_and_changes_nothing() {
    let groups = ["staff = team:staff", "staff = role:auditor"];
    let (provider, key, world) = start("sub", &groups).await;
    custom_role(&world, "auditor", Some(world.org().main.id)).await;
    let before = world.teams("viewer").await;
    let mut browser = Browser::new(&world);
    let staff = json!({ "groups": ["staff"] });
    let answer = provider.sign_in(&world, &mut browser, (&key, &staff)).await;
    assert_refused(&answer, 500);
    assert_eq!(world.teams("viewer").await, before);
    let member = world.member("viewer").await.expect("the member");
    assert_eq!(member.role, RoleRef::BuiltIn(BuiltInRole::Viewer));
}
