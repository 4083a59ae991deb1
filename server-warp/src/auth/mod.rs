//! Signing in and out over HTTP: `/auth/…`, for the pages of this server.
//!
//! A member opens a one-time link, whose secret is in the fragment of its URL, which no browser
//! sends. The page posts the secret to [`LOGIN_PATH`], and the server sets the session cookie. For
//! operations with a bearer token the page exchanges the session at [`TOKEN_PATH`].
//!
//! With an [OpenID Connect provider](crate::oidc), a member is sent there and back instead. Another
//! way of authenticating members calls
//! [`create_session`](knowledge_core::service::Provisioning::create_session).

mod cookie;
#[cfg(feature = "oidc")]
mod oidc;
mod views;

use bytes::Bytes;
use http::header::SET_COOKIE;
use http::{HeaderValue, Request, Response, StatusCode};
use knowledge_core::access::Secret;
#[cfg(feature = "oidc")]
use knowledge_core::api::VerifiedBearer;
use knowledge_core::api::{ClientInfo, ClientScheme, KnownCaller, MatchedRoute, front_end};
use knowledge_core::model::{CredentialId, OrgId};
pub use knowledge_core::service::login_url;
use knowledge_core::service::{Issued, KnowledgeService};
use knowledge_core::{EntityKind, Error, ProblemCode};
use serde::Deserialize;

use self::views::{CredentialList, SessionView, TokenView};
#[cfg(feature = "oidc")]
use crate::oidc::Oidc;

/// Path at which a login link is exchanged for a session.
pub const LOGIN_PATH: &str = "/auth/login";
/// Path that returns the member of a session.
pub const SESSION_PATH: &str = "/auth/session";
/// Path at which a session is exchanged for an access token.
pub const TOKEN_PATH: &str = "/auth/token";
/// Path at which a session ends.
pub const LOGOUT_PATH: &str = "/auth/logout";
/// Path of the tokens and sessions of the caller, and with an identifier of one.
pub const CREDENTIALS_PATH: &str = "/auth/credentials";

/// Path template of one credential.
const CREDENTIAL_ROUTE: &str = "/auth/credentials/{id}";
/// Path template of what one credential created.
const CREATED_ROUTE: &str = "/auth/credentials/{id}/created";
/// Maximum length of the body of a login, in bytes.
const LOGIN_BYTES_MAX: usize = 1_024;

/// A path of this module.
#[derive(Clone, Copy, Debug)]
enum Route<'r> {
    Login,
    Session,
    Token,
    Logout,
    Credentials,
    Credential(&'r str),
    Created(&'r str),
}

impl<'r> Route<'r> {
    fn of(path: &'r str) -> Option<Self> {
        Some(match path {
            LOGIN_PATH => Self::Login,
            SESSION_PATH => Self::Session,
            TOKEN_PATH => Self::Token,
            LOGOUT_PATH => Self::Logout,
            CREDENTIALS_PATH => Self::Credentials,
            _ => {
                let rest = path.strip_prefix(CREDENTIALS_PATH)?.strip_prefix('/')?;
                let created = rest.strip_suffix("/created");
                let id = created.unwrap_or(rest);
                let id = Some(id).filter(|id| !id.is_empty() && !id.contains('/'))?;
                created.map_or(Self::Credential(id), |_| Self::Created(id))
            }
        })
    }

    fn template(self) -> &'static str {
        match self {
            Self::Login => LOGIN_PATH,
            Self::Session => SESSION_PATH,
            Self::Token => TOKEN_PATH,
            Self::Logout => LOGOUT_PATH,
            Self::Credentials => CREDENTIALS_PATH,
            Self::Credential(_) => CREDENTIAL_ROUTE,
            Self::Created(_) => CREATED_ROUTE,
        }
    }

    /// Returns the methods as `Allow` lists them.
    fn allow(self) -> &'static str {
        match self {
            Self::Login | Self::Token | Self::Logout => "POST",
            Self::Session | Self::Credentials | Self::Created(_) => "GET, HEAD",
            Self::Credential(_) => "DELETE",
        }
    }
}

