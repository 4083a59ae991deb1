//! A provider in this process, which says whatever a test wants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use knowledge_core::model::Timestamp;
use knowledge_server::net::{NetConfig, Rejection, Responder, Server};
use ring::rand::SystemRandom;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RsaEncoding, RsaKeyPair,
    RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use url::Url;

use crate::browser::{Browser, CALLBACK, parameter};
use crate::world::{CLIENT_ID, PUBLIC_URL, World};
use knowledge_http_suite::client::Answer;

/// Status of an answer that does not arrive before the test sets another one.
pub(crate) const NEVER: u16 = 0;

/// RSA key of 2,048 bits (PKCS #8), made for these tests and used nowhere else: ring generates none.
const RSA_TEST_KEY: &str = include_str!("rsa-test-key.base64");

/// A pair of keys for signatures by one algorithm.
pub(crate) struct Key {
    algorithm: &'static str,
    pair: Pair,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>, &'static dyn RsaEncoding),
}

impl Key {
    pub(crate) fn ecdsa() -> Self {
        Self::ecdsa_of("ES256", &ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    /// Returns a key for each algorithm that is permitted.
    pub(crate) fn of_each_algorithm() -> Vec<Self> {
        let encodings: [(&str, &'static dyn RsaEncoding); 6] = [
            ("RS256", &signature::RSA_PKCS1_SHA256),
            ("RS384", &signature::RSA_PKCS1_SHA384),
            ("RS512", &signature::RSA_PKCS1_SHA512),
            ("PS256", &signature::RSA_PSS_SHA256),
            ("PS384", &signature::RSA_PSS_SHA384),
            ("PS512", &signature::RSA_PSS_SHA512),
        ];
        let rsa = encodings.map(|(algorithm, encoding)| {
            let document = STANDARD.decode(RSA_TEST_KEY.replace('\n', ""));
            let pair = RsaKeyPair::from_pkcs8(&document.expect("base64")).expect("a key");
            let pair = Pair::Rsa(Box::new(pair), encoding);
            Self { algorithm, pair }
        });
        let mut keys = Vec::from(rsa);
        keys.push(Self::ecdsa());
        keys.push(Self::ecdsa_of("ES384", &ECDSA_P384_SHA384_FIXED_SIGNING));
        keys.push(Self::ed25519());
        keys
    }

    fn ecdsa_of(algorithm: &'static str, kind: &'static EcdsaSigningAlgorithm) -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random);
        let pair = Pair::Ecdsa(pair.expect("a key"));
        Self { algorithm, pair }
    }

    pub(crate) fn ed25519() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref());
        Self {
            algorithm: "EdDSA",
            pair: Pair::Ed25519(pair.expect("a key")),
        }
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        self.algorithm
    }

    pub(crate) fn public(&self) -> &[u8] {
        match &self.pair {
            Pair::Ecdsa(pair) => pair.public_key().as_ref(),
            Pair::Ed25519(pair) => pair.public_key().as_ref(),
            Pair::Rsa(pair, _) => pair.public_key().as_ref(),
        }
    }

    /// Returns the public key as a JWK (RFC 7517).
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let public = self.public();
        match &self.pair {
            Pair::Ecdsa(_) => {
                let (x, y) = public[1..].split_at(public.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({
                    "kty": "EC", "crv": curve, "use": "sig", "kid": kid,
                    "x": encode(x), "y": encode(y),
                })
            }
            Pair::Ed25519(_) => json!({
                "kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": kid, "x": encode(public),
            }),
            Pair::Rsa(pair, _) => {
                let parts = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({
                    "kty": "RSA", "use": "sig", "kid": kid,
                    "n": encode(&parts.n), "e": encode(&parts.e),
                })
            }
        }
    }

    /// Returns a JWT (RFC 7519).
    pub(crate) fn sign(&self, kid: &str, claims: &Value) -> String {
        let header = json!({ "alg": self.algorithm(), "kid": kid });
        self.sign_with(&header, claims)
    }

    pub(crate) fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let bytes = message.as_bytes();
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Ecdsa(pair) => {
                let signed = pair.sign(&random, bytes).expect("a signature");
                signed.as_ref().to_vec()
            }
            Pair::Ed25519(pair) => pair.sign(bytes).as_ref().to_vec(),
            Pair::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let signed = pair.sign(*encoding, &random, bytes, &mut signature);
                signed.expect("a signature");
                signature
            }
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Returns the signed part of a JWT.
pub(crate) fn message(header: &Value, claims: &Value) -> String {
    let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    format!("{}.{}", encode(header), encode(claims))
}

/// Answers of the provider, and what it was asked.
#[derive(Default)]
struct State {
    /// Statuses and bodies by path.
    answers: BTreeMap<&'static str, (u16, String)>,
    /// Numbers of requests by path.
    requests: BTreeMap<String, usize>,
    /// Credentials and form of each request for tokens.
    token_requests: Vec<(String, String)>,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<State>>);

impl Fake {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }
}

