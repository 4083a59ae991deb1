//! Providers that answer late or not at all, while time passes for the server.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use crate::browser::{Browser, assert_refused};
use crate::fake::{FakeProvider, Key, NEVER};
use crate::world::{PUBLIC_URL, World};
use knowledge_http_suite::client::Answer;

const DISCOVERY: &str = "/.well-known/openid-configuration";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

async fn start(browser: &mut Browser) -> Answer {
    browser.get(&format!("{PUBLIC_URL}/auth/oidc/start")).await
}

#[tokio::test]
async fn provider_that_never_answers_is_asked_once_by_all_sign_ins() {
    let provider = FakeProvider::start().await;
    let world = World::still(&provider.issuer, |config| {
        config.timeout = Duration::from_secs(1);
    });
    let world = world.await;
    provider.answer(DISCOVERY, NEVER, String::new());
    let [mut first, mut second] = [Browser::new(&world), Browser::new(&world)];
    let waiting = async {
        provider.is_asked(DISCOVERY, 1).await;
        // As long as the time-out by default, and longer than the pause after a failure.
        world.pass(Duration::from_secs(10));
    };
    let (one, other, ()) = tokio::join!(start(&mut first), start(&mut second), waiting);
    assert_refused(&one, 503);
    assert_refused(&other, 503);
    // The pause begins when the request has failed.
    assert_refused(&start(&mut first).await, 503);
    assert_eq!(provider.requests(DISCOVERY), 1);
    provider.publish(&provider.metadata());
    provider.publish_keys(&[]);
    world.pass(Duration::from_secs(5));
    assert_eq!(start(&mut first).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn sign_in_that_is_cut_off_does_not_take_the_result_with_it() {
    let provider = FakeProvider::start().await;
    let patience = Duration::from_millis(300);
    let world = World::impatient(&provider.issuer, patience, |config| {
        config.timeout = 4 * patience;
    });
    let world = world.await;
    provider.answer(DISCOVERY, NEVER, String::new());
    let mut browser = Browser::new(&world);
    for _ in 0..6 {
        assert_eq!(start(&mut browser).await.status, 503);
    }
    assert_eq!(provider.requests(DISCOVERY), 1);
}

#[tokio::test]
async fn id_token_may_be_issued_while_the_server_waits_for_it() {
    let (provider, key, world) = FakeProvider::with_key().await;
    let mut browser = Browser::new(&world);
    let authorization = browser.begin("").await;
    provider.answer("/token", NEVER, String::new());
    let answering = async {
        provider.is_asked("/token", 1).await;
        world.pass(2 * MINUTE);
        let claims = provider.claims("viewer", &authorization, world.now());
        let tokens = json!({ "id_token": key.sign("a", &claims) });
        provider.answer("/token", 200, tokens.to_string());
    };
    let parameters = [("code", "c")];
    let returning = provider.return_to(&mut browser, &authorization, &parameters);
    let (answer, ()) = tokio::join!(returning, answering);
    assert_eq!(answer.status, 303, "{answer:?}");
}

#[tokio::test]
async fn known_keys_are_used_for_a_day_without_newer_ones() {
    let (provider, key, world) = FakeProvider::with_key().await;
    let other = Key::ecdsa();
    let mut browser = Browser::new(&world);
    let none = json!({});
    let answer = provider.sign_in(&world, &mut browser, (&key, &none)).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    provider.answer(DISCOVERY, 500, String::new());
    for (time, asked) in [(HOUR, 2), (MINUTE / 2, 2), (MINUTE / 2, 3), (22 * HOUR, 4)] {
        world.pass(time);
        let answer = provider.sign_in(&world, &mut browser, (&key, &none)).await;
        assert_eq!(answer.status, 303, "{answer:?}");
        assert_eq!(provider.requests(DISCOVERY), asked);
    }
    // An unknown key leads to a request, whose failure affects nobody else.
    world.pass(MINUTE);
    let authorization = browser.begin("").await;
    let claims = provider.claims("viewer", &authorization, world.now());
    let unknown = other.sign("b", &claims);
    let answer = provider
        .respond(&mut browser, &authorization, &unknown)
        .await;
    assert_refused(&answer, 502);
    assert_eq!(provider.requests(DISCOVERY), 5);
    let answer = provider.sign_in(&world, &mut browser, (&key, &none)).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    world.pass(HOUR);
    assert_refused(&start(&mut browser).await, 503);
}
