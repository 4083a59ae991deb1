//! Core's HTTP API as the responder of the server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::SET_COOKIE;
use http::{Method, Request, Response, StatusCode, Uri};
use knowledge_core::api::{Api, ClientInfo, ClientScheme, KnownCaller};
use knowledge_core::model::OrgId;
use knowledge_core::{Error, ProblemCode};

use crate::auth::{Auth, OrgHint};
use crate::console::Console;
use crate::explain::explain;
use crate::net::{Rejection, Responder};
#[cfg(feature = "oidc")]
use crate::oidc::Oidc;
use crate::partitions::{AT_HOME, Partitions, Place};
use crate::reference::Reference;

/// Time after which a request can be repeated whose organisation is being switched.
const SWITCH_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Responder that passes requests to [`Api`], and serves the [`Console`], the [`Reference`] and
/// [`Auth`]. The server's rejections get the error format of the operation at the requested path.
///
/// With several [`Partitions`], a request goes to the partition of the organisation that its
/// credential or its path names.
#[derive(Clone, Debug)]
pub struct ApiResponder {
    partitions: Partitions,
    fronts: Arc<[Front]>,
    console: Console,
    reference: Reference,
}

/// Interfaces of one partition.
#[derive(Clone, Debug)]
struct Front {
    api: Api,
    auth: Auth,
}

/// Organisation that a request names, and its place when the caller was identified.
#[derive(Clone, Copy, Debug)]
struct Routed {
    org: Option<OrgId>,
    place: Place,
    /// True if the directory was read; false if the place is the last known one.
    is_looked_up: bool,
}

impl ApiResponder {
    /// Creates a responder over this API.
    #[must_use]
    pub fn new(api: Api) -> Self {
        let partitions = Partitions::from(api.service().clone());
        Self::over(partitions, |_| api.clone())
    }

    /// Creates a responder over partitions, with the API of each service.
    #[must_use]
    pub fn over(
        partitions: Partitions,
        api: impl Fn(&knowledge_core::service::KnowledgeService) -> Api,
    ) -> Self {
        let home = partitions.home();
        let reference = Reference::new(home.limits(), home.public_url());
        let front = |service| Front {
            api: api(service),
            auth: Auth::new(service.clone()),
        };
        Self {
            console: Console::new(),
            reference,
            fronts: partitions.services().iter().map(front).collect(),
            partitions,
        }
    }

    /// Signs members in with this OpenID Connect provider too.
    #[cfg(feature = "oidc")]
    pub fn sign_in_with(&mut self, oidc: Oidc) {
        let mut fronts = self.fronts.to_vec();
        for front in &mut fronts {
            front.auth.sign_in_with(oidc.clone());
        }
        self.fronts = fronts.into();
    }

    fn home(&self) -> &Front {
        &self.fronts[AT_HOME]
    }

