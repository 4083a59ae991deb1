//! ID tokens that no certified provider issues, and the keys that they are signed with.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};

use crate::browser::{Browser, assert_refused};
use crate::fake::{FakeProvider, Key, message};
use crate::world::{CLIENT_ID, World};

/// Changes one claim, or takes it away.
fn changed(claims: &Value, name: &str, value: Value) -> Value {
    let mut claims = claims.clone();
    let fields = claims.as_object_mut().expect("an object");
    match value {
        Value::Null => fields.remove(name),
        value => fields.insert(name.to_owned(), value),
    };
    claims
}

#[tokio::test]
async fn id_tokens_of_each_algorithm_are_accepted() {
    let provider = FakeProvider::start().await;
    let world = World::still(&provider.issuer, |_| {}).await;
    let keys = Key::of_each_algorithm();
    assert_eq!(keys.len(), 9);
    let unknown = json!({ "kty": "secret", "kid": "a" });
    let other = json!({ "kty": "RSA", "alg": "RSA-OAEP", "use": "enc", "n": "AQAB", "e": "AQAB" });
    let mut published = vec![unknown, other];
    published.extend(keys.iter().map(|key| key.jwk(key.algorithm())));
    provider.publish_keys(&published);
    for key in &keys {
        let kid = key.algorithm();
        let (mut browser, authorization, claims) = provider.begin(&world).await;
        for claims in [
            claims.clone(),
            changed(&claims, "aud", json!([CLIENT_ID])),
            changed(
                &changed(&claims, "aud", json!([CLIENT_ID, "other"])),
                "azp",
                json!(CLIENT_ID),
            ),
        ] {
            let mut browser = browser.clone();
            let token = key.sign(kid, &claims);
            let answer = provider.respond(&mut browser, &authorization, &token).await;
            assert_eq!(answer.status, 303, "{claims} {answer:?}");
        }
        // Without the name of the key, all that may have signed are tried.
        let header = json!({ "alg": key.algorithm(), "typ": "JWT" });
        let token = key.sign_with(&header, &claims);
        let answer = provider.respond(&mut browser, &authorization, &token).await;
        assert_eq!(answer.status, 303, "{answer:?}");
    }
    assert_eq!(provider.key_requests(), 1);
}

#[tokio::test]
async fn id_tokens_with_other_claims_are_refused() {
    let (provider, key, world) = FakeProvider::with_key().await;
    let (mut browser, authorization, claims) = provider.begin(&world).await;
    let now = world.now().as_seconds();
    let before = world.credentials("viewer").await;
    for (name, value) in [
        ("nonce", json!("another")),
        ("nonce", Value::Null),
        ("iss", json!("https://evil.example")),
        ("iss", json!([provider.issuer])),
        ("iss", json!(format!("{}/", provider.issuer))),
        ("iss", Value::Null),
        ("aud", json!("another")),
        ("aud", json!([])),
        ("aud", json!([CLIENT_ID, "another"])),
        ("aud", Value::Null),
        ("azp", json!("another")),
        ("exp", json!(now - 61)),
        ("exp", json!("never")),
        ("exp", Value::Null),
        ("exp", json!(1e300)),
        ("exp", json!(-1)),
        ("iat", json!(-1)),
        ("iat", json!(now + 120)),
        ("iat", Value::Null),
        ("nbf", json!(now + 120)),
        ("sub", json!("")),
        ("sub", json!(7)),
        ("sub", json!("x".repeat(256))),
        ("sub", Value::Null),
    ] {
        let mut browser = browser.clone();
        let token = key.sign("a", &changed(&claims, name, value.clone()));
        let answer = provider.respond(&mut browser, &authorization, &token).await;
        assert_refused(&answer, 502);
    }
    assert_eq!(world.credentials("viewer").await, before);
    let token = key.sign("a", &claims);
    let answer = provider.respond(&mut browser, &authorization, &token).await;
    assert_eq!(answer.status, 303, "{answer:?}");
}

