//! The whole round with the certified provider, and how others could try to misuse it.

use std::time::Duration;

use http::Method;
use knowledge_core::model::Member;
use serde_json::json;
use url::Url;

use crate::browser::{Browser, CALLBACK, assert_refused, parameter, with};
use crate::provider::CertifiedProvider;
use crate::world::{PUBLIC_URL, World};
use knowledge_http_suite::client::Call;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Starts a provider and a server whose members sign in with it.
async fn start() -> (CertifiedProvider, World) {
    let provider = CertifiedProvider::start();
    let world = World::new(&provider.issuer, |_| {}).await;
    (provider, world)
}

#[tokio::test]
async fn member_signs_in_with_the_certified_provider() {
    let (_provider, world) = start().await;
    let mut browser = Browser::new(&world);
    let named = browser.get(&format!("{PUBLIC_URL}/auth/oidc")).await;
    assert_eq!(named.json(), json!({ "label": "Example & Sons" }));

    let authorization = browser.begin("#/handbook/members?status=active").await;
    assert_eq!(parameter(&authorization, "response_type"), "code");
    assert_eq!(parameter(&authorization, "code_challenge_method"), "S256");
    assert_eq!(
        parameter(&authorization, "scope"),
        "openid profile email groups"
    );
    assert!(browser.cookie("service_sign_in").is_some());
    let callback = browser.visit(&authorization, "account=viewer").await;
    let answer = browser.get(callback.as_str()).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let place = format!("{PUBLIC_URL}/#/handbook/members?status=active");
    assert_eq!(answer.header("location"), place);
    assert_eq!(answer.header("cache-control"), "no-store");

    // The cookies are as those of a login link, and the one of the sign-in is gone.
    let cookies = answer.headers.get_all("set-cookie").into_iter();
    let cookies: Vec<_> = cookies
        .map(|line| line.to_str().expect("visible ASCII"))
        .collect();
    let [session, cleared] = cookies[..] else {
        panic!("{cookies:?}");
    };
    let secret = session
        .strip_prefix("service_session=")
        .expect("the session");
    let (secret, attributes) = secret.split_once("; ").expect("attributes");
    let expected = "Path=/; Max-Age=604800; HttpOnly; SameSite=Lax; Secure";
    assert_eq!(attributes, expected);
    let expected = "service_sign_in=; Path=/auth/oidc; Max-Age=0; HttpOnly; SameSite=Lax; Secure";
    assert_eq!(cleared, expected);
    assert_eq!(browser.cookie("service_sign_in"), None);

    // The session is one of the member, and yields a token for operations.
    let found = browser.session().await;
    assert_eq!(found.json()["member"]["handle"], "viewer");
    let token = browser
        .send(Method::POST, &format!("{PUBLIC_URL}/auth/token"))
        .await;
    let token = token.json()["token"].as_str().expect("a token").to_owned();
    let call = Call::new(Method::GET, "/v1/workspaces").bearer(&token);
    assert_eq!(call.send_to(&world.base_url).await.status, 200);

    // A second sign-in creates another session.
    let again = browser.sign_in("viewer").await;
    assert_eq!(again.status, 303, "{again:?}");
    assert_eq!(again.header("location"), format!("{PUBLIC_URL}/"));
    assert_ne!(browser.cookie("service_session"), Some(secret));
}

#[tokio::test]
async fn callback_of_another_browser_is_refused() {
    let (_provider, world) = start().await;
    let before = world.credentials("viewer").await;
    let mut browser = Browser::new(&world);
    let authorization = browser.begin("").await;
    let callback = browser.visit(&authorization, "account=viewer").await;
    // Without the cookie: somebody else signs a victim in as themselves.
    assert_refused(&Browser::new(&world).get(callback.as_str()).await, 400);
    // With another cookie of the server.
    let mut other = Browser::new(&world);
    other.begin("").await;
    assert_refused(&other.get(callback.as_str()).await, 400);
    // With the right cookie and another state, or none.
    let mut wrong = browser.clone();
    let changed = with(
        &callback,
        "state",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    );
    assert_refused(&wrong.get(changed.as_str()).await, 400);
    assert!(
        wrong.cookie("service_sign_in").is_some(),
        "any page can lead to such a callback"
    );
    let mut wrong = browser.clone();
    assert_refused(
        &wrong.get(&format!("{PUBLIC_URL}{CALLBACK}?code=a")).await,
        400,
    );
    let mut wrong = browser.clone();
    let twice = format!("{callback}&state={}", parameter(&callback, "state"));
    assert_refused(&wrong.get(&twice).await, 400);
    // With a cookie that somebody has changed.
    let sealed = browser
        .cookie("service_sign_in")
        .expect("the cookie")
        .to_owned();
    for forged in ["AAAA", &sealed[4..], "", &format!("{sealed}x")] {
        let mut wrong = browser.clone();
        wrong.set_cookie("service_sign_in", Some(forged));
        assert_refused(&wrong.get(callback.as_str()).await, 400);
    }
    assert_eq!(world.credentials("viewer").await, before);
    // The browser itself still completes it.
    assert_eq!(browser.get(callback.as_str()).await.status, 303);
}

#[tokio::test]
async fn code_works_once() {
    let (_provider, world) = start().await;
    let mut browser = Browser::new(&world);
    let authorization = browser.begin("").await;
    let callback = browser.visit(&authorization, "account=viewer").await;
    // Somebody has copied the cookie and the address.
    let mut copy = browser.clone();
    assert_eq!(browser.get(callback.as_str()).await.status, 303);
    let sessions = world.credentials("viewer").await;
    assert_refused(&browser.get(callback.as_str()).await, 400);
    assert_refused(&copy.get(callback.as_str()).await, 400);
    assert_eq!(world.credentials("viewer").await, sessions);
}

