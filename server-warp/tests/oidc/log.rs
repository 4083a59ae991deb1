//! The log of sign-ins, each on the one thread that the test captures.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing::Level;

use crate::browser::{Browser, parameter};
use crate::fake::{FakeProvider, Key};
use crate::world::{CLIENT_SECRET, PUBLIC_URL, World};

/// The captured log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Captures the log of this thread, until the guard is dropped.
    fn capture() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(Level::DEBUG)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        let text = self.0.lock().expect("no panic").clone();
        String::from_utf8(text).expect("UTF-8")
    }
}

#[tokio::test]
async fn log_names_whose_access_a_sign_in_changes() {
    let provider = FakeProvider::start().await;
    let key = Key::ecdsa();
    provider.publish_keys(&[key.jwk("a")]);
    let world = World::still(&provider.issuer, |config| {
        let groups = ["staff = team:staff", "leads = role:admin"];
        let groups = groups.map(|text| text.parse().expect("a grant"));
        config.groups = groups.into();
    });
    let world = world.await;
    provider.answer("/userinfo", 200, json!({ "sub": "viewer" }).to_string());
    let (log, _guard) = Log::capture();
    let mut browser = Browser::new(&world);
    for claims in [
        json!({ "groups": ["staff", "leads"] }),
        json!({}),
        json!({ "groups": ["others"] }),
    ] {
        let answer = provider
            .sign_in(&world, &mut browser, (&key, &claims))
            .await;
        assert_eq!(answer.status, 303, "{answer:?}");
    }
    let text = log.text();
    let lines = text.lines().filter(|line| line.contains("member=viewer"));
    let lines = lines.map(|line| line.split_once("admission: ").expect("a line").1);
    let lines: Vec<&str> = lines.collect();
    let expected = [
        r#"a sign-in has changed the teams of a member member=viewer teams="staff""#,
        r#"a sign-in has changed a role of a member member=viewer role="admin""#,
        "the provider does not state the claim of oidc.groups_claim; teams and roles stay as they \
         are member=viewer",
        r#"no item of oidc.groups has a group of the member member=viewer groups="others""#,
        r#"a sign-in has changed the teams of a member member=viewer teams="""#,
        r#"a sign-in has changed a role of a member member=viewer role="viewer""#,
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn log_has_both_issuers_and_the_endpoint_without_https() {
    let provider = FakeProvider::start().await;
    let world = World::still(&provider.issuer, |_| {}).await;
    let (log, _guard) = Log::capture();
    for (name, value, expected) in [
        (
            "issuer",
            "https://other.example",
            "issuer https://other.example, not of http://127.0.0.1",
        ),
        (
            "issuer",
            "https://a/{tenantid}/v2.0",
            "put the identifier of your tenant into oidc.issuer",
        ),
        (
            "token_endpoint",
            "http://a.example/t",
            "token_endpoint of the metadata is not https: http://a.example/t",
        ),
    ] {
        let mut metadata = provider.metadata();
        metadata[name] = json!(value);
        provider.publish(&metadata);
        let mut browser = Browser::new(&world);
        let answer = browser.get(&format!("{PUBLIC_URL}/auth/oidc/start")).await;
        assert_eq!(answer.status, 502, "{answer:?}");
        world.pass(std::time::Duration::from_secs(5));
        assert!(log.text().contains(expected), "{expected}: {}", log.text());
    }
}

#[tokio::test]
async fn log_has_no_secret_of_a_sign_in() {
    let (log, _guard) = Log::capture();
    let (provider, key, world) = FakeProvider::with_key().await;
    let mut secrets = vec![CLIENT_SECRET.to_owned(), "access-of-the-test".to_owned()];
    for (nonce, expected) in [(None, 303), (Some("another"), 502)] {
        let mut browser = Browser::new(&world);
        let authorization = browser.begin("").await;
        let sealed = browser.cookie("service_sign_in").expect("a cookie");
        secrets.push(sealed.to_owned());
        let mut claims = provider.claims("viewer", &authorization, world.now());
        if let Some(nonce) = nonce {
            claims["nonce"] = json!(nonce);
        }
        let token = key.sign("a", &claims);
        let tokens = json!({ "id_token": token, "access_token": "access-of-the-test" });
        provider.answer("/token", 200, tokens.to_string());
        let parameters = [("code", "code-of-the-test")];
        let answer = provider
            .return_to(&mut browser, &authorization, &parameters)
            .await;
        assert_eq!(answer.status, expected, "{answer:?}");
        secrets.extend(["state", "nonce"].map(|name| parameter(&authorization, name)));
        secrets.extend(browser.cookie("service_session").map(str::to_owned));
        secrets.extend(["code-of-the-test".to_owned(), token]);
        let (_, form) = provider.token_requests().pop().expect("a request");
        let mut form = url::form_urlencoded::parse(form.as_bytes());
        let verifier = form.find(|(name, _)| name == "code_verifier");
        secrets.push(verifier.expect("a verifier").1.into_owned());
    }
    let text = log.text();
    assert!(
        text.contains("signing in with OpenID Connect failed"),
        "{text}"
    );
    assert_eq!(secrets.len(), 15);
    for secret in secrets {
        assert!(!text.contains(&secret), "{secret} in {text}");
    }
}
