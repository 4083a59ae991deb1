//! The operator's interface: provisioning over HTTP without a network.
//!
//! Requests are not authenticated: every caller can do everything. A front end offers the interface
//! to the operator only, such as on a socket in the file system with mode 0600, and never on the
//! address for clients; [`Api`] does not know its paths. Errors have the bodies of the
//! public interface, with details that clients do not get. Every change is in the audit log,
//! without a member as its actor, unless its path names the member on whose behalf it is made: that
//! member then has to be permitted to make it.
//!
//! [`OPERATOR_OPERATIONS`] lists the operations. With the feature
//! `openapi`, `api::openapi::operator_document` describes them. Organisations are named by slug,
//! workspaces by slug or identifier, members by handle or identifier.
//!
//! Lists are paginated by `limit`, `cursor` and `next_cursor`, as in the public interface.

/// Defines operations that look the organisation up and then call one function of provisioning.
macro_rules! of_organization {
    ($($name:ident($($argument:ident: $type:ty),*) -> $output:ty = $function:ident;)+) => {
        impl Operator<'_> {$(
            pub(super) async fn $name(
                self,
                org: &str
                $(, $argument: $type)*
            ) -> Result<$output, Error> {
                let org = self.org(org).await?;
                self.provisioning().$function(org.id $(, $argument)*).await
            }
        )+}
    };
}

mod credentials;
mod deliveries;
mod members;
mod memories;
mod operations;
mod organizations;
pub mod requests;

use bytes::Bytes;
use http::header::HOST;
use http::{Method, Request, Response};
use uuid::Uuid;

pub use self::credentials::{CredentialState, CredentialView};
pub use self::members::{MemberView, WorkspaceRoleView};
#[cfg(feature = "openapi")]
pub(super) use self::operations::describe;
use super::call::Call;
use super::response::{self, HandlerResult};
use super::route::{MCP_PATH, Parameters, Router};
use super::{Api, VerifiedBearer};
use crate::access::Credential;
use crate::error::{EntityKind, Error};
use crate::model::{MemberId, OrgId, Organization};
use crate::operation::{OPERATOR_ERROR_STATUSES, OPERATOR_OPERATIONS, OperatorSpec};
use crate::service::{Caller, ClientInfo, KnowledgeService, Provisioning};

/// The operator's interface to a service.
///
/// ```
/// # use std::sync::Arc;
/// # use knowledge_core::{api::AdminApi, env::Env};
/// # use knowledge_core::service::{KnowledgeService, Options, SealingKey};
/// # use knowledge_core::store::MemoryStore;
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let env = Env::system();
/// # let options = Options::new(SealingKey::generate(&env));
/// # let service = KnowledgeService::open(Arc::new(MemoryStore::new()), env, options).await?;
/// let admin = AdminApi::new(service);
/// let body = r#"{"slug": "acme", "name": "Acme", "owner": {"handle": "maya", "name": "Maya"}}"#;
/// let request = http::Request::post("/admin/v1/orgs")
///     .header("content-type", "application/json")
///     .body(bytes::Bytes::from(body))?;
/// assert_eq!(admin.handle(request).await.status(), 201);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// `POST …/members/{member}/workspaces/{workspace}/mcp` passes a message of the Model Context
/// Protocol to `/mcp` of the public interface, as one of that member.
#[derive(Clone, Debug)]
pub struct AdminApi {
    service: KnowledgeService,
    router: Router,
    public: Api,
}

/// Path of messages of the Model Context Protocol, and its row in the router.
const MESSAGES: &str = "/admin/v1/orgs/{org}/members/{member}/workspaces/{workspace}/mcp";
const MESSAGES_ROW: usize = OPERATOR_OPERATIONS.len();

impl AdminApi {
    /// Creates the operator's interface to this service.
    #[must_use]
    pub fn new(service: KnowledgeService) -> Self {
        let rows = OPERATOR_OPERATIONS.iter().enumerate();
        let rows = rows.map(|(row, spec)| (spec.path, spec.method.clone(), row));
        let messages = (MESSAGES, Method::POST, MESSAGES_ROW);
        Self {
            public: Api::new(service.clone()),
            service,
            router: Router::new(rows.chain([messages])),
        }
    }