/// Organisation that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrgHint<'h> {
    /// By its identifier, in a credential.
    Id(OrgId),
    /// By its slug, in the configuration.
    Slug(&'h str),
}

/// Handler of the paths for signing in.
#[derive(Clone, Debug)]
pub struct Auth {
    service: KnowledgeService,
    #[cfg(feature = "oidc")]
    oidc: Option<Oidc>,
}

impl Auth {
    /// Creates the handler over this service.
    #[must_use]
    pub fn new(service: KnowledgeService) -> Self {
        Self {
            service,
            #[cfg(feature = "oidc")]
            oidc: None,
        }
    }

    /// Signs members in with this provider too.
    #[cfg(feature = "oidc")]
    pub fn sign_in_with(&mut self, oidc: Oidc) {
        self.oidc = Some(oidc);
    }

    /// Returns true if the caller of this request is the one of [`identify`](Self::identify).
    #[must_use]
    pub fn identifies(&self, request: &Request<Bytes>) -> bool {
        let path = request.uri().path();
        #[cfg(feature = "oidc")]
        if oidc::Step::of(path).is_some() {
            return true;
        }
        Route::of(path).is_some()
    }

    /// Returns the organisation that a request for one of the paths names; a hint for a router
    /// between services.
    #[must_use]
    pub fn org_hint(&self, request: &Request<Bytes>) -> Option<OrgHint<'_>> {
        // The other steps read nothing of the organisation.
        #[cfg(feature = "oidc")]
        if let Some(oidc::Step::Callback) = oidc::Step::of(request.uri().path()) {
            let oidc = self.oidc.as_ref()?;
            return Some(OrgHint::Slug(oidc.organization()));
        }
        let secret = match Route::of(request.uri().path())? {
            Route::Login => link(request).ok()?.parse().ok()?,
            _ => front_end::session(request.headers()).ok()?,
        };
        secret.org_hint().map(OrgHint::Id)
    }

    /// Returns true for a request to sign in, which is a stranger's.
    pub fn is_sign_in(request: &Request<Bytes>) -> bool {
        let path = request.uri().path();
        #[cfg(feature = "oidc")]
        if oidc::Step::of(path).is_some() {
            return true;
        }
        matches!(Route::of(path), Some(Route::Login))
    }

    /// Identifies the caller by its session, for rate limits.
    pub async fn identify(&self, request: &Request<Bytes>) -> Option<KnownCaller> {
        if Self::is_sign_in(request) {
            return None;
        }
        let session = front_end::session(request.headers()).ok()?;
        front_end::identify(&self.service, session).await
    }

    /// Returns the organisation whose provider may have issued the bearer token of a request.
    #[must_use]
    pub fn provider_organization(&self, request: &Request<Bytes>) -> Option<&str> {
        #[cfg(feature = "oidc")]
        if let Some((oidc, _)) = self.provider_token(request) {
            return Some(oidc.organization());
        }
        let _ = request;
        None
    }

    /// Verifies the bearer token of a request, if the provider may have issued it, for
    /// [`Api`](knowledge_core::api::Api).
    pub async fn verify_bearer(&self, request: &mut Request<Bytes>) {
        #[cfg(feature = "oidc")]
        if request.extensions().get::<VerifiedBearer>().is_none()
            && let Some((oidc, token)) = self.provider_token(request)
        {
            let verified = oidc.verify_bearer(&self.service, token).await;
            request.extensions_mut().insert(verified);
        }
        #[cfg(not(feature = "oidc"))]
        let _ = request;
    }

    /// Tells an assistant without a valid token where to find the provider.
    pub fn challenge(&self, response: &mut Response<Bytes>) {
        #[cfg(feature = "oidc")]
        if let Some(provider) = &self.oidc {
            oidc::name_metadata(provider, &self.service, response);
        }
        #[cfg(not(feature = "oidc"))]
        let _ = response;
    }

    /// Returns the bearer token of a request that the provider may have issued.
    #[cfg(feature = "oidc")]
    fn provider_token<'r>(&self, request: &'r Request<Bytes>) -> Option<(&Oidc, &'r str)> {
        let oidc = self.oidc.as_ref()?;
        let token = front_end::bearer(request.headers())?;
        oidc.may_have_issued(token).then_some((oidc, token))
    }

    /// Responds to a request for one of the paths; `None` for any other path.
    pub async fn respond(&self, request: &Request<Bytes>) -> Option<Response<Bytes>> {
        let (response, route) = match Route::of(request.uri().path()) {
            Some(route) => {
                let response = respond(&self.service, route, request).await;
                (response, route.template())
            }
            None => self.respond_with_provider(request).await?,
        };
        let mut response = response.unwrap_or_else(front_end::error);
        response.extensions_mut().insert(MatchedRoute(route));
        Some(response)
    }

    /// Responds to a request for a path of sign-ins with a provider, whose template it returns too;
    /// `None` for any other path.
    #[cfg(feature = "oidc")]
    async fn respond_with_provider(
        &self,
        request: &Request<Bytes>,
    ) -> Option<(Result<Response<Bytes>, Error>, &'static str)> {
        let step = oidc::Step::of(request.uri().path())?;
        let response = match require_method(step.allow(), request) {
            Ok(()) => {
                let scheme = client_scheme(&self.service, request);
                let oidc = self.oidc.as_ref();
                oidc::respond(oidc, &self.service, (step, scheme), request).await
            }
            Err(error) => Err(error),
        };
        Some((response, step.template()))
    }

    #[cfg(not(feature = "oidc"))]
    async fn respond_with_provider(
        &self,
        _: &Request<Bytes>,
    ) -> Option<(Result<Response<Bytes>, Error>, &'static str)> {
        None
    }
}

