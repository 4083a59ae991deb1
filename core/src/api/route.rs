//! Router from requests to operations.

use std::sync::Arc;

use http::Method;

use crate::error::{EntityKind, Error};
use crate::operation::{Authentication, ErrorStyle, OPERATIONS, OperationSpec};

/// Path of the endpoint for assistants, which is no operation.
pub(super) const MCP_PATH: &str = "/mcp";

/// Values of the path parameters.
pub(super) type Parameters = Vec<(String, String)>;

/// Router from a method and a path to the row of a table.
#[derive(Clone, Debug)]
pub(super) struct Router {
    by_path: Arc<matchit::Router<Vec<(Method, usize)>>>,
}

impl Router {
    /// Creates a router from the path and the method of each row, with the number of the row.
    pub(super) fn new(rows: impl Iterator<Item = (&'static str, Method, usize)>) -> Self {
        let rows: Vec<_> = rows.collect();
        let mut by_path = matchit::Router::new();
        for (index, (path, ..)) in rows.iter().enumerate() {
            let is_same = |(other, ..): &&(&'static str, Method, usize)| other == path;
            if !rows[..index].iter().any(|other| is_same(&other)) {
                let methods = rows.iter().filter(is_same);
                let methods = methods.map(|(_, method, row)| (method.clone(), *row));
                by_path
                    .insert(*path, methods.collect())
                    .expect("the paths of the operations do not overlap");
            }
        }
        Self {
            by_path: Arc::new(by_path),
        }
    }

    /// Finds a row and the parameters of its path.
    pub(super) fn find(&self, method: &Method, path: &str) -> Result<(usize, Parameters), Error> {
        let found = self
            .by_path
            .at(path)
            .map_err(|_| Error::not_found(EntityKind::Path))?;
        let row = found.value.iter().find(|(found, _)| found == method);
        let (_, row) = row.ok_or_else(|| Error::MethodNotAllowed {
            allow: allowed(found.value),
        })?;
        let parameters = found
            .params
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Ok((*row, parameters))
    }

    fn at(&self, path: &str) -> &[(Method, usize)] {
        self.by_path.at(path).map_or(&[], |found| found.value)
    }
}

/// Router from requests to operations.
#[derive(Clone, Debug)]
pub(super) struct Routes(Router);

impl Routes {
    pub(super) fn new() -> Self {
        let rows = OPERATIONS.iter().enumerate().flat_map(|(row, spec)| {
            // A HEAD request is handled as a GET, without the body (RFC 9110, 9.3.2).
            let head = (spec.method == Method::GET).then_some(Method::HEAD);
            let methods = [spec.method.clone()].into_iter().chain(head);
            methods.map(move |method| (spec.path, method, row))
        });
        Self(Router::new(rows))
    }

    /// Finds the operation and the parameters of its path.
    pub(super) fn find(
        &self,
        method: &Method,
        path: &str,
    ) -> Result<(&'static OperationSpec, Parameters), Error> {
        let (row, parameters) = self.0.find(method, path)?;
        Ok((&OPERATIONS[row], parameters))
    }

    /// Returns the error style for a method that no operation at the path has.
    ///
    /// It is in headers if an operation there has its errors in headers.
    pub(super) fn error_style(&self, path: &str) -> ErrorStyle {
        let mut styles = self.at(path).map(|spec| spec.error_style);
        if styles.any(|style| style == ErrorStyle::Headers) {
            ErrorStyle::Headers
        } else {
            ErrorStyle::Body
        }
    }

    /// Returns the authentication scheme of the operations at a path.
    pub(super) fn authentication(&self, path: &str) -> Authentication {
        self.at(path)
            .next()
            .map_or(Authentication::Bearer, |spec| spec.authentication)
    }

    /// Returns the template of a path, parameters in braces.
    pub(super) fn template(&self, path: &str) -> Option<&'static str> {
        self.at(path).next().map(|spec| spec.path)
    }

    fn at(&self, path: &str) -> impl Iterator<Item = &'static OperationSpec> {
        self.0.at(path).iter().map(|(_, row)| &OPERATIONS[*row])
    }
}

fn allowed(rows: &[(Method, usize)]) -> String {
    let mut methods: Vec<&str> = rows.iter().map(|(method, _)| method.as_str()).collect();
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
        let all = "DELETE, GET, HEAD, PATCH";
        assert!(matches!(error, Error::MethodNotAllowed { allow } if allow == all));
        let error = Routes::new()
            .find(&Method::POST, "/v1/sources/x")
            .unwrap_err();
        assert!(matches!(error, Error::MethodNotAllowed { allow } if allow == "GET, HEAD"));
    }
}
