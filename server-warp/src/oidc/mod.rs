//! Sign-in with an OpenID Connect provider (OpenID Connect Core 1.0), by the authorization code flow
//! with PKCE (RFC 7636).
//!
//! - `settings`: the configuration. `groups`: what the groups of a person grant.
//! - `attempt`: a sign-in that a browser has begun, sealed in a cookie of the browser.
//! - `provider`: requests to the provider, for its metadata and keys, and for tokens.
//! - `id_token`: the verification of what it says about a person; `signature`: of its signature.
//! - `admission`: the member as which a person is signed in.
//! - `access_token`: the verification of access tokens, with which clients call the API.
//!
//! The routes are in [`auth`](crate::auth). A provider that cannot be reached fails the sign-ins
//! through it and nothing else: it is asked for its metadata by the first sign-in.

mod access_token;
mod admission;
mod attempt;
mod error;
mod groups;
mod id_token;
mod provider;
mod settings;
mod signature;

use std::sync::Arc;

use knowledge_core::api::VerifiedBearer;
use knowledge_core::service::{ClientInfo, Issued, KnowledgeService};
use serde::Serialize;
use url::Url;

pub(crate) use self::attempt::{ATTEMPT_LIFETIME, Attempt, ReturnTo};
pub(crate) use self::error::SignInError;
use self::error::for_log;
pub use self::groups::{Grant, GrantedRole, GroupGrant, InvalidGrant};
use self::id_token::Expected;
use self::provider::{CodeGrant, Provider};
pub use self::settings::{Issuer, OidcConfig, OidcError};

/// Path of the redirect URI, below the base URL of the server.
pub const CALLBACK_PATH: &str = "/auth/oidc/callback";

/// Client of an OpenID Connect provider, with the rules of who is signed in as which member.
#[derive(Clone, Debug)]
pub struct Oidc(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: OidcConfig,
    client_id: String,
    organization: String,
    provider: Provider,
}

/// A sign-in that begins: where to send the browser, and what it keeps meanwhile.
pub(crate) struct Begun {
    /// URL of the provider for the browser.
    pub(crate) authorization_url: String,
    /// Sealed state for a cookie.
    pub(crate) cookie: String,
}

/// A completed sign-in.
pub(crate) struct Completed {
    /// The new session.
    pub(crate) session: Issued,
    /// Place in the console at which the sign-in was begun.
    pub(crate) return_to: ReturnTo,
}

/// Parameters with which the provider sends a browser back (RFC 6749, RFC 9207).
#[derive(Default)]
pub(crate) struct CallbackParameters {
    pub(crate) state: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) iss: Option<String>,
}

impl CallbackParameters {
    /// Reads a query. A repeated parameter is as good as none (RFC 6749, section 3.1).
    pub(crate) fn parse(query: &str) -> Self {
        let single = |name: &str| {
            let pairs = url::form_urlencoded::parse(query.as_bytes());
            let mut values = pairs.filter(|(found, _)| found == name);
            match (values.next(), values.next()) {
                (Some((_, value)), None) => Some(value.into_owned()),
                _ => None,
            }
        };
        Self {
            state: single("state"),
            code: single("code"),
            error: single("error"),
            iss: single("iss"),
        }
    }
}

