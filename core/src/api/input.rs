//! Inputs of operations: the arguments of their functions, read from requests.

use bytes::Bytes;
use http::Request as HttpRequest;
use serde::ser::SerializeMap;
use uuid::Uuid;

use super::body;
#[cfg(feature = "openapi")]
use super::descriptions::Description;
use super::headers;
use super::query::Query;
use super::requests::Schema;
use super::route::Parameters;
use crate::error::Error;
use crate::model::{
    AuditLogId, ChatId, ConnectorId, CredentialId, DeliveryId, EndpointId, ErasureId,
    InboundWebhookId, MemberId, MemoryId, OrgId, RecallId, RoleId, SourceId, SubscriptionId,
    WebhookId, WorkspaceId,
};
use crate::request::{Checks, Fields, Path, Problems, Request};
use crate::service::{Endpoint, IdempotencyKey, IfMatch, KnowledgeService, PageRequest};

/// A part of a request that an operation reads.
pub(super) trait Input: Sized {
    /// Form in which a function takes it.
    type Arg<'a>
    where
        Self: 'a;

    /// Reads it from a request, under the name of the argument.
    fn read(request: &mut Reader<'_>, name: &'static str) -> Result<Self, Error>;

    /// Returns it as an argument. Its problems are reported before.
    fn arg(&self) -> Self::Arg<'_>;

    /// Describes it, under the name of the argument.
    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, name: &'static str);
}

/// Reader of the inputs of one request.
pub(super) struct Reader<'r> {
    service: &'r KnowledgeService,
    parameters: &'r Parameters,
    request: &'r HttpRequest<Bytes>,
    /// Query, unless nobody has asked for it.
    query: Option<Query>,
}

impl<'r> Reader<'r> {
    pub(super) fn new(
        service: &'r KnowledgeService,
        parameters: &'r Parameters,
        request: &'r HttpRequest<Bytes>,
    ) -> Self {
        Self {
            service,
            parameters,
            request,
            query: None,
        }
    }

    /// Returns a parameter of the path.
    pub(super) fn parameter(&self, name: &str) -> &'r str {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// Parses an identifier of the path.
    ///
    /// One that is not a UUID becomes the nil UUID, which nothing has, so that it fails where an
    /// unknown identifier does and no earlier.
    fn id(&self, name: &str) -> Uuid {
        let id = self.parameter(name).parse::<AuditLogId>();
        id.map_or(Uuid::nil(), |id| id.0)
    }

    /// Returns the query. Its problems are reported by [`Reader::finish`].
    pub(super) fn query(&mut self) -> &mut Query {
        let uri = self.request.uri();
        self.query.get_or_insert_with(|| Query::parse(uri))
    }

    /// Reads the body.
    fn body<T: Request>(&self) -> Result<T, Error> {
        body::read(self.request.body(), &self.service.checks())
    }

    /// Completes the inputs: returns the problems of the query.
    pub(super) fn finish(self) -> Result<(), Error> {
        self.query.map_or(Ok(()), |query| query.finish(()))
    }
}

impl<T: Request + Schema> Input for T {
    type Arg<'a>
        = &'a Self
    where
        Self: 'a;

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        request.body()
    }

    fn arg(&self) -> &Self {
        self
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, _name: &'static str) {
        operation.body::<Self>(T::IS_REQUIRED);
    }
}

/// An object without fields.
struct NoFields;

impl Request for NoFields {
    const IS_REQUIRED: bool = false;

    fn read(_: &mut Fields<'_, '_>) -> Option<Self> {
        Some(Self)
    }

    fn check(&self, _: &Path<'_>, _: &Checks<'_>, _: &mut Problems) {}

    fn write<M: SerializeMap>(&self, _: &mut M) -> Result<(), M::Error> {
        Ok(())
    }
}

/// Body of an operation that needs none: empty, or an object without fields.
pub(super) struct Empty;

impl Input for Empty {
    type Arg<'a> = ();

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        request.body::<NoFields>().map(|_| Self)
    }

    fn arg(&self) {}

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, _name: &'static str) {
        operation.empty_body();
    }
}

