//! Signing in with an OpenID Connect provider, over HTTP: `/auth/oidc/start` sends the browser to
//! the provider, which sends it back to `/auth/oidc/callback`. `/auth/oidc` names the provider.
//!
//! The browser keeps the sign-in that it has begun in a cookie for these two paths. The callback of
//! this sign-in removes the cookie, whatever the outcome; any other callback, to which a foreign
//! page can lead, changes nothing. A new session ends the browser's previous one. The pages about
//! failures contain nothing that the browser or the provider has sent.
//!
//! The metadata of this server as a protected resource (RFC 9728) name the provider to clients, if its
//! access tokens are accepted. The challenge of `/mcp` names their path.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, RETRY_AFTER,
    SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Request, Response, StatusCode};
use knowledge_core::api::{ClientScheme, MatchedRoute, front_end, status};
use knowledge_core::service::KnowledgeService;
use knowledge_core::{EntityKind, Error};
use serde::Serialize;

use super::cookie;
use crate::explain::explain;
use crate::oidc::{
    CALLBACK_PATH, CallbackParameters, Completed, Oidc, ReturnTo, SignInError, base_url,
};

/// Path that returns the name of the provider for people.
const PROVIDER_PATH: &str = "/auth/oidc";
/// Path at which a sign-in begins.
const START_PATH: &str = "/auth/oidc/start";
/// Path of the metadata of this server as a resource, and with a suffix those of `/mcp`
/// (RFC 9728, 3.1).
const RESOURCE_PATH: &str = "/.well-known/oauth-protected-resource";
/// Endpoint for assistants, which have people sign in.
const ASSISTANTS: MatchedRoute = MatchedRoute("/mcp");
/// Maximum length of the query of a callback, in bytes.
const QUERY_BYTES_MAX: usize = 8 * 1_024;
/// Time after which a sign-in may succeed that fails now, in seconds.
const RETRY_AFTER_SECONDS: u64 = 10;

/// All parts of a page come from the server itself, and none is a script.
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; \
                      frame-ancestors 'none'; form-action 'none'";

/// Request of the sign-in flow.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Provider,
    Start,
    Callback,
    Resource,
}

impl Step {
    pub(super) fn of(path: &str) -> Option<Self> {
        match path {
            PROVIDER_PATH => Some(Self::Provider),
            START_PATH => Some(Self::Start),
            CALLBACK_PATH => Some(Self::Callback),
            _ => {
                let suffix = path.strip_prefix(RESOURCE_PATH)?;
                matches!(suffix, "" | "/mcp").then_some(Self::Resource)
            }
        }
    }

    pub(super) fn template(self) -> &'static str {
        match self {
            Self::Provider => PROVIDER_PATH,
            Self::Start => START_PATH,
            Self::Callback => CALLBACK_PATH,
            Self::Resource => RESOURCE_PATH,
        }
    }

    /// Returns the methods as `Allow` lists them.
    pub(super) fn allow(self) -> &'static str {
        match self {
            Self::Provider | Self::Resource => "GET, HEAD",
            Self::Start | Self::Callback => "GET",
        }
    }
}

/// OpenID Connect provider with which members sign in.
#[derive(Serialize)]
struct ProviderView<'p> {
    /// Its name for people; `null` without one.
    label: Option<&'p str>,
}