/// Metadata of a protected resource (RFC 9728, 2).
#[derive(Debug, Serialize)]
pub(crate) struct ResourceMetadata<'m> {
    resource: &'m str,
    authorization_servers: [&'m str; 1],
    /// What clients ask the provider for: without a scope, not every provider signs a person in.
    scopes_supported: [&'static str; 1],
    bearer_methods_supported: [&'static str; 1],
}

impl ResourceMetadata<'_> {
    /// Returns true if the resource is the endpoint for assistants, not the server as a whole.
    pub(crate) fn is_of_endpoint(&self) -> bool {
        self.resource.ends_with("/mcp")
    }
}

impl Oidc {
    /// Creates a client; returns `None` if no provider is configured. Sends no request.
    ///
    /// # Errors
    /// See [`OidcError`].
    pub fn new(config: &OidcConfig) -> Result<Option<Self>, OidcError> {
        let Some(issuer) = &config.issuer else {
            return Ok(None);
        };
        let required = |value: &Option<String>, setting| {
            let missing = OidcError::Missing { setting };
            value.clone().ok_or(missing)
        };
        let client_id = required(&config.client_id, "oidc.client_id")?;
        Ok(Some(Self(Arc::new(Inner {
            organization: required(&config.organization, "oidc.organization")?,
            provider: Provider::new(issuer.clone(), client_id.clone(), config)?,
            client_id,
            config: config.clone(),
        }))))
    }

    /// Returns the slug of the organisation whose members sign in.
    pub(crate) fn organization(&self) -> &str {
        &self.0.organization
    }

    /// Returns true for a bearer token that this provider may have issued for this server.
    pub(crate) fn may_have_issued(&self, token: &str) -> bool {
        self.0.config.access_token_audience.is_some() && access_token::is_jwt(token)
    }

    /// Returns the metadata of this server as a resource whose access tokens the provider issues;
    /// `None` if it accepts none, or if their audience is no URL, as that of a resource has to be.
    pub(crate) fn resource_metadata(&self) -> Option<ResourceMetadata<'_>> {
        let resource = self.0.config.access_token_audience.as_deref()?;
        if !settings::is_permitted_url(resource) {
            return None;
        }
        Some(ResourceMetadata {
            resource,
            authorization_servers: [self.0.config.issuer.as_ref()?.as_str()],
            scopes_supported: ["openid"],
            bearer_methods_supported: ["header"],
        })
    }

    /// Verifies an access token, and returns the member of the person.
    ///
    /// It adds no member and changes neither teams nor roles: a sign-in does that.
    pub(crate) async fn verify_bearer(
        &self,
        service: &KnowledgeService,
        token: &str,
    ) -> VerifiedBearer {
        let oidc = &*self.0;
        let audience = oidc.config.access_token_audience.as_deref();
        let audience = audience.unwrap_or_default();
        let verified = oidc
            .provider
            .verify_access_token(token, audience, service.env());
        let claims = match verified.await {
            Ok(Ok(claims)) => claims,
            Ok(Err(error)) => return VerifiedBearer::Invalid(access_token::reason(error)),
            Err(error) => {
                tracing::warn!(%error, "an access token cannot be verified");
                return VerifiedBearer::Unavailable;
            }
        };
        let (config, organization) = (&oidc.config, &oidc.organization);
        match admission::member_of(service, config, organization, &claims).await {
            Ok(member) => VerifiedBearer::Member {
                organization: member.0,
                member: member.1,
            },
            Err(SignInError::NotMember(reason)) => VerifiedBearer::Invalid(reason),
            Err(error) => {
                tracing::warn!(%error, "the member of an access token cannot be found");
                VerifiedBearer::Unavailable
            }
        }
    }

    /// Returns the name of the provider for people.
    pub(crate) fn label(&self) -> &str {
        &self.0.config.label
    }

    /// Begins a sign-in.
    ///
    /// # Errors
    /// [`SignInError::Unavailable`] and [`SignInError::InvalidResponse`].
    pub(crate) async fn begin(
        &self,
        service: &KnowledgeService,
        return_to: ReturnTo,
    ) -> Result<Begun, SignInError> {
        let oidc = &*self.0;
        let env = service.env();
        let metadata = oidc.provider.metadata(env).await?;
        let attempt = Attempt::new(env, return_to);
        let mut url = Url::parse(&metadata.authorization_endpoint)
            .map_err(|_| SignInError::InvalidResponse("invalid authorization_endpoint".into()))?;
        let mut scopes = vec!["openid"];
        let further = oidc.config.scopes.iter().map(String::as_str);
        scopes.extend(further.filter(|scope| *scope != "openid"));
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &oidc.client_id)
            .append_pair("redirect_uri", &redirect_uri(service))
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", &attempt.state)
            .append_pair("nonce", &attempt.nonce)
            .append_pair("code_challenge", &attempt.code_challenge())
            .append_pair("code_challenge_method", "S256");
        Ok(Begun {
            authorization_url: url.into(),
            cookie: attempt.seal(service),
        })
    }

    /// Opens the sign-in that this browser has begun, and to which the provider responds.
    ///
    /// # Errors
    /// [`SignInError::UnknownAttempt`] if it is not the one of the cookie, or has expired.
    pub(crate) fn attempt(
        service: &KnowledgeService,
        cookie: Option<&str>,
        parameters: &CallbackParameters,
    ) -> Result<Attempt, SignInError> {
        let attempt = cookie.and_then(|cookie| Attempt::open(service, cookie));
        let is_answered = |attempt: &Attempt| parameters.state.as_ref() == Some(&attempt.state);
        let attempt = attempt.filter(is_answered);
        attempt.ok_or(SignInError::UnknownAttempt)
    }

    /// Completes a sign-in: exchanges the code, verifies what the provider says about the person,
    /// and creates a session of the member.
    ///
    /// # Errors
    /// See [`SignInError`].
    pub(crate) async fn complete(
        &self,
        service: &KnowledgeService,
        client: ClientInfo,
        attempt: Attempt,
        parameters: CallbackParameters,
    ) -> Result<Completed, SignInError> {
        let (oidc, env) = (&*self.0, service.env());
        let metadata = oidc.provider.metadata(env).await?;
        // Another provider may have answered (mix-up, RFC 9207).
        let is_ours = match &parameters.iss {
            Some(iss) => *iss == metadata.issuer,
            None => !metadata.authorization_response_iss_parameter_supported,
        };
        if !is_ours {
            let message = "the response has another issuer, or none";
            return Err(SignInError::InvalidResponse(message.to_owned()));
        }
        if let Some(error) = parameters.error {
            return Err(SignInError::Refused(for_log(&error)));
        }
        let missing = || SignInError::InvalidResponse("the response has no code".to_owned());
        let code = parameters.code.ok_or_else(missing)?;
        let redirect_uri = redirect_uri(service);
        let grant = CodeGrant {
            code: &code,
            redirect_uri: &redirect_uri,
            verifier: &attempt.verifier,
        };
        let server = oidc.provider.server();
        let tokens = server.exchange(&metadata, grant).await?;
        let expected = Expected {
            issuer: &metadata.issuer,
            client_id: &oidc.client_id,
            nonce: &attempt.nonce,
            // After the exchange, so that a token issued meanwhile is not from the future.
            now: env.now(),
        };
        let verified = oidc.provider.verify(&tokens.id_token, env, &expected);
        let claims = verified.await?;
        let claims = if oidc.config.lacks_claims(&claims) {
            let token = tokens.access_token.as_deref();
            let provider = &oidc.provider;
            provider
                .add_user_info(&metadata, token, claims, env)
                .await?
        } else {
            claims
        };
        let organization = &oidc.organization;
        let admitted = admission::admit(service, client, &oidc.config, organization, &claims);
        Ok(Completed {
            session: admitted.await?,
            return_to: attempt.return_to,
        })
    }
}

/// Returns the redirect URI, which is registered at the provider.
fn redirect_uri(service: &KnowledgeService) -> String {
    format!("{}{CALLBACK_PATH}", base_url(service))
}

/// Returns the base URL of the pages, without a trailing slash.
pub(crate) fn base_url(service: &KnowledgeService) -> &str {
    let base = service.base_url().unwrap_or_default();
    base.trim_end_matches('/')
}
