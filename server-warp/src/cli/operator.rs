//! Commands as the operator: requests to core's admin interface, over the socket of a server or to the store.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use knowledge_core::api::admin::MemberView;
use knowledge_core::limits::PAGE_ITEMS_MAX;
use knowledge_core::model::{Organization, Workspace};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure::Failure;
use super::refusal::Refusal;
use super::settings::AdminArgs;
use super::tenant::{known, quiet_log};
use crate::admin::{Transport, TransportError};

/// What a request is addressed to: the interface has no name of its own.
const ORGS: &str = "/admin/v1/orgs";

/// Which organisation, in which data.
#[derive(Debug, clap::Args)]
pub(super) struct OrgArgs {
    /// The slug of the organisation; not needed where there is only one
    #[arg(long, value_name = "SLUG")]
    org: Option<String>,

    #[command(flatten)]
    admin: AdminArgs,
}

/// The way to the admin interface.
pub(super) struct Operator {
    transport: Transport,
}

/// The way to the admin interface, and an organisation there.
pub(super) struct OrgOperator {
    operator: Operator,
    pub(super) org: Organization,
}

/// A page of a list.
#[derive(Deserialize)]
struct Page<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

/// Why a request has no result.
pub(super) enum CallError {
    /// The interface refused it.
    Refused(Refusal),
    /// It had no answer that can be read.
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
    /// The failure of a command, the fields of its request called as the flags that they came from.
    pub(super) fn into_failure(self, flags: &[(&str, &str)]) -> Failure {
        match self {
            Self::Refused(refusal) => refusal.into_failure(flags),
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
    /// Finds the way. A store is made only where `may_make` says so.
    pub(super) async fn open(args: AdminArgs, may_make: bool) -> Result<Self, Failure> {
        quiet_log()?;
        let config = args.load()?.config;
        Ok(Self {
            transport: Transport::open(&config, may_make).await?,
        })
    }

    /// What the interface answers to a request.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, CallError> {
        let unreadable = |what: String| CallError::Failed(Failure::new(what));
        let answer = self.send(method, path, body).await?;
        serde_json::from_slice(&answer)
            .map_err(|error| unreadable(format!("the answer cannot be read: {error}")))
    }

    /// The same, where the body of the answer is empty or of no interest.
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
            CallError::Failed(Failure::new(format!("{path} is no request: {error}")))
        })?;
        let sent = self.transport.send(request).await;
        let answer = sent.map_err(|error| CallError::Failed(error.into()))?;
        if answer.status().is_success() {
            Ok(answer.into_body())
        } else {
            Err(CallError::Refused(Refusal::read(&answer)))
        }
    }

    /// Everything on a list, however long it is.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: &[(&str, &str)],
    ) -> Result<Vec<T>, CallError> {
        let (all, _) = self.list_first(path, filter, usize::MAX).await?;
        Ok(all)
    }

    /// The first items of a list, and whether there are more.
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

    /// The organisations.
    pub(super) async fn orgs(&self) -> Result<Vec<Organization>, CallError> {
        self.list(ORGS, &[]).await
    }

    /// The one organisation that is meant.
    async fn find_org(&self, slug: Option<String>) -> Result<Organization, Failure> {
        if let Some(slug) = slug {
            return match self.call(Method::GET, &path(&[&slug]), None).await {
                Err(CallError::Refused(refusal)) if refusal.code == "not_found" => {
                    let all = self.orgs().await?;
                    let known = known(all.iter().map(|org| org.slug.as_str()));
                    Err(Failure::new(format!(
                        "there is no organisation {slug:?}; there are: {known}"
                    )))
                }
                found => Ok(found?),
            };
        }
        let mut all = self.orgs().await?;
        match (all.pop(), all.is_empty()) {
            (Some(org), true) => Ok(org),
            (None, _) => Err(Failure::new(
                "there is no organisation yet: `knowledge init` makes one",
            )),
            (Some(last), false) => {
                let known = known(all.iter().chain([&last]).map(|org| org.slug.as_str()));
                Err(Failure::usage(format!(
                    "there are several organisations: choose with --org: {known}"
                )))
            }
        }
    }
}

impl OrgArgs {
    pub(super) async fn open(self) -> Result<OrgOperator, Failure> {
        let operator = Operator::open(self.admin, false).await?;
        let org = operator.find_org(self.org).await?;
        Ok(OrgOperator { operator, org })
    }
}

