//! Creation, listing and revocation of tokens and sessions.

use console::Style;
use http::Method;
use knowledge_core::access::{CredentialKind, TokenScope};
use knowledge_core::api::admin::requests::NewCredential;
use knowledge_core::api::admin::{CredentialState, CredentialView};
use knowledge_core::env::Env;
use knowledge_core::model::{CreatedKind, CreatedResource, CredentialId, ResourceState, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::args::WithOutput;
use super::dashboard::{moment, status_text};
use super::failure::Failure;
use super::operator::{OrgArgs, OrgOperator};
use super::table::{Cell, Fit, plain};
use crate::progress::counted;

/// Maximum number of things that a revocation lists.
const CREATED_MAX: usize = 100;
/// Flags of the request's fields.
const FLAGS: &[(&str, &str)] = &[
    ("member", "--member"),
    ("name", "--name"),
    ("expires_in_seconds", "--expires-in"),
    ("long_lived", "--long-lived"),
    ("narrowing.workspaces", "--workspace"),
    ("narrowing.actions", "--action"),
    ("narrowing.audience", "--audience"),
];

/// A new token or session with its secret.
#[derive(Deserialize, Serialize)]
struct IssuedCredential {
    secret: String,
    credential: CredentialView,
}

/// Returns the user's word for a kind.
pub(super) fn noun(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::Bearer => "token",
        CredentialKind::Session => "session",
        CredentialKind::Link => "login link",
    }
}

/// Creates a credential. Standard output gets only the secret, or everything as JSON.
pub(super) async fn create(new: &NewCredential, org: WithOutput<OrgArgs>) -> Result<(), Failure> {
    let (operator, output) = org.open().await?;
    let body = json!(new);
    let created = operator.call(Method::POST, &["credentials"], Some(&body), FLAGS);
    let issued: IssuedCredential = created.await?;
    let credential = &issued.credential;
    eprintln!(
        "{} {} for {} of {}, valid until {}; its secret is not shown again",
        noun(credential.kind),
        credential.id,
        credential.member,
        operator.org.slug,
        credential.expires_at
    );
    output.print(&format!("{}\n", issued.secret), &issued)
}

/// Lists the credentials of one kind, or all.
pub(super) async fn list(
    kind: Option<CredentialKind>,
    org: WithOutput<OrgArgs>,
) -> Result<(), Failure> {
    let (operator, output) = org.open().await?;
    let filter: Vec<_> = kind.iter().map(|kind| ("kind", kind.as_str())).collect();
    let listed: Vec<CredentialView> = operator.list("credentials", &filter).await?;
    let columns = [
        ("ID", Fit::Whole),
        ("KIND", Fit::Whole),
        ("STATE", Fit::Whole),
        ("MEMBER", Fit::Cut),
        ("EXPIRES", Fit::Whole),
        ("LAST USED", Fit::Whole),
        ("CREATED BY", Fit::Optional),
        ("SCOPE", Fit::Optional),
        ("NAME", Fit::Cut),
    ];
    let now = Env::system().now();
    output.print_list(&listed, &columns, |credential| cells(credential, now))
}

/// Revokes a credential, and on request what it created; with `kind` only one of that kind.
pub(super) async fn revoke(
    id: CredentialId,
    kind: Option<CredentialKind>,
    with_created: bool,
    org: OrgArgs,
) -> Result<(), Failure> {
    let operator: OrgOperator = org.open().await?;
    let mut query: Vec<_> = kind.iter().map(|kind| ("kind", kind.as_str())).collect();
    if with_created {
        query.push(("with_created", "true"));
    }
    let id = id.to_string();
    let segments = ["credentials", id.as_str()];
    let revoked: CredentialView = operator
        .change(Method::DELETE, &segments, &query, FLAGS)
        .await?;
    eprintln!(
        "revoked {} of {}: {}",
        revoked.id, revoked.member, revoked.name
    );
    let segments = ["credentials", id.as_str(), "created"];
    let created = operator.list_first(&segments, &[], CREATED_MAX, FLAGS);
    let (created, has_more): (Vec<CreatedResource>, bool) = created.await?;
    for line in created_lines(&created, has_more, Env::system().now()) {
        eprintln!("{line}");
    }
    Ok(())
}

/// Returns the lines about what a revoked credential created.
fn created_lines(created: &[CreatedResource], has_more: bool, now: Timestamp) -> Vec<String> {
    if created.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["created with it:".to_owned()];
    for resource in created {
        let (kind, status) = (created_noun(resource.kind), resource.status);
        let state = status_text(status, now);
        let name = plain(&resource.name);
        lines.push(format!("  {kind} {} {name}: {state}", resource.id));
    }
    if has_more {
        lines.push(format!("  and more; the first {CREATED_MAX} are listed"));
    }
    let remains = |resource: &CreatedResource| resource.status.state != ResourceState::Ended;
    if created.iter().any(remains) {
        let hint = "what remains belongs to its member; to end it too, repeat with --with-created";
        lines.push(hint.to_owned());
    }
    lines
}

/// Returns the user's word for a kind of something that a credential created.
fn created_noun(kind: CreatedKind) -> &'static str {
    match kind {
        CreatedKind::McpKey => "MCP key",
        CreatedKind::Token => "token",
        CreatedKind::Webhook => "webhook",
        CreatedKind::InboundWebhook => "inbound webhook",
        CreatedKind::CitationSubscription => "citation subscription",
    }
}

fn cells(credential: &CredentialView, now: Timestamp) -> Vec<Cell> {
    let state = match credential.state {
        CredentialState::Valid => Style::new().green(),
        _ => Style::new().dim(),
    };
    vec![
        Cell::new(credential.id.to_string()),
        Cell::new(credential.kind.as_str()),
        Cell::new(credential.state.as_str()).styled(state),
        Cell::new(&credential.member),
        Cell::new(moment(Some(credential.expires_at), now)),
        Cell::new(moment(credential.last_used_at, now)),
        Cell::new(credential.created_by.as_deref().unwrap_or("operator")),
        Cell::new(scope_summary(&credential.scope)),
        Cell::new(&credential.name),
    ]
}

/// Summarises the scope of a token.
fn scope_summary(scope: &TokenScope) -> String {
    let count = |number: usize, one: &str| counted(number as u64, one, &format!("{one}s"));
    let TokenScope {
        workspaces,
        actions,
        audience,
    } = scope;
    let parts: Vec<_> = [
        workspaces
            .as_ref()
            .map(|list| count(list.len(), "workspace")),
        actions.map(|set| count(set.iter().count(), "action")),
        audience.as_ref().map(|list| count(list.len(), "label")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join(", ")
    }
}
