//! Operator commands: requests to core's admin interface, over a server's socket or to the store.

use std::path::Path;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, Response};
use knowledge_core::EntityKind;
use knowledge_core::access::BuiltInRole;
use knowledge_core::api::admin::MemberView;
use knowledge_core::limits::{Limits, PAGE_ITEMS_MAX};
use knowledge_core::model::{Organization, Workspace};
use knowledge_server::admin::{OpenedStore, Transport, TransportError};
use knowledge_server::config::Config;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::args::{OutputFormat, WithOutput, known};
use super::error_response::ErrorResponse;
use super::failure::Failure;
use super::settings::AdminArgs;

/// Root of the paths of the admin interface.
const ORGS: &str = "/admin/v1/orgs";

/// An organisation and its data.
#[derive(Debug, clap::Args)]
pub(super) struct OrgArgs {
    /// Slug of the organisation; optional if there is only one
    #[arg(long, value_name = "SLUG")]
    org: Option<String>,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Client of the admin interface.
pub(super) struct Operator {
    transport: Transport,
    limits: Limits,
}

/// Client of the admin interface for one organisation.
pub(super) struct OrgOperator {
    operator: Operator,
    pub(super) org: Organization,
}

/// Page of a list.
#[derive(Deserialize)]
struct Page<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

/// Reason for a missing result.
pub(super) enum CallError {
    /// The interface rejected the request.
    Rejected(ErrorResponse),
    /// The request failed, or its response is invalid.
    Failed(Failure),
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Data(error) => error.into(),
            error => Self::new(error.to_string()),
        }
    }
}

impl CallError {
    /// Converts the error, with flags in place of the request's fields.
    pub(super) fn into_failure(self, flags: &[(&str, &str)]) -> Failure {
        match self {
            Self::Rejected(response) => response.into_failure(flags),
            Self::Failed(failure) => failure,
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        error.into_failure(&[])
    }
}

impl Operator {
    /// Connects to the admin interface. A missing store is created only if `may_create` is true.
    pub(super) async fn open(args: AdminArgs, may_create: bool) -> Result<Self, Failure> {
        Self::connect(&args.configure()?, may_create).await
    }

    /// Connects like [`open`](Self::open), with a loaded configuration.
    pub(super) async fn connect(config: &Config, may_create: bool) -> Result<Self, Failure> {
        Ok(Self {
            transport: Transport::open(config, may_create).await?,
            limits: config.limits.clone(),
        })
    }

    /// Connects to an empty store in memory, to check requests before any of them has an effect.
    pub(super) async fn rehearsal(config: &Config) -> Result<Self, Failure> {
        Ok(Self {
            transport: Transport::rehearsal(config).await?,
            limits: config.limits.clone(),
        })
    }

    /// Sends a request and parses the response.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, CallError> {
        let invalid = |message: String| CallError::Failed(Failure::new(message));
        let body = self.send(method, path, body).await?;
        serde_json::from_slice(&body).map_err(|error| invalid(format!("invalid response: {error}")))
    }