/// Rejects a method that is not among those of `Allow`.
fn require_method(allow: &'static str, request: &Request<Bytes>) -> Result<(), Error> {
    let method = request.method().as_str();
    if allow.split(", ").any(|allowed| method == allowed) {
        Ok(())
    } else {
        Err(Error::MethodNotAllowed {
            allow: allow.to_owned(),
        })
    }
}

async fn respond(
    service: &KnowledgeService,
    route: Route<'_>,
    request: &Request<Bytes>,
) -> Result<Response<Bytes>, Error> {
    let (headers, method) = (request.headers(), request.method());
    require_method(route.allow(), request)?;
    let sent_by = request.extensions().get().copied();
    front_end::require_same_origin(headers, method, sent_by.unwrap_or_default())?;
    let (scheme, client) = (client_scheme(service, request), client(request));
    if let Route::Login = route {
        let issued = service.sessions().sign_in(&link(request)?, client).await?;
        return Ok(signed_in(service, &issued, scheme).await);
    }
    let session = front_end::session(headers)?;
    let response = match route {
        Route::Login | Route::Session => session_response(service, &session).await?,
        Route::Token => {
            let issued = service.sessions().access_token(&session, client).await?;
            front_end::json(StatusCode::OK, &TokenView::of(&issued))
        }
        Route::Logout => {
            let with_created = front_end::with_created(request.uri());
            let with_created = or_unauthenticated(service, &session, with_created).await?;
            let sessions = service.sessions();
            sessions.sign_out(&session, with_created, client).await?;
            let mut response = empty();
            let cleared = cookie::clear_session(service.base_url().unwrap_or_default(), scheme);
            response.headers_mut().insert(SET_COOKIE, cleared);
            return Ok(response);
        }
        Route::Credentials => {
            let page = front_end::page(request.uri());
            let page = or_unauthenticated(service, &session, page).await?;
            let page = service.sessions().own_credentials(&session, &page).await?;
            front_end::json(StatusCode::OK, &CredentialList::of(page))
        }
        Route::Credential(id) => {
            let id = credential_id(id);
            let id = or_unauthenticated(service, &session, id).await?;
            let with_created = front_end::with_created(request.uri());
            let with_created = or_unauthenticated(service, &session, with_created).await?;
            service
                .sessions()
                .end_own_credential(&session, id, with_created, client)
                .await?;
            empty()
        }
        Route::Created(id) => {
            let id = or_unauthenticated(service, &session, credential_id(id)).await?;
            let page = front_end::page(request.uri());
            let page = or_unauthenticated(service, &session, page).await?;
            let page = service.sessions().created_with(&session, id, &page);
            front_end::json(StatusCode::OK, &page.await?)
        }
    };
    service.note_use(&session.into()).await;
    Ok(response)
}

