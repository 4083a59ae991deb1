//! Access tokens of the provider as bearer tokens (RFC 9068).

use std::time::Duration;

use http::StatusCode;
use knowledge_core::access::{BuiltInRole, RoleRef};
use knowledge_core::model::MemberKind;
use knowledge_core::service::NewMember;
use knowledge_http_suite::client::{Answer, Call};
use serde_json::{Value, json};

use crate::fake::{FakeProvider, Key};
use crate::provider::CertifiedProvider;
use crate::world::{PUBLIC_URL, World};

/// This server, as the provider knows it.
const AUDIENCE: &str = "https://knowledge.example.com";

/// Starts a provider with a key named `a`, and a server that accepts its access tokens.
async fn accepting() -> (FakeProvider, Key, World) {
    let provider = FakeProvider::start().await;
    let key = Key::ecdsa();
    provider.publish_keys(&[key.jwk("a")]);
    let world = World::still(&provider.issuer, |config| {
        config.access_token_audience = Some(AUDIENCE.to_owned());
    });
    let world = world.await;
    (provider, key, world)
}

/// Returns the claims of an access token of a person.
fn claims(provider: &FakeProvider, world: &World, subject: &str) -> Value {
    let now = world.now().as_seconds();
    json!({
        "iss": provider.issuer, "sub": subject, "aud": AUDIENCE, "client_id": "bot",
        "iat": now, "exp": now + 300, "jti": "1", "scope": "openid",
    })
}

fn sign(key: &Key, claims: &Value) -> String {
    let header = json!({ "alg": key.algorithm(), "kid": "a", "typ": "at+jwt" });
    key.sign_with(&header, claims)
}

async fn chats(world: &World, token: &str) -> Answer {
    let place = world.org().main.id;
    let call = Call::new(http::Method::POST, format!("/v1/workspaces/{place}/chats"));
    let call = call.bearer(token).json(&json!({ "title": "Queue" }));
    call.send_to(&world.base_url).await
}

async fn dashboard(world: &World, token: &str) -> Answer {
    let place = world.org().main.id;
    let path = format!("/v1/workspaces/{place}/dashboard-summary");
    let call = Call::new(http::Method::GET, path).bearer(token);
    call.send_to(&world.base_url).await
}

/// Returns the reason for which a token is rejected.
async fn rejection(world: &World, token: &str) -> String {
    let answer = dashboard(world, token).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{answer:?}");
    let challenge = answer.header("www-authenticate");
    assert!(challenge.contains("invalid_token"), "{challenge}");
    answer.header("error-message").to_owned()
}

#[tokio::test]
async fn access_token_acts_as_the_member_of_the_person() {
    let (provider, key, world) = accepting().await;
    let member = &world.org().members.member;
    let token = sign(&key, &claims(&provider, &world, "member"));
    let made = chats(&world, &token).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.json()["created_by"], json!(member.id));
    let chat = made.json()["id"].as_str().map(str::parse);
    let chat = chat.expect("an identifier").expect("a UUID");
    let entry = world.entry_of_chat(chat).await;
    assert_eq!(
        (entry.actor_id, entry.credential_id),
        (Some(member.id), None)
    );
    // The viewer may not, with the same permissions as otherwise.
    let token = sign(&key, &claims(&provider, &world, "viewer"));
    assert_eq!(chats(&world, &token).await.status, 403);
    assert_eq!(dashboard(&world, &token).await.status, 200);
    // Where several recipients are named, this server has to be one of them.
    let mut several = claims(&provider, &world, "viewer");
    several["aud"] = json!(["https://other.example.com", AUDIENCE]);
    assert_eq!(dashboard(&world, &sign(&key, &several)).await.status, 200);
}