    /// Sends a request and returns the raw body of the response.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, CallError> {
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = request.body(body);
        let request = request.map_err(|error| {
            CallError::Failed(Failure::new(format!(
                "invalid request path {path}: {error}"
            )))
        })?;
        let sent = self.transport.send(request).await;
        let response = sent.map_err(|error| CallError::Failed(error.into()))?;
        if response.status().is_success() {
            Ok(response.into_body())
        } else {
            Err(CallError::Rejected(ErrorResponse::read(&response)))
        }
    }

    /// Returns all items of a list.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: &[(&str, &str)],
    ) -> Result<Vec<T>, CallError> {
        let (all, _) = self.list_first(path, filter, usize::MAX).await?;
        Ok(all)
    }

    /// Returns the first items of a list, and whether there are more.
    async fn list_first<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: &[(&str, &str)],
        items_max: usize,
    ) -> Result<(Vec<T>, bool), CallError> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let limit = PAGE_ITEMS_MAX.min(items_max - all.len()).to_string();
            let mut query = filter.to_vec();
            query.push(("limit", &limit));
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let path = with_query(path, &query);
            let page: Page<T> = self.call(Method::GET, &path, None).await?;
            all.extend(page.data);
            match page.next_cursor {
                None => return Ok((all, false)),
                Some(_) if all.len() >= items_max => return Ok((all, true)),
                next => cursor = next,
            }
        }
    }

    /// Returns the client for the organisation with this slug, or the only one.
    pub(super) async fn of(self, slug: Option<String>) -> Result<OrgOperator, Failure> {
        let org = self.find_org(slug).await?;
        let operator = self;
        Ok(OrgOperator { operator, org })
    }

    /// Returns all organisations, with as much of each as `T` has.
    pub(super) async fn orgs<T: DeserializeOwned>(&self) -> Result<Vec<T>, CallError> {
        self.list(ORGS, &[]).await
    }

    /// Returns the organisation with this slug, or the only one.
    async fn find_org(&self, slug: Option<String>) -> Result<Organization, Failure> {
        if let Some(slug) = slug {
            return match self.call(Method::GET, &path(&[&slug]), None).await {
                Err(CallError::Rejected(response)) if response.code == "not_found" => {
                    let all: Vec<Organization> = self.orgs().await?;
                    let known = known(all.iter().map(|org| org.slug.as_str()));
                    Err(Failure::new(format!(
                        "unknown organisation {slug:?}; known organisations: {known}"
                    )))
                }
                found => Ok(found?),
            };
        }
        let mut all: Vec<Organization> = self.orgs().await?;
        match (all.pop(), all.is_empty()) {
            (Some(org), true) => Ok(org),
            (None, _) => Err(Failure::new(
                "there is no organisation; create one with `knowledge init`",
            )),
            (Some(last), false) => {
                let known = known(all.iter().chain([&last]).map(|org| org.slug.as_str()));
                Err(Failure::usage(format!(
                    "there are several organisations; choose one with --org: {known}"
                )))
            }
        }
    }
}

impl OrgArgs {
    /// Returns the slug of the organisation, if one is given.
    pub(super) fn slug(&self) -> Option<String> {
        self.org.clone()
    }

    /// Returns the configuration file, if one is given.
    pub(super) fn file(&self) -> Option<&Path> {
        self.admin.file()
    }

    /// Loads the configuration, and sets up the log of a command.
    pub(super) fn config(self) -> Result<Config, Failure> {
        self.admin.configure()
    }

    pub(super) async fn open(self) -> Result<OrgOperator, Failure> {
        Ok(self.open_with_config().await?.0)
    }

    /// Opens like [`open`](Self::open), and returns the configuration too.
    pub(super) async fn open_with_config(self) -> Result<(OrgOperator, Config), Failure> {
        let config = self.admin.configure()?;
        let operator = Operator::connect(&config, false).await?;
        Ok((operator.of(self.org).await?, config))
    }
}

impl WithOutput<OrgArgs> {
    /// Opens like [`OrgArgs::open`], and returns the format of the output too.
    pub(super) async fn open(self) -> Result<(OrgOperator, OutputFormat), Failure> {
        Ok((self.location.open().await?, self.output))
    }
}

impl OrgOperator {
    /// Returns a path within the organisation.
    fn path(&self, segments: &[&str]) -> String {
        path(&[&[self.org.slug.as_str()], segments].concat())
    }

