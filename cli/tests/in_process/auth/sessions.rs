//! Tests of sessions: access tokens, logging out, and the caller's own credentials.

use http::Method;
use serde_json::{Value, json};

use super::{Member, login, server, session_of, sign_in};
use crate::support::{Call, InProcess};

/// Returns the status of an operation with a bearer token.
async fn workspaces(server: &InProcess, token: &str) -> u16 {
    let call = Call::new(Method::GET, "/v1/workspaces").bearer(token);
    call.send_to(&server.base_url).await.status.as_u16()
}

#[tokio::test]
async fn session_without_or_with_another_credential_is_rejected() {
    let server = server().await;
    let viewer = &server.org().members.viewer;
    for (method, path) in [
        (Method::GET, "/auth/session"),
        (Method::POST, "/auth/token"),
        (Method::POST, "/auth/logout"),
        (Method::GET, "/auth/credentials"),
        (Method::GET, "/auth/credentials?limit=0"),
        (Method::DELETE, "/auth/credentials/none"),
        (Method::GET, "/auth/credentials/none/created"),
    ] {
        let call = Call::new(method, path).site("same-origin");
        let calls = [
            call.clone(),
            call.clone().bearer(&viewer.token),
            call.clone().session(&viewer.token).site("same-origin"),
            call.session(&server.org().dead_sessions.revoked)
                .site("same-origin"),
        ];
        for call in calls {
            let answer = call.send_to(&server.base_url).await;
            assert_eq!(answer.status, 401, "{path}: {answer:?}");
            assert_eq!(answer.json()["error"], "unauthenticated");
            assert!(answer.header("www-authenticate").starts_with("Cookie "));
        }
    }
}

#[tokio::test]
async fn access_token_ends_with_logout() {
    let server = server().await;
    let member = sign_in(&server, server.org().members.viewer.id).await;
    let answer = member.send(&server, Method::POST, "/auth/token").await;
    assert_eq!(answer.header("cache-control"), "no-store");
    let fields = answer.json();
    let fields: Vec<_> = fields.as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["expires_at", "token"]);
    let token = member.token(&server).await;
    assert!(token.starts_with("wkt_"), "{token}");
    assert_eq!(workspaces(&server, &token).await, 200);
    let logout = member.send(&server, Method::POST, "/auth/logout").await;
    assert_eq!((logout.status.as_u16(), logout.body.len()), (204, 0));
    assert_eq!(logout.header("cache-control"), "no-store");
    assert_eq!(
        logout.header("set-cookie"),
        "service_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"
    );
    assert_eq!(workspaces(&server, &token).await, 401);
    for (method, path) in [
        (Method::GET, "/auth/session"),
        (Method::POST, "/auth/token"),
    ] {
        assert_eq!(member.send(&server, method, path).await.status, 401);
    }
}

#[tokio::test]
async fn member_lists_and_ends_only_own_credentials() {
    let server = server().await;
    let members = &server.org().members;
    let member = sign_in(&server, members.viewer.id).await;
    let other = sign_in(&server, members.admin.id).await;
    let list = async |member: &Member, query: &str| {
        let path = format!("/auth/credentials{query}");
        let answer = member.send(&server, Method::GET, &path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let listed = list(&member, "").await;
    assert_eq!(listed["next_cursor"], Value::Null);
    let listed = listed["data"].as_array().expect("a list").clone();
    let current: Vec<_> = listed.iter().filter(|own| own["current"] == true).collect();
    let [current] = current[..] else {
        panic!("one is current: {listed:?}")
    };
    assert_eq!(current["id"], member.login.json()["session"]["id"]);
    assert_eq!(current["kind"], "session");
    let mut fields: Vec<_> = current.as_object().expect("an object").keys().collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "created_at",
            "current",
            "expires_at",
            "id",
            "kind",
            "last_used_at",
            "name"
        ]
    );
    assert!(
        listed.iter().any(|own| own["kind"] == "token"),
        "{listed:?}"
    );
    // Pages are as those of other lists.
    let first = list(&member, "?limit=1").await;
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    let second = list(&member, &format!("?limit=1&cursor={cursor}")).await;
    assert_eq!(
        [&first["data"][0], &second["data"][0]],
        [&listed[0], &listed[1]]
    );
    let wrong = member
        .send(&server, Method::GET, "/auth/credentials?limit=0")
        .await;
    assert_eq!(wrong.status, 400);

    let end = async |member: &Member, id: &str| {
        let path = format!("/auth/credentials/{id}");
        member
            .send(&server, Method::DELETE, &path)
            .await
            .status
            .as_u16()
    };
    let theirs = list(&other, "").await;
    for own in theirs["data"].as_array().expect("a list") {
        let id = own["id"].as_str().expect("an id");
        assert_eq!(end(&member, id).await, 404);
    }
    assert_eq!(
        end(&member, "00000000-0000-0000-0000-000000000000").await,
        404
    );
    assert_eq!(end(&member, "none").await, 404);
    assert_eq!(
        list(&other, "").await["data"].as_array().map(Vec::len),
        theirs["data"].as_array().map(Vec::len)
    );
    let token = listed
        .iter()
        .find(|own| own["kind"] == "token")
        .expect("a token");
    let token = token["id"].as_str().expect("an id");
    assert_eq!(end(&member, token).await, 204);
    assert_eq!(end(&member, token).await, 404);
    let own = current["id"].as_str().expect("an id");
    assert_eq!(end(&member, own).await, 204);
    assert_eq!(end(&member, own).await, 401);
}

