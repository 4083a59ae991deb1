//! Providers that are down, slow or broken, and what is sent to a working one.

use std::net::TcpListener;
use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::json;

use crate::browser::{Browser, assert_refused};
use crate::fake::{FakeProvider, Key, NEVER};
use crate::world::{CLIENT_ID, CLIENT_SECRET, PUBLIC_URL, World};
use knowledge_http_suite::client::Call;
use knowledge_http_suite::rows;

/// Time for a request, in tests in which one gets no answer.
const PATIENCE: Duration = Duration::from_secs(3);
const DISCOVERY: &str = "/.well-known/openid-configuration";

async fn start(browser: &mut Browser) -> knowledge_http_suite::client::Answer {
    browser.get(&format!("{PUBLIC_URL}/auth/oidc/start")).await
}

#[tokio::test]
async fn unreachable_provider_affects_sign_ins_only() {
    // Nothing listens at this port any more.
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
    let gone = format!("http://{}", gone.local_addr().expect("an address"));
    let world = World::still(&gone, |_| {}).await;
    let mut browser = Browser::new(&world);
    let answer = start(&mut browser).await;
    assert_refused(&answer, 503);
    assert_eq!(answer.header("retry-after"), "10");
    assert_eq!(browser.session().await.status, 401);
    let token = &world.org().members.viewer.token;
    let call = Call::new(Method::GET, "/v1/workspaces").bearer(token);
    assert_eq!(call.send_to(&world.base_url).await.status, 200);
    let label = browser.get(&format!("{PUBLIC_URL}/auth/oidc")).await;
    assert_eq!(label.status, 200, "{label:?}");
}

