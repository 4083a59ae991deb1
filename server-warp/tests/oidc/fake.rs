//! A provider in this process, which says whatever a test wants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use knowledge_core::model::Timestamp;
use knowledge_server::net::{NetConfig, Rejection, Responder, Server};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use url::Url;

use crate::browser::{Browser, CALLBACK, parameter};
use crate::client::Answer;
use crate::world::{CLIENT_ID, PUBLIC_URL};

/// Status of an answer that never arrives.
pub(crate) const NEVER: u16 = 0;

/// A pair of keys for signatures.
pub(crate) enum Key {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Key {
    pub(crate) fn ecdsa() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random);
        Self::Ecdsa(pair.expect("a key"))
    }

    pub(crate) fn ed25519() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref());
        Self::Ed25519(pair.expect("a key"))
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Self::Ecdsa(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    pub(crate) fn public(&self) -> &[u8] {
        match self {
            Self::Ecdsa(pair) => pair.public_key().as_ref(),
            Self::Ed25519(pair) => pair.public_key().as_ref(),
        }
    }

    /// Returns the public key as a JWK (RFC 7517).
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let public = self.public();
        match self {
            Self::Ecdsa(_) => json!({
                "kty": "EC", "crv": "P-256", "use": "sig", "kid": kid,
                "x": encode(&public[1..33]), "y": encode(&public[33..]),
            }),
            Self::Ed25519(_) => json!({
                "kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": kid, "x": encode(public),
            }),
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
        let signature = match self {
            Self::Ecdsa(pair) => {
                let signed = pair.sign(&SystemRandom::new(), bytes).expect("a signature");
                signed.as_ref().to_vec()
            }
            Self::Ed25519(pair) => pair.sign(bytes).as_ref().to_vec(),
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
    key_requests: usize,
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
        let found = {
            let mut state = self.state();
            match request.uri().path() {
                "/keys" => state.key_requests += 1,
                "/token" => {
                    let authorization = request.headers().get("authorization");
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
                    let credentials = authorization.map(|value| text(value.as_bytes()));
                    let asked = (credentials.unwrap_or_default(), text(request.body()));
                    state.token_requests.push(asked);
                }
                _ => {}
            }
            state.answers.get(request.uri().path()).cloned()
        };
        let (status, body) = found.unwrap_or((404, String::new()));
        if status == NEVER {
            std::future::pending::<()>().await;
        }
        let response = Response::builder().status(status).body(body.into());
        response.expect("a response")
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
        self.fake.state().key_requests
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

    /// Makes the token endpoint answer with this ID token, and returns from the provider.
    pub(crate) async fn answer_with(
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
