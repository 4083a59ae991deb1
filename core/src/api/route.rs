//! The operations: their methods, their paths and the shape of their refusals.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;

use crate::access::CredentialKind;
use crate::error::Error;

/// An operation of the interface.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Changes attributes of many memories.
    BulkUpdateMemories,
    /// Summarises a workspace for its dashboard.
    GetDashboardSummary,
    /// Deletes a custom role.
    DeleteCustomRole,
    /// Changes a custom role.
    UpdateCustomRole,
    /// Lists the custom roles of an organisation.
    ListCustomRoles,
    /// Subscribes to the citations of a recall.
    CreateCitationSubscription,
    /// Registers an outbound webhook.
    CreateWebhook,
    /// Registers an inbound webhook.
    CreateInboundWebhook,
}

/// How an operation says what was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorStyle {
    /// A JSON body with `error`, `message` and `details`.
    Body,
    /// An empty body; the headers `Error-Code` and `Error-Message` say it.
    Headers,
}

/// One operation of the interface.
#[derive(Clone, Debug)]
pub struct OperationSpec {
    /// Which one.
    pub operation: Operation,
    /// Its method.
    pub method: Method,
    /// Its path, parameters in braces.
    pub path: &'static str,
    /// What its caller presents.
    pub credential: CredentialKind,
    /// How it says what was wrong.
    pub error_style: ErrorStyle,
    /// Whether `409` is among its documented statuses; where it is not, contention is a `503`.
    pub(super) has_conflict: bool,
}

const MEMORIES_BULK: &str = "/v1/memories/bulk";
const DASHBOARD: &str = "/v1/workspaces/{id}/dashboard-summary";
const ROLE: &str = "/v1/orgs/{orgSlug}/custom-roles/{roleId}";
const ROLES: &str = "/v1/orgs/{orgSlug}/custom-roles";
const SUBSCRIPTIONS: &str = "/v1/citation-subscriptions";
const WEBHOOKS: &str = "/v1/workspaces/{id}/webhooks";
const INBOUND_WEBHOOKS: &str = "/v1/workspaces/{id}/inbound-webhooks";

/// Every operation.
pub const OPERATIONS: &[OperationSpec] = &[
    spec(
        Operation::BulkUpdateMemories,
        Method::PATCH,
        MEMORIES_BULK,
        CredentialKind::Bearer,
        ErrorStyle::Body,
        true,
    ),
    spec(
        Operation::GetDashboardSummary,
        Method::GET,
        DASHBOARD,
        CredentialKind::Bearer,
        ErrorStyle::Headers,
        false,
    ),
    spec(
        Operation::DeleteCustomRole,
        Method::DELETE,
        ROLE,
        CredentialKind::Session,
        ErrorStyle::Body,
        true,
    ),
    spec(
        Operation::UpdateCustomRole,
        Method::PATCH,
        ROLE,
        CredentialKind::Session,
        ErrorStyle::Body,
        true,
    ),
    spec(
        Operation::ListCustomRoles,
        Method::GET,
        ROLES,
        CredentialKind::Session,
        ErrorStyle::Body,
        false,
    ),
    spec(
        Operation::CreateCitationSubscription,
        Method::POST,
        SUBSCRIPTIONS,
        CredentialKind::Bearer,
        ErrorStyle::Headers,
        false,
    ),
    spec(
        Operation::CreateWebhook,
        Method::POST,
        WEBHOOKS,
        CredentialKind::Bearer,
        ErrorStyle::Headers,
        false,
    ),
    spec(
        Operation::CreateInboundWebhook,
        Method::POST,
        INBOUND_WEBHOOKS,
        CredentialKind::Bearer,
        ErrorStyle::Headers,
        false,
    ),
];

const fn spec(
    operation: Operation,
    method: Method,
    path: &'static str,
    credential: CredentialKind,
    error_style: ErrorStyle,
    has_conflict: bool,
) -> OperationSpec {
    OperationSpec {
        operation,
        method,
        path,
        credential,
        error_style,
        has_conflict,
    }
}

/// The values of the parameters in a path.
pub(super) type Parameters = BTreeMap<String, String>;

/// Finds the operation of a request.
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

    /// The operation and the parameters of its path.
    pub(super) fn find(
        &self,
        method: &Method,
        path: &str,
    ) -> Result<(&'static OperationSpec, Parameters), Error> {
        let found = self
            .by_path
            .at(path)
            .map_err(|_| Error::NotFound { what: "path" })?;
        // A HEAD is answered as the GET would be, without its body (RFC 9110, 9.3.2).
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

    /// How the operations at a path refuse; those of one path refuse alike. An unknown path refuses with a body.
    pub(super) fn error_style(&self, path: &str) -> ErrorStyle {
        self.first_at(path)
            .map_or(ErrorStyle::Body, |spec| spec.error_style)
    }

    /// What the operations at a path take.
    pub(super) fn credential_kind(&self, path: &str) -> CredentialKind {
        self.first_at(path)
            .map_or(CredentialKind::Bearer, |spec| spec.credential)
    }

    /// The path as the operations name it, parameters in braces.
    pub(super) fn template(&self, path: &str) -> Option<&'static str> {
        self.first_at(path).map(|spec| spec.path)
    }

    fn first_at(&self, path: &str) -> Option<&'static OperationSpec> {
        self.by_path
            .at(path)
            .ok()
            .and_then(|found| found.value.first().copied())
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
    fn every_operation_is_found() {
        let routes = Routes::new();
        for spec in OPERATIONS {
            let path = spec.path.replace(['{', '}'], "");
            let (found, _) = routes.find(&spec.method, &path).unwrap();
            assert_eq!(found.operation, spec.operation);
        }
    }

    #[test]
    fn a_path_is_named_by_its_template_whatever_the_method() {
        let routes = Routes::new();
        for spec in OPERATIONS {
            let path = spec.path.replace(['{', '}'], "");
            assert_eq!(routes.template(&path), Some(spec.path));
        }
        assert_eq!(routes.template("/v1/nothing"), None);
    }

    #[test]
    fn a_wrong_method_names_the_right_ones() {
        let error = Routes::new()
            .find(&Method::POST, "/v1/orgs/acme/custom-roles/x")
            .unwrap_err();
        assert!(matches!(error, Error::MethodNotAllowed { allow } if allow == "DELETE, PATCH"));
        let error = Routes::new()
            .find(&Method::POST, "/v1/orgs/acme/custom-roles")
            .unwrap_err();
        assert!(matches!(error, Error::MethodNotAllowed { allow } if allow == "GET, HEAD"));
    }

    #[test]
    fn operations_at_one_path_refuse_alike() {
        for a in OPERATIONS {
            for b in OPERATIONS.iter().filter(|b| b.path == a.path) {
                assert_eq!((a.error_style, a.credential), (b.error_style, b.credential));
            }
        }
    }
}
