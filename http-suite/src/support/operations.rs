//! The operations of `docs/interface.md`, with valid requests.

use std::collections::BTreeMap;

use futures::future::LocalBoxFuture;
use http::Method;
use knowledge_core::model::{RoleId, WorkspaceId};
use knowledge_testing::fixture::OrgFixture;
use serde_json::{Value, json};

use crate::client::{Answer, Call};
use crate::target::{self, base_url};

/// Awaiting a request sends it to the service that most cases share, and panics outside of a case.
impl IntoFuture for Call {
    type Output = Answer;
    type IntoFuture = LocalBoxFuture<'static, Answer>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(target::service().send(self))
    }
}

/// Returns an unused idempotency key.
pub fn new_key() -> String {
    knowledge_core::env::Env::system().uuid().to_string()
}

/// Returns a bulk update with an idempotency key.
pub fn bulk_with_key(token: &str, key: &str, body: &Value) -> Call {
    Call::new(Method::PATCH, "/v1/memories/bulk")
        .bearer(token)
        .key(key)
        .json(body)
}

/// Returns a bulk update with an unused idempotency key.
pub fn bulk(token: &str, body: &Value) -> Call {
    bulk_with_key(token, &new_key(), body)
}

/// Returns a request for the dashboard summary.
pub fn dashboard(token: &str, workspace: WorkspaceId) -> Call {
    Call::new(
        Method::GET,
        format!("/v1/workspaces/{workspace}/dashboard-summary"),
    )
    .bearer(token)
}

/// Returns a request for the custom roles.
pub fn list_roles(session: &str, org_slug: &str) -> Call {
    Call::new(Method::GET, format!("/v1/orgs/{org_slug}/custom-roles")).session(session)
}

/// Returns an update of a custom role.
pub fn update_role(session: &str, org_slug: &str, role: RoleId, body: &Value) -> Call {
    Call::new(Method::PATCH, role_path(org_slug, role))
        .session(session)
        .json(body)
}

/// Returns a deletion without a body.
pub fn delete_role(session: &str, org_slug: &str, role: RoleId) -> Call {
    Call::new(Method::DELETE, role_path(org_slug, role)).session(session)
}

fn role_path(org_slug: &str, role: RoleId) -> String {
    format!("/v1/orgs/{org_slug}/custom-roles/{role}")
}

/// Returns the creation of a citation subscription.
pub fn subscribe(token: &str, body: &Value) -> Call {
    Call::new(Method::POST, "/v1/citation-subscriptions")
        .bearer(token)
        .json(body)
}

/// Returns the creation of an outbound webhook.
pub fn create_webhook(token: &str, workspace: WorkspaceId, body: &Value) -> Call {
    Call::new(Method::POST, format!("/v1/workspaces/{workspace}/webhooks"))
        .bearer(token)
        .json(body)
}

/// Returns the creation of an inbound webhook.
pub fn create_inbound_webhook(token: &str, workspace: WorkspaceId, body: &Value) -> Call {
    Call::new(
        Method::POST,
        format!("/v1/workspaces/{workspace}/inbound-webhooks"),
    )
    .bearer(token)
    .json(body)
}

/// Returns the custom roles of an organisation as its owner sees them, by slug.
///
/// # Panics
/// If it does not get the list.
pub async fn roles_by_slug(base_url: &str, org: &OrgFixture) -> BTreeMap<String, Value> {
    let list = list_roles(&org.members.owner.session, &org.slug)
        .send_to(base_url)
        .await
        .json();
    let roles = list["data"].as_array().expect("a list").clone();
    roles
        .into_iter()
        .map(|role| (role["slug"].as_str().expect("a slug").to_owned(), role))
        .collect()
}

/// Returns one custom role as the owner sees it in the list.
pub(crate) async fn role(org: &OrgFixture, slug: &str) -> Value {
    roles_by_slug(base_url(), org).await[slug].clone()
}