impl OrgOperator {
    /// The path of something of the organisation.
    fn path(&self, segments: &[&str]) -> String {
        path(&[&[self.org.slug.as_str()], segments].concat())
    }

    /// Everything on a list of the organisation.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        segment: &str,
        filter: &[(&str, &str)],
    ) -> Result<Vec<T>, Failure> {
        let listed = self.operator.list(&self.path(&[segment]), filter).await;
        Ok(listed?)
    }

    /// The first items of a list of something of the organisation, and whether there are more. A refusal is explained.
    pub(super) async fn list_first<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        filter: &[(&str, &str)],
        items_max: usize,
        flags: &[(&str, &str)],
    ) -> Result<(Vec<T>, bool), Failure> {
        let path = self.path(segments);
        match self.operator.list_first(&path, filter, items_max).await {
            Err(CallError::Refused(refusal)) => Err(self.explain(refusal, flags).await),
            listed => Ok(listed?),
        }
    }

    /// Whether a server holds the data.
    pub(super) fn is_served(&self) -> bool {
        self.operator.transport.store().is_none()
    }

    /// What the interface answers to a request about something of the organisation. In a refusal the fields of the
    /// request have the names of the flags that they came from.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        segments: &[&str],
        body: Option<&Value>,
        flags: &[(&str, &str)],
    ) -> Result<T, Failure> {
        let path = self.path(segments);
        match self.operator.call(method, &path, body).await {
            Err(CallError::Refused(refusal)) => Err(self.explain(refusal, flags).await),
            called => Ok(called?),
        }
    }

    /// The same for a change without a body, named in the query.
    pub(super) async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        segments: &[&str],
        query: &[(&str, &str)],
        flags: &[(&str, &str)],
    ) -> Result<T, Failure> {
        let path = with_query(&self.path(segments), query);
        match self.operator.call(method, &path, None).await {
            Err(CallError::Refused(refusal)) => Err(self.explain(refusal, flags).await),
            called => Ok(called?),
        }
    }

    /// The same where there is nothing in the answer.
    pub(super) async fn remove(
        &self,
        segments: &[&str],
        flags: &[(&str, &str)],
    ) -> Result<(), Failure> {
        let path = self.path(segments);
        match self.operator.send(Method::DELETE, &path, None).await {
            Err(CallError::Refused(refusal)) => Err(self.explain(refusal, flags).await),
            sent => Ok(sent.map(drop)?),
        }
    }

    /// A refusal in words for the person who typed the flags, with the names that would have been known.
    async fn explain(&self, refusal: Refusal, flags: &[(&str, &str)]) -> Failure {
        let of = &self.org.slug;
        let mut hints = Vec::new();
        if refusal.misses("member") {
            let members: Vec<MemberView> = self.list("members", &[]).await.unwrap_or_default();
            let known = known(members.iter().map(|member| member.handle.as_str()));
            hints.push(format!("the members of {of} are: {known}"));
        }
        if refusal.misses("workspace") {
            let all: Vec<Workspace> = self.list("workspaces", &[]).await.unwrap_or_default();
            let known = known(all.iter().map(|workspace| workspace.slug.as_str()));
            hints.push(format!("the workspaces of {of} are: {known}"));
        }
        refusal.into_failure_with(flags, &hints)
    }
}

/// The path of something under the organisations. No part of it can be read as anything but a name.
pub(super) fn path(segments: &[&str]) -> String {
    let mut path = ORGS.to_owned();
    for segment in segments {
        path.push('/');
        push_encoded(&mut path, segment);
    }
    path
}

pub(super) fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let mut path = path.to_owned();
    for (index, (name, value)) in query.iter().enumerate() {
        path.push(if index == 0 { '?' } else { '&' });
        push_encoded(&mut path, name);
        path.push('=');
        push_encoded(&mut path, value);
    }
    path
}

/// Percent-encodes everything that is not unreserved (RFC 3986, 2.3).
fn push_encoded(path: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                path.push(char::from(byte));
            }
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_stays_one_name() {
        assert_eq!(
            with_query(
                &path(&["acme", "members", "a/../b?c=d ü"]),
                &[("x y", "&=")]
            ),
            "/admin/v1/orgs/acme/members/a%2F..%2Fb%3Fc%3Dd%20%C3%BC?x%20y=%26%3D"
        );
    }
}