    /// Returns all items of a list of the organisation.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        segment: &str,
        filter: &[(&str, &str)],
    ) -> Result<Vec<T>, Failure> {
        let listed = self.operator.list(&self.path(&[segment]), filter).await;
        Ok(listed?)
    }

    /// Returns the first items of a list of the organisation, and whether there are more.
    ///
    /// Errors are explained in terms of the flags.
    pub(super) async fn list_first<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        filter: &[(&str, &str)],
        items_max: usize,
        flags: &[(&str, &str)],
    ) -> Result<(Vec<T>, bool), Failure> {
        let path = self.path(segments);
        let listed = self.operator.list_first(&path, filter, items_max).await;
        self.explained(listed, flags).await
    }

    /// Returns the limits in the configuration of this command.
    pub(super) fn limits(&self) -> &Limits {
        &self.operator.limits
    }

    /// Returns the member to act as: the given one, or else an owner.
    pub(super) async fn acting_member(&self, given: Option<String>) -> Result<String, Failure> {
        if let Some(member) = given {
            let segments = ["members", member.as_str()];
            let found: MemberView = self.call(Method::GET, &segments, None, &[]).await?;
            return Ok(found.handle);
        }
        let members: Vec<MemberView> = self.list("members", &[]).await?;
        let owner = BuiltInRole::Owner.as_str();
        let owner = members.into_iter().find(|member| member.role == owner);
        let missing = || Failure::new("the organisation has no owner; name the member to act as");
        Ok(owner.ok_or_else(missing)?.handle)
    }

    /// Passes on a message of an assistant, and returns the response whatever its status.
    pub(super) async fn pass_on(
        &self,
        segments: &[&str],
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, Failure> {
        let request = Request::builder().method(Method::POST);
        let request = request.uri(self.path(segments)).body(body);
        let mut request = request.map_err(|error| Failure::new(error.to_string()))?;
        *request.headers_mut() = headers.clone();
        Ok(self.operator.transport.send(request).await?)
    }

    /// Returns the store, if this process holds it.
    pub(super) fn store(&self) -> Option<&OpenedStore> {
        self.operator.transport.store()
    }

    /// True if a server holds the data.
    pub(super) fn is_served(&self) -> bool {
        self.operator.transport.store().is_none()
    }

    /// Sends a request about the organisation and parses the response.
    ///
    /// Errors are explained in terms of the flags.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        segments: &[&str],
        body: Option<&Value>,
        flags: &[(&str, &str)],
    ) -> Result<T, Failure> {
        let called = self.operator.call(method, &self.path(segments), body).await;
        self.explained(called, flags).await
    }

    /// Sends a change that has a query instead of a body.
    pub(super) async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        segments: &[&str],
        query: &[(&str, &str)],
        flags: &[(&str, &str)],
    ) -> Result<T, Failure> {
        let path = with_query(&self.path(segments), query);
        let called = self.operator.call(method, &path, None).await;
        self.explained(called, flags).await
    }

    /// Sends a deletion whose response has no body.
    pub(super) async fn remove(
        &self,
        segments: &[&str],
        flags: &[(&str, &str)],
    ) -> Result<(), Failure> {
        let path = self.path(segments);
        let sent = self.operator.send(Method::DELETE, &path, None).await;
        self.explained(sent.map(drop), flags).await
    }

    /// Explains a rejection in terms of the flags, with the names that exist.
    async fn explained<T>(
        &self,
        result: Result<T, CallError>,
        flags: &[(&str, &str)],
    ) -> Result<T, Failure> {
        let response = match result {
            Err(CallError::Rejected(response)) => response,
            result => return Ok(result?),
        };
        let of = &self.org.slug;
        let mut hints = Vec::new();
        if response.misses(EntityKind::Member) {
            let members: Vec<MemberView> = self.list("members", &[]).await.unwrap_or_default();
            let known = known(members.iter().map(|member| member.handle.as_str()));
            hints.push(format!("members of {of}: {known}"));
        }
        if response.misses(EntityKind::Workspace) {
            let all: Vec<Workspace> = self.list("workspaces", &[]).await.unwrap_or_default();
            let known = known(all.iter().map(|workspace| workspace.slug.as_str()));
            hints.push(format!("workspaces of {of}: {known}"));
        }
        if response.misses(EntityKind::Delivery) {
            hints.push("list them with `knowledge webhook deliveries WEBHOOK`".to_owned());
        }
        if response.misses(EntityKind::Endpoint) {
            hints.push("list them with `knowledge webhook list`".to_owned());
        }
        Err(response.into_failure_with(flags, &hints))
    }
}

/// Returns a path below the organisations. Each segment is encoded, so that it remains a single
/// name.
pub(super) fn path(segments: &[&str]) -> String {
    let mut path = ORGS.to_owned();
    for segment in segments {
        path.push('/');
        path.extend(encoded(segment));
    }
    path
}

pub(super) fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let mut path = path.to_owned();
    for (index, (name, value)) in query.iter().enumerate() {
        path.push(if index == 0 { '?' } else { '&' });
        path.extend(encoded(name));
        path.push('=');
        path.extend(encoded(value));
    }
    path
}

/// Percent-encodes everything that is not unreserved (RFC 3986, 2.3).
fn encoded(text: &str) -> PercentEncode<'_> {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_path_escapes_user_input() {
        assert_eq!(
            with_query(
                &path(&["acme", "members", "a/../b?c=d ü"]),
                &[("x y", "&=")]
            ),
            "/admin/v1/orgs/acme/members/a%2F..%2Fb%3Fc%3Dd%20%C3%BC?x%20y=%26%3D"
        );
    }
}
