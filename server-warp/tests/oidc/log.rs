//! The log of sign-ins, each on the one thread that the test captures.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing::Level;

use crate::browser::{Browser, parameter};
use crate::fake::FakeProvider;
use crate::world::CLIENT_SECRET;

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

#[tokio::test]
async fn log_has_no_secret_of_a_sign_in() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::DEBUG)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
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
    let text = log.0.lock().expect("no panic").clone();
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(
        text.contains("signing in with OpenID Connect failed"),
        "{text}"
    );
    assert_eq!(secrets.len(), 15);
    for secret in secrets {
        assert!(!text.contains(&secret), "{secret} in {text}");
    }
}
