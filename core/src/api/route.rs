//! Table of operations: methods, paths, statuses and error styles.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;

use crate::access::CredentialKind;
use crate::error::Error;

/// Form of an error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorStyle {
    /// A JSON body with `error`, `message` and `details`.
    Body,
    /// An empty body, with the headers `Error-Code` and `Error-Message`.
    Headers,
}

/// Authentication scheme of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// Access token: `Authorization: Bearer wkt_…`.
    Bearer,
    /// Session: the cookie `service_session=wks_…`.
    Session,
    /// Signature over the body (Standard Webhooks 1.0.0).
    Signature,
}

impl Authentication {
    /// Returns the kind of credential that the scheme uses, if any.
    #[must_use]
    pub const fn credential(self) -> Option<CredentialKind> {
        match self {
            Self::Bearer => Some(CredentialKind::Bearer),
            Self::Session => Some(CredentialKind::Session),
            Self::Signature => None,
        }
    }
}

impl std::fmt::Display for Authentication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bearer => "bearer",
            Self::Session => "session",
            Self::Signature => "signature",
        })
    }
}

/// Origin of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Interface specification.
    Specified,
    /// Addition of this project that supports the specified operations.
    Addition,
}

/// One operation of the interface.
#[derive(Clone, Debug)]
pub struct OperationSpec {
    /// Identifier of the operation.
    pub operation: Operation,
    /// Summary in one sentence.
    pub summary: &'static str,
    /// Capability that the operation belongs to.
    pub capability: &'static str,
    /// HTTP method.
    pub method: Method,
    /// Path template, parameters in braces.
    pub path: &'static str,
    /// Authentication scheme.
    pub authentication: Authentication,
    /// Form of its error responses.
    pub error_style: ErrorStyle,
    /// Origin of the operation.
    pub origin: Origin,
    /// Status of a successful response.
    pub success: u16,
    /// Statuses of its error responses, besides [`COMMON_REFUSALS`].
    pub refusals: &'static [u16],
}

/// Statuses of error responses that every operation has.
pub const COMMON_REFUSALS: &[u16] = &[401, 403, 413, 415, 429, 500, 503];

impl OperationSpec {
    /// Returns true if the operation documents an error response with this status.
    #[must_use]
    pub fn documents(&self, status: u16) -> bool {
        self.refusals.contains(&status) || COMMON_REFUSALS.contains(&status)
    }
}

