//! HTTP interface without a network: maps a request to a response.
//!
//! This is the only router of the domain operations. Every front end passes its requests here, so
//! that paths, headers, statuses and bodies are the same everywhere.

pub mod admin;
mod body;
mod call;
mod client_scheme;
#[cfg(feature = "openapi")]
mod descriptions;
pub mod front_end;
mod handlers;
mod headers;
mod identity;
mod input;
mod json;
mod mcp;
#[cfg(feature = "openapi")]
pub mod openapi;
mod operations;
mod output;
mod query;
mod replay;
pub mod requests;
mod response;
mod route;
#[cfg(feature = "tower")]
mod tower;
mod verified_bearer;

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use uuid::Uuid;

pub use self::admin::AdminApi;
use self::call::Call;
pub use self::client_scheme::ClientScheme;
use self::identity::Identity;
pub use self::response::status;
use self::response::{Challenge, HandlerResult};
use self::route::{MCP_PATH, Parameters, Routes};
pub use self::verified_bearer::VerifiedBearer;
use crate::access::Credential;
use crate::error::Error;
use crate::model::OrgId;
pub use crate::operation::{
    Authentication, COMMON_ERROR_STATUSES, ErrorStyle, OPERATIONS, OPERATOR_ERROR_STATUSES,
    OPERATOR_OPERATIONS, Operation, OperationSpec, OperatorOperation, OperatorSpec,
};
pub use crate::service::ClientInfo;
use crate::service::KnowledgeService;

/// Path template of the operation that a response belongs to, with parameters in braces.
///
/// It is an extension of every response whose path belongs to the interface. Front ends use it in
/// metrics and traces, where the path itself has too many values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatchedRoute(pub &'static str);

/// A known caller, see [`Api::identify`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KnownCaller {
    /// Organisation that the caller belongs to.
    pub organization: OrgId,
    /// Member whose credential it is, or inbound webhook that a message is signed for.
    pub principal: Uuid,
    /// Member that the service account `principal` acts for, if it has done so before.
    pub acts_for: Option<Uuid>,
}

/// The HTTP interface of a service.
///
/// With the feature `tower`, it implements `tower_service::Service`.
///
/// ```
/// # use std::sync::Arc;
/// # use knowledge_core::{api::{Api, MatchedRoute}, env::Env};
/// # use knowledge_core::service::{KnowledgeService, Options, SealingKey};
/// # use knowledge_core::store::MemoryStore;
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let env = Env::system();
/// let options = Options::new(SealingKey::generate(&env));
/// let service = KnowledgeService::open(Arc::new(MemoryStore::new()), env, options).await?;
///
/// let request = http::Request::get("/v1/orgs/acme/custom-roles").body(bytes::Bytes::new())?;
/// let response = Api::new(service).handle(request).await;
/// assert_eq!(response.status(), 401);
/// let route = response.extensions().get::<MatchedRoute>();
/// assert_eq!(route, Some(&MatchedRoute("/v1/orgs/{orgSlug}/custom-roles")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Api {
    service: KnowledgeService,
    routes: Routes,
    trusted_origins: Vec<String>,
}

impl Api {
    /// Creates the interface of this service.
    #[must_use]
    pub fn new(service: KnowledgeService) -> Self {
        Self {
            service,
            routes: Routes::new(),
            trusted_origins: Vec::new(),
        }
    }