/// Parses the identifier of a credential in a path.
fn credential_id(text: &str) -> Result<CredentialId, Error> {
    text.parse().map_err(|_| Error::NotFound {
        kind: EntityKind::Credential,
    })
}

/// Returns the parsed value. An invalid session takes precedence over a value that cannot be
/// parsed.
async fn or_unauthenticated<T>(
    service: &KnowledgeService,
    session: &Secret,
    parsed: Result<T, Error>,
) -> Result<T, Error> {
    if parsed.is_err() {
        service.sessions().get(session).await?;
    }
    parsed
}

/// Returns the facts about the client of a request, for the audit log.
fn client(request: &Request<Bytes>) -> ClientInfo {
    let client = request.extensions().get::<ClientInfo>();
    client.copied().unwrap_or_default()
}

/// Returns the scheme of a client: HTTPS also behind a proxy that is not trusted, if the public URL
/// has it.
fn client_scheme(service: &KnowledgeService, request: &Request<Bytes>) -> ClientScheme {
    let is_public = |url: &str| url.starts_with("https:");
    if service.public_url().is_some_and(is_public) {
        ClientScheme::Https
    } else {
        request.extensions().get().copied().unwrap_or_default()
    }
}

/// Reads the secret of a login link in the body.
fn link(request: &Request<Bytes>) -> Result<String, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Login {
        link: String,
    }

    let body = request.body();
    if body.len() > LOGIN_BYTES_MAX {
        let bytes_max = LOGIN_BYTES_MAX;
        return Err(Error::PayloadTooLarge { bytes_max });
    }
    front_end::require_json(request.headers(), body)?;
    let login = serde_json::from_slice::<Login>(body).map_err(|_| {
        let message = r#"must be {"link": "wkl_..."}"#;
        Error::invalid("body", ProblemCode::InvalidValue, message)
    })?;
    Ok(login.link)
}

/// Returns the response to a sign-in, with the cookie of the new session.
///
/// An error has the cookie too, since the link has been consumed: the client is signed in, and only
/// the body of the response could not be read.
async fn signed_in(
    service: &KnowledgeService,
    issued: &Issued,
    scheme: ClientScheme,
) -> Response<Bytes> {
    let response = session_response(service, &issued.secret).await;
    let mut response = response.unwrap_or_else(front_end::error);
    let cookie = cookie::set_session(issued, service.base_url().unwrap_or_default(), scheme);
    response.headers_mut().insert(SET_COOKIE, cookie);
    response
}

async fn session_response(
    service: &KnowledgeService,
    session: &Secret,
) -> Result<Response<Bytes>, Error> {
    let signed_in = service.sessions().get(session).await?;
    Ok(front_end::json(
        StatusCode::OK,
        &SessionView::of(&signed_in),
    ))
}

/// Returns a response without a body, which no cache may store.
fn empty() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(http::header::CACHE_CONTROL, no_store);
    response
}
