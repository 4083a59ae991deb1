//! The operator's interface: provisioning over HTTP without a network.
//!
//! Requests are not authenticated: every caller can do everything. A front end offers the interface
//! to the operator only, such as on a socket in the file system with mode 0600, and never on the
//! address for clients; [`Api`](super::Api) does not know its paths. Errors have the bodies of the
//! public interface, with details that clients do not get. Every change is in the audit log,
//! without a member as its actor.
//!
//! | method | path under `/admin/v1` | purpose |
//! | --- | --- | --- |
//! | GET, POST | `/orgs` | lists organisations; creates one with its owner |
//! | GET | `/orgs/{org}` | one organisation, by its slug |
//! | GET, POST | `/orgs/{org}/workspaces` | lists workspaces; creates one |
//! | GET | `/orgs/{org}/workspaces/{workspace}` | one workspace, by its slug or identifier |
//! | GET, POST | `/orgs/{org}/members` | lists members; adds one |
//! | GET, DELETE | `/orgs/{org}/members/{member}` | one member, by its handle or identifier; removes it |
//! | PUT, DELETE | `/orgs/{org}/members/{member}/role` | assigns a role, or removes the one in a workspace (`?workspace=`) |
//! | GET, POST | `/orgs/{org}/credentials` | lists tokens and sessions (`?kind=`); issues one |
//! | DELETE | `/orgs/{org}/credentials/{credential}` | revokes one, by its identifier (`?kind=` rejects the other kind) |
//! | GET | `/orgs/{org}/endpoints` | lists outbound webhooks and citation subscriptions (`?workspace=`) |
//! | GET | `/orgs/{org}/endpoints/{endpoint}` | one of them, by its identifier |
//! | GET | `/orgs/{org}/endpoints/{endpoint}/deliveries` | lists the deliveries to it (`?status=`), newest event first |
//! | GET | `/orgs/{org}/endpoints/{endpoint}/deliveries/{delivery}` | one delivery, with its attempts |
//! | POST | `/orgs/{org}/endpoints/{endpoint}/deliveries/{delivery}/redeliver` | redelivers it |
//! | POST | `/orgs/{org}/endpoints/{endpoint}/deliveries/redeliver-dead` | redelivers the dead letters |
//! | POST | `/orgs/{org}/endpoints/{endpoint}/ping` | sends a test event |
//!
//! Lists are paginated by `limit`, `cursor` and `next_cursor`, as in the public interface.

mod credentials;
mod deliveries;
mod members;
mod organizations;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};

pub use self::credentials::{CredentialState, CredentialView};
pub use self::members::{MemberView, WorkspaceRoleView};
use super::response::{self, ApiResponse};
use super::{HandlerResult, headers};
use crate::error::Error;
use crate::model::Organization;
use crate::service::{KnowledgeService, Provisioning};

/// Operation of the operator's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    ListOrganizations,
    CreateOrganization,
    GetOrganization,
    ListWorkspaces,
    CreateWorkspace,
    GetWorkspace,
    ListMembers,
    CreateMember,
    GetMember,
    RemoveMember,
    AssignRole,
    EndRole,
    ListCredentials,
    IssueCredential,
    RevokeCredential,
    ListEndpoints,
    GetEndpoint,
    ListDeliveries,
    GetDelivery,
    Redeliver,
    RedeliverDead,
    Ping,
}

type Methods = &'static [(Method, Operation)];