    /// Allows pages of these origins to write with a session cookie, as the service's own pages can.
    ///
    /// An origin is written as browsers send it: `https://app.example.com`.
    #[must_use]
    pub fn trust_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.trusted_origins
            .extend(origins.into_iter().map(Into::into));
        self
    }

    /// Identifies the caller of a request before it is handled, for rate limits and fair shares.
    ///
    /// Returns `None` if the credential that the operation at this path uses, or the signature of a
    /// message to an inbound webhook, is not valid, or if the store is unavailable. It grants
    /// nothing: [`handle`](Self::handle) authenticates callers itself. The result is kept in the
    /// extensions of the request, so that an unknown caller is not looked up and a signature not
    /// verified a second time.
    pub async fn identify(&self, request: &mut Request<Bytes>) -> Option<KnownCaller> {
        let (identity, caller) = self.identity(request).await?;
        request.extensions_mut().insert(identity);
        caller
    }

    async fn identity(&self, request: &Request<Bytes>) -> Option<(Identity, Option<KnownCaller>)> {
        let path = request.uri().path();
        if let Some(wanted) = self.routes.authentication(path).credential() {
            let credential = verified_bearer::credential(request, wanted).ok()?;
            return match self.service.recognize(&credential, wanted).await {
                Ok((organization, member)) => {
                    let acts_for = headers::act_for(request.headers(), wanted);
                    let acts_for = acts_for.ok().flatten();
                    let acts_for = acts_for
                        .and_then(|other| self.service.acted_for((organization, member), &other));
                    let caller = KnownCaller {
                        organization,
                        principal: member.0,
                        acts_for: acts_for.map(|other| other.0),
                    };
                    Some((Identity::Known, Some(caller)))
                }
                Err(Error::Unauthenticated { reason }) => Some((Identity::Unknown(reason), None)),
                Err(_) => None,
            };
        }
        let (spec, parameters) = self.routes.find(request.method(), path).ok()?;
        if spec.authentication != Authentication::Signature {
            return None;
        }
        let call = self.new_call(ClientInfo::default(), spec, &parameters, request);
        let message = call.verify_post().await.ok()?;
        let caller = KnownCaller {
            organization: message.organization(),
            principal: message.webhook().0,
            acts_for: None,
        };
        Some((Identity::Sender(Box::new(message)), Some(caller)))
    }

    /// Returns the organisation that the credential or the path of a request names.
    ///
    /// It is a hint for a router between services, and nothing is read: whether the credential is
    /// valid is unknown.
    #[must_use]
    pub fn org_hint(&self, request: &Request<Bytes>) -> Option<OrgId> {
        let path = request.uri().path();
        if let Some(wanted) = self.routes.authentication(path).credential() {
            return match verified_bearer::credential(request, wanted).ok()? {
                Credential::Secret(secret) => secret.org_hint(),
                Credential::Trusted { org, .. } => Some(org),
            };
        }
        let (spec, parameters) = self.routes.find(request.method(), path).ok()?;
        if spec.authentication != Authentication::Signature {
            return None;
        }
        let named = parameters.iter().find(|(name, _)| name == "org");
        named.and_then(|(_, org)| org.parse().ok())
    }

    /// Returns true if a signature authenticates such a request: its sender has no credential.
    #[must_use]
    pub fn is_signed(&self, method: &Method, path: &str) -> bool {
        let found = self.routes.find(method, path);
        found.is_ok_and(|(spec, _)| spec.authentication == Authentication::Signature)
    }

    fn new_call<'c>(
        &'c self,
        client: ClientInfo,
        spec: &OperationSpec,
        parameters: &'c Parameters,
        request: &'c Request<Bytes>,
    ) -> Call<'c> {
        Call {
            service: &self.service,
            client,
            parameters,
            request,
            success: spec.success,
            rejects_unknown_parameters: spec.error_statuses.contains(&400),
        }
    }

    /// Returns the service behind the interface.
    #[must_use]
    pub fn service(&self) -> &KnowledgeService {
        &self.service
    }

    /// Handles a request. Every response has a `Request-Id`.
    ///
    /// The audit log records the [`ClientInfo`] among the extensions of the request. If it has no
    /// identifier of the request, or if there is none, the request gets one.
    pub async fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        let client = request.extensions().get::<ClientInfo>().copied();
        let mut client = client.unwrap_or_default();
        let request_id = client
            .request_id
            .unwrap_or_else(|| self.service.env().uuid());
        client.request_id = Some(request_id);
        let (path, is_head) = (request.uri().path(), request.method() == Method::HEAD);
        let response = if path == MCP_PATH {
            self.handle_message(&request, client).await
        } else {
            self.handle_operation(&request, client).await
        };
        self.finish(response, request_id, path, is_head)
    }

    /// Carries out the operation of a request.
    async fn handle_operation(
        &self,
        request: &Request<Bytes>,
        client: ClientInfo,
    ) -> Response<Bytes> {
        let path = request.uri().path();
        let (response, style) = match self.routes.find(request.method(), path) {
            Ok((spec, parameters)) => {
                let call = self.new_call(client, spec, &parameters, request);
                let response = call.respond(spec, &self.trusted_origins).await;
                debug_assert!(
                    is_documented(spec, &response),
                    "{:?} does not document its result: {response:?}",
                    spec.operation
                );
                (response, spec.error_style)
            }
            Err(error) => (Err(error), self.routes.error_style(path)),
        };
        match response {
            Ok(response) => response.into_response(),
            Err(error) => self.failure(request, &error, style),
        }
    }

    fn failure(
        &self,
        request: &Request<Bytes>,
        error: &Error,
        style: ErrorStyle,
    ) -> Response<Bytes> {
        let challenge = Challenge {
            wanted: self.routes.authentication(request.uri().path()),
            has_token: headers::has_token(request.headers()),
        };
        response::error_response(error, style, challenge)
    }

    /// Returns the response to a request that a front end rejects before routing.
    ///
    /// It has the error style of the operation at its path.
    pub fn reject(&self, method: &Method, uri: &Uri, error: &Error) -> Response<Bytes> {
        let path = uri.path();
        let style = self.routes.find(method, path).map_or_else(
            |_| self.routes.error_style(path),
            |(spec, _)| spec.error_style,
        );
        let challenge = Challenge {
            wanted: self.routes.authentication(path),
            has_token: false,
        };
        let response = response::error_response(error, style, challenge);
        let request_id = self.service.env().uuid();
        self.finish(response, request_id, path, method == Method::HEAD)
    }

    fn finish(
        &self,
        response: Response<Bytes>,
        request_id: Uuid,
        path: &str,
        is_head: bool,
    ) -> Response<Bytes> {
        let mut response = if is_head {
            response::without_body(response)
        } else {
            response
        };
        response::add_request_id(&mut response, request_id);
        let endpoint = Some(MCP_PATH).filter(|endpoint| *endpoint == path);
        if let Some(route) = self.routes.template(path).or(endpoint) {
            response.extensions_mut().insert(MatchedRoute(route));
        }
        response
    }
}

/// Returns true if the table of operations lists this result for the operation.
fn is_documented(spec: &OperationSpec, response: &HandlerResult) -> bool {
    match response {
        Ok(response) => response.is_not_modified() || spec.succeeds_with(response.status()),
        Err(error) => spec.documents(status(error).as_u16()),
    }
}
