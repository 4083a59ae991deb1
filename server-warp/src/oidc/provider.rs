//! Requests to the provider: discovery, keys, the exchange of codes, and claims about a person.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use jsonwebtoken::jwk::Jwk;
use knowledge_core::env::Env;
use knowledge_core::model::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::access_token;
use super::error::{SignInError, for_log};
use super::id_token::{Claims, Expected, InvalidToken, verify, verify_claims};
use super::settings::{Issuer, OidcConfig, OidcError, is_permitted_url};
use crate::http_client::{self, HttpClient, SendError, read_roots, system_roots};
use crate::private_file::read_secret;

/// Time for which metadata and keys are used without another request.
const FRESH: Duration = Duration::from_secs(60 * 60);
/// Time for which metadata and keys are used if the provider cannot be reached.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Minimum time between two requests for keys, however many ID tokens name unknown ones.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);
/// Time after a failure without another request to the provider.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Maximum size of a response of the provider.
const RESPONSE_BYTES_MAX: usize = 256 * 1_024;
/// Maximum number of keys that are used.
const KEYS_MAX: usize = 64;

/// Metadata of a provider (OpenID Connect Discovery 1.0), as far as it is used.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// Tokens for a code.
#[derive(Deserialize)]
pub(super) struct Tokens {
    pub(super) id_token: String,
    pub(super) access_token: Option<String>,
}

type Found = (Arc<Metadata>, Arc<[Jwk]>);

/// Metadata and keys last read from the provider.
#[derive(Debug)]
struct Known {
    found: Found,
    /// Time at which they had been read.
    at: Timestamp,
    /// Time at which the provider had last answered, or failed to.
    asked_at: Timestamp,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unknown,
    Known(Known),
    Failed {
        error: SignInError,
        at: Timestamp,
    },
}

impl State {
    /// Returns metadata and keys of at most this age, or the failure to read any; `None` if the
    /// provider is to be asked.
    fn current(&self, now: Timestamp, age_max: Duration) -> Option<Result<Found, SignInError>> {
        match self {
            Self::Known(Known {
                found,
                at,
                asked_at,
            }) => {
                let (age, pause) = (now.since(*at), now.since(*asked_at));
                let is_current = age < age_max || age < KEPT && pause < REFRESH_INTERVAL;
                is_current.then(|| Ok(found.clone()))
            }
            Self::Failed { error, at } => {
                let is_left_alone = now.since(*at) < RETRY_DELAY;
                is_left_alone.then(|| Err(repeated(error)))
            }
            Self::Unknown => None,
        }
    }

    /// Remembers the result of a request that has ended now. Without a newer result, the former one
    /// is used for a while.
    fn update(
        &mut self,
        result: Result<Found, SignInError>,
        now: Timestamp,
    ) -> Result<Found, SignInError> {
        match (result, &mut *self) {
            (Ok(found), state) => {
                *state = Self::Known(Known {
                    found: found.clone(),
                    at: now,
                    asked_at: now,
                });
                Ok(found)
            }
            (Err(error), Self::Known(known)) if now.since(known.at) < KEPT => {
                let reason = error.to_string();
                tracing::warn!(
                    reason,
                    "the keys of the OpenID Connect provider stay as they were"
                );
                known.asked_at = now;
                Ok(known.found.clone())
            }
            (Err(error), state) => {
                let returned = repeated(&error);
                *state = Self::Failed { error, at: now };
                Err(returned)
            }
        }
    }
}

/// Authorization code, with what proves that it was issued for this sign-in.
#[derive(Clone, Copy)]
pub(super) struct CodeGrant<'g> {
    pub(super) code: &'g str,
    pub(super) redirect_uri: &'g str,
    /// PKCE verifier (RFC 7636).
    pub(super) verifier: &'g str,
}

/// Returns a copy of the error of a request, for each sign-in that waits for the result.
fn repeated(error: &SignInError) -> SignInError {
    match error {
        SignInError::InvalidResponse(message) => SignInError::InvalidResponse(message.clone()),
        error => SignInError::Unavailable(error.to_string()),
    }
}

/// The configured provider.
pub(super) struct Provider {
    server: Arc<Server>,
    /// Held during a request to the provider, so that concurrent sign-ins share it.
    state: Arc<Mutex<State>>,
}

