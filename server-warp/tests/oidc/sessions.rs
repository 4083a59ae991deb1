//! Sign-ins and sessions of one browser: several of them, and others that interfere.

use serde_json::json;

use crate::browser::{Browser, CALLBACK, assert_refused};
use crate::fake::FakeProvider;
use crate::world::PUBLIC_URL;

#[tokio::test]
async fn other_pages_cannot_cancel_a_sign_in() {
    let (provider, key, world) = FakeProvider::with_key().await;
    let mut browser = Browser::new(&world);
    let authorization = browser.begin("").await;
    for query in ["", "?state=x&code=c", "?state=x&error=access_denied"] {
        let answer = browser.get(&format!("{PUBLIC_URL}{CALLBACK}{query}")).await;
        assert_refused(&answer, 400);
        assert!(answer.headers.get("set-cookie").is_none(), "{answer:?}");
    }
    let claims = provider.claims("viewer", &authorization, world.now());
    let token = key.sign("a", &claims);
    let answer = provider.respond(&mut browser, &authorization, &token).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert_eq!(browser.cookie("service_sign_in"), None);
}

#[tokio::test]
async fn last_of_two_tabs_completes_its_sign_in() {
    let (provider, key, world) = FakeProvider::with_key().await;
    let mut browser = Browser::new(&world);
    let first = browser.begin("").await;
    let second = browser.begin("").await;
    for (authorization, expected) in [(first, 400), (second, 303)] {
        let claims = provider.claims("viewer", &authorization, world.now());
        let token = key.sign("a", &claims);
        let answer = provider.respond(&mut browser, &authorization, &token).await;
        assert_eq!(answer.status, expected, "{answer:?}");
    }
}

#[tokio::test]
async fn failed_sign_in_is_used_up() {
    let (provider, _, world) = FakeProvider::with_key().await;
    let mut browser = Browser::new(&world);
    let authorization = browser.begin("").await;
    let parameters = [("error", "access_denied")];
    let answer = provider
        .return_to(&mut browser, &authorization, &parameters)
        .await;
    assert_refused(&answer, 403);
    assert_eq!(browser.cookie("service_sign_in"), None);
}

#[tokio::test]
async fn new_session_ends_the_one_that_it_replaces() {
    let (provider, key, world) = FakeProvider::with_key().await;
    let none = json!({});
    let [mut browser, mut other] = [Browser::new(&world), Browser::new(&world)];
    for browser in [&mut browser, &mut other] {
        let answer = provider.sign_in(&world, browser, (&key, &none)).await;
        assert_eq!(answer.status, 303, "{answer:?}");
    }
    let mut replaced = browser.clone();
    let refused = json!({ "nonce": "another" });
    let answer = provider.sign_in(&world, &mut browser, (&key, &refused));
    assert_refused(&answer.await, 502);
    assert_eq!(
        replaced.session().await.status,
        200,
        "a failure ends nothing"
    );
    let answer = provider.sign_in(&world, &mut browser, (&key, &none)).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert_eq!(replaced.session().await.status, 401);
    assert_eq!(browser.session().await.status, 200);
    assert_eq!(other.session().await.status, 200, "of another browser");
}