#[tokio::test]
async fn code_of_another_sign_in_is_refused() {
    let (_provider, world) = start().await;
    let mut victim = Browser::new(&world);
    let stolen = victim.begin("").await;
    let stolen = victim.visit(&stolen, "account=owner").await;
    // The thief has begun a sign-in too, whose verifier is another (PKCE).
    let mut thief = Browser::new(&world);
    let own = thief.begin("").await;
    let own = thief.visit(&own, "account=viewer").await;
    let injected = with(&own, "code", &parameter(&stolen, "code"));
    assert_refused(&thief.get(injected.as_str()).await, 400);
    assert_eq!(thief.cookie("service_session"), None);
}

#[tokio::test]
async fn id_token_with_another_nonce_is_refused() {
    let (_provider, world) = start().await;
    let mut browser = Browser::new(&world);
    let authorization = with(&browser.begin("").await, "nonce", "another");
    let callback = browser.visit(&authorization, "account=viewer").await;
    assert_refused(&browser.get(callback.as_str()).await, 502);
}

#[tokio::test]
async fn sign_in_ends_after_ten_minutes() {
    let (_provider, world) = start().await;
    let mut browser = Browser::new(&world);
    let authorization = browser.begin("").await;
    let callback = browser.visit(&authorization, "account=viewer").await;
    world.pass(10 * MINUTE);
    assert_refused(&browser.get(callback.as_str()).await, 400);
}

#[tokio::test]
async fn session_expires_when_idle_and_in_any_case() {
    let (_provider, world) = start().await;
    let [mut idle, mut used] = [Browser::new(&world), Browser::new(&world)];
    assert_eq!(idle.sign_in("viewer").await.status, 303);
    assert_eq!(used.sign_in("viewer").await.status, 303);
    // Without a use a session ends after twelve hours, to within an hour.
    world.pass(11 * HOUR);
    assert_eq!(idle.session().await.status, 200);
    assert_eq!(used.session().await.status, 200);
    for hours in (22..7 * 24).step_by(11) {
        world.pass(11 * HOUR);
        assert_eq!(used.session().await.status, 200, "{hours} hours");
    }
    assert_eq!(idle.session().await.status, 401);
    // The other one ends after a week, although it is used.
    world.pass(4 * HOUR);
    assert_eq!(used.session().await.status, 401);
}

#[tokio::test]
async fn cancelled_sign_in_shows_nothing_of_the_provider() {
    let (_provider, world) = start().await;
    let mut browser = Browser::new(&world);
    let authorization = browser.begin("").await;
    let callback = browser.visit(&authorization, "cancel=").await;
    let description = parameter(&callback, "error_description");
    assert!(description.contains("<script>"), "{description}");
    let answer = browser.get(callback.as_str()).await;
    assert_refused(&answer, 403);
    let page = String::from_utf8(answer.body.to_vec()).expect("UTF-8");
    assert!(
        !page.contains("script") && !page.contains("access_denied"),
        "{page}"
    );
    // Neither can others put markup there.
    browser.begin("").await;
    let callback = format!("{PUBLIC_URL}{CALLBACK}?error=<b>&error_description=<b>&state=<b>");
    let answer = browser.get(&callback).await;
    assert_refused(&answer, 400);
    let page = String::from_utf8(answer.body.to_vec()).expect("UTF-8");
    assert!(!page.contains("<b>"), "{page}");
}

#[tokio::test]
async fn any_server_over_one_store_completes_a_sign_in() {
    let (_provider, world) = start().await;
    let twin = world.twin().await;
    let mut browser = Browser::new(&world);
    let authorization = browser.begin("").await;
    let callback = browser.visit(&authorization, "account=viewer").await;
    browser.reach(&twin);
    assert_eq!(browser.get(callback.as_str()).await.status, 303);
    browser.reach(&world);
    assert_eq!(browser.session().await.status, 200);
}

#[tokio::test]
async fn people_who_are_no_members_are_refused() {
    let (mut provider, world) = start().await;
    provider.set(
        "grace",
        &json!({ "name": "Grace", "groups": ["engineering"] }),
    );
    let mut browser = Browser::new(&world);
    assert_refused(&browser.sign_in("grace").await, 403);
    assert_eq!(world.member("grace").await, None);
    // A program does not sign in on a page.
    assert_refused(&Browser::new(&world).sign_in("robot").await, 403);
    // A removed member is none, and is not added again.
    let Member { id, .. } = world.member("guest").await.expect("the guest");
    let mut guest = Browser::new(&world);
    assert_eq!(guest.sign_in("guest").await.status, 303);
    let provisioning = world.service.provisioning();
    let removed = provisioning.remove_member(world.org().id, id).await;
    removed.expect("removed");
    assert_eq!(guest.session().await.status, 401);
    assert_refused(&guest.sign_in("guest").await, 403);
}

#[tokio::test]
async fn return_leads_to_the_console_only() {
    let (_provider, world) = start().await;
    let mut browser = Browser::new(&world);
    for place in [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "/",
        "#@evil.example",
        "#/a\r\nLocation: https://evil.example",
        "#/login/wkl_1_ab",
    ] {
        let mut start = Url::parse(&format!("{PUBLIC_URL}/auth/oidc/start")).expect("a URL");
        start.query_pairs_mut().append_pair("return_to", place);
        assert_refused(&browser.get(start.as_str()).await, 400);
        assert_eq!(browser.cookie("service_sign_in"), None, "{place}");
    }
}