#[tokio::test]
async fn id_tokens_with_other_signatures_are_refused() {
    let provider = FakeProvider::start().await;
    let world = World::still(&provider.issuer, |_| {}).await;
    let (key, other) = (Key::ecdsa(), Key::ecdsa());
    let jwk = key.jwk("a");
    provider.publish_keys(std::slice::from_ref(&jwk));
    let (mut browser, authorization, claims) = provider.begin(&world).await;
    let good = key.sign("a", &claims);
    let unsigned = |algorithm: &str| message(&json!({ "alg": algorithm, "kid": "a" }), &claims);
    // Everybody knows the public key, in each of its spellings.
    let secrets = [key.public().to_vec(), jwk.to_string().into_bytes()];
    let forged = secrets.map(|secret| {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let message = unsigned("HS256");
        let tag = hmac::sign(&secret, message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag))
    });
    let (body, signature) = good.rsplit_once('.').expect("a signature");
    let mut tokens = vec![
        other.sign("a", &claims),
        other.sign("b", &claims),
        Key::ed25519().sign("a", &claims),
        format!("{}.", unsigned("none")),
        unsigned("none"),
        format!("{}.{signature}", unsigned("none")),
        format!("{}.{signature}", unsigned("ES384")),
        format!("{}.{signature}", unsigned("RS256")),
        format!("{body}."),
        format!("{body}.{}", &signature[2..]),
        format!("{good}.a"),
        key.sign_with(
            &json!({ "alg": "ES256", "kid": "a", "crit": ["exp"] }),
            &claims,
        ),
        // Other kinds of tokens, which the provider signs with the same key.
        key.sign_with(
            &json!({ "alg": "ES256", "kid": "a", "typ": "logout+jwt" }),
            &claims,
        ),
        key.sign_with(
            &json!({ "alg": "ES256", "kid": "a", "typ": "at+jwt" }),
            &claims,
        ),
        // A key that the token brings along is not trusted.
        other.sign_with(
            &json!({ "alg": "ES256", "jwk": other.jwk("c"), "kid": "c" }),
            &claims,
        ),
        other.sign_with(
            &json!({ "alg": "ES256", "jku": "http://127.0.0.1/", "kid": "c" }),
            &claims,
        ),
        String::new(),
        "a.b.c".to_owned(),
    ];
    tokens.extend(forged);
    let before = world.credentials("viewer").await;
    for token in tokens {
        let mut browser = browser.clone();
        let answer = provider.respond(&mut browser, &authorization, &token).await;
        assert_refused(&answer, 502);
    }
    assert_eq!(world.credentials("viewer").await, before);
    let answer = provider.respond(&mut browser, &authorization, &good).await;
    assert_eq!(answer.status, 303, "{answer:?}");
}

#[tokio::test]
async fn replaced_keys_are_requested_once_a_minute() {
    let provider = FakeProvider::start().await;
    let world = World::still(&provider.issuer, |_| {}).await;
    let (old, new) = (Key::ecdsa(), Key::ecdsa());
    provider.publish_keys(&[old.jwk("old")]);
    let (mut browser, authorization, claims) = provider.begin(&world).await;
    provider.publish_keys(&[new.jwk("new")]);
    let token = new.sign("new", &claims);
    for _ in 0..3 {
        let mut browser = browser.clone();
        let answer = provider.respond(&mut browser, &authorization, &token).await;
        assert_refused(&answer, 502);
    }
    assert_eq!(provider.key_requests(), 1);
    world.pass(Duration::from_secs(60));
    let answer = provider.respond(&mut browser, &authorization, &token).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert_eq!(provider.key_requests(), 2);
}

#[tokio::test]
async fn replaced_keys_without_names_are_requested_too() {
    let provider = FakeProvider::start().await;
    let world = World::still(&provider.issuer, |_| {}).await;
    let unnamed = |key: &Key| changed(&key.jwk("a"), "kid", Value::Null);
    let (old, new) = (Key::ecdsa(), Key::ecdsa());
    provider.publish_keys(&[unnamed(&old)]);
    let (mut browser, authorization, claims) = provider.begin(&world).await;
    provider.publish_keys(&[unnamed(&new)]);
    world.pass(Duration::from_secs(60));
    let token = new.sign_with(&json!({ "alg": "ES256" }), &claims);
    let answer = provider.respond(&mut browser, &authorization, &token).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert_eq!(provider.key_requests(), 2);
}

#[tokio::test]
async fn key_for_another_operation_verifies_nothing() {
    let provider = FakeProvider::start().await;
    let world = World::still(&provider.issuer, |_| {}).await;
    let key = Key::ecdsa();
    for (operations, expected) in [(json!(["encrypt"]), 502), (json!(["verify"]), 303)] {
        let jwk = changed(&key.jwk("a"), "use", Value::Null);
        provider.publish_keys(&[changed(&jwk, "key_ops", operations)]);
        let mut browser = Browser::new(&world);
        world.pass(Duration::from_secs(60 * 60));
        let none = json!({});
        let answer = provider.sign_in(&world, &mut browser, (&key, &none)).await;
        assert_eq!(answer.status, expected, "{answer:?}");
    }
}