impl Responder for Fake {
    async fn respond(&self, request: Request<Bytes>) -> Response<Bytes> {
        let path = request.uri().path();
        {
            let mut state = self.state();
            *state.requests.entry(path.to_owned()).or_default() += 1;
            if path == "/token" {
                let authorization = request.headers().get("authorization");
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
                let credentials = authorization.map(|value| text(value.as_bytes()));
                let asked = (credentials.unwrap_or_default(), text(request.body()));
                state.token_requests.push(asked);
            }
        }
        let (status, body) = loop {
            let found = self.state().answers.get(path).cloned();
            let found = found.unwrap_or((404, String::new()));
            if found.0 != NEVER {
                break found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let mut response = Response::builder().status(status);
        if body.starts_with("ey") {
            response = response.header("content-type", "application/jwt; charset=utf-8");
        }
        response.body(body.into()).expect("a response")
    }

    fn reject(&self, _: &Method, _: &Uri, rejection: &Rejection) -> Response<Bytes> {
        panic!("the server sends valid requests: {rejection:?}")
    }

    async fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A running provider, which dropping stops.
pub(crate) struct FakeProvider {
    pub(crate) issuer: String,
    fake: Fake,
    task: JoinHandle<()>,
}

impl FakeProvider {
    /// Starts a provider with a key named `a`, and a server that signs in with it.
    pub(crate) async fn with_key() -> (Self, Key, World) {
        let provider = Self::start().await;
        let key = Key::ecdsa();
        provider.publish_keys(&[key.jwk("a")]);
        let world = World::still(&provider.issuer, |_| {}).await;
        (provider, key, world)
    }

    pub(crate) async fn start() -> Self {
        let fake = Fake::default();
        let net = NetConfig {
            address: "127.0.0.1:0".parse().expect("an address"),
            ..NetConfig::default()
        };
        let server = Server::bind(net, fake.clone()).await.expect("a port");
        let issuer = format!("http://{}", server.local_addr());
        let task = tokio::spawn(async move {
            server.run(std::future::pending()).await;
        });
        let provider = Self { issuer, fake, task };
        provider.publish(&provider.metadata());
        provider
    }

    /// Returns the usual metadata.
    pub(crate) fn metadata(&self) -> Value {
        let issuer = &self.issuer;
        json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize?tenant=a"),
            "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/keys"),
            "userinfo_endpoint": format!("{issuer}/userinfo"),
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        })
    }

    pub(crate) fn publish(&self, metadata: &Value) {
        let path = "/.well-known/openid-configuration";
        self.answer(path, 200, metadata.to_string());
    }

    pub(crate) fn publish_keys(&self, keys: &[Value]) {
        self.answer("/keys", 200, json!({ "keys": keys }).to_string());
    }

    /// Sets the answer at a path.
    pub(crate) fn answer(&self, path: &'static str, status: u16, body: String) {
        self.fake.state().answers.insert(path, (status, body));
    }

    /// Returns the number of requests for the keys.
    pub(crate) fn key_requests(&self) -> usize {
        self.requests("/keys")
    }

    /// Returns the number of requests for a path.
    pub(crate) fn requests(&self, path: &str) -> usize {
        let state = self.fake.state();
        state.requests.get(path).copied().unwrap_or_default()
    }

    /// Waits for this number of requests for a path.
    pub(crate) async fn is_asked(&self, path: &str, number: usize) {
        while self.requests(path) < number {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns the credentials and the form of each request for tokens.
    pub(crate) fn token_requests(&self) -> Vec<(String, String)> {
        self.fake.state().token_requests.clone()
    }

    /// Returns the claims that a provider states of a person for a sign-in.
    pub(crate) fn claims(&self, account: &str, authorization: &Url, now: Timestamp) -> Value {
        json!({
            "iss": self.issuer, "sub": account, "aud": CLIENT_ID, "name": "Grace Hopper",
            "iat": now.as_seconds(), "exp": now.as_seconds() + 60,
            "nonce": parameter(authorization, "nonce"),
        })
    }

    /// Begins a sign-in of the viewer, and returns it with the claims that complete it.
    pub(crate) async fn begin(&self, world: &World) -> (Browser, Url, Value) {
        let mut browser = Browser::new(world);
        let authorization = browser.begin("").await;
        let claims = self.claims("viewer", &authorization, world.now());
        (browser, authorization, claims)
    }

    /// Makes the token endpoint answer with this ID token, and returns from the provider.
    pub(crate) async fn respond(
        &self,
        browser: &mut Browser,
        authorization: &Url,
        id_token: &str,
    ) -> Answer {
        let tokens =
            json!({ "id_token": id_token, "access_token": "access", "token_type": "Bearer" });
        self.answer("/token", 200, tokens.to_string());
        self.return_to(browser, authorization, &[("code", "c")])
            .await
    }

    /// Signs the viewer in, of whom the provider states these further claims, and returns the
    /// response to the callback. The key is the one named `a`.
    pub(crate) async fn sign_in(
        &self,
        world: &World,
        browser: &mut Browser,
        (key, further): (&Key, &Value),
    ) -> Answer {
        let authorization = browser.begin("").await;
        let mut claims = self.claims("viewer", &authorization, world.now());
        let further = further.as_object().expect("an object").clone();
        claims.as_object_mut().expect("an object").extend(further);
        let token = key.sign("a", &claims);
        self.respond(browser, &authorization, &token).await
    }

    /// Returns from the provider with these parameters, and the state.
    pub(crate) async fn return_to(
        &self,
        browser: &mut Browser,
        authorization: &Url,
        parameters: &[(&str, &str)],
    ) -> Answer {
        let mut url = Url::parse(&format!("{PUBLIC_URL}{CALLBACK}")).expect("a URL");
        url.query_pairs_mut()
            .append_pair("state", &parameter(authorization, "state"))
            .extend_pairs(parameters);
        browser.get(url.as_str()).await
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.task.abort();
    }
}