#[tokio::test]
async fn access_token_with_other_claims_is_rejected() {
    let (provider, key, world) = accepting().await;
    let valid = claims(&provider, &world, "viewer");
    let now = world.now().as_seconds();
    let lacking = "the access token lacks a claim, or one has another type";
    let time = "the access token has expired, or is from the future";
    for (name, value, expected) in [
        (
            "iss",
            json!("https://evil.example"),
            "the access token is of another issuer",
        ),
        (
            "aud",
            json!("knowledge"),
            "the access token is for another audience",
        ),
        ("aud", json!([]), "the access token is for another audience"),
        ("aud", Value::Null, lacking),
        ("exp", json!(now - 60), time),
        ("exp", json!("never"), lacking),
        ("iat", json!(now + 61), time),
        ("nbf", json!(now + 61), time),
        ("sub", json!(""), lacking),
        ("sub", Value::Null, lacking),
        ("client_id", Value::Null, lacking),
        ("jti", Value::Null, lacking),
        ("sub", json!("nobody"), "no member has this handle"),
    ] {
        let mut other = valid.clone();
        let fields = other.as_object_mut().expect("an object");
        match value {
            Value::Null => fields.remove(name),
            value => fields.insert(name.to_owned(), value),
        };
        assert_eq!(
            rejection(&world, &sign(&key, &other)).await,
            expected,
            "{name}"
        );
    }
    assert_eq!(dashboard(&world, &sign(&key, &valid)).await.status, 200);
}

#[tokio::test]
async fn other_tokens_of_the_provider_are_no_access_tokens() {
    let (provider, key, world) = accepting().await;
    let claims = claims(&provider, &world, "viewer");
    let no_type = "the access token is no JWT of the type at+jwt with a permitted algorithm";
    // An ID token has the type JWT, or none.
    for header in [
        json!({ "alg": key.algorithm(), "kid": "a" }),
        json!({ "alg": key.algorithm(), "kid": "a", "typ": "JWT" }),
        json!({ "alg": key.algorithm(), "kid": "a", "typ": "at+jwt", "crit": ["b64"] }),
        json!({ "alg": "none", "typ": "at+jwt" }),
        json!({ "alg": "HS256", "kid": "a", "typ": "at+jwt" }),
    ] {
        let token = key.sign_with(&header, &claims);
        assert_eq!(rejection(&world, &token).await, no_type, "{header}");
    }
    let forged = Key::ecdsa();
    let signature = "the signature of the access token is not valid";
    assert_eq!(rejection(&world, &sign(&forged, &claims)).await, signature);
    assert_eq!(rejection(&world, "a.b.c").await, no_type);
}

#[tokio::test]
async fn access_token_ends_with_its_time_and_with_the_member() {
    let (provider, key, world) = accepting().await;
    let token = sign(&key, &claims(&provider, &world, "viewer"));
    assert_eq!(dashboard(&world, &token).await.status, 200);
    let (provisioning, org) = (world.service.provisioning(), world.org().id);
    let removed = provisioning.remove_member(org, world.org().members.viewer.id);
    removed.await.expect("removed");
    assert_eq!(rejection(&world, &token).await, "no member has this handle");
    let token = sign(&key, &claims(&provider, &world, "member"));
    assert_eq!(dashboard(&world, &token).await.status, 200);
    world.pass(Duration::from_secs(361));
    let time = "the access token has expired, or is from the future";
    assert_eq!(rejection(&world, &token).await, time);
}

#[tokio::test]
async fn access_tokens_are_for_people_and_for_configured_servers() {
    let (provider, key, world) = accepting().await;
    let robot = NewMember::builder()
        .handle("robot.two")
        .name("Robot")
        .kind(MemberKind::ServiceAccount)
        .role(RoleRef::BuiltIn(BuiltInRole::Viewer))
        .build();
    let (provisioning, org) = (world.service.provisioning(), world.org().id);
    provisioning
        .create_member(org, &robot)
        .await
        .expect("a member");
    let token = sign(&key, &claims(&provider, &world, "robot.two"));
    let reason = rejection(&world, &token).await;
    assert_eq!(reason, "the member is a service account");
    // Nor does a person act for another one.
    let token = sign(&key, &claims(&provider, &world, "member"));
    let path = "/v1/workspaces".to_owned();
    let call = Call::new(http::Method::GET, path).bearer(&token);
    let call = call.header("Knowledge-Act-For", "user:viewer");
    assert_eq!(call.send_to(&world.base_url).await.status, 403);
    // A session is something else.
    let path = format!("/v1/orgs/{}/members", world.org().slug);
    let call = Call::new(http::Method::GET, path).bearer(&token);
    assert_eq!(call.send_to(&world.base_url).await.status, 401);
    // Without the setting, no token of the provider is accepted.
    let other = World::still(&provider.issuer, |_| {}).await;
    let token = sign(&key, &claims(&provider, &other, "viewer"));
    let unknown = "the credential is unknown, expired or revoked";
    assert_eq!(rejection(&other, &token).await, unknown);
}

