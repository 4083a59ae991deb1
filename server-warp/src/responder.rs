//! Core's HTTP API as the responder of the server.

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use knowledge_core::Error;
use knowledge_core::api::{Api, Caller};

use crate::auth::Auth;
use crate::console::Console;
use crate::explain::explain;
use crate::net::{Rejection, Responder};
#[cfg(feature = "oidc")]
use crate::oidc::Oidc;
use crate::reference::Reference;

/// Responder that passes requests to [`Api`], and serves the [`Console`], the [`Reference`] and
/// [`Auth`]. The server's rejections get the error format of the operation at the requested path.
#[derive(Clone, Debug)]
pub struct ApiResponder {
    api: Api,
    auth: Auth,
    console: Console,
    reference: Reference,
}

impl ApiResponder {
    /// Creates a responder over this API.
    #[must_use]
    pub fn new(api: Api) -> Self {
        Self {
            auth: Auth::new(api.service().clone()),
            console: Console::new(),
            reference: Reference::new(api.service().limits()),
            api,
        }
    }

    /// Signs members in with this OpenID Connect provider too.
    #[cfg(feature = "oidc")]
    pub fn sign_in_with(&mut self, oidc: Oidc) {
        self.auth.sign_in_with(oidc);
    }
}

impl Responder for ApiResponder {
    async fn respond(&self, request: Request<Bytes>) -> Response<Bytes> {
        let page = self.console.respond(&request);
        if let Some(response) = page.or_else(|| self.reference.respond(&request)) {
            return response;
        }
        match self.auth.respond(&request).await {
            Some(response) => response,
            None => self.api.handle(request).await,
        }
    }

    fn reject(&self, method: &Method, uri: &Uri, rejection: &Rejection) -> Response<Bytes> {
        self.api.reject(method, uri, &error(rejection))
    }

    async fn identify(&self, request: &mut Request<Bytes>) -> Option<Caller> {
        match self.auth.identifies(request) {
            true => self.auth.identify(request).await,
            false => self.api.identify(request).await,
        }
    }

    async fn ready(&self) -> Result<(), String> {
        let ready = self.api.service().ready().await;
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
    fn error_response_keeps_its_status() {
        let retry_after = Duration::from_secs(1);
        for rejection in [
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