/// The provider as an HTTP server, and this server as its client.
pub(super) struct Server {
    issuer: Issuer,
    client_id: String,
    client_secret: Option<String>,
    client: HttpClient,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Provider");
        shown
            .field("issuer", &self.server.issuer)
            .finish_non_exhaustive()
    }
}

impl Provider {
    pub(super) fn new(
        issuer: Issuer,
        client_id: String,
        config: &OidcConfig,
    ) -> Result<Self, OidcError> {
        let client_secret = match &config.client_secret_file {
            Some(path) => Some(read_secret(path).map_err(OidcError::Secret)?),
            None => None,
        };
        let roots = match &config.ca_file {
            Some(path) => read_roots(path)?,
            None => system_roots(),
        };
        let client = http_client::builder(roots)
            .and_then(|builder| {
                HttpClient::new(builder, "oidc.ca_file", config.timeout, RESPONSE_BYTES_MAX)
            })
            .map_err(OidcError::Client)?;
        Ok(Self {
            server: Arc::new(Server {
                issuer,
                client_id,
                client_secret,
                client,
            }),
            state: Arc::default(),
        })
    }

    /// Returns the metadata of the provider.
    pub(super) async fn metadata(&self, env: &Env) -> Result<Arc<Metadata>, SignInError> {
        let found = self.known(env, FRESH).await?;
        Ok(found.0)
    }

    /// Returns metadata and keys that are not older than `age_max`; asks the provider for others.
    async fn known(&self, env: &Env, age_max: Duration) -> Result<Found, SignInError> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        if let Some(current) = state.current(env.now(), age_max) {
            return current;
        }
        let (server, env) = (Arc::clone(&self.server), env.clone());
        // In a task of its own: a sign-in that is cut off does not take the result with it.
        let asked = tokio::spawn(async move {
            let result = server.discover().await;
            state.update(result, env.now())
        });
        asked.await.unwrap_or_else(|error| {
            let message = format!("the request to the provider has ended: {error}");
            Err(SignInError::Unavailable(message))
        })
    }

    /// Verifies an ID token. One that names an unknown key leads to one more request for the keys,
    /// as the provider may have replaced them.
    pub(super) async fn verify(
        &self,
        token: &str,
        env: &Env,
        expected: &Expected<'_>,
    ) -> Result<Claims, SignInError> {
        let verified = self.verify_by(env, |keys| verify(token, keys, expected));
        let verified = verified.await?;
        verified.map_err(|error| SignInError::InvalidResponse(error.to_string()))
    }

    /// Verifies an access token, as [`Self::verify`] does an ID token.
    ///
    /// # Errors
    /// If the keys of the provider cannot be had; within that, the reason to reject the token.
    pub(super) async fn verify_access_token(
        &self,
        token: &str,
        audience: &str,
        env: &Env,
    ) -> Result<Result<Claims, InvalidToken>, SignInError> {
        let issuer = self.server.issuer.as_str();
        let verify = |keys: &[Jwk]| {
            let now = env.now();
            let expected = access_token::Expected {
                issuer,
                audience,
                now,
            };
            access_token::verify(token, keys, &expected)
        };
        self.verify_by(env, verify).await
    }

    /// Verifies a token by the keys of the provider, and again by newer ones if they lack its key.
    async fn verify_by(
        &self,
        env: &Env,
        verify: impl Fn(&[Jwk]) -> Result<Claims, InvalidToken>,
    ) -> Result<Result<Claims, InvalidToken>, SignInError> {
        let (_, keys) = self.known(env, FRESH).await?;
        Ok(match verify(&keys) {
            Err(InvalidToken::UnknownKey) => {
                let (_, keys) = self.known(env, REFRESH_INTERVAL).await?;
                verify(&keys)
            }
            verified => verified,
        })
    }

    /// Adds the claims of the userinfo endpoint to those of an ID token, which take precedence.
    ///
    /// A response that is a JWT is verified like an ID token (OpenID Connect Core 1.0, section
    /// 5.3.2): by the keys of the provider, and for this issuer and client where it names them.
    pub(super) async fn add_user_info(
        &self,
        metadata: &Metadata,
        access_token: Option<&str>,
        claims: Claims,
        env: &Env,
    ) -> Result<Claims, SignInError> {
        let server = &self.server;
        let Some(response) = server.user_info(metadata, access_token).await? else {
            return Ok(claims);
        };
        let further = if is_jwt(&response) {
            let token = std::str::from_utf8(response.body())
                .unwrap_or_default()
                .trim();
            let verify = |keys: &[Jwk]| verify_claims(token, keys, |_| true);
            let verified = self.verify_by(env, verify).await?;
            let further = verified.map_err(|error| {
                invalid(&format!("the userinfo of the provider is a JWT: {error}"))
            })?;
            let is_ours = |name: &str, own: &str| match further.get(name) {
                None => true,
                Some(Value::Array(all)) => all.iter().any(|one| one == own),
                Some(one) => one == own,
            };
            if !is_ours("iss", &metadata.issuer) || !is_ours("aud", &server.client_id) {
                return Err(invalid(
                    "the userinfo is of another issuer, or for another client",
                ));
            }
            further
        } else {
            parse(&response, "userinfo")?
        };
        merged(claims, further)
    }

    /// Returns the server of the provider, for requests about one person.
    pub(super) fn server(&self) -> &Server {
        &self.server
    }
}