/// Implements [`Input`] for identifiers of the path.
macro_rules! identifiers {
    ($($id:ident),+ $(,)?) => {$(
        impl Input for $id {
            type Arg<'a> = Self;

            fn read(request: &mut Reader<'_>, name: &'static str) -> Result<Self, Error> {
                Ok(Self(request.id(name)))
            }

            fn arg(&self) -> Self {
                *self
            }

            #[cfg(feature = "openapi")]
            fn describe(operation: &mut Description<'_>, name: &'static str) {
                operation.path_parameter(name);
            }
        }
    )+};
}

identifiers! {
    AuditLogId, ChatId, ConnectorId, CredentialId, DeliveryId, EndpointId, ErasureId,
    InboundWebhookId, MemberId, MemoryId, OrgId, RecallId, RoleId, SourceId, SubscriptionId,
    WebhookId, WorkspaceId,
}

/// Slug of the organisation in the path.
pub(super) struct OrgSlug(String);

impl Input for OrgSlug {
    type Arg<'a> = &'a str;

    fn read(request: &mut Reader<'_>, name: &'static str) -> Result<Self, Error> {
        Ok(Self(request.parameter(name).to_owned()))
    }

    fn arg(&self) -> &str {
        &self.0
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, name: &'static str) {
        operation.slug_parameter(name, "Slug of the organisation.", "acme");
    }
}

/// Defines endpoints of the path: the names of their parameters and the variant of [`Endpoint`].
macro_rules! endpoints {
    ($($(#[$meta:meta])* $name:ident: $variant:ident($($parameter:literal),+);)+) => {$(
        $(#[$meta])*
        pub(super) struct $name(Endpoint);

        impl Input for $name {
            type Arg<'a> = Endpoint;

            fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
                Ok(Self(Endpoint::$variant($(request.id($parameter).into()),+)))
            }

            fn arg(&self) -> Endpoint {
                self.0
            }

            #[cfg(feature = "openapi")]
            fn describe(operation: &mut Description<'_>, _name: &'static str) {
                $(operation.path_parameter($parameter);)+
            }
        }
    )+};
}

endpoints! {
    /// Outbound webhook of the path.
    WebhookEndpoint: Webhook("id", "webhookId");
    /// Citation subscription of the path.
    SubscriptionEndpoint: Subscription("id");
}

impl Input for PageRequest {
    type Arg<'a> = &'a Self;

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        Ok(request.query().page())
    }

    fn arg(&self) -> &Self {
        self
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, _name: &'static str) {
        operation.page();
    }
}

impl Input for Option<IfMatch> {
    type Arg<'a> = Option<&'a IfMatch>;

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        Ok(headers::if_match(request.request.headers()))
    }

    fn arg(&self) -> Option<&IfMatch> {
        self.as_ref()
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, _name: &'static str) {
        operation.shared_parameter("If-Match");
    }
}

impl Input for IdempotencyKey {
    type Arg<'a> = &'a Self;

    fn read(request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        headers::idempotency_key(request.request.headers())
    }

    fn arg(&self) -> &Self {
        self
    }

    #[cfg(feature = "openapi")]
    fn describe(operation: &mut Description<'_>, _name: &'static str) {
        operation.shared_parameter("Idempotency-Key");
        operation.fails_with(Error::IdempotencyKeyRequired.code());
    }
}

/// Headers of Standard Webhooks that the signature covers. Its operation verifies them itself.
#[cfg(feature = "openapi")]
pub(super) struct SignedHeaders;

#[cfg(feature = "openapi")]
impl Input for SignedHeaders {
    type Arg<'a> = ();

    fn read(_request: &mut Reader<'_>, _name: &'static str) -> Result<Self, Error> {
        Ok(Self)
    }

    fn arg(&self) {}

    fn describe(operation: &mut Description<'_>, _name: &'static str) {
        operation.shared_parameter("webhook-id");
        operation.shared_parameter("webhook-timestamp");
    }
}