    /// Returns the service behind the interface.
    #[must_use]
    pub fn service(&self) -> &KnowledgeService {
        &self.service
    }

    /// Handles a request. Every response has a `Request-Id`.
    pub async fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        let mut client = ClientInfo::default();
        let request_id = self.service.env().uuid();
        client.request_id = Some(request_id);
        let operator = Operator {
            service: &self.service,
            client,
        };
        let (method, path) = (request.method(), request.uri().path());
        let result = match self.router.find(method, path) {
            Ok((MESSAGES_ROW, parameters)) => match operator.message(&parameters, &request).await {
                Ok(message) => return self.public.handle(message).await,
                Err(error) => Err(error),
            },
            Ok((row, parameters)) => {
                respond(operator, &OPERATOR_OPERATIONS[row], &parameters, &request).await
            }
            Err(error) => Err(error),
        };
        finish(result, request_id)
    }

    /// Returns the response to a request that a front end rejects.
    #[must_use]
    pub fn reject(&self, error: Error) -> Response<Bytes> {
        finish(Err(error), self.service.env().uuid())
    }
}

fn finish(result: HandlerResult, request_id: Uuid) -> Response<Bytes> {
    let mut response = match result {
        Ok(response) => response.into_response(),
        Err(error) => response::operator_error_response(&error),
    };
    response::add_request_id(&mut response, request_id);
    response
}

async fn respond(
    operator: Operator<'_>,
    spec: &OperatorSpec,
    parameters: &Parameters,
    request: &Request<Bytes>,
) -> HandlerResult {
    let call = Call {
        service: operator.service,
        client: operator.client,
        parameters,
        request,
        success: spec.success,
        rejects_unknown_parameters: spec.error_statuses.contains(&400),
    };
    call.check_length()?;
    call.require_json()?;
    let result = match operations::dispatch(&call, spec.operation, &operator).await {
        Err(Error::Conflict) if !spec.error_statuses.contains(&409) => {
            Err(Error::unavailable("contention"))
        }
        result => result,
    };
    debug_assert!(
        is_documented(spec, &result),
        "{:?} does not document its result: {result:?}",
        spec.operation
    );
    result
}

/// Returns true if the table lists this result for the operation.
fn is_documented(spec: &OperatorSpec, result: &HandlerResult) -> bool {
    let status = match result {
        Ok(response) => return response.status() == spec.success,
        Err(error) => response::status(error).as_u16(),
    };
    spec.error_statuses.contains(&status) || OPERATOR_ERROR_STATUSES.contains(&status)
}

/// Functions of the operations. Every caller can do everything.
#[derive(Clone, Copy)]
struct Operator<'s> {
    service: &'s KnowledgeService,
    client: ClientInfo,
}

impl<'s> Operator<'s> {
    fn provisioning(self) -> Provisioning<'s> {
        self.service.provisioning().with_client(self.client)
    }

    /// Returns a member as the caller of an operation that is made on its behalf.
    fn on_behalf_of(self, org: OrgId, member: MemberId) -> Caller {
        Caller::new(Credential::Trusted { org, member }).with_client(self.client)
    }

    /// Returns a message of a member as the public interface takes it.
    async fn message(
        self,
        parameters: &Parameters,
        request: &Request<Bytes>,
    ) -> Result<Request<Bytes>, Error> {
        let [org, member, workspace] = parameters.as_slice() else {
            return Err(Error::not_found(EntityKind::Path));
        };
        let org = self.org(&org.1).await?;
        let member = self.require_member(&org, &member.1).await?.id;
        let workspace = self.workspace_in_path(org.id, &workspace.1).await?.id;
        let mut message = request.clone();
        let uri = format!("{MCP_PATH}?workspace={workspace}");
        *message.uri_mut() = uri.parse().expect("an identifier is visible ASCII");
        // The host of a socket is no address for people.
        message.headers_mut().remove(HOST);
        message.extensions_mut().insert(self.client);
        message.extensions_mut().insert(VerifiedBearer::Member {
            organization: org.id,
            member,
        });
        Ok(message)
    }

    /// Reads the organisation with this slug.
    async fn org(self, slug: &str) -> Result<Organization, Error> {
        let found = self.provisioning().organization(slug).await?;
        found.ok_or(Error::not_found(EntityKind::Organization))
    }
}
