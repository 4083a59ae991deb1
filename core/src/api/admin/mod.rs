//! The operator's interface: provisioning over HTTP without a network.
//!
//! Requests are not authenticated: every caller can do everything. A front end offers the interface
//! to the operator only, such as on a socket in the file system with mode 0600, and never on the
//! address for clients; [`Api`](super::Api) does not know its paths. Errors have the bodies of the
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
use http::{Request, Response};
use uuid::Uuid;

pub use self::credentials::{CredentialState, CredentialView};
pub use self::members::{MemberView, WorkspaceRoleView};
#[cfg(feature = "openapi")]
pub(super) use self::operations::describe;
use super::call::Call;
use super::response::{self, HandlerResult};
use super::route::Router;
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
#[derive(Clone, Debug)]
pub struct AdminApi {
    service: KnowledgeService,
    router: Router,
}

impl AdminApi {
    /// Creates the operator's interface to this service.
    #[must_use]
    pub fn new(service: KnowledgeService) -> Self {
        let rows = OPERATOR_OPERATIONS.iter().enumerate();
        let rows = rows.map(|(row, spec)| (spec.path, spec.method.clone(), row));
        Self {
            service,
            router: Router::new(rows),
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
        let result = respond(operator, &self.router, &request).await;
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
    router: &Router,
    request: &Request<Bytes>,
) -> HandlerResult {
    let (row, parameters) = router.find(request.method(), request.uri().path())?;
    let spec = &OPERATOR_OPERATIONS[row];
    let call = Call {
        service: operator.service,
        client: operator.client,
        parameters: &parameters,
        request,
        success: spec.success,
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

    /// Reads the organisation with this slug.
    async fn org(self, slug: &str) -> Result<Organization, Error> {
        let found = self.provisioning().organization(slug).await?;
        found.ok_or(Error::not_found(EntityKind::Organization))
    }
}