/// Responds to a request for a step with one of its methods.
///
/// # Errors
/// [`Error::NotFound`] if there is no provider to sign in with.
pub(super) async fn respond(
    oidc: Option<&Oidc>,
    service: &KnowledgeService,
    (step, scheme): (Step, ClientScheme),
    request: &Request<Bytes>,
) -> Result<Response<Bytes>, Error> {
    let missing = Error::NotFound {
        kind: EntityKind::Path,
    };
    let taken = match step {
        Step::Provider => {
            let label = oidc.map(Oidc::label);
            return Ok(front_end::json(StatusCode::OK, &ProviderView { label }));
        }
        Step::Resource => {
            let metadata = oidc.and_then(Oidc::resource_metadata);
            return Ok(front_end::json(StatusCode::OK, &metadata.ok_or(missing)?));
        }
        Step::Start => start(oidc.ok_or(missing)?, service, scheme, request).await,
        Step::Callback => callback(oidc.ok_or(missing)?, service, scheme, request).await,
    };
    let mut response = taken.unwrap_or_else(|error| failure(&error));
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The address of a callback has the code.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

/// Names the metadata of this server in the challenge to an assistant without a valid token.
pub(super) fn name_metadata(
    oidc: &Oidc,
    service: &KnowledgeService,
    response: &mut Response<Bytes>,
) {
    let is_asked = response.status() == StatusCode::UNAUTHORIZED
        && response.extensions().get() == Some(&ASSISTANTS);
    let Some(metadata) = oidc.resource_metadata().filter(|_| is_asked) else {
        return;
    };
    let headers = response.headers_mut();
    let challenge = headers.get(WWW_AUTHENTICATE);
    let Some(challenge) = challenge.and_then(|challenge| challenge.to_str().ok()) else {
        return;
    };
    // The address of the metadata follows from that of the resource (RFC 9728, 3.1).
    let suffix = if metadata.is_of_endpoint() {
        "/mcp"
    } else {
        ""
    };
    let url = format!("{}{RESOURCE_PATH}{suffix}", base_url(service));
    let named = format!("{challenge}, resource_metadata=\"{url}\"");
    if let Ok(named) = named.parse() {
        headers.insert(WWW_AUTHENTICATE, named);
    }
}

async fn start(
    oidc: &Oidc,
    service: &KnowledgeService,
    scheme: ClientScheme,
    request: &Request<Bytes>,
) -> Result<Response<Bytes>, SignInError> {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let return_to = pairs.find(|(name, _)| name == "return_to");
    let return_to = return_to.map_or_else(Default::default, |(_, value)| value);
    let begun = oidc.begin(service, ReturnTo::parse(&return_to)?).await?;
    let mut response = redirect(&begun.authorization_url)?;
    let attempt = cookie::set_attempt(&begun.cookie, base_url(service), scheme);
    response.headers_mut().append(SET_COOKIE, attempt);
    Ok(response)
}

async fn callback(
    oidc: &Oidc,
    service: &KnowledgeService,
    scheme: ClientScheme,
    request: &Request<Bytes>,
) -> Result<Response<Bytes>, SignInError> {
    let query = request.uri().query().unwrap_or_default();
    if query.len() > QUERY_BYTES_MAX {
        return Err(SignInError::UnknownAttempt);
    }
    let parameters = CallbackParameters::parse(query);
    let attempt = Oidc::attempt(
        service,
        front_end::cookie(request.headers(), cookie::ATTEMPT_COOKIE),
        &parameters,
    )?;
    let client = super::client(request);
    let completed = match oidc.complete(service, client, attempt, parameters).await {
        Ok(completed) => signed_in(service, scheme, &completed, request).await,
        Err(error) => Err(error),
    };
    let mut response = completed.unwrap_or_else(|error| failure(&error));
    let cleared = cookie::clear_attempt(base_url(service), scheme);
    response.headers_mut().append(SET_COOKIE, cleared);
    Ok(response)
}

/// Returns the response to a completed sign-in, and ends the session that the browser had.
async fn signed_in(
    service: &KnowledgeService,
    scheme: ClientScheme,
    completed: &Completed,
    request: &Request<Bytes>,
) -> Result<Response<Bytes>, SignInError> {
    let page = format!("{}/{}", base_url(service), completed.return_to.as_str());
    let mut response = redirect(&page)?;
    let session = cookie::set_session(&completed.session, base_url(service), scheme);
    response.headers_mut().append(SET_COOKIE, session);
    if let Ok(replaced) = front_end::session(request.headers()) {
        match service
            .sessions()
            .sign_out(&replaced, false, super::client(request))
            .await
        {
            Ok(()) | Err(Error::Unauthenticated { .. }) => {}
            Err(error) => {
                let reason = explain(&error);
                tracing::warn!(reason, "the replaced session could not be ended");
            }
        }
    }
    Ok(response)
}

/// Returns a redirect that is followed with `GET`.
fn redirect(url: &str) -> Result<Response<Bytes>, SignInError> {
    let target = HeaderValue::try_from(url);
    let invalid = |_| SignInError::InvalidResponse("invalid authorization_endpoint".to_owned());
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response
        .headers_mut()
        .insert(LOCATION, target.map_err(invalid)?);
    Ok(response)
}

/// Returns the page about a failure, which it logs.
fn failure(error: &SignInError) -> Response<Bytes> {
    let (status, text) = describe(error);
    let reason = match error {
        SignInError::Service(error) => explain(error),
        error => error.to_string(),
    };
    if status.is_server_error() {
        tracing::warn!(reason, "signing in with OpenID Connect failed");
    } else {
        tracing::info!(reason, "signing in with OpenID Connect was refused");
    }
    let page = format!(
        "<!doctype html>\n\
         <html lang=en>\n\
         <meta charset=utf-8>\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <meta name=color-scheme content=\"light dark\">\n\
         <title>Not signed in</title>\n\
         <link rel=stylesheet href=\"../../console/console.css\">\n\
         <main class=alone><div class=sign-in>\n\
         <h1>You are not signed in</h1>\n\
         <p class=lead>{text}</p>\n\
         <p><a href=\"../../\">Back to the sign-in page</a></p>\n\
         </div></main>\n</html>\n"
    );
    let mut response = Response::new(Bytes::from(page));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(CONTENT_TYPE, html);
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
    }
    response
}

