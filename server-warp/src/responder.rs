//! Core's HTTP interface as what answers the server's requests.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use knowledge_core::api::Api;
use knowledge_core::{Error, ProblemCode};
use uuid::Uuid;

use crate::explain::explain;
use crate::net::{Refusal, Responder};
use crate::reference::Reference;

/// Hands requests to [`Api`], answers those for the [`Reference`], and gives what the server refuses the shape that the operation at its path has.
#[derive(Clone, Debug)]
pub struct ApiResponder {
    api: Api,
    reference: Reference,
}

impl ApiResponder {
    /// Answers with this interface.
    #[must_use]
    pub fn new(api: Api) -> Self {
        let reference = Reference::new(api.service().limits());
        Self { api, reference }
    }
}

impl Responder for ApiResponder {
    async fn respond(&self, request: Request<Bytes>) -> Response<Bytes> {
        match self.reference.answer(&request) {
            Some(response) => response,
            None => self.api.handle(request).await,
        }
    }

    fn refuse(&self, method: &Method, uri: &Uri, refusal: &Refusal) -> Response<Bytes> {
        self.api.refuse(method, uri, &error(refusal))
    }

    /// The member behind the credential: all its tokens and sessions share one quota.
    async fn caller(&self, uri: &Uri, headers: &HeaderMap) -> Option<Uuid> {
        let member = self.api.caller(uri.path(), headers).await?;
        Some(member.0)
    }

    async fn ready(&self) -> Result<(), String> {
        let ready = self.api.service().ready().await;
        ready.map_err(|error| explain(&error))
    }
}

/// What a refusal of the server is in the words of the service.
fn error(refusal: &Refusal) -> Error {
    let unavailable = |retry_after, detail: &str| Error::Unavailable {
        retry_after,
        detail: detail.to_owned(),
    };
    match *refusal {
        Refusal::BodyTooLarge { limit_bytes } => Error::PayloadTooLarge {
            bytes_max: limit_bytes,
        },
        Refusal::BodyUnreadable => Error::invalid(
            "body",
            ProblemCode::InvalidValue,
            "must be sent as its header announces it; it ends early or has a broken chunk",
        ),
        Refusal::BodyTimedOut { retry_after } => {
            unavailable(retry_after, "the body did not arrive in time")
        }
        Refusal::RateLimited { retry_after } => Error::RateLimited { retry_after },
        Refusal::BodyMemoryFull { retry_after } | Refusal::Overloaded { retry_after } => {
            unavailable(retry_after, "as much is in work as the server takes on")
        }
        Refusal::TimedOut { retry_after } => {
            unavailable(retry_after, "the answer was not found in time")
        }
        Refusal::Panicked => Error::internal("answering panicked"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use knowledge_core::api::status;

    use super::*;

    #[test]
    fn a_refusal_keeps_its_status() {
        let retry_after = Duration::from_secs(1);
        for refusal in [
            Refusal::BodyTooLarge { limit_bytes: 1 },
            Refusal::BodyUnreadable,
            Refusal::BodyTimedOut { retry_after },
            Refusal::RateLimited { retry_after },
            Refusal::BodyMemoryFull { retry_after },
            Refusal::Overloaded { retry_after },
            Refusal::TimedOut { retry_after },
            Refusal::Panicked,
        ] {
            assert_eq!(status(&error(&refusal)), refusal.status(), "{refusal:?}");
            assert!(Refusal::REASONS.contains(&refusal.reason()), "{refusal:?}");
        }
    }
}