/// Defines the operations: the enumeration and the table.
///
/// A capability holds rows of `Name: METHOD "path", authentication, error style, origin, success,
/// [error statuses]`. The documentation of the name is its summary.
macro_rules! operations {
    ($($capability:literal {$(
        #[doc = $summary:literal]
        $name:ident: $method:ident $path:literal, $authentication:ident, $style:ident, $origin:ident, $success:literal,
            [$($refusal:literal),*];
    )+})+) => {
        /// An operation of the interface.
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operation {
            $($(#[doc = $summary] $name,)+)+
        }

        impl Operation {
            /// Returns the operation's identifier in the OpenAPI document, such as
            /// `bulkUpdateMemories`.
            #[must_use]
            pub fn id(self) -> String {
                let name = match self {
                    $($(Self::$name => stringify!($name),)+)+
                };
                let mut chars = name.chars();
                chars.next().map_or_else(String::new, |first| {
                    first.to_ascii_lowercase().to_string() + chars.as_str()
                })
            }
        }

        /// All operations.
        pub const OPERATIONS: &[OperationSpec] = &[$($(OperationSpec {
            operation: Operation::$name,
            summary: $summary.trim_ascii(),
            capability: $capability,
            method: Method::$method,
            path: $path,
            authentication: Authentication::$authentication,
            error_style: ErrorStyle::$style,
            origin: Origin::$origin,
            success: $success,
            refusals: &[$($refusal),*],
        },)+)+];
    };
}

operations! {
    "Memories" {
        /// Changes attributes of many memories.
        BulkUpdateMemories: PATCH "/v1/memories/bulk", Bearer, Body, Specified, 200, [400, 409, 422];
        /// Lists the memories of a workspace.
        ListMemories: GET "/v1/workspaces/{id}/memories", Bearer, Body, Addition, 200, [400, 404];
        /// Adds a memory to a workspace.
        CreateMemory: POST "/v1/workspaces/{id}/memories", Bearer, Body, Addition, 201, [400, 404];
        /// Ingests a batch of memories from a source.
        IngestMemories: POST "/v1/workspaces/{id}/ingest", Bearer, Body, Addition, 200, [400, 404];
        /// Changes a memory.
        UpdateMemory: PATCH "/v1/memories/{id}", Bearer, Body, Addition, 200, [400, 404, 412];
        /// Deletes a memory.
        DeleteMemory: DELETE "/v1/memories/{id}", Bearer, Body, Addition, 204, [404];
        /// Reads a memory.
        GetMemory: GET "/v1/memories/{id}", Bearer, Body, Addition, 200, [404];
    }
    "Workspaces" {
        /// Lists the workspaces in the scope of the credential.
        ListWorkspaces: GET "/v1/workspaces", Bearer, Body, Addition, 200, [400];
        /// Reads a workspace.
        GetWorkspace: GET "/v1/workspaces/{id}", Bearer, Body, Addition, 200, [404];
    }
    "Sources" {
        /// Creates a source.
        CreateSource: POST "/v1/sources", Bearer, Body, Addition, 201, [400];
        /// Lists the sources of the organisation.
        ListSources: GET "/v1/sources", Bearer, Body, Addition, 200, [400];
        /// Reads a source.
        GetSource: GET "/v1/sources/{id}", Bearer, Body, Addition, 200, [404];
    }
    "Dashboard" {
        /// Summarises a workspace for its dashboard.
        GetDashboardSummary: GET "/v1/workspaces/{id}/dashboard-summary", Bearer, Headers, Specified, 200, [404];
    }
    "Connectors" {
        /// Creates a connector.
        CreateConnector: POST "/v1/workspaces/{id}/connectors", Bearer, Body, Addition, 201, [400, 404];
        /// Lists a workspace's connectors with their health.
        ListConnectors: GET "/v1/workspaces/{id}/connectors", Bearer, Body, Addition, 200, [400, 404];
        /// Reads a connector with its health.
        GetConnector: GET "/v1/workspaces/{id}/connectors/{connectorId}", Bearer, Body, Addition, 200, [404];
        /// Changes a connector.
        UpdateConnector: PATCH "/v1/workspaces/{id}/connectors/{connectorId}", Bearer, Body, Addition, 200,
            [400, 404];
        /// Deletes a connector.
        DeleteConnector: DELETE "/v1/workspaces/{id}/connectors/{connectorId}", Bearer, Body, Addition, 204, [404];
        /// Reports the result of a connector's sync.
        ReportSync: POST "/v1/workspaces/{id}/connectors/{connectorId}/sync-reports", Bearer, Body, Addition, 204,
            [400, 404];
    }
    "MCP keys" {
        /// Creates an MCP key.
        CreateMcpKey: POST "/v1/workspaces/{id}/mcp-keys", Bearer, Body, Addition, 201, [400, 404];
        /// Lists the MCP keys of a workspace.
        ListMcpKeys: GET "/v1/workspaces/{id}/mcp-keys", Bearer, Body, Addition, 200, [400, 404];
        /// Reads an MCP key.
        GetMcpKey: GET "/v1/workspaces/{id}/mcp-keys/{keyId}", Bearer, Body, Addition, 200, [404];
        /// Replaces the secret of an MCP key.
        RotateMcpKey: POST "/v1/workspaces/{id}/mcp-keys/{keyId}/rotate", Bearer, Body, Addition, 200, [400, 404];
        /// Revokes an MCP key.
        RevokeMcpKey: DELETE "/v1/workspaces/{id}/mcp-keys/{keyId}", Bearer, Body, Addition, 204, [404];
        /// Records a use of the MCP key that authenticates the request.
        NoteMcpKeyUse: POST "/v1/workspaces/{id}/mcp-key-uses", Bearer, Body, Addition, 204, [400, 404];
    }
    "Chats" {
        /// Creates a chat.
        CreateChat: POST "/v1/workspaces/{id}/chats", Bearer, Body, Addition, 201, [400, 404];
        /// Lists the chats of a workspace.
        ListChats: GET "/v1/workspaces/{id}/chats", Bearer, Body, Addition, 200, [400, 404];
        /// Reads a chat.
        GetChat: GET "/v1/workspaces/{id}/chats/{sessionId}", Bearer, Body, Addition, 200, [404];
        /// Adds a message to a chat.
        PostChatMessage: POST "/v1/workspaces/{id}/chats/{sessionId}/messages", Bearer, Body, Addition, 201,
            [400, 404];
        /// Lists the messages of a chat.
        ListChatMessages: GET "/v1/workspaces/{id}/chats/{sessionId}/messages", Bearer, Body, Addition, 200,
            [400, 404];
    }
    "Custom roles" {
        /// Deletes a custom role.
        DeleteCustomRole: DELETE "/v1/orgs/{orgSlug}/custom-roles/{roleId}", Session, Body, Specified, 204,
            [400, 404, 409];
        /// Changes a custom role.
        UpdateCustomRole: PATCH "/v1/orgs/{orgSlug}/custom-roles/{roleId}", Session, Body, Specified, 200,
            [400, 404, 409, 412];
        /// Lists the custom roles of an organisation.
        ListCustomRoles: GET "/v1/orgs/{orgSlug}/custom-roles", Session, Body, Specified, 200, [404];
        /// Creates a custom role.
        CreateCustomRole: POST "/v1/orgs/{orgSlug}/custom-roles", Session, Body, Addition, 201, [400, 404, 409];
        /// Reads a custom role.
        GetCustomRole: GET "/v1/orgs/{orgSlug}/custom-roles/{roleId}", Session, Body, Addition, 200, [404];
    }
    "Members" {
        /// Lists the members of an organisation.
        ListMembers: GET "/v1/orgs/{orgSlug}/members", Session, Body, Addition, 200, [400, 404];
        /// Adds a member.
        AddMember: POST "/v1/orgs/{orgSlug}/members", Session, Body, Addition, 201, [400, 404, 409];
        /// Reads a member with its workspace roles.
        GetMember: GET "/v1/orgs/{orgSlug}/members/{memberId}", Session, Body, Addition, 200, [404];
        /// Changes a member.
        UpdateMember: PATCH "/v1/orgs/{orgSlug}/members/{memberId}", Session, Body, Addition, 200, [400, 404, 412];
        /// Removes a member.
        RemoveMember: DELETE "/v1/orgs/{orgSlug}/members/{memberId}", Session, Body, Addition, 204, [400, 404];
        /// Assigns a member a role in a workspace.
        AssignWorkspaceRole: PUT "/v1/orgs/{orgSlug}/members/{memberId}/workspace-roles/{workspaceId}", Session, Body,
            Addition, 204, [400, 404];
        /// Removes a member's role in a workspace.
        EndWorkspaceRole: DELETE "/v1/orgs/{orgSlug}/members/{memberId}/workspace-roles/{workspaceId}", Session, Body,
            Addition, 204, [404];
    }
    "Recalls" {
        /// Registers a recall with the memories that it cites.
        CreateRecall: POST "/v1/workspaces/{id}/recalls", Bearer, Body, Addition, 201, [400, 404];
        /// Lists the recalls of a workspace.
        ListRecalls: GET "/v1/workspaces/{id}/recalls", Bearer, Body, Addition, 200, [400, 404];
        /// Reads a recall with the memories that it cites.
        GetRecall: GET "/v1/recalls/{id}", Bearer, Body, Addition, 200, [404];
    }
    "Audit log" {
        /// Lists the entries of the audit log, newest first.
        ListAuditEntries: GET "/v1/audit-log", Bearer, Body, Addition, 200, [400];
        /// Reads an entry of the audit log.
        GetAuditEntry: GET "/v1/audit-log/{id}", Bearer, Body, Addition, 200, [404];
    }
    "Citation subscriptions" {
        /// Subscribes to the citations of a recall.
        CreateCitationSubscription: POST "/v1/citation-subscriptions", Bearer, Headers, Specified, 201, [400, 404];
        /// Lists the subscriptions to the citations of a recall.
        ListCitationSubscriptions: GET "/v1/citation-subscriptions", Bearer, Body, Addition, 200, [400, 404];
        /// Reads a citation subscription.
        GetCitationSubscription: GET "/v1/citation-subscriptions/{id}", Bearer, Body, Addition, 200, [404];
        /// Deletes a citation subscription.
        DeleteCitationSubscription: DELETE "/v1/citation-subscriptions/{id}", Bearer, Body, Addition, 204, [404];
        /// Replaces the signing secret of a citation subscription.
        RotateCitationSubscriptionSecret: POST "/v1/citation-subscriptions/{id}/rotate-secret", Bearer, Body, Addition,
            200, [400, 404];
        /// Lists the deliveries to a citation subscription, newest event first.
        ListCitationSubscriptionDeliveries: GET "/v1/citation-subscriptions/{id}/deliveries", Bearer, Body, Addition, 200, [400, 404];
        /// Reads a delivery to a citation subscription with its attempts.
        GetCitationSubscriptionDelivery: GET "/v1/citation-subscriptions/{id}/deliveries/{deliveryId}", Bearer, Body, Addition, 200, [404];
        /// Redelivers an event to a citation subscription.
        RedeliverToCitationSubscription: POST "/v1/citation-subscriptions/{id}/deliveries/{deliveryId}/redeliver", Bearer, Body, Addition, 202,
            [400, 404, 409];
        /// Redelivers the dead letters of a citation subscription.
        RedeliverDeadToCitationSubscription: POST "/v1/citation-subscriptions/{id}/deliveries/redeliver-dead", Bearer, Body, Addition, 202,
            [400, 404, 409];
        /// Sends a test event to a citation subscription.
        PingCitationSubscription: POST "/v1/citation-subscriptions/{id}/ping", Bearer, Body, Addition, 202, [400, 404, 409];
    }
    "Webhooks" {
        /// Registers an outbound webhook.
        CreateWebhook: POST "/v1/workspaces/{id}/webhooks", Bearer, Headers, Specified, 201, [400, 404];
        /// Lists the outbound webhooks of a workspace.
        ListWebhooks: GET "/v1/workspaces/{id}/webhooks", Bearer, Body, Addition, 200, [400, 404];
        /// Reads an outbound webhook.
        GetWebhook: GET "/v1/workspaces/{id}/webhooks/{webhookId}", Bearer, Body, Addition, 200, [404];
        /// Changes an outbound webhook.
        UpdateWebhook: PATCH "/v1/workspaces/{id}/webhooks/{webhookId}", Bearer, Body, Addition, 200, [400, 404, 412];
        /// Deletes an outbound webhook.
        DeleteWebhook: DELETE "/v1/workspaces/{id}/webhooks/{webhookId}", Bearer, Body, Addition, 204, [404];
        /// Replaces the signing secret of an outbound webhook.
        RotateWebhookSecret: POST "/v1/workspaces/{id}/webhooks/{webhookId}/rotate-secret", Bearer, Body, Addition,
            200, [400, 404];
        /// Lists the deliveries to an outbound webhook, newest event first.
        ListWebhookDeliveries: GET "/v1/workspaces/{id}/webhooks/{webhookId}/deliveries", Bearer, Body, Addition, 200, [400, 404];
        /// Reads a delivery to an outbound webhook with its attempts.
        GetWebhookDelivery: GET "/v1/workspaces/{id}/webhooks/{webhookId}/deliveries/{deliveryId}", Bearer, Body, Addition, 200, [404];
        /// Redelivers an event to an outbound webhook.
        RedeliverToWebhook: POST "/v1/workspaces/{id}/webhooks/{webhookId}/deliveries/{deliveryId}/redeliver", Bearer, Body, Addition, 202,
            [400, 404, 409];
        /// Redelivers the dead letters of an outbound webhook.
        RedeliverDeadToWebhook: POST "/v1/workspaces/{id}/webhooks/{webhookId}/deliveries/redeliver-dead", Bearer, Body, Addition, 202,
            [400, 404, 409];
        /// Sends a test event to an outbound webhook.
        PingWebhook: POST "/v1/workspaces/{id}/webhooks/{webhookId}/ping", Bearer, Body, Addition, 202, [400, 404, 409];
    }
    "Inbound webhooks" {
        /// Registers an inbound webhook.
        CreateInboundWebhook: POST "/v1/workspaces/{id}/inbound-webhooks", Bearer, Headers, Specified, 201,
            [400, 404];
        /// Lists the inbound webhooks of a workspace.
        ListInboundWebhooks: GET "/v1/workspaces/{id}/inbound-webhooks", Bearer, Body, Addition, 200, [400, 404];
        /// Reads an inbound webhook.
        GetInboundWebhook: GET "/v1/workspaces/{id}/inbound-webhooks/{webhookId}", Bearer, Body, Addition, 200, [404];
        /// Changes an inbound webhook.
        UpdateInboundWebhook: PATCH "/v1/workspaces/{id}/inbound-webhooks/{webhookId}", Bearer, Body, Addition, 200, [400, 404, 412];
        /// Deletes an inbound webhook.
        DeleteInboundWebhook: DELETE "/v1/workspaces/{id}/inbound-webhooks/{webhookId}", Bearer, Body, Addition, 204, [404];
        /// Replaces the signing secret of an inbound webhook.
        RotateInboundWebhookSecret: POST "/v1/workspaces/{id}/inbound-webhooks/{webhookId}/rotate-secret", Bearer, Body, Addition,
            200, [400, 404];
        /// Ingests the memories posted to an inbound webhook.
        PostToInboundWebhook: POST "/v1/inbound/{org}/{id}", Signature, Body, Addition, 204, [400, 404];
    }
}

/// Values of the path parameters.
pub(super) type Parameters = BTreeMap<String, String>;

/// Router from requests to operations.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    by_path: Arc<matchit::Router<Vec<&'static OperationSpec>>>,
}

impl Routes {
    pub(super) fn new() -> Self {
        let mut paths: BTreeMap<&'static str, Vec<&'static OperationSpec>> = BTreeMap::new();
        for spec in OPERATIONS {
            paths.entry(spec.path).or_default().push(spec);
        }
        let mut by_path = matchit::Router::new();
        for (path, specs) in paths {
            by_path
                .insert(path, specs)
                .expect("the paths of the operations do not overlap");
        }
        Self {
            by_path: Arc::new(by_path),
        }
    }

    /// Finds the operation and the parameters of its path.
    pub(super) fn find(
        &self,
        method: &Method,
        path: &str,
    ) -> Result<(&'static OperationSpec, Parameters), Error> {
        let found = self
            .by_path
            .at(path)
            .map_err(|_| Error::NotFound { what: "path" })?;
        // A HEAD request is handled as a GET, without the body (RFC 9110, 9.3.2).
        let wanted = if method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let spec = found.value.iter().find(|spec| spec.method == wanted);
        let spec = spec.ok_or_else(|| Error::MethodNotAllowed {
            allow: allowed(found.value),
        })?;
        let parameters = found
            .params
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Ok((spec, parameters))
    }

    /// Returns the error style for a method that no operation at the path has.
    ///
    /// It is that of a specified operation there, or otherwise a body.
    pub(super) fn error_style(&self, path: &str) -> ErrorStyle {
        let specs = self.at(path);
        let specified = specs.iter().find(|spec| spec.origin == Origin::Specified);
        specified.map_or(ErrorStyle::Body, |spec| spec.error_style)
    }

    /// Returns the authentication scheme of the operations at a path.
    pub(super) fn authentication(&self, path: &str) -> Authentication {
        self.at(path)
            .first()
            .map_or(Authentication::Bearer, |spec| spec.authentication)
    }

    /// Returns the template of a path, parameters in braces.
    pub(super) fn template(&self, path: &str) -> Option<&'static str> {
        self.at(path).first().map(|spec| spec.path)
    }

    fn at(&self, path: &str) -> &[&'static OperationSpec] {
        self.by_path.at(path).map_or(&[], |found| found.value)
    }
}