const ROUTES: &[(&str, Methods)] = &[
    (
        "/admin/v1/orgs",
        &[
            (Method::GET, Operation::ListOrganizations),
            (Method::POST, Operation::CreateOrganization),
        ],
    ),
    (
        "/admin/v1/orgs/{org}",
        &[(Method::GET, Operation::GetOrganization)],
    ),
    (
        "/admin/v1/orgs/{org}/workspaces",
        &[
            (Method::GET, Operation::ListWorkspaces),
            (Method::POST, Operation::CreateWorkspace),
        ],
    ),
    (
        "/admin/v1/orgs/{org}/workspaces/{workspace}",
        &[(Method::GET, Operation::GetWorkspace)],
    ),
    (
        "/admin/v1/orgs/{org}/members",
        &[
            (Method::GET, Operation::ListMembers),
            (Method::POST, Operation::CreateMember),
        ],
    ),
    (
        "/admin/v1/orgs/{org}/members/{member}",
        &[
            (Method::DELETE, Operation::RemoveMember),
            (Method::GET, Operation::GetMember),
        ],
    ),
    (
        "/admin/v1/orgs/{org}/members/{member}/role",
        &[
            (Method::DELETE, Operation::EndRole),
            (Method::PUT, Operation::AssignRole),
        ],
    ),
    (
        "/admin/v1/orgs/{org}/credentials",
        &[
            (Method::GET, Operation::ListCredentials),
            (Method::POST, Operation::IssueCredential),
        ],
    ),
    (
        "/admin/v1/orgs/{org}/credentials/{credential}",
        &[(Method::DELETE, Operation::RevokeCredential)],
    ),
    (
        "/admin/v1/orgs/{org}/endpoints",
        &[(Method::GET, Operation::ListEndpoints)],
    ),
    (
        "/admin/v1/orgs/{org}/endpoints/{endpoint}",
        &[(Method::GET, Operation::GetEndpoint)],
    ),
    (
        "/admin/v1/orgs/{org}/endpoints/{endpoint}/deliveries",
        &[(Method::GET, Operation::ListDeliveries)],
    ),
    (
        "/admin/v1/orgs/{org}/endpoints/{endpoint}/deliveries/{delivery}",
        &[(Method::GET, Operation::GetDelivery)],
    ),
    (
        "/admin/v1/orgs/{org}/endpoints/{endpoint}/deliveries/{delivery}/redeliver",
        &[(Method::POST, Operation::Redeliver)],
    ),
    (
        "/admin/v1/orgs/{org}/endpoints/{endpoint}/deliveries/redeliver-dead",
        &[(Method::POST, Operation::RedeliverDead)],
    ),
    (
        "/admin/v1/orgs/{org}/endpoints/{endpoint}/ping",
        &[(Method::POST, Operation::Ping)],
    ),
];

/// The operator's interface to a service.
///
/// ```
/// # use std::sync::Arc;
/// # use knowledge_core::{api::AdminApi, env::Env, model::Timestamp};
/// # use knowledge_core::service::{KnowledgeService, Options, SealingKey};
/// # use knowledge_core::store::MemoryStore;
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let env = Env::new(|| Timestamp::UNIX_EPOCH, |buffer: &mut [u8]| buffer.fill(7));
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
    routes: Arc<matchit::Router<Methods>>,
}

impl AdminApi {
    /// Creates the operator's interface to this service.
    #[must_use]
    pub fn new(service: KnowledgeService) -> Self {
        let mut routes = matchit::Router::new();
        for (path, methods) in ROUTES {
            routes
                .insert(*path, *methods)
                .expect("the paths do not overlap");
        }
        Self {
            service,
            routes: Arc::new(routes),
        }
    }

    /// Returns the service behind the interface.
    #[must_use]
    pub fn service(&self) -> &KnowledgeService {
        &self.service
    }

    /// Handles a request. Every response has a `Request-Id`.
    pub async fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        let result = match self.find(&request) {
            Ok((operation, parameters)) => {
                let call = Call {
                    service: &self.service,
                    parameters: &parameters,
                    request: &request,
                };
                call.respond(operation).await
            }
            Err(error) => Err(error),
        };
        self.finish(result)
    }

    /// Returns the response to a request that a front end rejects.
    #[must_use]
    pub fn reject(&self, error: Error) -> Response<Bytes> {
        self.finish(Err(error))
    }

    fn finish(&self, result: HandlerResult) -> Response<Bytes> {
        let mut response = match result {
            Ok(response) => response.into_response(),
            Err(error) => response::operator_error_response(&error),
        };
        response::add_request_id(&mut response, self.service.env().uuid());
        response
    }

    fn find(&self, request: &Request<Bytes>) -> Result<(Operation, Parameters), Error> {
        let path = request.uri().path();
        let found = self.routes.at(path);
        let found = found.map_err(|_| Error::NotFound { what: "path" })?;
        let methods = found.value;
        let operation = methods
            .iter()
            .find(|(method, _)| method == request.method());
        let Some((_, operation)) = operation else {
            let methods: Vec<_> = methods.iter().map(|(method, _)| method.as_str()).collect();
            let allow = methods.join(", ");
            return Err(Error::MethodNotAllowed { allow });
        };
        let parameters = found
            .params
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok((*operation, parameters.collect()))
    }
}