/// After its first owner, an organisation needs no operator for people and their programs.
#[tokio::test]
async fn added_person_signs_in_and_creates_a_token_that_outlives_the_session() {
    let server = server().await;
    let org = server.org();
    let owner = sign_in(&server, org.members.owner.id).await;
    let members = format!("/v1/orgs/{}/members", org.slug);
    let new = json!({ "handle": "nora", "name": "Nora", "role": "member", "login_link": true });
    let added = owner.call(Method::POST, &members).json(&new);
    let added = added.send_to(&server.base_url).await;
    assert_eq!(added.status, 201, "{added:?}");
    let nora = added.json()["data"].clone();
    let secret = nora["login_link"]["secret"].as_str().expect("a secret");
    let url = format!("{}/#/login/{secret}", server.base_url);
    assert_eq!(nora["login_link"]["url"], url);

    let login = login(secret).send_to(&server.base_url).await;
    assert_eq!(login.json()["member"]["id"], nora["id"], "{login:?}");
    let session = session_of(&login);
    let nora_signed_in = Member { session, login };
    let id = nora["id"].as_str().expect("an identifier");
    let tokens = format!("{members}/{id}/tokens");
    let made = nora_signed_in.call(Method::POST, &tokens);
    let made = made.json(&json!({ "name": "Script" }));
    let made = made.send_to(&server.base_url).await;
    assert_eq!(made.status, 201, "{made:?}");
    let token = made.json()["data"]["secret"].as_str().unwrap().to_owned();
    let logout = nora_signed_in.send(&server, Method::POST, "/auth/logout");
    assert_eq!(logout.await.status, 204);
    assert_eq!(workspaces(&server, &token).await, 200);
}

#[tokio::test]
async fn login_link_of_an_added_person_ends_with_a_change_of_the_role() {
    let server = server().await;
    let org = server.org();
    let owner = sign_in(&server, org.members.owner.id).await;
    let members = format!("/v1/orgs/{}/members", org.slug);
    let new = json!({ "handle": "nora", "name": "Nora", "role": "member", "login_link": true });
    let added = owner.call(Method::POST, &members).json(&new);
    let added = added.send_to(&server.base_url).await;
    assert_eq!(added.status, 201, "{added:?}");
    let nora = added.json()["data"].clone();
    let path = format!("{members}/{}", nora["id"].as_str().expect("an identifier"));
    let changed = owner.call(Method::PATCH, &path);
    let changed = changed.json(&json!({ "role": "admin" }));
    let changed = changed.send_to(&server.base_url).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let secret = nora["login_link"]["secret"].as_str().expect("a secret");
    let refused = login(secret).send_to(&server.base_url).await;
    assert_eq!(refused.status, 401, "{refused:?}");
}

#[tokio::test]
async fn login_link_ends_when_the_role_permits_more_than_its_creator_may_grant() {
    let server = server().await;
    let org = server.org();
    let owner = sign_in(&server, org.members.owner.id).await;
    let keeper = sign_in(&server, org.members.keeper.id).await;
    let (members, role) = (
        format!("/v1/orgs/{}/members", org.slug),
        org.roles.restrained,
    );
    let new = json!({ "handle": "nora", "name": "Nora", "role": role, "login_link": true });
    let added = keeper.call(Method::POST, &members).json(&new);
    let added = added.send_to(&server.base_url).await;
    assert_eq!(added.status, 201, "{added:?}");
    let path = format!("/v1/orgs/{}/custom-roles/{role}", org.slug);
    let changed = owner.call(Method::PATCH, &path);
    let changed = changed.json(&json!({ "actions": { "allow": ["audit:read"] } }));
    let changed = changed.send_to(&server.base_url).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let link = added.json()["data"]["login_link"].clone();
    let secret = link["secret"].as_str().expect("a secret");
    let refused = login(secret).send_to(&server.base_url).await;
    assert_eq!(refused.status, 401, "{refused:?}");
}