fn allowed(specs: &[&OperationSpec]) -> String {
    let mut methods: Vec<&str> = specs.iter().map(|spec| spec.method.as_str()).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.sort_unstable();
    methods.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_is_found_by_method_and_path() {
        let routes = Routes::new();
        for spec in OPERATIONS {
            let path = spec.path.replace(['{', '}'], "");
            let (found, _) = routes.find(&spec.method, &path).unwrap();
            assert_eq!(found.operation, spec.operation);
        }
    }

    #[test]
    fn path_template_is_independent_of_method() {
        let routes = Routes::new();
        for spec in OPERATIONS {
            let path = spec.path.replace(['{', '}'], "");
            assert_eq!(routes.template(&path), Some(spec.path));
        }
        assert_eq!(routes.template("/v1/nothing"), None);
    }

    #[test]
    fn wrong_method_lists_allowed_methods() {
        let error = Routes::new()
            .find(&Method::POST, "/v1/orgs/acme/custom-roles/x")
            .unwrap_err();
        assert!(
            matches!(error, Error::MethodNotAllowed { allow } if allow == "DELETE, GET, HEAD, PATCH")
        );
        let error = Routes::new()
            .find(&Method::POST, "/v1/sources/x")
            .unwrap_err();
        assert!(matches!(error, Error::MethodNotAllowed { allow } if allow == "GET, HEAD"));
    }

    #[test]
    fn operations_on_one_path_share_their_authentication() {
        for a in OPERATIONS {
            for b in OPERATIONS.iter().filter(|b| b.path == a.path) {
                assert_eq!(a.authentication, b.authentication, "{}", a.path);
            }
        }
    }

    #[test]
    fn operation_id_is_camel_case() {
        assert_eq!(Operation::BulkUpdateMemories.id(), "bulkUpdateMemories");
        assert_eq!(
            OPERATIONS[0].summary,
            "Changes attributes of many memories."
        );
    }
}