    /// Returns the organisation that a request names, without a read.
    fn org_hint(&self, request: &Request<Bytes>) -> Option<OrgHint<'_>> {
        let home = self.home();
        if home.auth.identifies(request) {
            return home.auth.org_hint(request);
        }
        match home.auth.provider_organization(request) {
            Some(organization) => Some(OrgHint::Slug(organization)),
            None => home.api.org_hint(request).map(OrgHint::Id),
        }
    }

    /// Passes a request to the partition of its organisation; to another one if it was moved.
    async fn respond_partitioned(&self, request: Request<Bytes>) -> Response<Bytes> {
        let routed = match request.extensions().get::<Routed>() {
            Some(routed) => *routed,
            None => self.route(&request).await,
        };
        let (Some(org), Place::At(index)) = (routed.org, routed.place) else {
            return self.respond_at(routed, request).await;
        };
        let again = unidentified(&request);
        let is_signed = || {
            self.home()
                .api
                .is_signed(again.method(), again.uri().path())
        };
        let response = self.fronts[index].respond(request).await;
        let place = match response.status() {
            // The partition may not have the organisation any more.
            _ if !routed.is_looked_up && is_unknown(&response, is_signed) => {
                self.partitions.look_up(org).await
            }
            // The partition may hold its writes, and remove it: a retry goes to the new one.
            status if !routed.is_looked_up && status.is_server_error() => {
                self.partitions.look_up(org).await;
                return response;
            }
            _ => return response,
        };
        match place {
            Place::At(now) if now == index => response,
            place => self.respond_at(Routed { place, ..routed }, again).await,
        }
    }

    /// Passes a request to the only partition that is configured here.
    ///
    /// A server that shares its store and was started before there were partitions knows none: an
    /// organisation that was moved since is unavailable, and its credentials are not invalid.
    async fn respond_alone(&self, request: Request<Bytes>) -> Response<Bytes> {
        let Some(OrgHint::Id(org)) = self.org_hint(&request) else {
            return self.home().respond(request).await;
        };
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let is_signed = || self.home().api.is_signed(&method, uri.path());
        let response = self.home().respond(request).await;
        if !is_unknown(&response, is_signed) {
            return response;
        }
        match self.partitions.look_up(org).await {
            Place::At(_) => response,
            place => self.unavailable(&method, &uri, place),
        }
    }

    fn unavailable(&self, method: &Method, uri: &Uri, place: Place) -> Response<Bytes> {
        let error = Error::Unavailable {
            retry_after: SWITCH_RETRY_AFTER,
            detail: place.reason().to_owned(),
        };
        self.home().api.reject(method, uri, &error)
    }

    /// Passes a request to the partition at this place, once no move switches its organisation.
    async fn respond_at(&self, routed: Routed, mut request: Request<Bytes>) -> Response<Bytes> {
        let mut place = routed.place;
        if let (Some(org), Place::Switching) = (routed.org, place) {
            place = self.partitions.settled(org).await;
            request = unidentified(&request);
        }
        match place {
            Place::At(index) => self.fronts[index].respond(request).await,
            place => self.unavailable(request.method(), request.uri(), place),
        }
    }

    /// Returns the place of the organisation that a request names.
    async fn route(&self, request: &Request<Bytes>) -> Routed {
        let slug = match self.org_hint(request) {
            Some(OrgHint::Slug(slug)) => slug,
            Some(OrgHint::Id(org)) => return self.known(Some(org)),
            None => return self.known(None),
        };
        // A sign-in has other failures where there is no such organisation.
        match self.partitions.directory().organization(slug).await {
            Ok(Some(org)) => Routed {
                place: self.partitions.look_up(org).await,
                is_looked_up: true,
                org: Some(org),
            },
            _ => self.known(None),
        }
    }

    /// Returns the last known place of an organisation, without a read.
    fn known(&self, org: Option<OrgId>) -> Routed {
        Routed {
            org,
            place: Place::At(self.partitions.known(org)),
            is_looked_up: false,
        }
    }

    /// Identifies the caller in the partition of its organisation; looks it up if that fails.
    async fn identify_partitioned(&self, request: &mut Request<Bytes>) -> Option<KnownCaller> {
        if Auth::is_sign_in(request) {
            // There is no caller yet. The organisation is looked up if it turns out to be elsewhere.
            return None;
        }
        let mut routed = match self.org_hint(request) {
            Some(OrgHint::Id(org)) => self.known(Some(org)),
            // A token of the provider, which names no organisation.
            Some(OrgHint::Slug(_)) => self.route(request).await,
            None => self.known(None),
        };
        let (org, index) = match (routed.org, routed.place) {
            (org, Place::At(index)) => (org, index),
            (org, _) => (org, self.partitions.known(org)),
        };
        let mut caller = self.fronts[index].identify(request).await;
        if let (None, Some(org), false) = (&caller, org, routed.is_looked_up) {
            routed.place = self.partitions.look_up(org).await;
            routed.is_looked_up = true;
            if let Place::At(now) = routed.place
                && now != index
            {
                *request = unidentified(request);
                caller = self.fronts[now].identify(request).await;
            }
        }
        request.extensions_mut().insert(routed);
        caller
    }
}

impl Front {
    async fn respond(&self, mut request: Request<Bytes>) -> Response<Bytes> {
        // Boxed, so that the layers around them need not move them (see `net::connection::open` for the
        // figure).
        let by_auth = if self.auth.identifies(&request) {
            Box::pin(self.auth.respond(&request)).await
        } else {
            None
        };
        match by_auth {
            Some(response) => response,
            None => {
                self.auth.verify_bearer(&mut request).await;
                let mut response = Box::pin(self.api.handle(request)).await;
                self.auth.challenge(&mut response);
                response
            }
        }
    }

    async fn identify(&self, request: &mut Request<Bytes>) -> Option<KnownCaller> {
        if self.auth.identifies(request) {
            return self.auth.identify(request).await;
        }
        self.auth.verify_bearer(request).await;
        self.api.identify(request).await
    }
}