#[tokio::test]
async fn access_token_is_unavailable_without_the_keys_of_the_provider() {
    let (provider, key, world) = accepting().await;
    provider.answer("/keys", 500, String::new());
    let token = sign(&key, &claims(&provider, &world, "viewer"));
    let answer = dashboard(&world, &token).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    // Tokens of the service do not depend on the provider.
    let own = dashboard(&world, &world.org().members.viewer.token).await;
    assert_eq!(own.status, 200);
}

#[tokio::test]
async fn certified_provider_issues_access_tokens_that_are_accepted() {
    let provider = CertifiedProvider::start();
    let world = World::new(&provider.issuer, |config| {
        config.access_token_audience = Some(AUDIENCE.to_owned());
    });
    let world = world.await;
    let person = NewMember::builder()
        .handle("knowledge")
        .name("Knowledge")
        .role(RoleRef::BuiltIn(BuiltInRole::Viewer))
        .build();
    let (provisioning, org) = (world.service.provisioning(), world.org().id);
    provisioning
        .create_member(org, &person)
        .await
        .expect("a member");
    let token = provider.access_token(AUDIENCE).await;
    let shown = dashboard(&world, &token).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    let other = provider.access_token("https://other.example.com").await;
    let reason = "the access token is for another audience";
    assert_eq!(rejection(&world, &other).await, reason);
}

#[tokio::test]
async fn assistants_find_the_provider_and_list_as_the_person() {
    let (provider, key, world) = accepting().await;
    let message = |token: Option<&str>| {
        let place = world.org().main.id;
        let call = Call::new(http::Method::POST, format!("/mcp?workspace={place}"));
        let call = call.header("mcp-protocol-version", "2025-11-25");
        let call = match token {
            Some(token) => call.bearer(token),
            None => call,
        };
        let params = json!({ "name": "list_memories", "arguments": {} });
        let message = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params,
        });
        call.json(&message).send_to(&world.base_url)
    };
    let challenge = message(None).await;
    let metadata = "/.well-known/oauth-protected-resource";
    let expected =
        format!("Bearer realm=\"knowledge\", resource_metadata=\"{PUBLIC_URL}{metadata}\"");
    assert_eq!(
        (
            challenge.status.as_u16(),
            challenge.header("www-authenticate")
        ),
        (401, &*expected)
    );
    for path in [metadata.to_owned(), format!("{metadata}/mcp")] {
        let found = Call::new(http::Method::GET, path)
            .send_to(&world.base_url)
            .await;
        let expected = json!({
            "resource": AUDIENCE, "authorization_servers": [provider.issuer],
            "scopes_supported": ["openid"], "bearer_methods_supported": ["header"],
        });
        assert_eq!((found.status.as_u16(), found.json()), (200, expected));
    }
    let token = sign(&key, &claims(&provider, &world, "member"));
    let listed = message(Some(&token)).await.json();
    let memories = &listed["result"]["structuredContent"]["memories"];
    assert_eq!(memories.as_array().map(Vec::len), Some(20), "{listed}");
    // Another operation names no metadata, and a server that accepts no access tokens has none.
    let other = dashboard(&world, "wkt_unknown").await;
    assert!(
        !other
            .header("www-authenticate")
            .contains("resource_metadata")
    );
    let world = World::still(&provider.issuer, |_| {}).await;
    let none = Call::new(http::Method::GET, metadata)
        .send_to(&world.base_url)
        .await;
    assert_eq!(
        (none.status.as_u16(), &none.json()["error"]),
        (404, &json!("not_found"))
    );
}