type Parameters = BTreeMap<String, String>;

/// A request in progress.
struct Call<'c> {
    service: &'c KnowledgeService,
    parameters: &'c Parameters,
    request: &'c Request<Bytes>,
}

impl Call<'_> {
    async fn respond(&self, operation: Operation) -> HandlerResult {
        let bytes_max = self.service.limits().body_bytes_max;
        if self.request.body().len() > bytes_max {
            return Err(Error::PayloadTooLarge { bytes_max });
        }
        headers::require_json(self.request.headers(), !self.request.body().is_empty())?;
        match operation {
            Operation::ListOrganizations => self.list_organizations().await,
            Operation::CreateOrganization => self.create_organization().await,
            Operation::GetOrganization => Ok(self.ok(&self.org().await?)),
            Operation::ListWorkspaces => self.list_workspaces().await,
            Operation::CreateWorkspace => self.create_workspace().await,
            Operation::GetWorkspace => self.workspace().await,
            Operation::ListMembers => self.list_members().await,
            Operation::CreateMember => self.create_member().await,
            Operation::GetMember => self.member().await,
            Operation::RemoveMember => self.remove_member().await,
            Operation::AssignRole => self.assign_role().await,
            Operation::EndRole => self.end_role().await,
            Operation::ListCredentials => self.list_credentials().await,
            Operation::IssueCredential => self.issue_credential().await,
            Operation::RevokeCredential => self.revoke_credential().await,
            Operation::ListEndpoints => self.list_endpoints().await,
            Operation::GetEndpoint => self.endpoint().await,
            Operation::ListDeliveries => self.list_deliveries().await,
            Operation::GetDelivery => self.delivery().await,
            Operation::Redeliver => self.redeliver().await,
            Operation::RedeliverDead => self.redeliver_dead().await,
            Operation::Ping => self.ping().await,
        }
    }

    fn provisioning(&self) -> Provisioning<'_> {
        self.service.provisioning()
    }

    /// Reads the organisation of the path.
    async fn org(&self) -> Result<Organization, Error> {
        let found = self
            .provisioning()
            .organization(self.parameter("org"))
            .await?;
        found.ok_or(Error::NotFound {
            what: "organisation",
        })
    }

    fn ok<T: serde::Serialize>(&self, body: &T) -> ApiResponse {
        ApiResponse::json(http::StatusCode::OK, body)
    }

    fn created<T: serde::Serialize>(&self, body: &T) -> ApiResponse {
        ApiResponse::json(http::StatusCode::CREATED, body)
    }

    fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_table_matches_routes() {
        let table: Vec<&str> = include_str!("mod.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//! | "))
            .skip(2)
            .collect();
        let documented = table.iter().map(|row| {
            let cells: Vec<&str> = row.split(" | ").collect();
            let methods: Vec<&str> = cells[0].split(", ").collect();
            (methods, format!("/admin/v1{}", cells[1].trim_matches('`')))
        });
        let documented: Vec<_> = documented.collect();
        let routes = ROUTES.iter().map(|(path, methods)| {
            let mut methods: Vec<&str> =
                methods.iter().map(|(method, _)| method.as_str()).collect();
            // The documented order begins with the safest method.
            methods.sort_by_key(|method| {
                ["GET", "POST", "PUT", "DELETE"]
                    .iter()
                    .position(|m| m == method)
            });
            (methods, (*path).to_owned())
        });
        assert_eq!(documented, routes.collect::<Vec<_>>());
    }
}