#[tokio::test]
async fn provider_is_asked_again_after_its_failure() {
    let provider = FakeProvider::start().await;
    let world = World::still(&provider.issuer, |config| {
        config.timeout = PATIENCE;
    });
    let world = world.await;
    provider.publish_keys(&[]);
    let metadata = provider.metadata();
    let mut browser = Browser::new(&world);
    let with = |name: &str, value: serde_json::Value| {
        let mut metadata = metadata.clone();
        metadata[name] = value;
        metadata.to_string()
    };
    for (status, body, expected) in rows! {
        (500, String::new(), 503),
        (NEVER, String::new(), 503),
        (302, String::new(), 502),
        (404, String::new(), 502),
        (200, " ".repeat(300 * 1_024), 502),
        (200, "<html>".to_owned(), 502),
        (200, with("issuer", json!("https://evil.example")), 502),
        (200, with("issuer", json!(format!("{}/", provider.issuer))), 502),
        (200, with("token_endpoint", json!("http://evil.example/token")), 502),
        (200, with("jwks_uri", json!("file:///etc/passwd")), 502),
        (200, with("authorization_endpoint", json!("javascript:alert(1)")), 502),
    } {
        provider.answer(DISCOVERY, status, body.clone());
        assert_refused(&start(&mut browser).await, expected);
        // For some seconds the provider is left alone.
        provider.publish(&metadata);
        assert_refused(&start(&mut browser).await, expected);
        world.pass(Duration::from_secs(5));
    }
    assert_eq!(start(&mut browser).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn broken_token_endpoint_signs_nobody_in() {
    let provider = FakeProvider::start().await;
    let world = World::still(&provider.issuer, |config| {
        config.timeout = PATIENCE;
    });
    let world = world.await;
    provider.publish_keys(&[Key::ecdsa().jwk("a")]);
    let error = |code: &str| json!({ "error": code }).to_string();
    for (status, body, expected) in [
        (400, error("invalid_grant"), 400),
        (401, error("invalid_client"), 502),
        (400, error("<script>"), 502),
        (500, "<html>".to_owned(), 503),
        (NEVER, String::new(), 503),
        (200, "{}".to_owned(), 502),
        (200, "[]".to_owned(), 502),
    ] {
        let mut browser = Browser::new(&world);
        let authorization = browser.begin("").await;
        provider.answer("/token", status, body);
        let answer = provider
            .return_to(&mut browser, &authorization, &[("code", "c")])
            .await;
        assert_refused(&answer, expected);
    }
    let mut browser = Browser::new(&world);
    let authorization = browser.begin("").await;
    assert_refused(
        &provider.return_to(&mut browser, &authorization, &[]).await,
        502,
    );
}

#[tokio::test]
async fn response_of_another_issuer_is_refused() {
    let (provider, key, world) = FakeProvider::with_key().await;
    let mut metadata = provider.metadata();
    metadata["authorization_response_iss_parameter_supported"] = json!(true);
    provider.publish(&metadata);
    let (mut browser, authorization, claims) = provider.begin(&world).await;
    let tokens = json!({ "id_token": key.sign("a", &claims) });
    provider.answer("/token", 200, tokens.to_string());
    let issuer = provider.issuer.clone();
    for parameters in [
        &[("code", "c")][..],
        &[("code", "c"), ("iss", "https://evil.example")],
        &[
            ("code", "c"),
            ("iss", &issuer),
            ("iss", "https://evil.example"),
        ],
    ] {
        let mut browser = browser.clone();
        let answer = provider
            .return_to(&mut browser, &authorization, parameters)
            .await;
        assert_refused(&answer, 502);
    }
    assert!(provider.token_requests().is_empty(), "no code is sent");
    let parameters = [("code", "c"), ("iss", issuer.as_str())];
    let answer = provider
        .return_to(&mut browser, &authorization, &parameters)
        .await;
    assert_eq!(answer.status, 303, "{answer:?}");
}

#[tokio::test]
async fn user_info_completes_the_claims_of_the_same_person() {
    let provider = FakeProvider::start().await;
    let world = World::still(&provider.issuer, |config| {
        config.groups = vec!["engineering = team:engines".parse().expect("a grant")];
    });
    let world = world.await;
    let key = Key::ecdsa();
    provider.publish_keys(&[key.jwk("a")]);
    let (mut browser, authorization, claims) = provider.begin(&world).await;
    let token = key.sign("a", &claims);
    for (status, body, expected) in rows! {
        (200, json!({ "sub": "owner", "groups": ["engineering"] }), 502),
        (200, json!({ "groups": ["engineering"] }), 502),
        (401, json!({}), 502),
        (503, json!({}), 503),
    } {
        let mut browser = browser.clone();
        provider.answer("/userinfo", status, body.to_string());
        let answer = provider.respond(&mut browser, &authorization, &token).await;
        assert_refused(&answer, expected);
    }
    assert!(!world.teams("viewer").await.contains("engines"));
    let body = json!({ "sub": "viewer", "groups": ["engineering"], "iss": "other" });
    provider.answer("/userinfo", 200, body.to_string());
    let answer = provider.respond(&mut browser, &authorization, &token).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert!(world.teams("viewer").await.contains("engines"));
}

#[tokio::test]
async fn client_authenticates_in_the_way_that_the_provider_accepts() {
    let key = Key::ecdsa();
    for (methods, is_secret, expected) in rows! {
        (Some(json!(["client_secret_post"])), true, "form"),
        (Some(json!(["client_secret_basic", "client_secret_post"])), true, "basic"),
        (None, true, "basic"),
        (None, false, "public"),
    } {
        let provider = FakeProvider::start().await;
        let world = World::still(&provider.issuer, |config| {
            if !is_secret {
                config.client_secret_file = None;
            }
        });
        let world = world.await;
        provider.publish_keys(&[key.jwk("a")]);
        let mut metadata = provider.metadata();
        let fields = metadata.as_object_mut().expect("an object");
        fields.remove("token_endpoint_auth_methods_supported");
        fields.extend(
            methods.map(|methods| ("token_endpoint_auth_methods_supported".to_owned(), methods)),
        );
        provider.publish(&metadata);
        let (mut browser, authorization, claims) = provider.begin(&world).await;
        let token = key.sign("a", &claims);
        let answer = provider.respond(&mut browser, &authorization, &token).await;
        assert_eq!(answer.status, 303, "{answer:?}");
        let [(credentials, form)] = &provider.token_requests()[..] else {
            panic!("one request for tokens");
        };
        let form: std::collections::BTreeMap<String, String> =
            url::form_urlencoded::parse(form.as_bytes())
                .into_owned()
                .collect();
        assert_eq!(form["grant_type"], "authorization_code");
        assert_eq!(form["code"], "c");
        let redirect_uri = format!("{PUBLIC_URL}/auth/oidc/callback");
        assert_eq!(form["redirect_uri"], redirect_uri);
        assert_eq!(form["code_verifier"].len(), 43);
        let sent = form.get("client_secret").map(String::as_str);
        match expected {
            "form" => assert_eq!((credentials.as_str(), sent), ("", Some(CLIENT_SECRET))),
            "basic" => {
                assert!(credentials.starts_with("Basic "), "{credentials}");
                assert_eq!((sent, form.contains_key("client_id")), (None, false));
            }
            _ => {
                assert_eq!((credentials.as_str(), sent), ("", None));
                assert_eq!(form["client_id"], CLIENT_ID);
            }
        }
    }
}

#[tokio::test]
async fn steps_are_taken_with_get_only() {
    let provider = FakeProvider::start().await;
    let world = World::still(&provider.issuer, |_| {}).await;
    let mut browser = Browser::new(&world);
    for path in ["/auth/oidc/start", "/auth/oidc/callback?code=c&state=s"] {
        for method in [Method::HEAD, Method::POST, Method::PUT, Method::DELETE] {
            let answer = browser.send(method, &format!("{PUBLIC_URL}{path}")).await;
            assert_eq!(answer.status, 405, "{answer:?}");
            assert_eq!(answer.header("allow"), "GET");
        }
    }
    let other = browser.get(&format!("{PUBLIC_URL}/auth/oidc/other")).await;
    assert_eq!(other.status, 404, "{other:?}");
}