impl Server {
    async fn discover(&self) -> Result<Found, SignInError> {
        #[derive(Deserialize)]
        struct KeySet {
            keys: Vec<Value>,
        }

        let metadata: Metadata = self.get(&self.issuer.discovery_url(), "metadata").await?;
        if metadata.issuer != self.issuer.as_str() {
            let (stated, configured) = (shown(&metadata.issuer), self.issuer.as_str());
            let hint = if stated.contains('{') {
                "put the identifier of your tenant into oidc.issuer"
            } else {
                "set oidc.issuer to what the provider states, if it is yours"
            };
            let message =
                format!("the metadata is of the issuer {stated}, not of {configured}; {hint}");
            return Err(invalid(&message));
        }
        let endpoints = [
            (
                "authorization_endpoint",
                Some(&metadata.authorization_endpoint),
            ),
            ("token_endpoint", Some(&metadata.token_endpoint)),
            ("jwks_uri", Some(&metadata.jwks_uri)),
            ("userinfo_endpoint", metadata.userinfo_endpoint.as_ref()),
        ];
        for (name, url) in endpoints {
            if let Some(url) = url.filter(|url| !is_permitted_url(url)) {
                let message = format!("{name} of the metadata is not https: {}", shown(url));
                return Err(invalid(&message));
            }
        }
        let set: KeySet = self.get(&metadata.jwks_uri, "keys").await?;
        // A key of an unknown kind does not make the others invalid.
        let keys = set.keys.into_iter().take(KEYS_MAX);
        let keys = keys.filter_map(|key| serde_json::from_value(key).ok());
        Ok((Arc::new(metadata), keys.collect()))
    }

    /// Exchanges a code for tokens (RFC 6749, section 4.1.3).
    pub(super) async fn exchange(
        &self,
        metadata: &Metadata,
        grant: CodeGrant<'_>,
    ) -> Result<Tokens, SignInError> {
        #[derive(Deserialize)]
        struct Refusal {
            error: String,
        }

        let request = self.token_request(metadata, grant);
        let response = self.send(request).await?;
        if response.status().is_success() {
            return parse(&response, "token response");
        }
        let refusal = serde_json::from_slice::<Refusal>(response.body());
        match refusal.as_ref().map(|refusal| refusal.error.as_str()) {
            Ok("invalid_grant") => Err(SignInError::InvalidCode),
            Ok(error) => {
                let error = for_log(error);
                Err(invalid(&format!("the token endpoint refuses: {error}")))
            }
            Err(_) => Err(unexpected(response.status())),
        }
    }