/// An operation with a valid request by the owner of the organisation.
///
/// Serves the tests of behaviour common to all operations.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Name, for reports.
    pub name: &'static str,
    /// Valid request.
    pub call: Call,
    /// True if the credential is a session.
    pub takes_session: bool,
    /// True if errors are in headers instead of the body.
    pub has_errors_in_headers: bool,
    /// True if errors for other methods of its path are in headers.
    pub has_method_errors_in_headers: bool,
    /// Methods that its path allows.
    pub allow: &'static str,
}

impl Operation {
    /// Returns the operations of `docs/interface.md`, in the order of that page.
    pub fn all(org: &OrgFixture) -> Vec<Self> {
        let (token, session) = (&org.members.owner.token, &org.members.owner.session);
        let (main, slug) = (org.main.id, org.slug.as_str());
        let memory = org.main.memories.internal[0];
        let url = "https://example.com/hook";
        let relabel = json!({ "memoryIds": [memory], "sensitivityLabel": "internal" });
        let subscription = json!({ "recall_id": org.recall, "webhook_url": url });
        let webhook = json!({ "event_type": "chunk.created", "url": url });
        let (inbound, nothing) = (json!({ "name": "Tickets" }), json!({}));
        vec![
            Self::new("bulk update", bulk(token, &relabel)).allowing("PATCH"),
            Self::new("dashboard", dashboard(token, main))
                .with_errors_in_headers()
                .allowing("GET, HEAD"),
            Self::new("delete role", delete_role(session, slug, org.roles.unheld))
                .with_session()
                .allowing("DELETE, GET, HEAD, PATCH"),
            Self::new(
                "update role",
                update_role(session, slug, org.roles.guest, &nothing),
            )
            .with_session()
            .allowing("DELETE, GET, HEAD, PATCH"),
            Self::new("list roles", list_roles(session, slug))
                .with_session()
                .allowing("GET, HEAD, POST"),
            Self::new("subscribe", subscribe(token, &subscription))
                .with_errors_in_headers()
                .allowing("GET, HEAD, POST"),
            Self::new("create webhook", create_webhook(token, main, &webhook))
                .with_errors_in_headers()
                .allowing("GET, HEAD, POST"),
            Self::new(
                "create inbound webhook",
                create_inbound_webhook(token, main, &inbound),
            )
            .with_errors_in_headers()
            .allowing("GET, HEAD, POST"),
        ]
    }

    pub(super) fn new(name: &'static str, call: Call) -> Self {
        Self {
            name,
            call,
            takes_session: false,
            has_errors_in_headers: false,
            has_method_errors_in_headers: false,
            allow: "POST",
        }
    }

    pub(super) fn with_session(mut self) -> Self {
        self.takes_session = true;
        self
    }

    fn with_errors_in_headers(mut self) -> Self {
        self.has_errors_in_headers = true;
        self.with_method_errors_in_headers()
    }

    pub(super) fn with_method_errors_in_headers(mut self) -> Self {
        self.has_method_errors_in_headers = true;
        self
    }

    pub(super) fn allowing(mut self, methods: &'static str) -> Self {
        self.allow = methods;
        self
    }

    /// Returns the request with another credential of the required kind.
    pub fn by(&self, credential: &str) -> Call {
        let anonymous = self.anonymous();
        if self.takes_session {
            anonymous.session(credential)
        } else {
            anonymous.bearer(credential)
        }
    }

    /// Returns the request without a credential.
    pub fn anonymous(&self) -> Call {
        self.call.clone().without("cookie").without("authorization")
    }

    /// Returns code and message of an error response.
    ///
    /// # Panics
    /// If they are in the wrong place.
    pub fn error_of(&self, answer: &Answer) -> (String, String) {
        if self.has_errors_in_headers {
            assert!(answer.body.is_empty(), "{}: {answer:?}", self.name);
            let text = |name: &str| answer.header(name).to_owned();
            return (text("error-code"), text("error-message"));
        }
        let body = answer.json();
        let fields: Vec<_> = body.as_object().expect("an object").keys().collect();
        assert_eq!(fields, ["details", "error", "message"], "{}", self.name);
        assert!(
            !answer.headers.contains_key("error-code"),
            "{}: {answer:?}",
            self.name
        );
        let text = |name: &str| body[name].as_str().expect("a text").to_owned();
        (text("error"), text("message"))
    }
}