/// Returns the status of a failure, and its text for the person.
fn describe(error: &SignInError) -> (StatusCode, &'static str) {
    match error {
        SignInError::UnknownAttempt => (
            StatusCode::BAD_REQUEST,
            "This sign-in was not begun in this browser, was completed before, or took longer than \
             ten minutes. Sign in again.",
        ),
        SignInError::InvalidReturn => (
            StatusCode::BAD_REQUEST,
            "The link to this page is not complete, or leads somewhere else. Sign in again.",
        ),
        SignInError::Refused(_) => (
            StatusCode::FORBIDDEN,
            "The provider did not sign you in, or you cancelled.",
        ),
        SignInError::InvalidCode => (
            StatusCode::BAD_REQUEST,
            "This sign-in was completed before, or took too long. Sign in again.",
        ),
        SignInError::NotMember(_) => (
            StatusCode::FORBIDDEN,
            "The provider knows you, but you may not use this service. Ask your administrator to \
             add you, or to put you into a group that may.",
        ),
        SignInError::InvalidResponse(_) => (
            StatusCode::BAD_GATEWAY,
            "The provider's answer cannot be accepted. Ask your operator, whose log has the \
             reason.",
        ),
        SignInError::Misconfigured(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "Signing in is not set up correctly. Ask your operator, whose log has the reason.",
        ),
        SignInError::Unavailable(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "The provider cannot be reached. Try again later.",
        ),
        // The member was removed meanwhile.
        SignInError::Service(Error::Unauthenticated { .. } | Error::NotFound { .. }) => {
            describe(&SignInError::NotMember(""))
        }
        SignInError::Service(error) => (
            status(error),
            "The service could not sign you in. Try again later.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::COOKIE;

    use super::*;

    #[test]
    fn attempt_is_read_from_one_cookie_only() {
        let read = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIE, HeaderValue::from_static(line));
            }
            front_end::cookie(&headers, cookie::ATTEMPT_COOKIE).map(str::to_owned)
        };
        assert_eq!(
            read(&["a=b; service_sign_in=c+d/e=="]).as_deref(),
            Some("c+d/e==")
        );
        assert_eq!(read(&["a=b", "service_sign_in=c"]).as_deref(), Some("c"));
        assert_eq!(read(&["service_sign_in=c; service_sign_in=d"]), None);
        assert_eq!(read(&["a=b"]), None);
        assert_eq!(read(&[]), None);
    }
}