/// Returns true if a partition may have answered so because it has the organisation no more.
///
/// A signed message acts by a credential of its endpoint, which leaves first: it is then forbidden.
/// A response with a cookie has had an effect, and is not replaced: the sign-in is over, even if the
/// new session was moved before it could be shown.
fn is_unknown(response: &Response<Bytes>, is_signed: impl FnOnce() -> bool) -> bool {
    let is_without = match response.status() {
        StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND => true,
        StatusCode::FORBIDDEN => is_signed(),
        _ => false,
    };
    is_without && !response.headers().contains_key(SET_COOKIE)
}

/// Returns the request without what one partition has found out about its caller.
fn unidentified(request: &Request<Bytes>) -> Request<Bytes> {
    let mut again = Request::new(request.body().clone());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.version_mut() = request.version();
    *again.headers_mut() = request.headers().clone();
    let (from, to) = (request.extensions(), again.extensions_mut());
    if let Some(client) = from.get::<ClientInfo>() {
        to.insert(*client);
    }
    if let Some(scheme) = from.get::<ClientScheme>() {
        to.insert(*scheme);
    }
    again
}

impl Responder for ApiResponder {
    async fn respond(&self, request: Request<Bytes>) -> Response<Bytes> {
        let page = self.console.respond(&request);
        if let Some(response) = page.or_else(|| self.reference.respond(&request)) {
            return response;
        }
        if self.partitions.is_partitioned() {
            // Boxed, so that a server without partitions does not reserve room for them (see
            // `net::connection::open`).
            Box::pin(self.respond_partitioned(request)).await
        } else {
            self.respond_alone(request).await
        }
    }

    fn reject(&self, method: &Method, uri: &Uri, rejection: &Rejection) -> Response<Bytes> {
        self.home().api.reject(method, uri, &error(rejection))
    }

    async fn identify(&self, request: &mut Request<Bytes>) -> Option<KnownCaller> {
        if self.partitions.is_partitioned() {
            self.identify_partitioned(request).await
        } else {
            self.home().identify(request).await
        }
    }

    async fn ready(&self) -> Result<(), String> {
        let ready = self.partitions.home().ready().await;
        ready.map_err(|error| explain(&error))
    }
}

/// Converts a rejection of the server to an error of the service.
fn error(rejection: &Rejection) -> Error {
    let unavailable = |retry_after, detail: &str| Error::Unavailable {
        retry_after,
        detail: detail.to_owned(),
    };
    match *rejection {
        Rejection::BodyTooLarge { limit_bytes } => Error::PayloadTooLarge {
            bytes_max: limit_bytes,
        },
        Rejection::HostInvalid => {
            let message = "a request has one Host header, with a host and an optional port";
            Error::invalid("host", ProblemCode::InvalidValue, message)
        }
        Rejection::BodyUnreadable => Error::unreadable_body(),
        Rejection::BodyTimedOut { retry_after } => {
            unavailable(retry_after, "the body did not arrive in time")
        }
        Rejection::RateLimited { retry_after } => Error::RateLimited { retry_after },
        Rejection::BodyMemoryFull { retry_after } | Rejection::Overloaded { retry_after } => {
            unavailable(retry_after, "the server is at capacity")
        }
        Rejection::TimedOut { retry_after } => unavailable(retry_after, "the request timed out"),
        Rejection::Panicked => Error::internal("request handler panicked"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use knowledge_core::api::status;

    use super::*;

    #[test]
    fn response_with_a_cookie_is_not_replaced() {
        let response = |status, cookie: Option<&str>| {
            let mut response = Response::builder().status(status);
            if let Some(cookie) = cookie {
                response = response.header(SET_COOKIE, cookie);
            }
            response.body(Bytes::new()).unwrap()
        };
        let cookie = Some("service_session=a");
        assert!(is_unknown(&response(401, None), || false));
        assert!(is_unknown(&response(404, None), || false));
        assert!(!is_unknown(&response(401, cookie), || false));
        assert!(!is_unknown(&response(403, None), || false));
        assert!(is_unknown(&response(403, None), || true));
    }

    #[test]
    fn error_response_keeps_its_status() {
        let retry_after = Duration::from_secs(1);
        for rejection in [
            Rejection::HostInvalid,
            Rejection::BodyTooLarge { limit_bytes: 1 },
            Rejection::BodyUnreadable,
            Rejection::BodyTimedOut { retry_after },
            Rejection::RateLimited { retry_after },
            Rejection::BodyMemoryFull { retry_after },
            Rejection::Overloaded { retry_after },
            Rejection::TimedOut { retry_after },
            Rejection::Panicked,
        ] {
            assert_eq!(
                status(&error(&rejection)),
                rejection.status(),
                "{rejection:?}"
            );
            assert!(
                Rejection::REASONS.contains(&rejection.reason()),
                "{rejection:?}"
            );
        }
    }
}
