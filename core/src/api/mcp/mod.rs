//! Endpoint of the Model Context Protocol: tools with which assistants recall memories.
//!
//! It speaks version 2026-07-28 of the protocol, and versions 2025-11-25 and 2025-06-18 with clients
//! that begin with `initialize`. There are no sessions and no streams: each message is a POST, and
//! each response one JSON object. A tool calls operations of the interface with the credential of
//! the request, so that their rules, limits and audit are the same for assistants.

mod message;
mod place;
mod tools;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::{Map, Value, json};

use self::message::{Code, Message, ProtocolError, VERSIONS, object, server};
use self::place::Place;
use self::tools::{Failure, Tools};
use super::query::Query;
use super::response::ApiResponse;
use super::{Api, headers, verified_bearer};
use crate::access::CredentialKind;
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{Workspace, WorkspaceId};
use crate::operation::ErrorStyle;
use crate::service::{Caller, ClientInfo, Principal};

/// Time for which clients may keep what they know of this server, in milliseconds.
const SERVER_MILLIS: u64 = 60 * 60 * 1_000;

impl Api {
    /// Handles a request to the endpoint.
    pub(super) async fn handle_message(
        &self,
        request: &Request<Bytes>,
        client: ClientInfo,
    ) -> Response<Bytes> {
        match self.receive(request, client).await {
            Ok(response) => response,
            Err(error) => self.failure(request, &error, ErrorStyle::Body),
        }
    }

    /// Receives a message of a known caller, and returns the response to it.
    async fn receive(
        &self,
        request: &Request<Bytes>,
        client: ClientInfo,
    ) -> Result<Response<Bytes>, Error> {
        if request.method() != Method::POST {
            let allow = Method::POST.to_string();
            return Err(Error::MethodNotAllowed { allow });
        }
        headers::reject_foreign_origin(request.headers(), &self.trusted_origins)?;
        let credential = verified_bearer::credential(request, CredentialKind::Bearer)?;
        let caller = Caller::new(credential);
        let principal = self
            .service
            .authenticate(&caller, CredentialKind::Bearer)
            .await?;
        let bytes_max = self.service.limits().body_bytes_max;
        if request.body().len() > bytes_max {
            return Err(Error::PayloadTooLarge { bytes_max });
        }
        headers::require_json(request.headers(), true)?;
        let named = named_workspace(request)?;
        let message = match Message::parse(request.headers(), request.body()) {
            Ok(message) => message,
            Err(refused) => return Ok(refused.into_response()),
        };
        if message.id.is_none() {
            return Ok(ApiResponse::empty(StatusCode::ACCEPTED).into_response());
        }
        let id = match only_workspace(&principal, named) {
            Ok(id) => id,
            Err(error) => return Ok(message.refuse(error)),
        };
        let place = self.place(&principal, id, request.headers()).await?;
        let tools = Tools {
            api: self,
            request,
            client,
            principal: &principal,
            place: &place,
        };
        let result = match (&*message.method, message.is_stateless) {
            ("server/discover", true) => Ok(discovery(&place)),
            ("initialize", false) => Ok(initialization(&place, &message)),
            ("ping", false) => Ok(Map::new()),
            ("tools/list", _) => Ok(tools.list()),
            ("tools/call", _) => match tools.call(&message.params).await {
                Ok(result) => Ok(result),
                Err(Failure::Protocol(error)) => Err(error),
                Err(Failure::Unauthenticated) => {
                    let reason = "the credential has ended";
                    return Err(Error::Unauthenticated { reason });
                }
            },
            (method, _) => Err(ProtocolError::unknown_method(method)),
        };
        Ok(message.respond(result))
    }

    /// Reads the workspace of a message.
    ///
    /// # Errors
    /// [`Error::NotFound`] for one that does not exist for the caller.
    async fn place(
        &self,
        principal: &Principal,
        id: WorkspaceId,
        headers: &HeaderMap,
    ) -> Result<Place, Error> {
        let mut workspace = None;
        if principal.works_in(id) && principal.knows(id) {
            let key = keys::workspace(principal.org_id(), id);
            workspace = self.service.reading().get::<Workspace>(&key).await?;
        }
        // A private workspace may exist for the member alone. The operations decide.
        if workspace.is_none() && !headers.contains_key(headers::ACT_FOR) {
            return Err(Error::not_found(EntityKind::Workspace));
        }
        let proposal_source = self.service.proposal_source(principal, id).await?;
        Ok(Place {
            id,
            workspace,
            proposal_source,
        })
    }
}

/// Reads the workspace in the query, for credentials that are not limited to one.
fn named_workspace(request: &Request<Bytes>) -> Result<Option<WorkspaceId>, Error> {
    let mut query = Query::parse(request.uri());
    let workspace = query.parsed("workspace");
    query.finish(workspace)
}

/// Returns the workspace of a credential that is limited to one, as MCP keys are, or else the one
/// that the request names.
fn only_workspace(
    principal: &Principal,
    named: Option<WorkspaceId>,
) -> Result<WorkspaceId, ProtocolError> {
    let problem = match (principal.workspaces(), named) {
        (Some([only]), None) => return Ok(*only),
        (Some([only]), Some(named)) if *only != named => {
            "the credential is for another workspace than the query names"
        }
        (_, Some(named)) => return Ok(named),
        (_, None) => {
            "the credential is not limited to one workspace: add ?workspace=<id> to the URL"
        }
    };
    Err(ProtocolError::new(Code::InvalidParams, problem))
}

/// Returns what clients may know of this server.
fn discovery(place: &Place) -> Map<String, Value> {
    object([
        ("supportedVersions", json!(VERSIONS)),
        ("capabilities", json!({ "tools": {} })),
        ("instructions", json!(place.instructions())),
        ("ttlMs", json!(SERVER_MILLIS)),
        ("cacheScope", json!("private")),
    ])
}

fn initialization(place: &Place, message: &Message) -> Map<String, Value> {
    object([
        ("protocolVersion", json!(message.negotiated())),
        ("capabilities", json!({ "tools": {} })),
        ("serverInfo", server()),
        ("instructions", json!(place.instructions())),
    ])
}