    fn token_request(
        &self,
        metadata: &Metadata,
        grant: CodeGrant<'_>,
    ) -> http::Result<Request<Bytes>> {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", grant.code)
            .append_pair("redirect_uri", grant.redirect_uri)
            .append_pair("code_verifier", grant.verifier);
        let mut request = Request::post(&metadata.token_endpoint)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let methods = &metadata.token_endpoint_auth_methods_supported;
        let takes = |method: &str| methods.iter().any(|found| found == method);
        match &self.client_secret {
            // The default of the specification.
            Some(secret) if methods.is_empty() || takes("client_secret_basic") => {
                request = request.header(AUTHORIZATION, self.basic(secret));
            }
            Some(secret) => {
                form.append_pair("client_id", &self.client_id)
                    .append_pair("client_secret", secret);
            }
            None => {
                form.append_pair("client_id", &self.client_id);
            }
        }
        request.body(Bytes::from(form.finish()))
    }

    /// Returns the credentials of the client as RFC 6749, section 2.3.1, encodes them.
    fn basic(&self, secret: &str) -> HeaderValue {
        let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", encode(&self.client_id), encode(secret));
        let value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)));
        let mut value = value.expect("base64 is visible ASCII");
        value.set_sensitive(true);
        value
    }

    /// Returns the response of the userinfo endpoint; `None` if there is none to ask.
    async fn user_info(
        &self,
        metadata: &Metadata,
        access_token: Option<&str>,
    ) -> Result<Option<Response<Bytes>>, SignInError> {
        let (Some(url), Some(token)) = (&metadata.userinfo_endpoint, access_token) else {
            return Ok(None);
        };
        let request = Request::get(url)
            .header(ACCEPT, "application/json")
            .header(AUTHORIZATION, format!("Bearer {token}"))
            .body(Bytes::new());
        let response = self.send(request).await?;
        if response.status().is_success() {
            Ok(Some(response))
        } else {
            Err(unexpected(response.status()))
        }
    }

    async fn get<T: DeserializeOwned>(&self, url: &str, what: &str) -> Result<T, SignInError> {
        let request = Request::get(url).header(ACCEPT, "application/json");
        let response = self.send(request.body(Bytes::new())).await?;
        match response.status() {
            StatusCode::OK => parse(&response, what),
            status => Err(unexpected(status)),
        }
    }

    async fn send(
        &self,
        request: http::Result<Request<Bytes>>,
    ) -> Result<Response<Bytes>, SignInError> {
        let request = request.map_err(|_| invalid("the metadata has an invalid endpoint"))?;
        let sent = self.client.try_send(request).await;
        sent.map_err(|problem| match problem {
            SendError::TooLarge(_) => invalid(&format!("the provider: {problem}")),
            SendError::NoResponse(problem) => {
                let issuer = self.issuer.as_str();
                SignInError::Unavailable(format!("{issuer} cannot be reached: {problem}"))
            }
        })
    }
}

/// Adds the claims of the userinfo to those of an ID token.
///
/// # Errors
/// [`SignInError::InvalidResponse`] if they are of another person (OpenID Connect Core 1.0, section
/// 5.3.2).
fn merged(mut claims: Claims, further: Claims) -> Result<Claims, SignInError> {
    if further.get("sub") != claims.get("sub") {
        return Err(invalid("the userinfo is of another person"));
    }
    // The verification is of the address in the same document only.
    let is_stated = claims.contains_key("email");
    let is_other = is_stated && claims.get("email") != further.get("email");
    if !is_stated {
        claims.remove("email_verified");
    }
    for (name, value) in further {
        if !(is_other && name == "email_verified") {
            claims.entry(name).or_insert(value);
        }
    }
    Ok(claims)
}

fn is_jwt(response: &Response<Bytes>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/jwt")
}

/// Returns a text of the provider for a message to the operator, who compares it with the
/// configuration.
fn shown(text: &str) -> String {
    text.chars()
        .take(256)
        .flat_map(char::escape_debug)
        .collect()
}

fn parse<T: DeserializeOwned>(response: &Response<Bytes>, what: &str) -> Result<T, SignInError> {
    let parsed = serde_json::from_slice(response.body());
    parsed.map_err(|_| invalid(&format!("the {what} of the provider cannot be read")))
}

fn invalid(message: &str) -> SignInError {
    SignInError::InvalidResponse(message.to_owned())
}

fn unexpected(status: StatusCode) -> SignInError {
    let message = format!("the provider answers {status}");
    if status.is_server_error() {
        SignInError::Unavailable(message)
    } else {
        SignInError::InvalidResponse(message)
    }
}
